"""Median, mean and tail of one quantity per condition on a common log rule."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import log_range, log_scale, log_ticks
from servebook.publish.charts.row_words import words_above
from servebook.publish.text import say

__all__ = ["ROW_PX", "on_a_log_rule"]

ROW_PX = 44


def on_a_log_rule(rows: pd.DataFrame, x_title: str) -> Any:
    """One row per condition: a dot (median), a ring (mean), an arrow (tail), the factor beside it.

    Args:
        rows: row (key, in the order to draw), label (text above the rule), median, mean, tail
            (positive; mean may be NaN), text (words after the tail), colour, ink, tip.
        x_title: axis title with the unit and what the three marks are.

    """
    values = [*rows["median"], *rows["mean"].dropna(), *rows["tail"]]
    x_range = log_range(values, below=0.06, above=0.04)
    scale = log_scale(x_range)
    order = list(rows["row"])
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))
    colour = alt.Color("colour:N", scale=None)
    base = alt.Chart(rows).encode(y=y)

    def x(field: str) -> alt.X:
        return alt.X(
            f"{field}:Q",
            title=x_title,
            scale=scale,
            axis=alt.Axis(values=log_ticks(x_range, 8), format=",~g", grid=True),
        )

    tooltip = [
        alt.Tooltip("label:N", title=say("charts.tail.on_a_log_rule.title_condition")),
        alt.Tooltip("tip:N", title=say("charts.tail.on_a_log_rule.title_values")),
    ]
    # Few long gaps lift a mean above the p99.
    ends = alt.Chart(rows.assign(end=rows[["tail", "mean"]].max(axis=1))).encode(y=y)
    means = alt.Chart(rows.dropna(subset=["mean"])).encode(y=y)
    # A tail that is the ring itself has no arrow of its own.
    arrows = alt.Chart(rows[rows["tail"] != rows["mean"]]).encode(y=y)
    return theme.finish(
        alt.layer(
            base.mark_rule(strokeWidth=5, opacity=0.4).encode(
                x=x("median"), x2=alt.X2("tail:Q"), color=colour
            ),
            base.mark_point(size=90, shape="circle").encode(
                x=x("median"), color=colour, tooltip=tooltip
            ),
            means.mark_point(
                size=90, shape="circle", filled=True, fill="white", strokeWidth=2.5
            ).encode(x=x("mean"), stroke=alt.Stroke("colour:N", scale=None), tooltip=tooltip),
            arrows.mark_point(size=110, shape="triangle-right").encode(
                x=x("tail"), color=colour, tooltip=tooltip
            ),
            ends.mark_text(align="left", dx=11, baseline="middle").encode(
                x=x("end"),
                text=alt.Text("text:N"),
                color=alt.Color("ink:N", scale=None),
            ),
            *words_above(base, y, dy=-11),
        ),
        height=ROW_PX * len(rows) + 60,
    )
