"""How many values are longer than x: the complement of the distribution, both axes log."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import (
    LINE_PX,
    label_positions,
    label_room,
    log_range,
    log_scale,
    log_ticks,
)

__all__ = ["longer_than"]


def longer_than(
    curves: pd.DataFrame,
    marks: pd.DataFrame,
    x_title: str,
    y_title: str,
    *,
    height: int = theme.HEIGHT,
) -> Any:
    """Curves of the share of values above x, with the percentiles marked where they cross.

    Args:
        curves: series, x, share (0 to 1; 0 at the largest x), colour, context (bool: drawn thin
            and grey, its colour is not used).
        marks: series, x, share, value, text, colour, ink, shape: percentiles; the texts that are
            not empty stand in a column at the right, joined to their marks by a thin line.
        x_title: title with the unit.
        y_title: title of the share axis.
        height: of the picture in px.

    """
    # Labels that need more than the plot's height would press the plot flat.
    named = marks[marks["text"] != ""]
    height = max(height, label_room(named["text"]) + 60 if len(named) else 0)
    x_range = log_range(list(curves["x"]), 0.02, 0.02)
    shares = curves.loc[curves["share"] > 0, "share"]
    low = min([float(shares.min()) if len(shares) else 0.001, 0.001])
    y_range = (low / 1.4, 1.25)
    # A log axis has no 0: at the largest value the curve falls to the foot of the axis.
    curves = curves.assign(share=curves["share"].clip(lower=y_range[0]))
    x = alt.X(
        "x:Q",
        title=x_title,
        scale=log_scale(x_range),
        axis=alt.Axis(values=log_ticks(x_range), format=",~g"),
    )
    ticks = [10.0**-k for k in range(12) if 10.0**-k >= y_range[0]]
    y = alt.Y(
        "share:Q",
        title=y_title,
        scale=log_scale(y_range),
        axis=alt.Axis(values=ticks, labelExpr="format(datum.value * 100, '~g') + ' %'"),
    )
    colour = alt.Color("colour:N", scale=None)
    layers: list[Any] = []
    for context in (True, False):
        part = curves[curves["context"] == context]
        columns = ["series", "x", "share"] + ([] if context else ["colour"])
        if len(part):
            layers.append(
                alt.Chart(part[columns])
                .mark_line(
                    interpolate="step-after",
                    strokeWidth=1.2 if context else 2.5,
                    opacity=0.7 if context else 1.0,
                )
                .encode(
                    x=x,
                    y=y,
                    color=alt.value(theme.CONTEXT) if context else colour,
                    detail=alt.Detail("series:N"),
                    order=alt.Order("x:Q"),
                )
            )
    if len(marks):
        texts = list(named["text"])
        placed = named.assign(
            label_y=label_positions(list(named["share"]), texts, y_range, height - 50),
            edge=x_range[1],
        )
        base = alt.Chart(placed.drop(columns="value"))
        layers += [
            base.mark_rule(
                strokeWidth=1, strokeDash=[1, 4], color=theme.CONTEXT, opacity=0.8
            ).encode(x=x, y=y, x2=alt.X2("edge:Q"), y2=alt.Y2("label_y:Q")),
            alt.Chart(marks.drop(columns=["text", "ink"]))
            .mark_point(size=85, stroke="white", strokeWidth=1)
            .encode(
                x=x,
                y=y,
                fill=alt.Fill("colour:N", scale=None),
                shape=alt.Shape("shape:N", scale=None),
                tooltip=[alt.Tooltip("series:N"), alt.Tooltip("value:N")],
            ),
            base.mark_text(align="left", dx=5, baseline="middle", lineHeight=LINE_PX).encode(
                x=alt.X("edge:Q"),
                y=alt.Y("label_y:Q"),
                text=alt.Text("text:N"),
                color=alt.Color("ink:N", scale=None),
            ),
        ]
    return theme.finish(alt.layer(*layers), height=height)
