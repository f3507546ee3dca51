"""Weights and KV room of each deployment against its HBM."""

from __future__ import annotations

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.text import say

__all__ = ["memory_bars"]

_ROW = 74  # px per bar with the two lines above it
#: How much of a configuration's colour each part keeps over white.
_STRENGTH = {"weights": 1.0, "room": 0.3, "short": 1.0}


def memory_bars(parts: pd.DataFrame, ends: pd.DataFrame, limit_gb: float) -> alt.LayerChart:
    """Stacked bars, one row per deployment, with the HBM as a rule and the words above.

    ``parts``: row, part (weights, room, short), from_gb, to_gb, colour, words (tooltip).
    ``ends``: row, hbm_gb, name (first line above the bar), words (second line). Rows are drawn in
    the order of ``ends``. ``limit_gb`` ends the axis.
    """
    order = ends["row"].tolist()
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order, paddingOuter=0.35))
    x = alt.X(
        "from_gb:Q",
        title=say("charts.memory.memory_bars.title_gb"),
        axis=alt.Axis(tickCount=5, grid=True),
        scale=alt.Scale(domain=[0, limit_gb], nice=False),
    )
    bars = [
        alt.Chart(part)
        .mark_bar(height=20, opacity=_STRENGTH[str(kind)])
        .encode(
            y=y,
            x=x,
            x2=alt.X2("to_gb:Q"),
            color=alt.Color("colour:N", scale=None),
            tooltip=[
                alt.Tooltip("row:N", title=say("charts.memory.memory_bars.title_deployment")),
                alt.Tooltip("words:N", title=" "),
            ],
        )
        for kind, part in parts.groupby("part", sort=True)
    ]
    line = (
        alt.Chart(ends)
        .mark_tick(thickness=2, size=32, color=theme.INK)
        .encode(
            y=y,
            x=alt.X("hbm_gb:Q"),
            tooltip=[alt.Tooltip("hbm_gb:Q", title=say("charts.memory.memory_bars.title_hbm_gb"))],
        )
    )
    head = alt.Chart(ends).encode(y=y, x=alt.value(0))
    layers = [
        *bars,
        line,
        *theme.haloed(
            head.encode(text=alt.Text("name:N")),
            align="left",
            baseline="bottom",
            dy=-29,
            color=theme.MUTED,
        ),
        *theme.haloed(
            head.encode(text=alt.Text("words:N")),
            align="left",
            baseline="bottom",
            dy=-14,
            color=theme.INK,
            fontWeight="bold",
        ),
    ]
    drawn: alt.LayerChart = theme.finish(alt.layer(*layers), height=_ROW * len(order) + 50)
    return drawn
