"""How often something happens over concurrency, against the share that a percentile can see."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.clear import clear_places, placed_at
from servebook.publish.charts.ends import end_column
from servebook.publish.charts.layout import (
    Range,
    counts_axis,
    label_room,
    log_range,
    log_scale,
    log_ticks,
)
from servebook.publish.text import say

__all__ = ["against_one_percent"]

_LINE = 0.01


def against_one_percent(
    points: pd.DataFrame,
    y_title: str,
    *,
    expected: pd.DataFrame | None = None,
    height: int = theme.HEIGHT,
) -> Any:
    """Frequencies over concurrency, log-log, above and below the 1 % line.

    Args:
        points: series, label (name, may hold line breaks), concurrency, share (above 0), low, high
            (NaN where no repeats), text (words beside the point), colour, ink, shape.
        y_title: title of the share axis.
        expected: series, concurrency, share: what a formula expects, as a dashed grey line.
        height: of the picture in px.

    """
    height = max(height, label_room(points.drop_duplicates("series")["label"]) + 60)
    x_range, x_ticks = counts_axis(list(points["concurrency"]))
    shares = list(points["share"]) + list(points["low"].dropna()) + list(points["high"].dropna())
    if expected is not None:
        shares += [s for s in expected["share"] if s > 0]
    y_range = log_range([*shares, 0.005, 0.02], 0.1, 0.12)
    y_range = (y_range[0], min(y_range[1], 1.3))
    x = alt.X(
        "concurrency:Q",
        title=say("shared.requests_in_flight_set_concurrency_log"),
        scale=log_scale(x_range, 2),
        axis=alt.Axis(values=x_ticks, format="~g", labelOverlap=False),
    )
    y = alt.Y(
        "share:Q",
        title=y_title,
        scale=log_scale(y_range),
        axis=alt.Axis(
            values=log_ticks(y_range), labelExpr="format(datum.value * 100, '~g') + ' %'"
        ),
    )
    line = alt.Chart(
        pd.DataFrame(
            [
                {
                    "share": 0.01,
                    "bottom": y_range[0],
                    "text": say("charts.frequency.against_one_percent.below_p99_sees"),
                }
            ]
        )
    )
    colour = alt.Color("colour:N", scale=None)
    layers: list[Any] = [
        line.mark_rect(color="#f1f1f1").encode(y=y, y2=alt.Y2("bottom:Q")),
        line.mark_rule(color=theme.INK, strokeWidth=1).encode(y=y),
        line.mark_text(
            align="right", baseline="bottom", dx=-6, dy=-5, color=theme.MUTED, fontStyle="italic"
        ).encode(
            x=alt.value("width"),
            y=alt.Y("bottom:Q"),
            text=alt.Text("text:N"),
        ),
    ]
    if expected is not None and len(expected):
        layers.append(
            alt.Chart(expected[expected["share"] > 0])
            .mark_line(strokeDash=[5, 4], strokeWidth=1.5, color=theme.CONTEXT)
            .encode(x=x, y=y, detail=alt.Detail("series:N"), order=alt.Order("concurrency:Q"))
        )
    base = alt.Chart(points).encode(x=x, y=y)
    ranges = points.dropna(subset=["low", "high"])
    ranges = ranges[(ranges["low"] < ranges["high"]) & (ranges["low"] > 0)]
    layers.append(
        base.mark_line(strokeWidth=1.5, opacity=0.5).encode(
            color=colour, detail=alt.Detail("series:N"), order=alt.Order("concurrency:Q")
        )
    )
    if len(ranges):
        layers.append(
            alt.Chart(ranges)
            .mark_rule(strokeWidth=7, opacity=0.35)
            .encode(x=x, y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), color=colour)
        )
    # At the right edge the words of a point would run into the name of its series: they join it.
    at_edge = points["concurrency"] == points["concurrency"].max()
    ends = points.sort_values("concurrency", kind="stable").drop_duplicates("series", keep="last")
    names = ends["label"] + ("\n" + ends["text"]).where(ends.index.isin(points.index[at_edge]), "")
    *leaders, at_right = end_column(
        ends.assign(label=names), x, y, "share", x_range[1], y_range, height
    )
    layers += leaders
    # Points that lie on one another and say the same say it once.
    close = points.assign(_at=points["share"].map(lambda share: f"{share:.1g}"))
    again = close.duplicated(["concurrency", "_at", "text", "ink"])
    texts = list(points["text"].where(~(at_edge | again), ""))
    placed = _placed(points.assign(text=texts), expected, x_range, y_range, height - 50)
    layers += [
        base.mark_point(size=90).encode(
            color=colour,
            shape=alt.Shape("shape:N", scale=None),
            tooltip=[
                alt.Tooltip(
                    "label:N", title=say("charts.frequency.against_one_percent.title_series")
                ),
                alt.Tooltip("concurrency:Q", title=say("shared.requests_in_flight")),
                alt.Tooltip("text:N", title=say("charts.frequency.against_one_percent.title_tail")),
            ],
        ),
    ]
    layers += theme.haloed(
        alt.Chart(placed).encode(
            x=x, y=y, text=alt.Text("text:N"), color=alt.Color("ink:N", scale=None)
        ),
        **placed_at(),
        fontSize=theme.SMALL,
    )
    layers.append(at_right)
    return theme.finish(alt.layer(*layers), height=height)


def _placed(
    points: pd.DataFrame, expected: pd.DataFrame | None, across: Range, inside: Range, height: int
) -> pd.DataFrame:
    """The points with dx, dy and align: words beside them, where no line runs."""

    def share(value: float, edges: Range) -> float:
        return math.log(value / edges[0]) / math.log(edges[1] / edges[0])

    def paths(of: pd.DataFrame) -> list[list[tuple[float, float]]]:
        of = of[of["share"] > 0].sort_values(["series", "concurrency"], kind="stable")
        return [
            [
                (share(x, across), 1 - share(y, inside))
                for x, y in zip(one["concurrency"], one["share"], strict=True)
            ]
            for _, one in of.groupby("series", sort=True)
        ]

    at = [
        (share(x, across), 1 - share(y, inside))
        for x, y in zip(points["concurrency"], points["share"], strict=True)
    ]
    lines = paths(points) + ([] if expected is None else paths(expected))
    rule = 1 - share(_LINE, inside)
    places = clear_places(at, list(points["text"]), lines, height, rules=[rule])
    return points.assign(
        **{key: [getattr(p, key) for p in places] for key in ("dx", "dy", "align")}
    )
