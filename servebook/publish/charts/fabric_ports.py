"""Is it even? One dot per port and direction, sorted by use."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.text import say

__all__ = ["ports"]

_SHAPES = {"out": "triangle-up", "in": "triangle-down"}


def ports(dots: pd.DataFrame, middles: pd.DataFrame, y_title: str, limit: float) -> Any:
    """Dots in rank order; outliers carry their name.

    ``dots``: rank (1, 2, ...), value, way ("out" or "in"), port (name), name ("" for those that
    are no outlier), colour, tip. ``middles``: way, value (the median that outliers are judged by),
    words. ``limit`` ends the value axis, which begins at 0.
    """
    y = alt.Y(
        "value:Q",
        title=y_title,
        scale=alt.Scale(domain=[0, limit], nice=False),
        axis=alt.Axis(labelExpr="format(datum.value, '~g')"),
    )
    last = int(dots["rank"].max())
    base = alt.Chart(dots).encode(
        x=alt.X(
            "rank:Q",
            title=say("charts.fabric_ports.ports.title_ports_order_use"),
            scale=alt.Scale(domain=[0, last + 1], nice=False),
            axis=alt.Axis(tickMinStep=1, format="d"),
        ),
        y=y,
    )
    lines = alt.Chart(middles)
    return theme.finish(
        alt.layer(
            lines.mark_rule(strokeDash=[4, 3]).encode(y=y),
            lines.mark_text(align="left", baseline="bottom", dy=-2, color=theme.MUTED).encode(
                x=alt.value(4), y=y, text=alt.Text("words:N")
            ),
            base.mark_point(size=70, opacity=0.85).encode(
                color=alt.Color("colour:N", scale=None),
                shape=alt.Shape(
                    "way:N",
                    scale=alt.Scale(domain=list(_SHAPES), range=list(_SHAPES.values())),
                    legend=None,
                ),
                tooltip=[
                    alt.Tooltip("port:N"),
                    alt.Tooltip("way:N", title=say("charts.fabric_ports.ports.title_direction")),
                    alt.Tooltip("tip:N", title=say("charts.fabric_ports.ports.title_use")),
                ],
            ),
            base.mark_text(align="right", dx=-8, baseline="middle").encode(text=alt.Text("name:N")),
        ),
        height=260,
    )
