"""Link bytes per token: gross and net of idle, a dot per run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import Range, log_range, log_scale, log_ticks
from servebook.publish.charts.row_words import words_above
from servebook.publish.text import say

__all__ = ["per_token"]

_ROW = 46
#: A tick with its own unit: rows may differ by orders of magnitude.
_BYTES = "replace(format(datum.value, '~s'), regexp('([kMGTP]?)$'), ' $1B')"


def per_token(dots: pd.DataFrame, rows: pd.DataFrame, x_title: str) -> Any:
    """One row per condition; a ring per run for gross, a dot for net, a tick at the total's value.

    ``dots``: row, kind ("gross" or "net"), value (positive), colour, tip. ``rows``: row (in the
    order to draw), label (above), total (of the row, NaN where unknown), text. Values are bytes.
    """
    order = rows["row"].tolist()
    reach = log_range([*dots["value"], *rows["total"].dropna()], above=0.5)
    y = alt.Y("row:N", axis=None, sort=order, scale=alt.Scale(domain=order))

    def x(field: str) -> alt.X:
        return alt.X(
            f"{field}:Q",
            title=x_title,
            scale=log_scale(reach),
            axis=alt.Axis(values=log_ticks(reach, 8), labelExpr=_BYTES, grid=True),
        )

    tooltip = [alt.Tooltip("tip:N", title=say("charts.fabric_tokens.per_token.title"))]
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
            *_beside(dots, rows, reach, x, y),
            *words_above(alt.Chart(rows), y, dy=-1),
        ),
        height=_ROW * len(order) + 50,
    )


def _beside(
    dots: pd.DataFrame,
    rows: pd.DataFrame,
    reach: Range,
    x: Callable[[str], alt.X],
    y: alt.Y,
) -> list[Any]:
    """The words of each row: right of its dots, or left of them where the right has less room."""
    ends = dots.groupby("row")["value"].agg(["min", "max"])
    placed = rows.merge(ends, left_on="row", right_index=True)
    right = reach[1] / placed["max"] >= placed["min"] / reach[0]
    layers: list[Any] = []
    for at, align, part in (("max", "left", placed[right]), ("min", "right", placed[~right])):
        if len(part):
            layers += theme.haloed(
                alt.Chart(part.assign(at=part[at])).encode(x=x("at"), y=y, text=alt.Text("text:N")),
                align=align,
                baseline="middle",
                dx=10 if align == "left" else -10,
                dy=8,
            )
    return layers
