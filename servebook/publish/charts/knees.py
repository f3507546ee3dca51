"""Where each curve saturates, by several methods, on one axis of load."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import counts_axis, log_scale
from servebook.publish.charts.row_words import LINE_PX, in_lines, words_above
from servebook.publish.text import say

__all__ = ["LOOKS", "by_method"]

ROW_PX = 52
#: marker and ink by the order of the methods.
LOOKS = (("circle", theme.PLAIN), ("triangle-up", theme.PLAIN), ("diamond", theme.PLAIN))


def by_method(ranges: pd.DataFrame, places: pd.DataFrame) -> Any:
    """One row per curve: the range of its loads as a grey line, a marker per method's knee.

    Args:
        ranges: row (key, in the order to draw), label (above the line), low, high (concurrencies).
        places: row, method (its number, 0 to 2), name, value, low, high (over repeats; NaN).

    """
    ranges, lines = in_lines(ranges)
    order = list(ranges["row"])
    known = [*ranges["low"], *ranges["high"], *places["value"].round()]
    twos = [2.0**k for k in range(12) if min(known) <= 2**k <= max(known)]
    inside, ticks = counts_axis([*known, *twos])
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))
    x = alt.X(
        "value:Q",
        title=say("charts.knees.by_method.title_requests_flight_log"),
        scale=log_scale(inside, 2),
        axis=alt.Axis(values=ticks, format="~g", labelOverlap=True),
    )
    layers: list[Any] = [
        alt.Chart(ranges)
        .mark_rule(color=theme.CONTEXT, opacity=0.45, strokeWidth=6)
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y),
        *words_above(alt.Chart(ranges), y, dy=-13, whole=True, lines=lines),
    ]
    # Methods stand a little apart, so that equal places stay visible.
    for number, (shape, colour) in enumerate(LOOKS):
        part = places[places["method"] == number]
        if part.empty:
            continue
        shift = 9 * (number - 1)
        moved = part.dropna(subset=["low", "high"])
        moved = moved[moved["low"] < moved["high"]]
        if len(moved):
            layers.append(
                alt.Chart(moved)
                .mark_rule(color=colour, strokeWidth=2, yOffset=shift)
                .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y)
            )
        layers.append(
            alt.Chart(part)
            .mark_point(shape=shape, color=colour, size=80, yOffset=shift)
            .encode(
                x=x,
                y=y,
                tooltip=[
                    alt.Tooltip("name:N", title=say("charts.knees.by_method.title_method")),
                    alt.Tooltip("value:Q", title=say("charts.knees.by_method.title_at")),
                ],
            )
        )
    row_px = ROW_PX + LINE_PX * (lines - 1)
    return theme.finish(alt.layer(*layers), height=row_px * len(order) + 60)
