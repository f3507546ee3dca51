"""Tokens per second per GPU against tokens per second per user, with the frontier."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.clear import clear_places, placed_at
from servebook.publish.charts.ends import end_column
from servebook.publish.charts.layout import Range, log_range, log_scale, log_ticks
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
        *theme.haloed(
            alt.Chart(_placed(rows, x_range, y_range)).encode(
                x=x, y=y, text=alt.Text("text:N"), color=alt.Color("ink:N", scale=None)
            ),
            **placed_at(),
        ),
        names,
    ]
    return theme.finish(alt.layer(*layers), height=_HEIGHT)


def _placed(rows: pd.DataFrame, across: Range, inside: Range) -> pd.DataFrame:
    """The rows with dx, dy and align: words beside the points, where no line runs."""

    def share(value: float, edges: Range) -> float:
        return math.log(value / edges[0]) / math.log(edges[1] / edges[0])

    at = [
        (share(user, across), 1 - share(gpu, inside))
        for user, gpu in zip(rows["user"], rows["gpu"], strict=True)
    ]
    points = pd.Series(at, index=rows.index)
    lines = [
        list(points[part.sort_values("concurrency", kind="stable").index])
        for _, part in rows.groupby("series", sort=True)
    ]
    best = rows[rows["best"]].sort_values("user", kind="stable")
    lines.append(list(points[best.index]))
    places = clear_places(at, list(rows["text"]), lines, _HEIGHT - 50)
    return rows.assign(**{key: [getattr(p, key) for p in places] for key in ("dx", "dy", "align")})
