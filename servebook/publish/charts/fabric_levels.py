"""How full the wire is: usual, peak and floor, zoomed and on the whole axis."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme

__all__ = ["ROW_PX", "levels"]

ROW_PX = 46
_GAP = 30


def levels(rows: pd.DataFrame, x_title: str, limit: float, full: float | None) -> Any:
    """One row per condition and direction: a bar (usual), an arrow (peak), a tick (floor).

    ``rows``: row (key, in the order to draw), label (above the bar), usual, peak, floor (in the
    unit of ``x_title``; peak and floor may be NaN), text (beside the peak), colour, tip.
    ``limit`` ends the zoomed axis; ``full`` that of the whole one (100 for %), None without.
    """
    width = theme.WIDTH - 40
    if full is None:
        return _panel(rows, x_title, limit, width, labelled=True)
    narrow = (width - _GAP) // 4
    return alt.hconcat(
        _panel(rows, x_title, limit, width - _GAP - narrow, labelled=True),
        _panel(rows, f"0 to {full:g} %", full, narrow, labelled=False),
        spacing=_GAP,
    )


def _panel(rows: pd.DataFrame, title: str, limit: float, width: int, *, labelled: bool) -> Any:
    order = rows["row"].tolist()
    base = alt.Chart(rows).encode(
        y=alt.Y("row:N", axis=None, sort=order, scale=alt.Scale(domain=order))
    )
    tooltip = [alt.Tooltip("label:N", title="condition"), alt.Tooltip("tip:N", title="values")]

    def x(field: str) -> alt.X:
        return alt.X(
            f"{field}:Q",
            title=title,
            scale=alt.Scale(domain=[0, limit], nice=False),
            axis=alt.Axis(
                grid=True, labelExpr="format(datum.value, '~g')", tickCount=6 if labelled else 3
            ),
        )

    layers = [
        base.mark_bar(height=10, yOffset=8).encode(
            x=x("usual"), color=alt.Color("colour:N", scale=None), tooltip=tooltip
        ),
        base.mark_tick(color=theme.INK, thickness=2, size=18, yOffset=8).encode(
            x=x("floor"), tooltip=tooltip
        ),
        base.mark_point(shape="triangle-right", size=70, color=theme.INK, yOffset=8).encode(
            x=x("peak"), tooltip=tooltip
        ),
    ]
    if labelled:
        layers += [
            base.mark_text(align="left", baseline="middle", dx=9, dy=8).encode(
                x=x("peak"), text="text:N"
            ),
            base.mark_text(align="left", baseline="bottom", dy=-1).encode(
                x=alt.value(2), text="label:N"
            ),
        ]
    return alt.layer(*layers).properties(width=width, height=ROW_PX * len(order))
