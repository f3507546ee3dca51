"""Chapter 07: every measured cell with its factors, and which cells would part the causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from servebook.explain.decompose import edges, fullest, geometric_mean, interaction, separated
from servebook.explain.factors import Bundle, Cell, bundles, cells, level
from servebook.explain.memory import Fit, crossed
from servebook.measure.metrics import METRICS
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.reuse import plain
from servebook.publish.charts.cells import grid
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign
from servebook.read.manifest import Configuration

__all__ = ["alone", "grid_of", "grid_statement", "missing_cells"]

_METRIC = {
    "prefill": "input_throughput_tok_s",
    "decode": "output_throughput_tok_s",
    "mixed": "output_throughput_tok_s",
}
_NOTHING = 1.02  # closer to 1 than this, the title says so


@dataclass(frozen=True)
class _Grid:
    """The fullest condition of a workload and how its configurations differ."""

    rows: pd.DataFrame
    settings: tuple[Configuration, ...]
    columns: Bundle
    lines: tuple[Bundle, ...]
    cells: tuple[Cell, ...]


def _grid(campaign: Campaign, workload: str) -> _Grid | str:
    """The grid, or in words why there is none."""
    metric = _METRIC[workload]
    every = plain(campaign)
    rows = fullest(every, workload, metric)
    if rows.empty:
        return common.absent(campaign, "", "", workload).missing
    names = list(rows["configuration"])
    settings = tuple(c for c in campaign.manifest.configurations if c.name in names)
    if len(settings) < 2:
        return (
            f"No {workload} condition (client, lengths, concurrency) of this campaign was run on "
            "two configurations, so there is no factor between any. The same client at the same "
            "lengths and concurrency on a second configuration would give one."
        )
    found = bundles(settings)
    if not found:
        return (
            f"{words.listed(c.label for c in settings)} differ in no setting that the manifest "
            "states, so a factor between them has no name."
        )
    # The deployment (what most factors change together) makes the columns.
    first = max(found, key=lambda b: (len(b.factors), -found.index(b)))
    lines = tuple(b for b in found if b is not first)
    return _Grid(rows, settings, first, lines, cells(settings))


def grid_of(campaign: Campaign, workload: str, *, per_gpu: bool = False) -> Figure:
    """All configurations at one condition: the value of each cell, the factors between them."""
    name = f"decomposition-{workload}" + ("-per-gpu" if per_gpu else "")
    noun = f"{words.capital(workload)}: the measured cells"
    made = _grid(campaign, workload)
    if isinstance(made, str):
        return Figure(id=name, title=noun, missing=made)
    metric = _METRIC[workload]
    values = {r["configuration"]: float(r[metric]) for r in made.rows.to_dict("records")}
    if per_gpu:
        unknown = [c.label for c in made.settings if c.gpus is None]
        if unknown:
            return Figure(
                id=name,
                title=f"{noun}, per GPU",
                missing=(
                    f"The manifest states no number of GPUs for {words.listed(unknown, most=3)}, "
                    "so nothing can be given per GPU."
                ),
            )
        values = {c.name: values[c.name] / (c.gpus or 1) for c in made.settings}
    along = edges(values, made.settings, made.columns, made.lines)
    across = [
        edges(
            values, made.settings, line, [made.columns, *(o for o in made.lines if o is not line)]
        )
        for line in made.lines
    ]
    between = pd.concat(across, ignore_index=True) if across else along.head(0)
    unit = METRICS[metric].unit + (" per GPU" if per_gpu else "")
    title = _title(made, along, between, workload, per_gpu)
    compared = _mark_words(made)
    at = made.rows.iloc[0]
    return Figure(
        id=name,
        title=title,
        subtitle=(
            f"{words.lengths(at['isl'], at['osl'])}, {common.in_flight(at['concurrency'])}, "
            f"{at['client']}. {compared} Equal distances are equal factors. Pale columns: cells "
            f"that nobody ran. {words.capital(common.interval(made.rows['n_runs']))}."
        ),
        chart=_chart(campaign, made, values, along, between, unit),
        table=_table(campaign, made, values, along, between, unit),
        alt=f"{title}. "
        + " ".join(f"{c.label}: {words.number(values[c.name])} {unit}." for c in made.settings),
        source=common.source(campaign, made.rows),
        runs=common.runs_of(made.rows),
        notes=(*_effects(along, between), *missing_cells(campaign, workload)),
    )


def _mixed_up(made: _Grid) -> list[str]:
    """What changes along the columns, as settings: nodes bring their GPUs."""
    names = list(made.columns.factors)
    if "nodes" in names and len({c.gpus for c in made.settings}) > 1:
        names.insert(names.index("nodes") + 1, "GPUs")
    return names


def _mark(made: _Grid) -> str:
    """The comparability mark of a step along the columns."""
    names = _mixed_up(made)
    return "SINGLE VARIABLE" if len(made.columns.factors) == 1 else f"{len(names)} SETTINGS"


def _mark_words(made: _Grid) -> str:
    names = words.listed(_mixed_up(made))
    if len(made.columns.factors) == 1:
        return f"{_mark(made)} along the columns: {names}."
    return f"{_mark(made)} change together along the columns: {names}."


def _columns(campaign: Campaign, made: _Grid) -> list[dict[str, Any]]:
    """One per combination of the columns' factors: those that ran, between them those that did not."""
    names = made.columns.factors
    seen: dict[tuple[str, ...], bool] = {}
    for cell in made.cells:
        key = tuple(cell.levels[n] for n in names)
        seen[key] = seen.get(key, False) or bool(cell.configurations)
    ran = [lv for lv in made.columns.levels if seen.get(lv)]
    empty = [lv for lv in seen if not seen[lv]] if len(names) <= 3 else []
    ordered = [*ran[:1], *empty[:3], *ran[1:]]
    return [
        {
            "column": i,
            "level": lv,
            "empty": lv in empty,
            "head": "\n".join(
                [
                    *(words.wrapped(p, 14) for part in lv for p in part.split(", ")),
                    *(_why_empty(campaign, names, lv) if lv in empty else []),
                ]
            ),
        }
        for i, lv in enumerate(ordered)
    ]


