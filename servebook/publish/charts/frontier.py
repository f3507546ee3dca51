"""Tokens per second per GPU against tokens per second per user, with the frontier."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.ends import end_column
from servebook.publish.charts.layout import log_range, log_scale, log_ticks
from servebook.publish.text import say

__all__ = ["frontier"]

_HEIGHT = 420


def frontier(rows: pd.DataFrame) -> Any:
    """Conditions as points, joined along their concurrency; a grey line joins the frontier.

    Args:
        rows: user, gpu (tokens/s, above 0), concurrency, series, name, label (the name in lines),
            text (beside the point), first (bool: where the series begins, which its name at the
            right is joined to), colour, ink, shape, best (bool: on the frontier), tip.

    """
    x_range = log_range(list(rows["user"]), below=0.08, above=0.14)
    y_range = log_range(list(rows["gpu"]), below=0.10, above=0.12)
    x = alt.X(
        "user:Q",
        title=say("charts.frontier.frontier.title_output_tokens_user"),
        scale=log_scale(x_range),
        axis=alt.Axis(values=log_ticks(x_range), format=",~g"),
    )
    y = alt.Y(
        "gpu:Q",
        title=say("charts.frontier.frontier.title_output_tokens_gpu"),
        scale=log_scale(y_range),
        axis=alt.Axis(values=log_ticks(y_range), format=",~g"),
    )
    colour = alt.Color("colour:N", scale=None)
    base = alt.Chart(rows).encode(x=x, y=y)
    best = rows[rows["best"]]
    ends = rows[rows["first"]]
    *leaders, names = end_column(
        ends.assign(at=ends["user"]), x, y, "gpu", x_range[1], y_range, _HEIGHT, along="at"
    )
    layers: list[Any] = [
        *leaders,
        # A band behind the points: from one best condition to the next; nothing between was run.
        alt.Chart(best)
        .mark_line(color=theme.CONTEXT, strokeWidth=9, opacity=0.22)
        .encode(x=x, y=y, order=alt.Order("user:Q")),
        base.mark_line(strokeWidth=1.5).encode(
            color=colour, detail=alt.Detail("series:N"), order=alt.Order("concurrency:Q")
        ),
        base.mark_point(size=85).encode(
            color=colour,
            shape=alt.Shape("shape:N", scale=None),
            tooltip=[
                alt.Tooltip("name:N", title=say("charts.frontier.frontier.title_configuration")),
                alt.Tooltip("concurrency:Q", title=say("shared.requests_in_flight")),
                alt.Tooltip("tip:N", title=say("charts.frontier.frontier.title_tokens")),
            ],
        ),
        # Above the point and to its right, where no line of falling speed runs.
        *theme.haloed(
            base.encode(text=alt.Text("text:N"), color=alt.Color("ink:N", scale=None)),
            align="left",
            baseline="bottom",
            dx=6,
            dy=-4,
        ),
        names,
    ]
    return theme.finish(alt.layer(*layers), height=_HEIGHT)
