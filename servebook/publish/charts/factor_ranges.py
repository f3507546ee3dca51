"""Ranges of factors on a log rule: a band, the measured points in it, the range in words."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import log_range, log_scale, log_ticks
from servebook.publish.charts.row_words import words_above
from servebook.publish.text import say

__all__ = ["ROW_PX", "ranges"]

ROW_PX = 52


def ranges(rows: pd.DataFrame, dots: pd.DataFrame, x_title: str) -> Any:
    """One row per factor: its name above, a band from low to high, words at its end.

    Args:
        rows: row (key, in the order to draw), label, low, high, text, colour, ink, open (bool:
            bounds that were not measured are outlined, not filled).
        dots: row, value, text (above the dot), colour: measured values inside a band.
        x_title: axis title.

    """
    order = list(rows["row"])
    reach = log_range([*rows["low"], *rows["high"], *dots["value"], 1.0], 0.05, 0.42)
    scale = log_scale(reach)
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))
    axis = alt.Axis(
        values=log_ticks(reach, 8), labelExpr="'×' + format(datum.value, '~g')", grid=True
    )

    def x(field: str) -> alt.X:
        return alt.X(f"{field}:Q", title=x_title, scale=scale, axis=axis)

    base = alt.Chart(rows).encode(y=y)
    colour = alt.Color("colour:N", scale=None)
    tooltip = [
        alt.Tooltip("label:N", title=say("charts.factor_ranges.ranges.title_factor")),
        alt.Tooltip("text:N", title=say("charts.factor_ranges.ranges.title_range")),
    ]
    layers: list[Any] = [
        alt.Chart(pd.DataFrame([{"one": 1.0}])).mark_rule(color=theme.INK).encode(x=x("one")),
    ]
    for hollow, part in rows.groupby("open", sort=True):
        bar = alt.Chart(part).mark_bar(
            height=13,
            yOffset=10,
            cornerRadius=6,
            fillOpacity=0.0 if hollow else 0.35,
            strokeWidth=1.5 if hollow else 0,
            strokeDash=[4, 3],
        )
        layers.append(
            bar.encode(
                y=y, x=x("low"), x2=alt.X2("high:Q"), fill=alt.Fill("colour:N", scale=None),
                stroke=alt.Stroke("colour:N", scale=None), tooltip=tooltip,
            )
        )  # fmt: skip
    if len(dots):
        layers.append(
            alt.Chart(dots)
            .mark_point(size=60, yOffset=10)
            .encode(
                x=x("value"),
                y=y,
                color=colour,
                tooltip=[alt.Tooltip("text:N", title=say("charts.factor_ranges.ranges.title_at"))],
            )
        )
    layers += [
        base.mark_text(align="left", baseline="middle", dx=9, dy=10, fontWeight="bold").encode(
            x=x("high"),
            text=alt.Text("text:N"),
            color=alt.Color("ink:N", scale=None),
        ),
        *words_above(base, y, dy=-3),
    ]
    return theme.finish(alt.layer(*layers), height=ROW_PX * len(order) + 55)
