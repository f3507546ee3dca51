"""Measured cells of a grid: one line per layout over the deployments, factors along its edges."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import (
    LINE_PX,
    label_positions,
    log_range,
    log_scale,
    log_ticks,
)
from servebook.publish.text import say

__all__ = ["grid"]

_MARGIN = 1.05  # of a column: room for words beside the outer points
_EMPTY = "#f1f1f1"
_HIGH_PX = 400
_LOW_PX = 250


def grid(
    points: pd.DataFrame,
    columns: pd.DataFrame,
    along: pd.DataFrame,
    across: pd.DataFrame,
    y_title: str,
    height: int | None = None,
) -> Any:
    """Points per cell on a log axis; empty columns stand for cells that were not run.

    Args:
        points: column (0, 1, ...), value, series (key of a line), label (beside the point; may
            hold line breaks), colour, ink, shape, tip.
        columns: column, head (below the axis; may hold line breaks), empty (bool): nobody ran any
            cell of it, lacking (words in its dashed box; "" where every cell of it was run).
        along: column (real-valued, where the words stand), value, text: factors along the lines.
        across: column, low, high, middle, text: factors between points of one column.
        y_title: axis title with the unit.
        height: of the picture in px; by default lower where there is one step to show.

    """
    n = len(columns)
    height = height or (_LOW_PX if n == 2 and across.empty else _HIGH_PX)
    inside = log_range(list(points["value"]), below=0.14, above=0.14)
    x_scale = alt.Scale(domain=[-_MARGIN, n - 1 + _MARGIN], nice=False)
    x = alt.X("column:Q", scale=x_scale, axis=None)
    y = alt.Y(
        "value:Q",
        title=y_title,
        scale=log_scale(inside),
        axis=alt.Axis(values=log_ticks(inside), format="~s"),
    )
    colour = alt.Color("colour:N", scale=None)
    ink = alt.Color("ink:N", scale=None)
    placed = _beside(points, inside, height, n)
    layers: list[Any] = []
    layers += _empty_cells(columns, x_scale)
    layers.append(
        alt.Chart(points)
        .mark_line(strokeWidth=2.5, color=theme.CONTEXT)
        .encode(x=x, y=y, detail=alt.Detail("series:N"), order=alt.Order("column:Q"))
    )
    if len(across):
        base = alt.Chart(across)
        layers.append(
            base.mark_rule(strokeDash=[2, 3], color=theme.INK).encode(
                x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q")
            )
        )
        layers += _beside_rules(across, x, n)
    layers.append(
        alt.Chart(points)
        .mark_point(size=110)
        .encode(
            x=x,
            y=y,
            color=colour,
            shape=alt.Shape("shape:N", scale=None),
            tooltip=[
                alt.Tooltip("label:N", title=say("charts.cells.grid.title_cell")),
                alt.Tooltip("tip:N", title=say("charts.cells.grid.title_value")),
            ],
        )
    )
    for side, part in placed.groupby("side", sort=True):
        layers.append(
            alt.Chart(part)
            .mark_text(
                align="right" if side == "left" else "left",
                dx=-11 if side == "left" else 11,
                baseline="middle",
                lineHeight=LINE_PX,
            )
            .encode(x=x, y=alt.Y("label_y:Q"), text=alt.Text("label:N"), color=ink)
        )
    if len(along):
        layers.append(
            alt.Chart(along)
            .mark_text(
                fontWeight="bold", baseline="middle", color=theme.INK, lineHeight=LINE_PX,
                stroke="white", strokeWidth=5, strokeJoin="round",
            )
            .encode(x=x, y=y, text=alt.Text("text:N"))
        )  # fmt: skip
        layers.append(
            alt.Chart(along)
            .mark_text(fontWeight="bold", baseline="middle", color=theme.INK, lineHeight=LINE_PX)
            .encode(x=x, y=y, text=alt.Text("text:N"))
        )
    layers.append(
        alt.Chart(columns)
        .mark_text(baseline="top", dy=6, lineHeight=LINE_PX - 1, color=theme.INK)
        .encode(x=x, y=alt.value("height"), text=alt.Text("head:N"))
    )
    return theme.finish(alt.layer(*layers), height=height)


def _empty_cells(columns: pd.DataFrame, x_scale: alt.Scale) -> list[Any]:
    """Dashed boxes at the foot of the columns that hold cells that nobody ran, with the words."""
    lacking = columns[columns["lacking"] != ""]
    layers: list[Any] = []
    lines = lacking["lacking"].str.count("\n") + 1
    for (whole, n), part in lacking.groupby([lacking["empty"], lines], sort=True):
        room = LINE_PX * int(str(n)) + 8
        boxes = alt.Chart(part.assign(left=part["column"] - 0.42, right=part["column"] + 0.42))
        layers.append(
            boxes.mark_rect(fill=_EMPTY, stroke=theme.CONTEXT, strokeDash=[4, 3]).encode(
                x=alt.X("left:Q", scale=x_scale, axis=None),
                x2=alt.X2("right:Q"),
                y=alt.value(0 if whole else alt.expr(f"height - {room}")),
                y2=alt.value("height"),
            )
        )
        layers += theme.haloed(
            boxes.encode(
                x=alt.X("column:Q", scale=x_scale, axis=None),
                y=alt.value("height"),
                text=alt.Text("lacking:N"),
            ),
            baseline="top",
            dy=4 - room,
            lineHeight=LINE_PX,
            color=theme.MUTED,
        )
    return layers


def _beside(points: pd.DataFrame, inside: tuple[float, float], height: int, n: int) -> Any:
    """Labels left of the points in the left half, right of the others, moved apart."""
    parts = []
    for column in sorted(set(points["column"])):
        part = points[points["column"] == column]
        y = label_positions(list(part["value"]), list(part["label"]), inside, height - 70)
        parts.append(part.assign(label_y=y, side="left" if column * 2 < n - 1 else "right"))
    return pd.concat(parts)


def _beside_rules(across: pd.DataFrame, x: alt.X, n: int) -> list[Any]:
    layers = []
    for left, part in across.groupby(across["column"] * 2 < n - 1, sort=True):
        layers.append(
            alt.Chart(part)
            .mark_text(
                align="left" if left else "right",
                dx=7 if left else -7,
                baseline="middle",
                fontWeight="bold",
                color=theme.INK,
                lineHeight=LINE_PX,
            )
            .encode(x=x, y=alt.Y("middle:Q"), text=alt.Text("text:N"))
        )
    return layers
