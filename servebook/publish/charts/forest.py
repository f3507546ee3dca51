"""Ratios with their intervals around the line of 1, on a log axis; a bare dot has no interval."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import log_range, log_scale, log_ticks
from servebook.publish.charts.row_words import LINE_PX, in_lines, words_above, words_beside
from servebook.publish.text import say

__all__ = ["ROW_PX", "forest"]

ROW_PX = 46


def forest(rows: pd.DataFrame, x_title: str, *, margin: float | None = None) -> Any:
    """One row per ratio: its words above, a dot, its interval as a bar, its value beside it.

    A row without an interval has an open dot. The grey bar of a row is what repeats of one
    condition alone make of a ratio.

    Args:
        rows: row (key, in the order to draw), label (above the bar), ratio, low, high (NaN where
            no interval exists), noise_low, noise_high (NaN where not known), text, colour, ink.
        x_title: what is divided by what.
        margin: half-width of the band of equivalence, as a fraction (0.05: 1/1.05 to 1.05).

    """
    rows, lines = in_lines(rows)
    order = list(rows["row"])
    band = [] if margin is None else [1 / (1 + margin), 1 + margin]
    drawn = pd.concat([rows[c] for c in ("ratio", "low", "high", "noise_low", "noise_high")])
    # Right of the grey bar the value would stand far from a dot that lies left of it.
    left = rows[["ratio", "high"]].max(axis=1) < rows["noise_low"]
    x_range = log_range([*drawn.dropna(), 1.0, *band], 0.26 if left.any() else 0.12, 0.26)
    x = alt.X(
        "ratio:Q",
        title=x_title,
        scale=log_scale(x_range),
        axis=alt.Axis(
            values=log_ticks(x_range, 7), labelExpr="'×' + format(datum.value, '~g')", grid=True
        ),
    )
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))
    colour = alt.Color("colour:N", scale=None)
    layers: list[Any] = []
    if band:
        frame = pd.DataFrame([{"low": band[0], "high": band[1]}])
        layers.append(
            alt.Chart(frame)
            .mark_rect(color="#EDF3F7")
            .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
        )
    layers.append(
        alt.Chart(pd.DataFrame([{"one": 1.0}])).mark_rule(color=theme.INK).encode(x=alt.X("one:Q"))
    )
    base = alt.Chart(
        rows.assign(
            known=rows["low"].notna(),
            quiet=rows["noise_low"].isna(),
            end=rows[["ratio", "high", "noise_high"]].max(axis=1),
            begin=rows[["ratio", "low"]].min(axis=1),
            left=left,
        )
    )
    layers += [
        base.mark_rule(strokeWidth=9, opacity=0.45, color=theme.CONTEXT)
        .transform_filter("!datum.quiet")
        .encode(x=alt.X("noise_low:Q"), x2=alt.X2("noise_high:Q"), y=y),
        base.mark_rule(strokeWidth=3)
        .transform_filter("datum.known")
        .encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y, color=colour),
    ]
    tooltip = [
        alt.Tooltip("label:N", title=say("charts.forest.forest.title_ratio")),
        alt.Tooltip("text:N", title=say("charts.forest.forest.title_value")),
    ]
    layers += [
        base.mark_point(filled=filled, size=90, shape="circle", strokeWidth=2.5)
        .transform_filter("datum.known" if filled else "!datum.known")
        .encode(x=x, y=y, color=colour, tooltip=tooltip)
        for filled in (False, True)
    ]
    layers += words_above(base, y, lines=lines)
    layers += words_beside(base.transform_filter("!datum.left"), alt.X("end:Q"), y)
    before = base.transform_filter("datum.left")
    layers += words_beside(before, alt.X("begin:Q"), y, align="right")
    row_px = ROW_PX + LINE_PX * (lines - 1)
    return theme.finish(alt.layer(*layers), height=row_px * len(order) + 60)