def _why_empty(campaign: Campaign, names: Sequence[str], levels: Sequence[str]) -> list[str]:
    found = _memory(campaign, dict(zip(names, levels, strict=True)))
    fits = found.fits if found is not None else None
    return ["does not fit"] if fits is False else ["fits,", "not run"] if fits else ["not run"]


def _memory(campaign: Campaign, levels: Mapping[str, str]) -> Fit | None:
    """The weights of such a cell against its memory; None where the manifest does not tell."""
    settings = campaign.manifest.configurations
    for one in crossed(settings, campaign.manifest.model.parameters):
        nodes = [level(c, "nodes") for c in settings if c.nodes == one.nodes and c.gpus == one.gpus]
        precision = levels.get("precision") or level(settings[0], "precision")
        if one.precision == precision and levels.get("nodes", "") in (*nodes, ""):
            return one
    return None


def _chart(
    campaign: Campaign,
    made: _Grid,
    values: dict[str, float],
    along: pd.DataFrame,
    between: pd.DataFrame,
    unit: str,
) -> Any:
    columns = _columns(campaign, made)
    place = {c["level"]: float(c["column"]) for c in columns}
    looks = theme.looks(campaign.manifest.configurations)
    points = pd.DataFrame(
        [
            {
                "column": place[made.columns.of(c)],
                "value": values[c.name],
                "series": " · ".join(" ".join(b.of(c)) for b in made.lines) or "all",
                "label": (
                    (f"{_short_layout(c)}\n" if made.lines else "") + words.number(values[c.name])
                ),
                "colour": looks[c.name].colour,
                "ink": looks[c.name].text,
                "shape": looks[c.name].shape,
                "tip": f"{c.label}: {words.number(values[c.name])} {unit}",
            }
            for c in made.settings
        ]
    )
    by_name = {c.name: c for c in made.settings}
    n = len(along)
    lines = []
    for i, edge in enumerate(along.to_dict("records")):
        one, two = (place[made.columns.of(by_name[edge[s]])] for s in ("from", "to"))
        # Words of several lines stand at different places along them, so that they do not meet.
        share = 0.5 if n == 1 else 0.3 + 0.25 * (i % 2)
        low, high = values[edge["from"]], values[edge["to"]]
        at = " · ".join(" ".join(level) for level in edge["at"])
        lines.append(
            {
                "column": one + (two - one) * share,
                "value": low * (high / low) ** share,
                "text": _times_or_over(edge["factor"]) + (f"\nat {at}" if at else ""),
            }
        )
    rules = []
    for edge in between.to_dict("records"):
        low, high = sorted((values[edge["from"]], values[edge["to"]]))
        rules.append(
            {
                "column": place[made.columns.of(by_name[edge["from"]])],
                "low": low,
                "high": high,
                "middle": (low * high) ** 0.5,
                "text": words.factor(high / low, 3),
            }
        )
    return grid(
        points,
        pd.DataFrame(columns).drop(columns="level"),
        pd.DataFrame(lines, columns=["column", "value", "text"]),
        pd.DataFrame(rules, columns=["column", "low", "high", "middle", "text"]),
        f"{unit} (log)",
    )


