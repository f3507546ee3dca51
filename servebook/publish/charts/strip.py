"""Relative differences around 0: dots per row on a linear percent axis, intervals as bars."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.row_words import words_above
from servebook.publish.text import say

__all__ = ["ROW_PX", "strip"]

ROW_PX = 40


def strip(
    rows: pd.DataFrame,
    dots: pd.DataFrame,
    x_title: str,
    *,
    bars: pd.DataFrame | None = None,
    constant: float = 0.05,
) -> Any:
    """Dots per row around 0, words above each row; beyond ``constant`` the axis is logarithmic.

    Args:
        rows: row (key, in the order to draw), label (words above it).
        dots: row, value (fraction), colour, tip.
        x_title: what is compared with what.
        bars: row, low, high (fractions), drawn behind the dots.
        constant: up to this fraction the axis is linear.

    """
    order = list(rows["row"])
    ends = list(dots["value"]) + ([] if bars is None else [*bars["low"], *bars["high"]])
    low, high = min([*ends, -0.01]), max([*ends, 0.01])
    room = 0.06 * (high - low)
    marks = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
    reach = max(-low, high)
    steps = [m for m in marks if reach / 12 <= m <= reach] or [0.01]
    ticks = [t for t in (*(-m for m in reversed(steps)), 0.0, *steps) if low <= t <= high]
    x = alt.X(
        "value:Q",
        title=say("shared.log_beyond_g", x_title=x_title, constant=100 * constant)
        if reach > constant
        else x_title,
        scale=alt.Scale(
            type="symlog", constant=constant, domain=[low - room, high + room], nice=False
        ),
        axis=alt.Axis(
            values=ticks,
            labelExpr="(datum.value > 0 ? '+' : '') + format(datum.value * 100, '~g') + ' %'",
            labelOverlap=True,
            grid=True,
        ),
    )
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))
    layers: list[Any] = [
        alt.Chart(pd.DataFrame([{"zero": 0.0}]))
        .mark_rule(color=theme.INK)
        .encode(x=alt.X("zero:Q"))
    ]
    if bars is not None and len(bars):
        layers.append(
            alt.Chart(bars)
            .mark_rule(strokeWidth=8, opacity=0.4, color=theme.CONTEXT)
            .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y)
        )
    layers += [
        alt.Chart(dots)
        .mark_point(size=70, opacity=0.8, shape="circle")
        .encode(
            x=x,
            y=y,
            color=alt.Color("colour:N", scale=None),
            tooltip=[alt.Tooltip("tip:N", title=say("charts.strip.strip.title"))],
        ),
        *words_above(alt.Chart(rows), y, dy=-8, whole=True),
    ]
    return theme.finish(alt.layer(*layers), height=ROW_PX * len(order) + 60)
