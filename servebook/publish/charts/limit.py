"""Throughput and time to first token over one axis of concurrency, in two panels."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import counts_axis, log_scale
from servebook.publish.text import say

__all__ = ["two_panels"]

_AXIS = 60
_STEEP = 0.25  # of the axis, between two points: a word above the first would meet the line


def two_panels(
    points: pd.DataFrame, panels: list[tuple[str, str, str]], slots: float, slot_text: str
) -> Any:
    """One panel below the other; a rule marks the slots, and what lies beyond is shaded.

    Args:
        points: concurrency, colour, shape, tip, remark (beside the point in the first panel, may
            be ""), and one column per panel.
        panels: (column, axis title, prefix of the values' words in ``points``: ``<column>_text``).
        slots: concurrency that the slots hold.
        slot_text: words at the rule.

    """
    inside, ticks = counts_axis([*points["concurrency"]])
    # Room for the words above the outer points.
    inside = (inside[0] / 1.12, inside[1] * 1.12)
    charts = [
        _panel(points, column, title, slots, slot_text if first else "", inside, ticks, bool(last))
        for first, last, (column, title, _) in (
            (i == 0, i == len(panels) - 1, panel) for i, panel in enumerate(panels)
        )
    ]
    return alt.vconcat(*charts, spacing=10)


def _panel(
    points: pd.DataFrame,
    column: str,
    title: str,
    slots: float,
    slot_text: str,
    inside: tuple[float, float],
    ticks: list[float],
    last: bool,
) -> Any:
    x = alt.X(
        "concurrency:Q",
        title=say("shared.requests_in_flight_set_concurrency_log") if last else None,
        scale=log_scale(inside, 2),
        axis=alt.Axis(values=ticks, format="~g", labels=last, ticks=last, labelOverlap=False),
    )
    top = float(points[column].max()) * 1.45
    y = alt.Y(
        f"{column}:Q",
        title=title,
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(
            tickCount=5,
            labelExpr=(
                "datum.value >= 10000 ? format(datum.value / 1000, '~g') + 'k' "
                ": format(datum.value, ',~g')"
            ),
            minExtent=_AXIS - 18,
            maxExtent=_AXIS - 18,
        ),
    )
    band = pd.DataFrame([{"from": slots, "to": inside[1], "text": slot_text}])
    base = alt.Chart(points)
    layers = [
        alt.Chart(band)
        .mark_rect(color="#f1f1f1")
        .encode(x=alt.X("from:Q", scale=log_scale(inside, 2)), x2=alt.X2("to:Q")),
        alt.Chart(band).mark_rule(color=theme.CONTEXT).encode(x=alt.X("from:Q")),
        base.mark_line().encode(x=x, y=y, color=alt.Color("colour:N", scale=None)),
        base.mark_point(size=85).encode(
            x=x,
            y=y,
            color=alt.Color("colour:N", scale=None),
            shape=alt.Shape("shape:N", scale=None),
            tooltip=[
                alt.Tooltip("concurrency:Q", title=say("shared.requests_in_flight")),
                alt.Tooltip("tip:N", title=say("charts.limit.panel.title")),
            ],
        ),
        *_labels(points, column, x, y, top),
        *theme.haloed(
            alt.Chart(band).encode(x=alt.X("from:Q"), y=alt.value(0), text=alt.Text("text:N")),
            align="right",
            baseline="top",
            dx=-5,
            dy=3,
            color=theme.MUTED,
        ),
    ]
    return alt.layer(*layers).properties(width=theme.WIDTH - _AXIS - 16, height=170)


def _labels(points: pd.DataFrame, column: str, x: alt.X, y: alt.Y, top: float) -> list[Any]:
    """The values beside their points: left of a point from which the line climbs steeply."""
    ordered = points.sort_values("concurrency", kind="stable")
    climbs = ordered[column].diff().shift(-1).fillna(0.0) > _STEEP * top
    layers: list[Any] = []
    for steep, look in (
        (False, {"align": "center", "dy": -13}),
        (True, {"align": "right", "dx": -9, "dy": -9}),
    ):
        part = ordered[climbs == steep]
        if len(part):
            layers += theme.haloed(
                alt.Chart(part).encode(x=x, y=y, text=f"{column}_text:N"),
                baseline="bottom",
                **look,
            )
    return layers
