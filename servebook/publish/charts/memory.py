"""Weights and KV room of each deployment against its HBM."""

from __future__ import annotations

import altair as alt
import pandas as pd

from servebook.publish import theme

__all__ = ["memory_bars"]

_ROW = 64  # px per bar with its label of up to three lines


def memory_bars(parts: pd.DataFrame, ends: pd.DataFrame, limit_gb: float) -> alt.LayerChart:
    """Stacked bars, one row per deployment, with the HBM as a rule.

    ``parts``: row, part (weights, room, short), from_gb, to_gb, colour, words (tooltip).
    ``ends``: row, hbm_gb, weights_gb, label_gb (where the words begin), words. Rows are drawn in
    the order of ``ends``; a row's name may hold line breaks. ``limit_gb`` ends the axis, with
    room for the words.
    """
    order = ends["row"].tolist()
    y = alt.Y("row:N", sort=order, title=None, axis=alt.Axis(labelLimit=190, grid=False))
    bars = (
        alt.Chart(parts)
        .mark_bar(height=22)
        .encode(
            y=y,
            x=alt.X(
                "from_gb:Q",
                title="GB",
                axis=alt.Axis(tickCount=5),
                scale=alt.Scale(domain=[0, limit_gb], nice=False),
            ),
            x2="to_gb:Q",
            color=alt.Color("colour:N", scale=None),
            opacity=alt.Opacity(
                "part:N",
                scale=alt.Scale(domain=["weights", "room", "short"], range=[1, 0.25, 0.55]),
                legend=None,
            ),
            tooltip=[alt.Tooltip("row:N", title="deployment"), alt.Tooltip("words:N", title=" ")],
        )
    )
    line = (
        alt.Chart(ends)
        .mark_tick(thickness=2, size=34, color=theme.INK)
        .encode(y=y, x="hbm_gb:Q", tooltip=[alt.Tooltip("hbm_gb:Q", title="HBM (GB)")])
    )
    words = (
        alt.Chart(ends)
        .mark_text(align="left", baseline="middle", dx=8, lineHeight=14)
        .encode(y=y, x="label_gb:Q", text="words:N")
    )
    drawn: alt.LayerChart = theme.finish(
        alt.layer(bars, line, words), height=_ROW * len(order) + 50
    )
    return drawn
