"""Ratios of two conditions, metric by metric, around 1 on a log axis."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import log_range, log_scale, log_ticks

__all__ = ["ROW_PX", "around_one"]

ROW_PX = 44


def around_one(rows: pd.DataFrame, x_title: str) -> Any:
    """One row per metric: a bar from 1 to the ratio, words beside it, values above it.

    Args:
        rows: row (key, in the order to draw), label (metric and the two values, above the bar),
            ratio, text (what the ratio
            means), side ("left" or "right" of the dot), colour, ink.
        x_title: which condition is divided by which.

    """
    order = list(rows["row"])
    x_range = log_range([*rows["ratio"], 1.0], 0.45, 0.45)
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))
    x = alt.X(
        "ratio:Q",
        title=x_title,
        scale=log_scale(x_range),
        axis=alt.Axis(
            values=log_ticks(x_range, 8), labelExpr="'×' + format(datum.value, '~g')", grid=True
        ),
    )
    colour = alt.Color("colour:N", scale=None)
    base = alt.Chart(rows.assign(one=1.0)).encode(y=y)
    layers: list[Any] = [
        alt.Chart(pd.DataFrame([{"one": 1.0}])).mark_rule(color=theme.INK).encode(x=alt.X("one:Q")),
        base.mark_rule(strokeWidth=5, opacity=0.4).encode(x=x, x2=alt.X2("one:Q"), color=colour),
        base.mark_point(size=90, shape="circle").encode(x=x, color=colour),
        *theme.haloed(
            base.encode(x=alt.value(0), text=alt.Text("label:N")),
            align="left",
            baseline="bottom",
            dy=-11,
            color=theme.INK,
        ),
    ]
    for side in ("left", "right"):
        part = rows[rows["side"] == side]
        if len(part):
            layers.append(
                alt.Chart(part)
                .mark_text(
                    align="right" if side == "left" else "left",
                    dx=-10 if side == "left" else 10,
                    baseline="middle",
                    fontWeight="bold",
                )
                .encode(
                    x=x,
                    y=y,
                    text=alt.Text("text:N"),
                    color=alt.Color("ink:N", scale=None),
                )
            )
    return theme.finish(alt.layer(*layers), height=ROW_PX * len(order) + 60)
