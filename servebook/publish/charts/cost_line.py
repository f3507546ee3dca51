"""What links carry over what is served: points of conditions and their line down to no load."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.text import say

__all__ = ["over_load"]


def over_load(
    points: pd.DataFrame,
    lines: pd.DataFrame,
    x_title: str,
    y_title: str,
    *,
    height: int = theme.HEIGHT,
) -> Any:
    """Points, the line of each series to zero load (dashed below the least), the floor's interval.

    Args:
        points: series, x, y, colour, shape, tip.
        lines: series, label, colour, ink, x_low, x_high (measured range), floor, y_low, y_high (of
            the line at both), floor_low, floor_high (interval; NaN for none).
        x_title: the load.
        y_title: the rate on the links.
        height: of the picture in px.

    """
    right = float(lines["x_high"].max())
    known = pd.concat([points["y"], lines["floor"], lines["floor_low"], lines["floor_high"]])
    low, high = min(0.0, float(known.min())), float(known.max())
    x = alt.X(
        "x:Q",
        title=x_title,
        scale=alt.Scale(domain=[-0.02 * right, right * 1.04], nice=False),
        axis=alt.Axis(tickCount=7),
    )
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(domain=[low, high * 1.1]))
    colour = alt.Color("colour:N", scale=None)
    zero = lines.assign(zero=0.0)
    layers: list[Any] = [
        alt.Chart(zero)
        .mark_rule(strokeDash=[4, 4], strokeWidth=1.5)
        .encode(
            x=alt.X("zero:Q"),
            x2=alt.X2("x_low:Q"),
            y=alt.Y("floor:Q"),
            y2=alt.Y2("y_low:Q"),
            color=colour,
        ),
        alt.Chart(lines)
        .mark_rule(strokeWidth=2)
        .encode(
            x=alt.X("x_low:Q"),
            x2=alt.X2("x_high:Q"),
            y=alt.Y("y_low:Q"),
            y2=alt.Y2("y_high:Q"),
            color=colour,
        ),
    ]
    bars = zero.dropna(subset=["floor_low", "floor_high"])
    if len(bars):
        layers.append(
            alt.Chart(bars)
            .mark_rule(strokeWidth=7, opacity=0.4)
            .encode(
                x=alt.X("zero:Q"), y=alt.Y("floor_low:Q"), y2=alt.Y2("floor_high:Q"), color=colour
            )
        )
    layers.append(
        alt.Chart(points)
        .mark_point(size=80)
        .encode(
            x=x,
            y=y,
            color=colour,
            shape=alt.Shape("shape:N", scale=None),
            tooltip=[alt.Tooltip("tip:N", title=say("charts.cost_line.over_load.title"))],
        )
    )
    # A name stands on the side of its line's end that has room.
    for early, part in lines.groupby(lines["x_high"] < 0.6 * right, sort=True):
        look: dict[str, Any] = {"align": "left" if early else "right", "dx": 9 if early else -4}
        layers.append(
            alt.Chart(part)
            .mark_text(**look, baseline="bottom", dy=0 if early else -12)
            .encode(
                x=alt.X("x_high:Q"),
                y=alt.Y("y_high:Q"),
                text=alt.Text("label:N"),
                color=alt.Color("ink:N", scale=None),
            )
        )
    return theme.finish(alt.layer(*layers), height=height)
