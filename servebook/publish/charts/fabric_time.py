"""Link use over time, one panel per stretch of watching and node, with the runs behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.text import say

__all__ = ["Panel", "waveform"]

_AXIS = 62  # px that every panel keeps for its left axis, so that the panels stand in line
_PLOT = theme.WIDTH - _AXIS - 24
_TALL, _FLAT = 130, 54


@dataclass(frozen=True)
class Panel:
    """One panel: which rows of the frames it draws, and how far its axes reach."""

    name: str
    title: str
    x_title: str
    x_end: float
    y_title: str
    y_limit: float  # how far the zoomed axis reaches, up and down
    full: float | None = None  # the end of the whole axis (100 for %); None: no speed is known
    up: bool = True  # whether there is anything above the line, below it
    down: bool = True


def waveform(
    points: pd.DataFrame,
    ranges: pd.DataFrame,
    bands: pd.DataFrame,
    labels: pd.DataFrame,
    breaks: pd.DataFrame,
    panels: Sequence[Panel],
) -> Any:
    """Step areas over time: out of the port above the line, into it below.

    ``points``: panel, series, x, mid (signed: into the port is negative). ``ranges``: panel,
    series, x, low, high, for the series in which a point stands for several readings.
    ``bands``: panel, x, x2, workload, words (tooltip). ``labels``: panel, x (middle of a group
    of bands), words. ``breaks``: panel, x, x2, what, words.
    """
    charts: list[Any] = []
    for panel in panels:
        frames = (points, ranges, bands, labels, breaks)
        here = [f[f["panel"] == panel.name].drop(columns="panel") for f in frames]
        charts.append(_panel(panel, *here, whole=False))
        if panel.full is not None:
            charts.append(_panel(panel, *here, whole=True))
    return alt.vconcat(*charts, spacing=14).resolve_scale(x="independent", y="independent")


def _panel(
    panel: Panel,
    points: pd.DataFrame,
    ranges: pd.DataFrame,
    bands: pd.DataFrame,
    labels: pd.DataFrame,
    breaks: pd.DataFrame,
    *,
    whole: bool,
) -> Any:
    last = whole or panel.full is None
    limit = panel.full if whole and panel.full is not None else panel.y_limit
    x = alt.X(
        "x:Q",
        title=panel.x_title if last else None,
        axis=alt.Axis(labels=last, ticks=last),
        scale=alt.Scale(domain=[0, panel.x_end], nice=False),
    )
    y = alt.Y(
        "mid:Q",
        stack=None,  # stacked areas would be drawn on through a gap
        title=panel.y_title,
        scale=alt.Scale(domain=[-limit * panel.down, limit * panel.up], nice=False),
        axis=alt.Axis(
            minExtent=_AXIS - 22,
            maxExtent=_AXIS - 22,
            tickCount=3 if whole else 5,
            # Into the port is drawn downwards; its amount is not negative.
            labelExpr="format(abs(datum.value), '~g')",
            titleAnchor="middle",
        ),
    )
    phases = sorted(set(bands["workload"]))
    layers: list[Any] = [
        alt.Chart(bands)
        .mark_rect()
        .encode(
            x=x,
            x2=alt.X2("x2:Q"),
            color=alt.Color(
                "workload:N",
                scale=alt.Scale(domain=phases, range=[_tint(p) for p in phases]),
                legend=None,
            ),
            tooltip=[alt.Tooltip("words:N", title=say("charts.fabric_time.panel.title"))],
        ),
        alt.Chart(breaks)
        .mark_rect(color="#ffffff", opacity=0.85, stroke=theme.CONTEXT, strokeDash=[3, 2])
        .encode(x=x, x2=alt.X2("x2:Q"), tooltip=[alt.Tooltip("words:N", title=" ")]),
        alt.Chart(points)
        .mark_area(interpolate="step-after", color=theme.CONTEXT, opacity=0.35)
        .encode(x=x, y=y, detail=alt.Detail("series:N")),
    ]
    if not whole:
        layers += [
            alt.Chart(ranges)
            .mark_area(interpolate="step-after", color=theme.CONTEXT, opacity=0.45)
            .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), detail=alt.Detail("series:N")),
            alt.Chart(points)
            .mark_line(interpolate="step-after", color=theme.INK, strokeWidth=1)
            .encode(x=x, y=y, detail=alt.Detail("series:N")),
            alt.Chart(labels)
            .mark_text(baseline="top", dy=3, color=theme.INK)
            .encode(x=x, y=alt.value(0), text=alt.Text("words:N")),
            alt.Chart(breaks)
            .mark_text(baseline="bottom", dy=-3, align="left", color=theme.INK)
            .encode(x=x, y=alt.value(_TALL), text=alt.Text("what:N")),
        ]
    chart = alt.layer(*layers).properties(width=_PLOT, height=_FLAT if whole else _TALL)
    return chart if whole else chart.properties(title=alt.TitleParams(panel.title, offset=6))


def _tint(workload: str) -> str:
    return theme.PHASES.get(workload, theme.PHASES["other"])
