"""Relative differences around 0, a row per comparison, context in grey."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.row_words import words_above
from servebook.publish.text import say

__all__ = ["ROW_PX", "around_zero"]

ROW_PX = 44
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")


def around_zero(dots: pd.DataFrame, x_title: str) -> Any:
    """Dots per row on a linear axis around 0; one marker per metric, named below the axis.

    ``dots``: row (text above the dots, in the order to draw), deviation (fraction), kind (metric),
    tip, front (bool: dark; else grey).
    """
    order = list(dict.fromkeys(dots["row"]))
    kinds = list(dict.fromkeys(dots["kind"]))
    reach = max(float(dots["deviation"].abs().max()) * 1.12, 0.01)
    shapes = [_SHAPES[i % len(_SHAPES)] for i in range(len(kinds))]
    x = alt.X(
        "deviation:Q",
        title=x_title,
        scale=alt.Scale(domain=[-reach, reach], nice=False),
        axis=alt.Axis(
            labelExpr="(datum.value > 0 ? '+' : '') + format(datum.value * 100, '~g') + ' %'",
            tickCount=7,
            grid=True,
        ),
    )
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))
    styled = dots.assign(colour=[theme.PLAIN if f else theme.CONTEXT for f in dots["front"]])
    shape = alt.Shape(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=shapes),
        legend=alt.Legend(title=None, orient="bottom", columns=2, labelLimit=280)
        if len(kinds) > 1
        else None,
    )
    heads = pd.DataFrame({"row": order, "label": order})
    return theme.finish(
        alt.layer(
            alt.Chart(pd.DataFrame([{"zero": 0.0}]))
            .mark_rule(color=theme.INK)
            .encode(x=alt.X("zero:Q")),
            alt.Chart(styled)
            .mark_point(size=65, opacity=0.75, yOffset=9)
            .encode(
                x=x,
                y=y,
                color=alt.Color("colour:N", scale=None),
                shape=shape,
                tooltip=[
                    alt.Tooltip(
                        "row:N", title=say("charts.differences.around_zero.title_comparison")
                    ),
                    alt.Tooltip("tip:N", title=say("charts.differences.around_zero.title_values")),
                ],
            ),
            *words_above(alt.Chart(heads), y, dy=-1),
        ),
        height=ROW_PX * len(order) + 55 + (22 * ((len(kinds) + 1) // 2) if len(kinds) > 1 else 0),
    )
