"""Names of lines in a column at the right, in place of a legend."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import LINE_PX, Range, label_positions

__all__ = ["end_column"]


def end_column(
    ends: pd.DataFrame,
    x: alt.X,
    y: alt.Y,
    value: str,
    edge: float,
    y_range: Range,
    height: int,
    *,
    along: str = "concurrency",
    log: bool = True,
) -> list[Any]:
    """Layers: dotted leaders from where series end to their names, then the names themselves.

    The names are the last layer; a leader lies below marks and words if it is drawn before them.

    Args:
        ends: one row per series with the column ``along`` (where it ends), the column ``value``
            (its height there), label (may hold line breaks), ink.
        x: the x encoding of the chart.
        y: the y encoding of the chart, whose field is ``value``.
        value: name of the column of heights.
        edge: right end of the x axis.
        y_range: range of the y axis.
        height: of the picture in px.
        along: name of the column of places on the x axis.
        log: whether the y axis is logarithmic.

    """
    placed = ends.assign(
        label_y=label_positions(
            list(ends[value]), list(ends["label"]), y_range, height - 50, log=log
        ),
        edge=edge,
    )
    layers: list[Any] = []
    early = placed[placed[along] < placed[along].max()]
    if len(early):
        layers.append(
            alt.Chart(early)
            # Dotted and pale: a leader is no data.
            .mark_rule(strokeWidth=1, strokeDash=[1, 4], color=theme.CONTEXT, opacity=0.8)
            .encode(x=x, y=y, x2=alt.X2("edge:Q"), y2=alt.Y2("label_y:Q"))
        )
    layers.append(
        alt.Chart(placed)
        .mark_text(align="left", dx=6, baseline="middle", fontSize=theme.SMALL, lineHeight=LINE_PX)
        .encode(
            x=alt.X("edge:Q"),
            y=alt.Y("label_y:Q"),
            text=alt.Text("label:N"),
            color=alt.Color("ink:N", scale=None),
        )
    )
    return layers
