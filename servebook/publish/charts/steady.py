"""Requests in flight over the time of one run, with its steady window marked."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.text import say

__all__ = ["in_flight_over_time"]


def in_flight_over_time(
    levels: pd.DataFrame, window: pd.DataFrame, colour: str, *, height: int = 280
) -> Any:
    """A stepped area of the requests in flight; what lies outside the window is greyed.

    Args:
        levels: second (from the run's start), level (from there on), in order of time.
        window: one row with start, end (s), last (s: end of the run), limit (set concurrency),
            inside, before, after (words; empty for none).
        colour: of the area.
        height: of the picture in px.

    """
    row = window.iloc[0]
    x = alt.X(
        "second:Q",
        title=say("charts.steady.in_flight_over_time.title_seconds_run_first"),
        scale=alt.Scale(domain=[0, row["last"]], nice=False),
        axis=alt.Axis(tickCount=8),
    )
    top = max(float(levels["level"].max()), float(row["limit"]))
    y = alt.Y(
        "level:Q",
        title=say("shared.requests_in_flight"),
        scale=alt.Scale(domain=[0, top * 1.22], nice=False),
        axis=alt.Axis(tickMinStep=1),
    )
    outside = pd.DataFrame(
        [{"from": 0.0, "to": row["start"]}, {"from": row["end"], "to": row["last"]}]
    )
    edges = pd.DataFrame({"at": [row["start"], row["end"]]})
    words = window.assign(middle=(row["start"] + row["end"]) / 2, up=top * 1.2)
    layers: list[Any] = [
        alt.Chart(levels)
        .mark_area(interpolate="step-after", color=colour, opacity=0.45, line=False)
        .encode(x=x, y=y),
        alt.Chart(outside)
        .mark_rect(color="#ffffff", opacity=0.6)
        .encode(x=alt.X("from:Q"), x2=alt.X2("to:Q")),
        alt.Chart(window)
        .mark_rule(color=theme.CONTEXT, strokeDash=[4, 3])
        .encode(y=alt.Y("limit:Q")),
        alt.Chart(edges).mark_rule(color=theme.INK, strokeWidth=1.5).encode(x=alt.X("at:Q")),
        alt.Chart(words)
        .mark_text(baseline="top", fontWeight="bold", color=theme.INK, lineHeight=15)
        .encode(x=alt.X("middle:Q"), y=alt.Y("up:Q"), text=alt.Text("inside:N")),
    ]
    return theme.finish(alt.layer(*layers), height=height).properties(usermeta={"zoom": "x"})
