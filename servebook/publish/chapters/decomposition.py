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
from servebook.publish.text import say
from servebook.read.campaign import Campaign
from servebook.read.manifest import Configuration

__all__ = ["grid_of", "grid_statement"]

_NOTHING = 1.02  # closer to 1 than this, the title says so


def grid_of(campaign: Campaign, workload: str, *, per_gpu: bool = False) -> Figure:
    """All configurations at one condition: the value of each cell, the factors between them."""
    name = f"decomposition-{workload}" + ("-per-gpu" if per_gpu else "")
    noun = say("decomposition.grid_of.noun", workload=words.capital(workload))
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
                title=say("decomposition.grid_of.title", noun=noun),
                missing=say("decomposition.grid_of.missing", unknown=words.listed(unknown, most=3)),
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
            say(
                "decomposition.grid_of.subtitle_equal_distances_equal",
                lengths=words.lengths(at["isl"], at["osl"]),
                in_flight=common.in_flight(at["concurrency"]),
                client=at["client"],
                compared=compared,
            )
            + (say("decomposition.grid_of.subtitle_dashed_cells_nobody") if empty else "")
            + say(
                "decomposition.grid_of.subtitle_requests",
                n_ok=made.rows["n_ok"].sum(),
                interval=common.interval(made.rows["n_runs"]),
            )
        ),
        chart=_chart(campaign, made, values, along, between, unit),
        table=_table(campaign, made, values, along, between, unit),
        alt=f"{title}. "
        + " ".join(f"{c.label}: {words.rate(values[c.name], unit)}." for c in made.settings),
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
            "head": "\n".join(
                words.wrapped(words.told(p), 14) for part in lv for p in part.split(", ")
            ),
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
            out.append(" ".join(words.told(cell.levels[n]) for b in made.lines for n in b.factors))
    return [
        *out[:2],
        *([say("decomposition.not_run", n_out=len(out) - 2)] if len(out) > 2 else []),
        say("shared.not_run"),
    ] * bool(out)


def _why_empty(campaign: Campaign, names: Sequence[str], levels: Sequence[str]) -> list[str]:
    found = memory(campaign, dict(zip(names, levels, strict=True)))
    fits = found.fits if found is not None else None
    return (
        [say("decomposition.why_empty.fits_not")]
        if fits is False
        else [say("decomposition.why_empty.fits"), say("shared.not_run")]
        if fits
        else [say("shared.not_run")]
    )


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
                "tip": f"{c.label}: {words.rate(values[c.name], unit)}",
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
                "text": _times_or_over(edge["factor"])
                + (say("decomposition.chart.text", at=at) if at else ""),
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
        say("decomposition.chart.log", unit=words.unit(unit)),
    )


def _short_layout(c: Configuration) -> str:
    """The layout without EP, for a label; the configuration's own label where none is stated."""
    parts = [f"{name}{size}" for name, size in (("TP", c.tp), ("DP", c.dp), ("PP", c.pp)) if size]
    return "/".join(parts) or words.wrapped(c.label, 14)


def _title(
    made: Grid, along: pd.DataFrame, between: pd.DataFrame, workload: str, per_gpu: bool
) -> str:
    what = say("decomposition.title.what", workload=workload) + (
        say("decomposition.grid_of.unit") if per_gpu else ""
    )
    if along.empty:
        return say(
            "decomposition.title.cells_differ",
            what=words.capital(what),
            factors=words.listed(made.columns.factors),
        )
    head = f"{words.capital(what)}: {words.listed(map(words.told, made.columns.factors))}"
    verb = (
        say("decomposition.title.verb_make")
        if len(made.columns.factors) > 1
        else say("decomposition.title.verb_makes")
    )
    if len(along) == 1 and between.empty:
        edge = along.iloc[0]
        return f"{head} {verb} {_difference(edge['factor'])} ({_levels(edge)})"
    parts = [
        say(
            "decomposition.title.part",
            factor=_factor(e["factor"]),
            lv=" · ".join(" ".join(map(words.told, lv)) for lv in e["at"]),
        )
        for e in along.to_dict("records")
    ]
    text = f"{head} {verb} {words.listed(parts)}"
    if len(between):
        lines = words.listed(dict.fromkeys(n for b in made.lines for n in b.factors))
        inner = [_factor(f) for f in between["factor"]]
        text += say("decomposition.title.text", lines=lines, inner=words.listed(inner))
    return text


def _levels(edge: pd.Series[Any]) -> str:
    return say(
        "decomposition.levels",
        from_level=", ".join(map(words.told, edge["from_level"])),
        to_level=", ".join(map(words.told, edge["to_level"])),
    )


def _difference(factor: float) -> str:
    text = say("decomposition.difference.factor", factor=_factor(factor))
    if 1 / _NOTHING < factor < _NOTHING:
        text += say("decomposition.difference.within_none", nothing=words.percent(_NOTHING - 1))
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
        say(
            "decomposition.effects.note_interaction_factor",
            first=first,
            ratio=words.times(ratio, 3),
            second=second,
        )
        + (
            say("decomposition.effects.note_large_interaction_single")
            if size > 1.25
            else say("decomposition.effects.note_factors_multiply_almost")
        ),
        say(
            "decomposition.effects.note_middle_log_scale",
            geometric_mean=words.factor(geometric_mean(list(along["factor"])), 3),
        )
        + (
            say(
                "decomposition.effects.note_layouts",
                factor=_factor(geometric_mean(list(between["factor"]))),
            )
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
            "Kind": "cell" if name else say("decomposition.table.kind_missing_cell"),
            "Configuration": common.label(campaign, name) if name else say("shared.not_run"),
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
            "Kind": say(
                "decomposition.table.kind_factor",
                bundle=words.listed(map(words.told, edge["bundle"])),
            ),
            "Configuration": say(
                "decomposition.levels",
                from_level=common.label(campaign, edge["from"]),
                to_level=common.label(campaign, edge["to"]),
            ),
            "Factor": edge["factor"],
        }
        for frame in (along, between)
        for edge in frame.to_dict("records")
    ]
    ratio = interaction(along)
    if ratio is not None:
        out.append(
            {
                "Kind": "interaction",
                "Configuration": say("decomposition.table.configuration"),
                "Factor": ratio,
            }
        )
    return pd.DataFrame(out)


def grid_statement(campaign: Campaign) -> Statement:
    """What the cells say of the layout beside the deployment, as a verdict where both are there."""
    name = "decomposition-cells"
    made, workload = grid(campaign, "prefill"), "prefill"
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
        sentence += say("decomposition.grid_statement.sentence")
    return Statement(
        id=name,
        sentence=f"{sentence}.",
        more=mark_words(made),
        metric="interaction" if ratio is not None else metric,
        caption=say("decomposition.grid_statement.caption") if ratio is not None else "",
        value=ratio if ratio is not None else float(along["factor"].iloc[0]),
        unit="ratio",
        n=int(made.rows["n_ok"].sum()),
        n_of="requests",
        interval=common.interval(made.rows["n_runs"]),
        runs=common.runs_of(made.rows),
        figure=f"decomposition-{workload}",
        would_change=say("decomposition.grid_statement.would_change"),
        verdict=ratio is not None,
        rank=23,
        marks=(*common.marks(campaign), mark(made)),
    )
