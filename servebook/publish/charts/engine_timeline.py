"""A run as lanes over time: what each request in flight waited for, and what stopped them all."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme

__all__ = ["timeline"]

_LANE_PX = 17


def timeline(
    blocks: pd.DataFrame,
    kinds: list[tuple[str, str]],
    span: tuple[float, float],
    n_lanes: int,
    remark: tuple[float, str],
) -> Any:
    """Lanes from above to below over seconds.

    Args:
        blocks: kind, a and b (upper and lower edge in lanes: lane 3 is from 3 to 4), t0_s, t1_s, in
            the order to draw.
        kinds: (kind, colour) in the order of the legend.
        span: first and last second.
        n_lanes: how many lanes there are.
        remark: a second, and the words above the lanes there.

    """
    x = alt.X(
        "t0_s:Q",
        title="seconds since the run's first request",
        scale=alt.Scale(domain=list(span), nice=False),
        axis=alt.Axis(format="~g", tickCount=8),
    )
    # A line of room above the lanes for the remark.
    room = 18 / _LANE_PX
    y = alt.Y(
        "a:Q",
        title="requests in flight, a lane each",
        scale=alt.Scale(domain=[n_lanes, -room], nice=False),
        axis=alt.Axis(labels=False, grid=False),
    )
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=[k for k, _ in kinds], range=[c for _, c in kinds]),
        legend=alt.Legend(
            title=None, orient="top", direction="horizontal", symbolType="square", columns=4
        ),
    )
    rules = pd.DataFrame({"a": range(1, n_lanes)})
    # The arrow stands at its moment, the words on the side that has room.
    late = remark[0] > span[0] + 0.55 * (span[1] - span[0])
    text = f"{remark[1]} ▼" if late else f"▼ {remark[1]}"
    word = alt.Chart(pd.DataFrame([{"t0_s": remark[0], "a": 0, "text": text}]))
    layers = [
        alt.Chart(blocks)
        .mark_rect(aria=False)
        .encode(x=x, x2="t1_s:Q", y=y, y2="b:Q", color=colour),
        alt.Chart(rules)
        .mark_rule(color="#ffffff", strokeWidth=2, aria=False)
        .encode(y=alt.Y("a:Q")),
        word.mark_text(
            align="right" if late else "left",
            dx=5 if late else -5,
            baseline="bottom",
            dy=-3,
            color=theme.INK,
        ).encode(x=alt.X("t0_s:Q"), y=alt.Y("a:Q"), text="text:N"),
    ]
    return theme.finish(alt.layer(*layers), height=_LANE_PX * n_lanes + 110)
