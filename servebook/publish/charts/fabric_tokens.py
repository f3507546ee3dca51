"""Link bytes per token: gross and net of idle, a dot per run."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import log_range, log_scale, log_ticks

__all__ = ["per_token"]

_ROW = 46


def per_token(dots: pd.DataFrame, rows: pd.DataFrame, x_title: str) -> Any:
    """One row per condition; a ring per run for gross, a dot for net, a tick at the total's value.

    ``dots``: row, kind ("gross" or "net"), value (positive), colour, tip. ``rows``: row (in the
    order to draw), label (above), total (of the row, NaN where unknown), text, text_x.
    """
    order = rows["row"].tolist()
    reach = log_range([*dots["value"], *rows["total"].dropna(), *rows["text_x"]], above=0.5)
    y = alt.Y("row:N", axis=None, sort=order, scale=alt.Scale(domain=order))

    def x(field: str) -> alt.X:
        return alt.X(
            f"{field}:Q",
            title=x_title,
            scale=log_scale(reach),
            axis=alt.Axis(values=log_ticks(reach, 8), format=",~g", grid=True),
        )

    tooltip = [alt.Tooltip("tip:N", title="run")]
    points = alt.Chart(dots)
    colour = alt.Color("colour:N", scale=None)
    return theme.finish(
        alt.layer(
            points.transform_filter("datum.kind == 'gross'")
            .mark_point(size=60, filled=False, strokeWidth=1.5, yOffset=8)
            .encode(x=x("value"), y=y, color=colour, tooltip=tooltip),
            points.transform_filter("datum.kind == 'net'")
            .mark_point(size=60, opacity=0.8, yOffset=8)
            .encode(x=x("value"), y=y, color=colour, tooltip=tooltip),
            alt.Chart(rows)
            .mark_tick(size=18, thickness=2, color=theme.INK, yOffset=8)
            .encode(x=x("total"), y=y),
            alt.Chart(rows)
            .mark_text(align="left", baseline="middle", dx=10, dy=8)
            .encode(x=x("text_x"), y=y, text="text:N"),
            alt.Chart(rows)
            .mark_text(align="left", baseline="bottom", dy=-1)
            .encode(x=alt.value(2), y=y, text="label:N"),
        ),
        height=_ROW * len(order) + 50,
    )
