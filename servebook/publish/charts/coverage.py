"""How often intervals cover, by method and number of runs, against what they promise."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.row_words import LINE_PX, in_lines, words_above

__all__ = ["against_promise"]

ROW_PX = 44
_ROOM = 0.05


def against_promise(dots: pd.DataFrame, promise: float, x_title: str) -> Any:
    """Dots per row on a percent axis; the promise as a rule.

    Args:
        dots: row (key, in the order to draw), label (above the row), share, colour, shape.
        promise: the nominal share.
        x_title: what is counted.

    """
    heads, lines = in_lines(dots.drop_duplicates("row"))
    order = list(heads["row"])
    low = min(float(dots["share"].min()), promise) - _ROOM
    scale = alt.Scale(domain=[low, 1.0], nice=False, zero=False)
    x = alt.X(
        "share:Q",
        title=x_title,
        scale=scale,
        axis=alt.Axis(
            values=[v / 100 for v in range(0, 101, 5) if v / 100 >= low],
            labelExpr="format(datum.value * 100, '~g') + ' %'",
            grid=True,
        ),
    )
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))
    return theme.finish(
        alt.layer(
            alt.Chart(pd.DataFrame([{"promise": promise}]))
            .mark_rule(color=theme.INK)
            .encode(x=alt.X("promise:Q", scale=scale)),
            alt.Chart(dots)
            .mark_point(size=90)
            .encode(
                x=x,
                y=y,
                color=alt.Color("colour:N", scale=None),
                shape=alt.Shape("shape:N", scale=None),
            ),
            *words_above(alt.Chart(heads), y, whole=True, lines=lines),
        ),
        height=(ROW_PX + LINE_PX * (lines - 1)) * len(order) + 60,
    )
