"""Link use over the number of nodes by the model, to its ceiling, the measured place marked."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import LINE_PX, label_positions, log_scale
from servebook.publish.text import say

__all__ = ["projected"]


def projected(
    points: pd.DataFrame,
    ends: pd.DataFrame,
    measured_nodes: float,
    y_title: str,
    full: float | None,
    height: int = theme.HEIGHT,
) -> Any:
    """One computed curve per row of ``ends``; where it was measured is shaded.

    Args:
        points: nodes (finite), value, series (key), dash, tip.
        ends: series, ceiling, label (beside the ceiling; may hold line breaks), colour, ink.
        measured_nodes: where the measurement was made.
        y_title: axis title with the unit.
        full: end of the axis where it is near (100 %), else None.
        height: of the picture in px.

    """
    ticks = sorted(set(points["nodes"]))
    last = max(ticks) * 1.6
    x_scale = log_scale((min(ticks) / 1.12, last), 2)
    top = float(ends["ceiling"].max()) * 1.12
    top = min(top, full) if full is not None and top > full else top
    x = alt.X(
        "nodes:Q", title=say("charts.scaleout.projected.title_nodes_log"), scale=x_scale,
        axis=alt.Axis(values=ticks, format="~g", labelOverlap=False),
    )  # fmt: skip
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(domain=[0, top], nice=False),
              axis=alt.Axis(tickCount=6))  # fmt: skip
    colour = alt.Color("colour:N", scale=None)
    lines = points.merge(ends[["series", "colour"]], on="series")
    shade = pd.DataFrame(
        [
            {
                "from": measured_nodes / 1.15,
                "to": measured_nodes * 1.15,
                "text": say("charts.scaleout.projected.shade"),
            }
        ]
    )
    labelled = ends.assign(
        label_y=label_positions(
            list(ends["ceiling"]), list(ends["label"]), (0.0, top), height - 50, log=False
        ),
        edge=last,
        start=min(ticks),
    )
    seen = lines[lines["nodes"] == measured_nodes]
    return theme.finish(
        alt.layer(
            alt.Chart(shade)
            .mark_rect(color="#DCEBF5")
            .encode(x=alt.X("from:Q", scale=x_scale), x2=alt.X2("to:Q")),
            alt.Chart(shade)
            .mark_text(align="left", baseline="top", dx=4, dy=4, color=theme.MUTED)
            .encode(x=alt.X("from:Q"), y=alt.value(0), text=alt.Text("text:N")),
            alt.Chart(labelled)
            .mark_rule(strokeDash=[2, 3])
            .encode(x=alt.X("start:Q"), x2=alt.X2("edge:Q"), y=alt.Y("ceiling:Q"), color=colour),
            alt.Chart(lines)
            .mark_line(strokeDash=[6, 3])
            .encode(x=x, y=y, color=colour, detail=alt.Detail("series:N")),
            alt.Chart(lines)
            .mark_point(size=60, filled=True, fill="white", strokeWidth=2)
            .encode(
                x=x,
                y=y,
                stroke=alt.Stroke("colour:N", scale=None),
                tooltip=[
                    alt.Tooltip("nodes:Q"),
                    alt.Tooltip("tip:N", title=say("charts.scaleout.projected.title_computed")),
                ],
            ),
            alt.Chart(seen).mark_point(size=100).encode(x=x, y=y, color=colour),
            alt.Chart(labelled)
            .mark_text(align="left", dx=6, baseline="middle", lineHeight=LINE_PX)
            .encode(
                x=alt.X("edge:Q"),
                y=alt.Y("label_y:Q"),
                text=alt.Text("label:N"),
                color=alt.Color("ink:N", scale=None),
            ),
        ),
        height=height,
    )
