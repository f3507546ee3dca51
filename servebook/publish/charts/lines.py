"""Lines over concurrency on log axes, labelled at their ends; factors and limits drawn in."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.clear import Place, clear_places, placed_at
from servebook.publish.charts.ends import end_column
from servebook.publish.charts.layout import (
    LINE_PX,
    Range,
    counts_axis,
    label_room,
    log_range,
    log_scale,
    log_ticks,
)
from servebook.publish.text import say

__all__ = ["DASHES", "over_concurrency"]

DASHES = ([1, 0], [6, 3], [2, 3], [8, 3, 2, 3])  # by client or lengths, within one configuration


def over_concurrency(
    points: pd.DataFrame,
    y_title: str,
    *,
    pairs: pd.DataFrame | None = None,
    remarks: pd.DataFrame | None = None,
    limits: pd.DataFrame | None = None,
    bounds: pd.DataFrame | None = None,
    x_title: str = "",
    y_format: str = "~s",
    height: int = theme.HEIGHT,
) -> Any:
    """One line per series over concurrency, both axes log.

    Args:
        points: concurrency, value, low, high (NaN where no repeats), series (key), label (text at
            the line's end, may hold line breaks), colour, ink, shape, dash (index into ``DASHES``),
            tip (text of the value).
        y_title: the axis title with the unit.
        pairs: concurrency, low, high, middle, text: a dotted rule between two series with their
            factor beside it.
        remarks: concurrency, value, text: short words at a point ("peak").
        limits: concurrency, text: vertical rules (slot limits).
        bounds: value, text: horizontal dashed rules (what the values must keep); the axis holds
            those that are within a factor of ``_NEAR`` of a point, others are left out.
        x_title: the title of the x axis, where it is not that of the set concurrency.
        y_format: d3 format of the y ticks.
        height: of the picture in px.

    """
    points = points.sort_values(["series", "concurrency"], kind="stable", ignore_index=True)
    # Labels that need more than the plot's height would press the plot flat.
    height = max(height, label_room(points.drop_duplicates("series")["label"]) + 60)
    x_values = [*points["concurrency"], *([] if limits is None else limits["concurrency"])]
    x_range, x_ticks = counts_axis(x_values)
    y_values = pd.concat([points["value"], points["low"], points["high"]]).dropna()
    near = _near(bounds, y_values)
    y_values = pd.concat([y_values, near["value"]])
    y_range = log_range(list(y_values), below=0.12, above=0.16)
    y_ticks = log_ticks(y_range)
    x = alt.X(
        "concurrency:Q",
        title=x_title or say("shared.requests_in_flight_set_concurrency_log"),
        scale=log_scale(x_range, 2),
        axis=alt.Axis(values=x_ticks, format="~g", labelOverlap=False),
    )
    y = alt.Y(
        "value:Q",
        title=y_title,
        scale=log_scale(y_range),
        axis=alt.Axis(values=y_ticks, format=y_format),
    )
    looks = points.drop_duplicates("series")
    colour = alt.Color("colour:N", scale=None)
    shape = alt.Shape("shape:N", scale=None)
    dash = alt.StrokeDash(
        "series:N",
        scale=alt.Scale(
            domain=list(looks["series"]),
            range=[list(DASHES[int(d) % len(DASHES)]) for d in looks["dash"]],
        ),
        legend=None,
    )
    tooltip = [
        alt.Tooltip("label:N", title=say("charts.lines.over_concurrency.title")),
        alt.Tooltip("concurrency:Q", title=say("shared.requests_in_flight")),
        alt.Tooltip("tip:N", title=y_title),
    ]
    base = alt.Chart(points).encode(x=x, y=y)
    layers: list[Any] = []
    if limits is not None and len(limits):
        layers += _limits(limits, x, x_range, y_range)
    layers += _bounds(near, x_range)
    words: list[Any] = []
    if pairs is not None and len(pairs):
        rule, *words = _pairs(pairs, x, float(points["concurrency"].max()), y_range, height)
        layers.append(rule)
    layers.append(
        base.mark_line().encode(
            color=colour,
            strokeDash=dash,
            detail=alt.Detail("series:N"),
            order=alt.Order("concurrency:Q"),
        )
    )
    ranges = points.dropna(subset=["low", "high"])
    ranges = ranges[ranges["low"] < ranges["high"]]
    if len(ranges):
        layers.append(
            alt.Chart(ranges)
            .mark_rule(strokeWidth=7, opacity=0.35, strokeCap="butt")
            .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), color=colour)
        )
    layers += words
    layers.append(base.mark_point(size=85).encode(color=colour, shape=shape, tooltip=tooltip))
    if remarks is not None and len(remarks):
        layers += theme.haloed(
            alt.Chart(
                _remarked(remarks, points, limits, pairs, (x_range, y_range), height),
            ).encode(x=x, y=y, text=alt.Text("text:N")),
            **placed_at(),
            fontStyle="italic",
            color=theme.MUTED,
            fontSize=theme.SMALL,
        )
    ends = points.drop_duplicates("series", keep="last")
    layers += end_column(ends, x, y, "value", x_range[1], y_range, height)
    return theme.finish(alt.layer(*layers), height=height)


#: Two marks nearer than this leave no room for a factor between them.
_CLOSE_PX = 34
#: The narrowest plot that labels are placed for.
_NARROW_PX = 200


def _pairs(pairs: pd.DataFrame, x: alt.X, last: float, y_range: Range, height: int) -> list[Any]:
    """Rules between two series, the factor beside them: on the left where line ends are labelled.

    Where the marks are too near for words between them these stand below the lower one.
    """
    layers: list[Any] = [
        alt.Chart(pairs)
        .mark_rule(strokeDash=[2, 3], color=theme.CONTEXT)
        .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    ]
    for (left, below), part in _sides(pairs, last, y_range, height):
        layers += theme.haloed(
            alt.Chart(part).encode(
                x=x,
                y=alt.Y("low:Q" if below else "middle:Q"),
                text=alt.Text("text:N"),
            ),
            align="right" if left else "left",
            baseline="top" if below else "middle",
            dx=-7 if left else 6,
            dy=14 if below else 0,
            fontWeight="bold",
            color=theme.INK,
        )
    return layers


def _sides(
    pairs: pd.DataFrame, last: float, y_range: Range, height: int
) -> list[tuple[tuple[bool, bool], pd.DataFrame]]:
    """The pairs by where their words stand: left of the rule, and below the lower mark."""
    per_px = math.log(y_range[1] / y_range[0]) / (height - 50)
    near = [
        math.log(b / a) < _CLOSE_PX * per_px
        for a, b in zip(pairs["low"], pairs["high"], strict=True)
    ]
    below, left = pd.Series(near, index=pairs.index), pairs["concurrency"] >= last
    parts = [
        ((at_left, under), pairs[(below == under) & (left == at_left)])
        for under in (False, True)
        for at_left in (False, True)
    ]
    return [(side, part) for side, part in parts if len(part)]


def _remarked(
    remarks: pd.DataFrame,
    points: pd.DataFrame,
    limits: pd.DataFrame | None,
    pairs: pd.DataFrame | None,
    ranges: tuple[Range, Range],
    height: int,
) -> pd.DataFrame:
    """The remarks with dx, dy and align: words beside their points, where no line runs."""
    across, inside = ranges

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            math.log(x / across[0]) / math.log(across[1] / across[0]),
            1 - math.log(y / inside[0]) / math.log(inside[1] / inside[0]),
        )

    lines = [
        [at(x, y) for x, y in zip(one["concurrency"], one["value"], strict=True)]
        for _, one in points.groupby("series", sort=True)
    ]
    if limits is not None:
        lines += [[at(x, inside[0]), at(x, inside[1])] for x in limits["concurrency"]]
    said = [at(x, y) for x, y in zip(remarks["concurrency"], remarks["value"], strict=True)]
    marks = [at(x, y) for x, y in zip(points["concurrency"], points["value"], strict=True)]
    marks = [mark for mark in marks if mark not in said]
    texts = [*remarks["text"], *([""] * len(marks))]
    words = []
    if pairs is not None and len(pairs):
        last = float(points["concurrency"].max())
        for (left, below), part in _sides(pairs, last, inside, height):
            place = Place(-7 if left else 6, 20 if below else 0, "right" if left else "left")
            heights = part["low" if below else "middle"]
            rows = zip(part["concurrency"], heights, part["text"], strict=True)
            words += [(at(x, y), place, text) for x, y, text in rows]
    places = clear_places([*said, *marks], texts, lines, height - 50, words=words)[: len(said)]
    return remarks.assign(
        **{key: [getattr(p, key) for p in places] for key in ("dx", "dy", "align")}
    )


def _limits(limits: pd.DataFrame, x: alt.X, x_range: Range, y_range: Range) -> list[Any]:
    """Rules with their words above the plot, in as many rows as keep them apart."""
    per_px = math.log(x_range[1] / x_range[0]) / _NARROW_PX
    rows: list[float] = []  # where each row of words ends, in log x
    levels = []
    for at, text in zip(limits["concurrency"], limits["text"], strict=True):
        half = 0.5 * per_px * (6.2 * len(text) + 8)
        level = next((i for i, end in enumerate(rows) if math.log(at) - half >= end), len(rows))
        rows[level : level + 1] = [math.log(at) + half]
        levels.append(level)
    placed = limits.assign(bottom=y_range[0], top=y_range[1], level=levels)
    layers: list[Any] = [
        alt.Chart(placed)
        .mark_rule(color=theme.CONTEXT, strokeWidth=1)
        .encode(x=x, y=alt.Y("bottom:Q"), y2=alt.Y2("top:Q"))
    ]
    for level in sorted(set(levels)):
        part = placed[placed["level"] == level]
        layers.append(
            alt.Chart(part)
            .mark_text(baseline="bottom", dy=-4 - LINE_PX * level, color=theme.MUTED)
            .encode(x=x, y=alt.Y("top:Q"), text=alt.Text("text:N"))
        )
    return layers


#: A bound further than this factor from every point would press the points together.
_NEAR = 10.0


def _near(bounds: pd.DataFrame | None, values: pd.Series[float]) -> pd.DataFrame:
    if bounds is None or bounds.empty:
        return pd.DataFrame({"value": pd.Series(dtype=float), "text": pd.Series(dtype=object)})
    return bounds[bounds["value"].between(values.min() / _NEAR, values.max() * _NEAR)]


def _bounds(bounds: pd.DataFrame, x_range: Range) -> list[Any]:
    """Dashed rules across the plot, their words above them at its left edge."""
    if bounds.empty:
        return []
    base = alt.Chart(bounds.assign(left=x_range[0])).encode(y=alt.Y("value:Q"))
    return [
        base.mark_rule(color=theme.ALARM, strokeDash=[6, 4], strokeWidth=1.2),
        *theme.haloed(
            base.encode(x=alt.X("left:Q"), text=alt.Text("text:N")),
            align="left",
            baseline="bottom",
            dx=4,
            dy=-3,
            color=theme.ALARM,
            fontSize=theme.SMALL,
        ),
    ]
