"""Printed figures against computed ones: a dot each, on a scale of its own tolerance."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.text import say

__all__ = ["KINDS", "ROW_PX", "VERDICTS", "within_tolerance"]

ROW_PX = 26
# verdict: colour; the markers tell the kind
VERDICTS = {"ok": theme.PLAIN, "off": theme.ALARM}
KINDS = {"measured": "circle", "derived": "diamond", "model": "square", "input": "cross"}
_LEAST_REACH = 1.5
_TICKS = (1, 3, 10, 30, 100, 300, 1000)


def within_tolerance(dots: pd.DataFrame) -> Any:
    """One row per section; the shaded band from -1 to 1 is what counts as met.

    Args:
        dots: row (section, in the order to draw), share (of the tolerance, signed), verdict (a
            key of ``VERDICTS``), kind (a key of ``KINDS``), id, tip.

    """
    order = list(dict.fromkeys(dots["row"]))
    styled = dots.assign(
        colour=[VERDICTS[v] for v in dots["verdict"]], shape=[KINDS[k] for k in dots["kind"]]
    )
    reach = max(float(dots["share"].abs().max()) * 1.15, _LEAST_REACH)
    ticks = [t for t in _TICKS if t <= reach]
    x = alt.X(
        "share:Q",
        title=say("charts.ledger.within_tolerance.title_computed_minus_printed"),
        scale=alt.Scale(type="symlog", constant=1, domain=[-reach, reach], nice=False),
        axis=alt.Axis(
            values=[*(-t for t in reversed(ticks)), 0, *ticks],
            labelExpr="(datum.value > 0 ? '+' : '') + format(datum.value, '~g')",
            grid=True,
        ),
    )
    band = pd.DataFrame(
        [{"low": -1.0, "high": 1.0, "text": say("charts.ledger.within_tolerance.text")}]
    )
    chart = alt.layer(
        alt.Chart(band)
        .mark_rect(color="#DCEBF5")
        .encode(
            x=alt.X("low:Q"),
            x2=alt.X2("high:Q"),
            tooltip=[alt.Tooltip("text:N", title=say("charts.ledger.within_tolerance.title_band"))],
        ),
        alt.Chart(pd.DataFrame([{"zero": 0.0}]))
        .mark_rule(color=theme.INK)
        .encode(x=alt.X("zero:Q")),
        alt.Chart(styled)
        .mark_point(size=55, opacity=0.55)
        .encode(
            x=x,
            y=alt.Y(
                "row:N",
                sort=order,
                title=None,
                scale=alt.Scale(domain=order),
                axis=alt.Axis(grid=False, labelLimit=230),
            ),
            color=alt.Color("colour:N", scale=None),
            shape=alt.Shape("shape:N", scale=None),
            tooltip=[
                alt.Tooltip("id:N", title=say("charts.ledger.within_tolerance.title_figure")),
                alt.Tooltip("tip:N", title=say("charts.ledger.within_tolerance.title_values")),
                alt.Tooltip("kind:N"),
                alt.Tooltip("verdict:N"),
            ],
        ),
    )
    return theme.finish(chart, height=ROW_PX * len(order) + 60)