def _short_layout(c: Configuration) -> str:
    """The layout without EP, for a label; the configuration's own label where none is stated."""
    parts = [f"{name}{size}" for name, size in (("TP", c.tp), ("DP", c.dp), ("PP", c.pp)) if size]
    return "/".join(parts) or words.wrapped(c.label, 14)


def _title(
    made: _Grid, along: pd.DataFrame, between: pd.DataFrame, workload: str, per_gpu: bool
) -> str:
    what = f"{workload} throughput" + (" per GPU" if per_gpu else "")
    if along.empty:
        return f"{words.capital(what)}: no two cells differ in {words.listed(made.columns.factors)}"
    head = f"{words.capital(what)}: {words.listed(made.columns.factors)}"
    verb = "make" if len(made.columns.factors) > 1 else "makes"
    if len(along) == 1 and between.empty:
        edge = along.iloc[0]
        return f"{head} {verb} {_difference(edge['factor'])} ({_levels(edge)})"
    parts = [
        f"{_factor(e['factor'])} at {' · '.join(' '.join(lv) for lv in e['at'])}"
        for e in along.to_dict("records")
    ]
    text = f"{head} {verb} {words.listed(parts)}"
    if len(between):
        lines = words.listed(dict.fromkeys(n for b in made.lines for n in b.factors))
        inner = [_factor(f) for f in between["factor"]]
        text += f"; {lines} alone {words.listed(inner)}"
    return text


def _levels(edge: pd.Series[Any]) -> str:
    return f"{', '.join(edge['from_level'])} over {', '.join(edge['to_level'])}"


def _difference(factor: float) -> str:
    text = f"a factor of {_factor(factor)}"
    if 1 / _NOTHING < factor < _NOTHING:
        text += f", within {words.percent(_NOTHING - 1)} of none"
    return text


def _factor(factor: float) -> str:
    """A factor in a sentence; below 1 as one over it, so that its size can be compared."""
    if factor >= 0.995:
        return words.factor(factor, 3)
    return f"1/{words.number(1 / factor, 3)}"


def _times_or_over(factor: float) -> str:
    return _factor(factor) if factor < 1 else words.factor(factor, 3)


