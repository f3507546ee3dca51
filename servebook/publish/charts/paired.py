"""Pairs of values, a row per metric: where it was, where it went, what it moves by of itself."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import log_range, log_scale, log_ticks
from servebook.publish.charts.row_words import words_above, words_beside
from servebook.publish.text import say

__all__ = ["ROW_PX", "paired"]

ROW_PX = 44
_PERCENT = "(datum.value > 0 ? '+' : '') + format(datum.value * 100, '~g') + ' %'"


def paired(
    rows: pd.DataFrame, x_title: str, *, ratio: bool, around: pd.DataFrame | None = None
) -> Any:
    """A hollow dot for the first value, a filled one for the second, a bar between them.

    Args:
        rows: row (key, in the order to draw), label (above the dots: the metric and its two
            values), value (second over first, or its relative change), text (beside the second
            dot), first_colour, colour, ink, tip. A row without a value is a heading.
        x_title: which value is set against which.
        ratio: the axis is logarithmic and starts at 1; else linear in fractions around 0.
        around: row, value, tip: grey dots, what the metric moves by with nothing changed.

    """
    order = list(rows["row"])
    grey = around if around is not None else pd.DataFrame(columns=["row", "value", "tip"])
    grey = grey[grey["row"].isin(order)]
    pairs, heads = rows[rows["value"].notna()], rows[rows["value"].isna()]
    values = [*pairs["value"], *grey["value"]]
    start = 1.0 if ratio else 0.0
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))
    x = alt.X("value:Q", title=x_title, scale=_scale(values, ratio), axis=_axis(values, ratio))
    base = alt.Chart(pairs.assign(start=start)).encode(y=y)
    colour, ink = alt.Color("colour:N", scale=None), alt.Color("ink:N", scale=None)
    tip = alt.Tooltip("tip:N", title=say("charts.paired.paired.title"))
    layers: list[Any] = [
        alt.Chart(pd.DataFrame([{"start": start}]))
        .mark_rule(color=theme.INK)
        .encode(x=alt.X("start:Q")),
        base.mark_rule(strokeWidth=4, opacity=0.4).encode(x=x, x2=alt.X2("start:Q"), color=colour),
    ]
    if len(grey):
        layers.append(
            alt.Chart(grey)
            .mark_point(size=42, color=theme.CONTEXT, opacity=0.8, yOffset=9)
            .encode(x=x, y=y, tooltip=[tip])
        )
    layers += [
        base.mark_point(size=80, shape="circle", strokeWidth=2, fill="#ffffff").encode(
            x=alt.X("start:Q"), stroke=alt.Stroke("first_colour:N", scale=None)
        ),
        base.mark_point(size=90, shape="circle").encode(x=x, color=colour, tooltip=[tip]),
        *words_above(base, y, dy=-9),
    ]
    if len(heads):
        layers.append(
            alt.Chart(heads)
            .mark_text(align="left", baseline="middle", dy=4, fontWeight="bold")
            .encode(x=alt.value(0), y=y, text=alt.Text("label:N"), color=ink)
        )
    left = pairs["value"] < start
    for part, side in ((pairs[left], "right"), (pairs[~left], "left")):
        if len(part):
            layers += words_beside(alt.Chart(part), x, y, align=side)
    return theme.finish(alt.layer(*layers), height=ROW_PX * len(order) + 60)


def _scale(values: list[float], ratio: bool) -> alt.Scale:
    if ratio:
        return log_scale(log_range([*values, 1.0], 0.45, 0.45))
    reach = max(max(abs(v) for v in values) * 1.25, 0.01)
    return alt.Scale(domain=[-reach, reach], nice=False)


def _axis(values: list[float], ratio: bool) -> alt.Axis:
    if ratio:
        ticks = log_ticks(log_range([*values, 1.0], 0.45, 0.45), 8)
        return alt.Axis(values=ticks, labelExpr="'×' + format(datum.value, '~g')", grid=True)
    return alt.Axis(labelExpr=_PERCENT, tickCount=7, grid=True)
