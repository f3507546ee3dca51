"""Chapter 07: every measured cell of one condition, with the factors between cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from servebook.explain.decompose import edges, geometric_mean, interaction
from servebook.measure.metrics import METRICS
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.decomposition_grid import (
    METRIC,
    Grid,
    grid,
    mark,
    mark_words,
    memory,
    missing_cells,
)
from servebook.publish.charts.cells import grid as draw_grid
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign
from servebook.read.manifest import Configuration

__all__ = ["grid_of", "grid_statement"]

_NOTHING = 1.02  # closer to 1 than this, the title says so


def grid_of(campaign: Campaign, workload: str, *, per_gpu: bool = False) -> Figure:
    """All configurations at one condition: the value of each cell, the factors between them."""
    name = f"decomposition-{workload}" + ("-per-gpu" if per_gpu else "")
    noun = f"{words.capital(workload)}: the measured cells"
    made = grid(campaign, workload)
    if isinstance(made, str):
        return Figure(id=name, title=noun, missing=made)
    metric = METRIC[workload]
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
    compared = mark_words(made)
    at = made.rows.iloc[0]
    empty = any(not cell.configurations for cell in made.cells)
    return Figure(
        id=name,
        title=title,
        subtitle=(
            f"{words.lengths(at['isl'], at['osl'])}, {common.in_flight(at['concurrency'])}, "
            f"{at['client']}. {compared} Equal distances are equal factors. "
            + ("Dashed: cells that nobody ran. " if empty else "")
            + f"n = {made.rows['n_ok'].sum():,.0f} requests; "
            f"{common.interval(made.rows['n_runs'])}."
        ),
        chart=_chart(campaign, made, values, along, between, unit),
        table=_table(campaign, made, values, along, between, unit),
        alt=f"{title}. "
        + " ".join(f"{c.label}: {words.number(values[c.name])} {unit}." for c in made.settings),
        source=common.source(campaign, made.rows),
        runs=common.runs_of(made.rows),
        notes=(*_effects(along, between), *missing_cells(campaign, workload)),
    )


def _columns(campaign: Campaign, made: Grid) -> list[dict[str, Any]]:
    """One per combination of the columns' factors; those that nobody ran stand between."""
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
            "head": "\n".join(words.wrapped(p, 14) for part in lv for p in part.split(", ")),
            "lacking": "\n".join(
                _why_empty(campaign, names, lv) if lv in empty else _not_run(made, lv)
            ),
        }
        for i, lv in enumerate(ordered)
    ]


def _not_run(made: Grid, column: Sequence[str]) -> list[str]:
    """The cells of a column that ran which nobody ran: their levels along the lines."""
    out = []
    for cell in made.cells:
        here = tuple(cell.levels[n] for n in made.columns.factors) == tuple(column)
        if here and not cell.configurations:
            out.append(" ".join(cell.levels[n] for b in made.lines for n in b.factors))
    return [*out[:2], *([f"and {len(out) - 2} more"] if len(out) > 2 else []), "not run"] * bool(
        out
    )


def _why_empty(campaign: Campaign, names: Sequence[str], levels: Sequence[str]) -> list[str]:
    found = memory(campaign, dict(zip(names, levels, strict=True)))
    fits = found.fits if found is not None else None
    return ["does", "not fit"] if fits is False else ["fits,", "not run"] if fits else ["not run"]


def _chart(
    campaign: Campaign,
    made: Grid,
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
    return draw_grid(
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
    made: Grid, along: pd.DataFrame, between: pd.DataFrame, workload: str, per_gpu: bool
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
        "Middle of the two on a log scale: "
        f"{words.factor(geometric_mean(list(along['factor'])), 3)}"
        + (
            f"; of the layouts: {_factor(geometric_mean(list(between['factor'])))}."
            if len(between) == 2
            else "."
        ),
    ]
    return tuple(notes)


def _table(
    campaign: Campaign,
    made: Grid,
    values: dict[str, float],
    along: pd.DataFrame,
    between: pd.DataFrame,
    unit: str,
) -> pd.DataFrame:
    runs = {r["configuration"]: r["n_runs"] for r in made.rows.to_dict("records")}
    names = [n for b in (made.columns, *made.lines) for n in b.factors]
    out: list[dict[str, Any]] = []
    out += [
        {
            "Kind": "cell" if name else "missing cell",
            "Configuration": common.label(campaign, name) if name else "not run",
            **{words.capital(n): cell.levels[n] for n in names},
            f"Value ({unit})": values[name] if name else None,
            "Factor": None,
            "Runs": runs[name] if name else None,
        }
        for cell in made.cells
        for name in cell.configurations or (None,)
    ]
    out += [
        {
            "Kind": f"factor: {words.listed(edge['bundle'])}",
            "Configuration": f"{common.label(campaign, edge['from'])} over "
            f"{common.label(campaign, edge['to'])}",
            "Factor": edge["factor"],
        }
        for frame in (along, between)
        for edge in frame.to_dict("records")
    ]
    ratio = interaction(along)
    if ratio is not None:
        out.append({"Kind": "interaction", "Configuration": "ratio of factors", "Factor": ratio})
    return pd.DataFrame(out)


def grid_statement(campaign: Campaign) -> Statement:
    """What the cells say of the layout beside the deployment, as a verdict where both are there."""
    name = "decomposition-cells"
    made = grid(campaign, "prefill")
    workload = "prefill"
    if isinstance(made, str):
        made, workload = grid(campaign, "mixed"), "mixed"
    if isinstance(made, str):
        return Statement(id=name, sentence=made, marks=common.marks(campaign))
    metric = METRIC[workload]
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
        sentence=f"{sentence}. {mark_words(made)}",
        metric="interaction" if ratio is not None else metric,
        caption="between the ratios of the columns" if ratio is not None else "",
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
        marks=(*common.marks(campaign), mark(made)),
    )