def _effects(along: pd.DataFrame, between: pd.DataFrame) -> tuple[str, ...]:
    """Main effects and interaction of a complete two-by-two grid, as notes."""
    ratio = interaction(along)
    if ratio is None:
        return ()
    first, second = (str(" · ".join(" ".join(lv) for lv in at)) for at in along["at"])
    size = max(ratio, 1 / ratio)
    notes = [
        f"Interaction: the factor at {first} is {words.times(ratio, 3)} that at {second}. "
        + (
            "With so large an interaction no single factor describes the columns."
            if size > 1.25
            else "The factors multiply almost independently."
        ),
        f"Middle of the two on a log scale: {words.factor(geometric_mean(list(along['factor'])), 3)}"
        + (
            f"; of the layouts: {_factor(geometric_mean(list(between['factor'])))}."
            if len(between) == 2
            else "."
        ),
    ]
    return tuple(notes)


def _table(
    campaign: Campaign,
    made: _Grid,
    values: dict[str, float],
    along: pd.DataFrame,
    between: pd.DataFrame,
    unit: str,
) -> pd.DataFrame:
    runs = {r["configuration"]: r["n_runs"] for r in made.rows.to_dict("records")}
    names = [n for b in (made.columns, *made.lines) for n in b.factors]
    out = []
    for cell in made.cells:
        for name in cell.configurations or (None,):
            out.append(
                {
                    "Kind": "cell" if name else "missing cell",
                    "Configuration": common.label(campaign, name) if name else "not run",
                    **{words.capital(n): cell.levels[n] for n in names},
                    f"Value ({unit})": values[name] if name else None,
                    "Factor": None,
                    "Runs": runs[name] if name else None,
                }
            )
    for frame in (along, between):
        for edge in frame.to_dict("records"):
            out.append(
                {
                    "Kind": f"factor: {words.listed(edge['bundle'])}",
                    "Configuration": f"{common.label(campaign, edge['from'])} over "
                    f"{common.label(campaign, edge['to'])}",
                    "Factor": edge["factor"],
                }
            )
    ratio = interaction(along)
    if ratio is not None:
        out.append({"Kind": "interaction", "Configuration": "ratio of factors", "Factor": ratio})
    return pd.DataFrame(out)


def missing_cells(campaign: Campaign, workload: str) -> tuple[str, ...]:
    """The cells that would part bundled factors: what to run, and what to write into the manifest."""
    made = _grid(campaign, workload)
    if isinstance(made, str):
        return ()
    at = made.rows.iloc[0]
    empty = [c for c in made.cells if not c.configurations]
    grouped: dict[str, list[str]] = {}
    for cell in empty:
        memory = _memory(campaign, cell.levels)
        why = ""
        if memory is not None and memory.fits is not None:
            why = (
                f": {words.number(memory.weights_per_gpu_gb)} GB of weights a GPU, which fits"
                if memory.fits
                else f": cannot be run, the weights are {words.number(memory.shortfall_gb)} GB "
                "too large"
            )
        grouped.setdefault(why, []).append(" · ".join(cell.levels.values()))
    told = [f"Not run: {words.listed(cells, most=4)}{why}." for why, cells in grouped.items()]
    if any("cannot be run" not in why for why in grouped):
        told.append(
            f"To fill a cell: serve it, run {at['client']} again with "
            f"{words.lengths(at['isl'], at['osl'])} tokens and --concurrency {at['concurrency']}, "
            "and add to campaign.yaml the configuration and a line `- {match: raw/..., "
            f"configuration: ..., workload: {at['workload']}}}` under `runs:`."
        )
    return tuple(told)


