"""Relative differences around 0: dots per row, by definition, unexplained or in agreement.

Colours here are none of a configuration: a row may hold several.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.row_words import words_above
from servebook.publish.text import say

__all__ = ["VERDICTS", "around_zero"]

# verdict: (colour, text colour, marker)
VERDICTS = {
    "agrees": (theme.PLAIN, "#333333", "circle"),
    "differs by definition": ("#9a9a9a", "#595959", "diamond"),
    "unexplained": (theme.ALARM, "#8A1220", "triangle-up"),
}
ROW_PX = 26
_NAME_LETTERS = 24  # of a row: a longer one stands above it, not beside
_TALL_PX = 40


def around_zero(
    dots: pd.DataFrame, x_title: str, *, band: float | None = None, band_text: str = ""
) -> Any:
    """Dots per row on a symmetric log axis around 0.

    Args:
        dots: row (in the order to draw), deviation (fraction), verdict (a key of ``VERDICTS``),
            tip.
        x_title: what is compared with what.
        band: half-width (fraction) of the shaded band of agreement.
        band_text: what the band is.

    """
    order = list(dict.fromkeys(dots["row"]))
    styled = dots.assign(
        colour=[VERDICTS[v][0] for v in dots["verdict"]],
        shape=[VERDICTS[v][2] for v in dots["verdict"]],
    )
    constant = band if band else 0.001
    reach = max(float(dots["deviation"].abs().max()), 2 * constant) * 1.15
    marks = [0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
    ticks = [m for m in marks if constant <= m <= reach]
    x = alt.X(
        "deviation:Q",
        title=say("shared.log_beyond_g", x_title=x_title, constant=100 * constant),
        scale=alt.Scale(type="symlog", constant=constant, domain=[-reach, reach], nice=False),
        axis=alt.Axis(
            values=[-t for t in reversed(ticks)] + [0] + ticks,
            labelExpr="(datum.value > 0 ? '+' : '') + format(datum.value * 100, '~g') + ' %'",
            labelOverlap=True,
            grid=True,
        ),
    )
    long = max(map(len, order)) > _NAME_LETTERS
    y = alt.Y(
        "row:N",
        sort=order,
        title=None,
        scale=alt.Scale(domain=order),
        axis=None if long else alt.Axis(grid=False),
    )
    layers: list[Any] = []
    if band:
        frame = pd.DataFrame([{"low": -band, "high": band, "text": band_text}])
        layers.append(
            alt.Chart(frame)
            .mark_rect(color="#ececec")
            .encode(
                x=alt.X("low:Q"),
                x2=alt.X2("high:Q"),
                tooltip=[
                    alt.Tooltip("text:N", title=say("charts.deviations.around_zero.title_band"))
                ],
            )
        )
    layers += [
        alt.Chart(pd.DataFrame([{"zero": 0.0}]))
        .mark_rule(color=theme.INK)
        .encode(x=alt.X("zero:Q")),
        alt.Chart(styled)
        .mark_point(size=60, opacity=0.75, yOffset=9 if long else 0)
        .encode(
            x=x,
            y=y,
            color=alt.Color("colour:N", scale=None),
            shape=alt.Shape("shape:N", scale=None),
            tooltip=[
                alt.Tooltip("row:N", title=say("charts.deviations.around_zero.title_metric")),
                alt.Tooltip("tip:N", title=say("charts.deviations.around_zero.title_values")),
                alt.Tooltip("verdict:N"),
            ],
        ),
    ]
    if long:
        layers += words_above(alt.Chart(pd.DataFrame({"row": order, "label": order})), y, dy=-1)
    height = (_TALL_PX if long else ROW_PX) * len(order) + 55
    return theme.finish(alt.layer(*layers), height=height)
