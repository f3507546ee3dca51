"""What left and what arrived: mirrored bars per node and workload."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.row_words import words_above
from servebook.publish.text import say

__all__ = ["balance"]

_ROW = 46


def balance(rows: pd.DataFrame, unit: str, limit: float) -> Any:
    """Bytes into the ports to the left, out of them to the right.

    ``rows``: row (key, in the order to draw), label (above the bar), received (negative), sent,
    colour, text (beside the right bar), tip; amounts in ``unit``. ``limit`` ends both sides.
    """
    order = rows["row"].tolist()
    y = alt.Y("row:N", axis=None, sort=order, scale=alt.Scale(domain=order))
    base = alt.Chart(rows).encode(y=y)
    tooltip = [
        alt.Tooltip("label:N", title=say("charts.fabric_balance.balance.title_condition")),
        alt.Tooltip("tip:N", title=say("charts.fabric_balance.balance.title_bytes")),
    ]

    def x(field: str) -> alt.X:
        return alt.X(
            f"{field}:Q",
            title=say("charts.fabric_balance.balance.title_ports_left_right", unit=unit),
            scale=alt.Scale(domain=[-limit, limit], nice=False),
            axis=alt.Axis(grid=True, labelExpr="format(abs(datum.value), '~g')", tickCount=7),
        )

    def bar(field: str, opacity: float) -> Any:
        return base.mark_bar(height=12, yOffset=8, opacity=opacity).encode(
            x=x(field), color=alt.Color("colour:N", scale=None), tooltip=tooltip
        )

    return theme.finish(
        alt.layer(
            bar("received", 0.55),
            bar("sent", 1.0),
            alt.Chart(pd.DataFrame([{"zero": 0.0}]))
            .mark_rule(color=theme.INK)
            .encode(x=alt.X("zero:Q")),
            base.mark_text(align="left", baseline="middle", dx=6, dy=8).encode(
                x=x("sent"), text=alt.Text("text:N")
            ),
            *words_above(base, y, dy=-1),
        ),
        height=_ROW * len(order) + 50,
    )
