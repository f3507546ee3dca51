"""What the engine says it ran and let wait: per condition, and over time."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.row_words import words_above
from servebook.publish.text import say, told

__all__ = ["WAITING", "over_time", "running_and_waiting"]

WAITING = "#8a8a8a"
_ROW_PX = 38
_DOWN_PX = 8  # of a bar from the middle of its row: its name stands above it


def running_and_waiting(rows: pd.DataFrame, limits: pd.DataFrame) -> Any:
    """One bar per row: requests that ran, then those that waited; a tick at the set concurrency.

    Args:
        rows: row (key, in the order to draw), running, waiting (requests), set (concurrency; NaN
            where there is none), colour, text (above the bar, after the key).
        limits: row, slots: where the manifest states how many may run.

    """
    order = list(rows["row"])
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))
    slots = limits.groupby("row")["slots"].max().reindex(order)
    reach = pd.concat(
        [rows["running"] + rows["waiting"], rows["set"], slots.set_axis(rows.index)], axis=1
    ).max(axis=1)
    x = alt.X(
        "at:Q",
        title=say("charts.engine_side.running_and_waiting.title"),
        scale=alt.Scale(domain=[0, 1.03 * float(reach.max())], nice=False),
        axis=alt.Axis(tickCount=6, tickMinStep=1, grid=True),
    )
    ran = rows.assign(at=0.0, upto=rows["running"], fill=rows["colour"])
    waited = rows.assign(at=rows["running"], upto=rows["running"] + rows["waiting"], fill=WAITING)
    bars = pd.concat([ran, waited], ignore_index=True)
    marks: list[Any] = [
        alt.Chart(bars[bars["upto"] > bars["at"]])
        .mark_bar(height=13, yOffset=_DOWN_PX)
        .encode(y=y, x=x, x2="upto:Q", color=alt.Color("fill:N", scale=None)),
        alt.Chart(rows.dropna(subset=["set"]))
        .mark_tick(color=theme.INK, thickness=2, size=19, yOffset=_DOWN_PX)
        .encode(y=y, x="set:Q"),
    ]
    if len(limits):
        marks.append(
            alt.Chart(limits)
            .mark_point(
                shape="triangle-up",
                fill="#ffffff",
                stroke=theme.INK,
                size=45,
                yOffset=_DOWN_PX,
            )
            .encode(y=y, x="slots:Q")
        )
    # Beside the bar the words would meet the triangle.
    heads = rows[["row"]].assign(label=rows["row"] + ": " + rows["text"])
    marks += words_above(alt.Chart(heads), y, dy=-2, whole=True)
    return theme.finish(alt.layer(*marks), height=_ROW_PX * len(order) + 60)


def over_time(steps: pd.DataFrame, bands: pd.DataFrame) -> Any:
    """Requests that ran and waited over time, as steps; runs as bands with their concurrency.

    Args:
        steps: t_s, value, what (the words for "running" or "waiting").
        bands: start_s, end_s, set (concurrency; NaN where there is none), text (above the band),
            fill (a tint).

    """
    top = float(pd.concat([steps["value"], bands["set"]]).max())
    roof = max(1.0, 1.2 * top)
    x = alt.X(
        "t_s:Q",
        title=say("charts.engine_side.over_time.title"),
        scale=alt.Scale(domain=[float(steps["t_s"].min()), float(steps["t_s"].max())], nice=False),
        axis=alt.Axis(tickCount=8),
    )
    y = alt.Y(
        "value:Q",
        title=say("charts.engine_side.running_and_waiting.title"),
        scale=alt.Scale(domain=[0, roof]),
    )
    bands = bands.assign(t_s=bands["start_s"], value=bands["set"], bottom=0.0, top=roof)
    kinds = [told("running"), told("waiting")]
    look = alt.Scale(domain=kinds, range=[theme.PLAIN, WAITING])
    dash = alt.Scale(domain=kinds, range=[[1, 0], [5, 3]])
    legend = alt.Legend(title=None, orient="top", direction="horizontal", symbolType="stroke")
    return theme.finish(
        alt.layer(
            alt.Chart(bands)
            .mark_rect()
            .encode(
                x=x,
                x2="end_s:Q",
                y=alt.Y("bottom:Q"),
                y2="top:Q",
                color=alt.Color("fill:N", scale=None),
            ),
            alt.Chart(bands.dropna(subset=["value"]))
            .mark_rule(color=theme.INK, strokeWidth=1.5, strokeDash=[2, 3])
            .encode(x=x, x2="end_s:Q", y=y),
            alt.Chart(steps)
            .mark_line(interpolate="step-after", strokeWidth=2)
            .encode(
                x=x,
                y=y,
                stroke=alt.Stroke("what:N", scale=look, legend=legend),
                strokeDash=alt.StrokeDash("what:N", scale=dash, legend=legend),
            ),
            alt.Chart(bands)
            .mark_text(align="left", baseline="top", dx=3, dy=3, color=theme.INK)
            .encode(x=x, y=alt.Y("top:Q"), text="text:N"),
        ),
        height=300,
    ).properties(usermeta={"zoom": "x"})
