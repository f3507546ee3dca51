"""Parts of a whole: one bar of 100 % per row, its parts side by side."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.row_words import LINE_PX, in_lines, words_above
from servebook.publish.text import say

__all__ = ["ROW_PX", "of_a_whole"]

ROW_PX = 38
_BAR_PX = 14.44


def of_a_whole(parts: pd.DataFrame, x_title: str) -> Any:
    """One bar per row, from 0 to 100 %.

    Args:
        parts: row (key, in the order to draw), label (text above the bar), part, start, end (shares
            from 0 to 1), colour, tip.
        x_title: what the whole is.

    """
    order = list(dict.fromkeys(parts["row"]))
    heads, lines = in_lines(parts.drop_duplicates("row"))
    row_px = ROW_PX + LINE_PX * (lines - 1)
    # A row that is higher for its words has no thicker bar, which would reach into them.
    inner = 1 - _BAR_PX / row_px
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order, paddingInner=inner))
    x = alt.X(
        "start:Q",
        title=x_title,
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(
            values=[0, 0.25, 0.5, 0.75, 1],
            labelExpr="format(datum.value * 100, '~g') + ' %'",
            grid=False,
            labelFlush=True,
        ),
    )
    head = alt.Chart(heads).encode(y=y)
    return theme.finish(
        alt.layer(
            alt.Chart(parts)
            .mark_bar(stroke="white", strokeWidth=1)
            .encode(
                x=x,
                x2=alt.X2("end:Q"),
                y=y,
                color=alt.Color("colour:N", scale=None),
                tooltip=[
                    alt.Tooltip("label:N", title=say("charts.shares.of_a_whole.title_run")),
                    alt.Tooltip("part:N"),
                    alt.Tooltip("tip:N", title=say("charts.shares.of_a_whole.title_value")),
                ],
            ),
            *words_above(head, y, dy=-9, whole=True, lines=lines),
        ),
        height=row_px * len(order) + 60,
    )
