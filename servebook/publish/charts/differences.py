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
_LINEAR = 0.1  # of a logarithmic axis: up to here it is linear
_FAR = 4.0  # times as far as four of five dots: such a dot makes the axis logarithmic
_TICKS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")


def around_zero(dots: pd.DataFrame, x_title: str) -> Any:
    """Dots per row on an axis around 0; one marker per metric, named below the axis.

    The axis is linear, unless a few far dots would press the others together: then it is
    logarithmic beyond ±``_LINEAR``, which its title says.

    ``dots``: row (text above the dots, in the order to draw), deviation (fraction), kind (metric),
    tip, front (bool: dark; else grey).
    """
    order = list(dict.fromkeys(dots["row"]))
    kinds = list(dict.fromkeys(dots["kind"]))
    shapes = [_SHAPES[i % len(_SHAPES)] for i in range(len(kinds))]
    title, scale, ticks = _axis(dots["deviation"], x_title)
    x = alt.X(
        "deviation:Q",
        title=title,
        scale=scale,
        axis=alt.Axis(
            labelExpr="(datum.value > 0 ? '+' : '') + format(datum.value * 100, '~g') + ' %'",
            labelOverlap=True,
            grid=True,
            **ticks,
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


def _axis(deviations: pd.Series[Any], x_title: str) -> tuple[str, alt.Scale, dict[str, Any]]:
    """Title, scale and ticks of the axis of these fractions."""
    sizes = deviations.abs()
    reach = max(float(sizes.max()) * 1.12, 0.01)
    if reach <= max(_FAR * float(sizes.quantile(0.8)), 5 * _LINEAR):
        return x_title, alt.Scale(domain=[-reach, reach], nice=False), {"tickCount": 7}
    low = min(float(deviations.min()) * 1.3, -2 * _LINEAR)
    high = max(float(deviations.max()) * 1.3, 2 * _LINEAR)
    scale = alt.Scale(type="symlog", constant=_LINEAR, domain=[low, high], nice=False)
    ticks = [t for t in (*(-t for t in reversed(_TICKS)), 0.0, *_TICKS) if low <= t <= high]
    return (
        say("shared.log_beyond_g", x_title=x_title, constant=100 * _LINEAR),
        scale,
        {"values": ticks},
    )
