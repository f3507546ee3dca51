"""How full the wire is: usual, peak and floor, zoomed and on the whole axis."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.text import say

__all__ = ["ROW_PX", "levels"]

ROW_PX = 54
_BAR, _GAUGE = 4, 18  # px below the middle of a row
_TRACK = "#e9e9e9"


def levels(rows: pd.DataFrame, x_title: str, limit: float, full: float | None) -> Any:
    """One row per condition: a bar (usual), an arrow (peak), a tick (floor); below it a gauge.

    ``rows``: row (key, in the order to draw), label (above the bar), usual, peak, floor (in the
    unit of ``x_title``; peak and floor may be NaN), text (beside the peak), colour, tip.
    ``limit`` ends the zoomed axis. ``full`` ends that of the gauge (100 for %), whose width is the
    whole line rate; None: no speed is known, so there is no gauge.
    """
    order = rows["row"].tolist()
    base = alt.Chart(rows).encode(
        y=alt.Y("row:N", axis=None, sort=order, scale=alt.Scale(domain=order))
    )
    height = ROW_PX * len(order) + 60
    zoomed = _zoomed(base, x_title, limit)
    if full is None:
        return theme.finish(zoomed, height=height)
    chart = alt.layer(_gauge(base, full), zoomed).resolve_scale(x="independent", color="shared")
    return theme.finish(chart, height=height + 40)


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("label:N", title=say("charts.fabric_levels.tooltip.title_condition")),
        alt.Tooltip("tip:N", title=say("charts.fabric_levels.tooltip.title_values")),
    ]


def _zoomed(base: alt.Chart, title: str, limit: float) -> Any:
    def x(field: str) -> alt.X:
        return alt.X(
            f"{field}:Q",
            title=say("charts.fabric_levels.zoomed.title", title=title),
            scale=alt.Scale(domain=[0, limit], nice=False),
            axis=alt.Axis(
                grid=True, labelExpr="format(datum.value, '~g')", tickCount=6, orient="bottom"
            ),
        )

    return alt.layer(
        base.mark_bar(height=10, yOffset=_BAR).encode(
            x=x("usual"), color=alt.Color("colour:N", scale=None), tooltip=_tooltip()
        ),
        base.mark_tick(color=theme.INK, thickness=2, size=16, yOffset=_BAR).encode(
            x=x("floor"), tooltip=_tooltip()
        ),
        base.mark_point(shape="triangle-right", size=70, color=theme.INK, yOffset=_BAR).encode(
            x=x("peak"), tooltip=_tooltip()
        ),
        base.mark_text(align="left", baseline="middle", dx=9, dy=_BAR).encode(
            x=x("peak"), text=alt.Text("text:N")
        ),
        base.mark_text(align="left", baseline="bottom", dy=_BAR - 8).encode(
            x=alt.value(2), text=alt.Text("label:N")
        ),
    )


def _gauge(base: alt.Chart, full: float) -> Any:
    def x(field: str) -> alt.X:
        return alt.X(
            f"{field}:Q",
            title=say("charts.fabric_levels.gauge.title"),
            scale=alt.Scale(domain=[0, full], nice=False),
            axis=alt.Axis(orient="top", values=[0, full / 2, full], grid=False),
        )

    track = base.transform_calculate(full=f"{full}")
    return alt.layer(
        track.mark_bar(height=4, yOffset=_GAUGE, color=_TRACK).encode(x=x("full")),
        base.mark_bar(height=4, yOffset=_GAUGE).encode(
            x=x("usual"), color=alt.Color("colour:N", scale=None), tooltip=_tooltip()
        ),
        base.mark_tick(color=theme.INK, thickness=2, size=8, yOffset=_GAUGE).encode(
            x=x("peak"), tooltip=_tooltip()
        ),
    )
