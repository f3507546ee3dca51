"""Tokens per second per GPU against tokens per second per user, with the frontier."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import log_range, log_scale, log_ticks

__all__ = ["frontier"]

_HEIGHT = 420


def frontier(rows: pd.DataFrame) -> Any:
    """Conditions as points, joined along their concurrency; a grey line joins the frontier.

    Args:
        rows: user, gpu (tokens/s, above 0), concurrency, series, name, text (beside the point),
            first (bool: where the series begins, which is where its name stands), colour, ink,
            shape, best (bool: on the frontier), tip.

    """
    x_range = log_range(list(rows["user"]), below=0.4, above=0.08)
    y_range = log_range(list(rows["gpu"]), below=0.10, above=0.12)
    x = alt.X(
        "user:Q",
        title="output tokens/s of one user (1 / mean TPOT, log); more to the right",
        scale=log_scale(x_range),
        axis=alt.Axis(values=log_ticks(x_range), format=",~g"),
    )
    y = alt.Y(
        "gpu:Q",
        title="output tokens/s per GPU (log)",
        scale=log_scale(y_range),
        axis=alt.Axis(values=log_ticks(y_range), format=",~g"),
    )
    colour = alt.Color("colour:N", scale=None)
    base = alt.Chart(rows).encode(x=x, y=y)
    best = rows[rows["best"]]
    first = rows[rows["first"]]
    named = first.assign(text=first["name"] + " · " + first["text"])
    layers: list[Any] = [
        # A band behind the points: from one best condition to the next; nothing between was run.
        alt.Chart(best)
        .mark_line(color=theme.CONTEXT, strokeWidth=9, opacity=0.22)
        .encode(x=x, y=y, order="user:Q"),
        base.mark_line(strokeWidth=1.5).encode(
            color=colour, detail="series:N", order="concurrency:Q"
        ),
        base.mark_point(size=85).encode(
            color=colour,
            shape=alt.Shape("shape:N", scale=None),
            tooltip=[
                alt.Tooltip("name:N", title="configuration"),
                alt.Tooltip("concurrency:Q", title="requests in flight"),
                alt.Tooltip("tip:N", title="tokens/s"),
            ],
        ),
        *_texts(rows[~rows["first"]], x, y, "left"),
        *_texts(named, x, y, "right"),
    ]
    return theme.finish(alt.layer(*layers), height=_HEIGHT)


def _texts(rows: pd.DataFrame, x: alt.X, y: alt.Y, align: str) -> list[Any]:
    if rows.empty:
        return []
    ink = alt.Color("ink:N", scale=None)
    return theme.haloed(
        alt.Chart(rows).encode(x=x, y=y, text="text:N", color=ink),
        align=align,
        baseline="middle",
        dx=9 if align == "left" else -9,
        fontSize=theme.SMALL,
    )