def alone(campaign: Campaign) -> Figure:
    """What one factor does alone, wherever two configurations differ in nothing else."""
    name = "decomposition-alone"
    frames = [
        separated(plain(campaign), campaign.manifest.configurations, metric, workload).assign(
            workload=workload, metric=metric
        )
        for workload, metric in _METRIC.items()
    ]
    found = pd.concat([f for f in frames if len(f)] or frames[:1], ignore_index=True)
    if found.empty:
        names = [c.label for c in campaign.manifest.configurations]
        return Figure(
            id=name,
            title="No factor was measured alone",
            missing=(
                "No two configurations of this campaign that differ in one factor only ran the "
                f"same condition ({words.listed(names, most=4) or 'no configuration is stated'}), "
                "so no cause can be told from another by measurement."
            ),
        )
    settings = {c.name: c for c in campaign.manifest.configurations}
    compound = [b for b in bundles(campaign.manifest.configurations) if len(b.factors) > 1]
    parted = set(found["factor"])
    mixed = [n for b in compound for n in b.factors if n not in parted]
    best = common.top(found, found["ratio"].map(lambda r: max(r, 1 / r)))
    title = (
        f"{words.capital(words.listed(dict.fromkeys(found['factor'])))} "
        f"{'is' if found['factor'].nunique() == 1 else 'are'} measured alone: up to "
        f"{words.times(max(best['ratio'], 1 / best['ratio']), 3)} ({best['factor']}, "
        f"{best['workload']})"
    )
    if mixed:
        title += f"; {words.listed(mixed)} never"
    return Figure(
        id=name,
        title=title,
        subtitle=(
            "SINGLE VARIABLE: pairs of configurations that differ in one factor only, at one "
            "condition. A factor above 1: the first is better. Throughput in tokens/s."
        ),
        table=pd.DataFrame(
            {
                "Factor": found["factor"],
                "First": common.labels(campaign, found["baseline"]),
                "Level": [
                    level(settings[b], f)
                    for b, f in zip(found["baseline"], found["factor"], strict=True)
                ],
                "Second": common.labels(campaign, found["candidate"]),
                "Level of it": [
                    level(settings[b], f)
                    for b, f in zip(found["candidate"], found["factor"], strict=True)
                ],
                "Workload": found["workload"],
                "Client": found["client"],
                "Requests in flight": found["concurrency"],
                "First over second": found["ratio"],
            }
        ),
        open_table=len(found) <= 8,
        source=common.records_of(campaign, len({r for runs in found["runs"] for r in runs})),
        runs=tuple(sorted({r for runs in found["runs"] for r in runs})),
        notes=(
            "Layout is TP and PP; DP and EP that follow from the number of GPUs are not counted "
            "as settings of their own.",
        ),
    )


def grid_statement(campaign: Campaign) -> Statement:
    """What the cells say of the layout beside the deployment, as a verdict where both are there."""
    name = "decomposition-cells"
    made = _grid(campaign, "prefill")
    workload = "prefill"
    if isinstance(made, str):
        made, workload = _grid(campaign, "mixed"), "mixed"
    if isinstance(made, str):
        return Statement(id=name, sentence=made, marks=common.marks(campaign))
    metric = _METRIC[workload]
    values = {r["configuration"]: float(r[metric]) for r in made.rows.to_dict("records")}
    along = edges(values, made.settings, made.columns, made.lines)
    between = [edges(values, made.settings, b, [made.columns]) for b in made.lines]
    inner = pd.concat(between, ignore_index=True) if between else along.head(0)
    ratio = interaction(along)
    sentence = _title(made, along, inner, workload, False)
    if ratio is not None and max(ratio, 1 / ratio) > 1.25:
        sentence += ": no single factor describes the step"
    return Statement(
        id=name,
        sentence=f"{sentence}. {_mark_words(made)}",
        metric="interaction" if ratio is not None else metric,
        value=ratio if ratio is not None else float(along["factor"].iloc[0]),
        unit="ratio",
        n=int(made.rows["n_ok"].sum()),
        n_of="requests",
        interval=common.interval(made.rows["n_runs"]),
        runs=common.runs_of(made.rows),
        figure=f"decomposition-{workload}",
        would_change="repeats of the cells, or a cell that was not run: the figure's notes name it",
        verdict=ratio is not None,
        rank=23,
        marks=(*common.marks(campaign), _mark(made)),
    )
