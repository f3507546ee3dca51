"""A quantity made of two parts per condition, with the measured whole as a tick."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import axis_end
from servebook.publish.charts.row_words import words_above
from servebook.publish.text import say

__all__ = ["ROW_PX", "stacked"]

ROW_PX = 46


def stacked(segments: pd.DataFrame, ends: pd.DataFrame, x_title: str) -> Any:
    """Bars of segments from 0; a tick where ``ends`` has a measured value; words at the end.

    Args:
        segments: row, part, low, high, colour, tip.
        ends: row (in the order to draw), label (above the bar), end (where the words begin, beyond
            bar and tick), measured (NaN for none), text.
        x_title: axis title with the unit and what the two shades are.

    """
    order = list(ends["row"])
    limit = axis_end(list(ends["end"]), list(ends["text"]))
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))

    def x(field: str) -> alt.X:
        return alt.X(
            f"{field}:Q",
            title=x_title,
            scale=alt.Scale(domain=[0, limit], nice=False),
            axis=alt.Axis(grid=True, tickCount=6, labelExpr="format(datum.value, ',~r')"),
        )

    base = alt.Chart(ends).encode(y=y)
    ticks = ends.dropna(subset=["measured"])
    layers: list[Any] = [
        alt.Chart(segments)
        .mark_bar(height=14, yOffset=8)
        .encode(
            y=y,
            x=x("low"),
            x2=alt.X2("high:Q"),
            color=alt.Color("colour:N", scale=None),
            tooltip=[
                alt.Tooltip("part:N", title=say("charts.parts.stacked.title_part")),
                alt.Tooltip("tip:N", title=say("charts.parts.stacked.title_value")),
            ],
        )
    ]
    if len(ticks):
        layers.append(
            alt.Chart(ticks)
            .mark_tick(size=20, thickness=3, color=theme.INK, yOffset=8)
            .encode(y=y, x=x("measured"))
        )
    layers += [
        base.mark_text(align="left", baseline="middle", dx=8, dy=8).encode(
            x=x("end"), text=alt.Text("text:N")
        ),
        *words_above(base, y, dy=-2, whole=True),
    ]
    return theme.finish(alt.layer(*layers), height=ROW_PX * len(order) + 50)
