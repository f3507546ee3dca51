"""What each step up in concurrency bought: the gain in throughput per doubling of the load."""

from __future__ import annotations

import json
import math
from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.clear import clear_places, placed_at
from servebook.publish.charts.ends import end_column
from servebook.publish.charts.layout import Range, counts_axis, label_room, log_scale
from servebook.publish.charts.lines import DASHES
from servebook.publish.text import say

__all__ = ["per_doubling"]


def per_doubling(steps: pd.DataFrame, *, height: int = 240) -> Any:
    """Dots for the gain of each step, between "no gain" (x1) and "in full" (x2).

    Args:
        steps: middle (where on the concurrency axis the dot stands), concurrencies (text of the
            step), gain (throughput factor per doubling), text (label beside the dot), series,
            label (of the series, in one line), name (the same at the line's end, may hold line
            breaks), colour, ink, shape, dash (index into ``DASHES``).
        height: of the picture in px; names that need more get it.

    """
    top = max(2.15, float(steps["gain"].max()) * 1.05)
    least = float(steps["gain"].min())
    # Where throughput fell, the axis reaches the tick below.
    bottom = 0.75 if least > 0.79 else math.floor(2 * least) / 2 - 0.04
    x_range, _ = counts_axis(list(steps["middle"]))
    # Room at the right for the value beside the last dot, on a phone as well.
    x_range = (x_range[0] * 0.84, x_range[1] * 1.7)
    names = steps.drop_duplicates("middle").sort_values("middle", kind="stable")
    expression = " : ".join(
        f"abs(datum.value - {m:.6g}) < 1e-3 * datum.value ? '{c}'"
        for m, c in zip(names["middle"], names["concurrencies"], strict=True)
    )
    x = alt.X(
        "middle:Q",
        title=say("charts.gains.per_doubling.title_step_requests_flight"),
        scale=log_scale(x_range, 2),
        axis=alt.Axis(
            values=[float(f"{m:.6g}") for m in names["middle"]],
            labelExpr=f"{expression} : ''",
            labelOverlap=True,
        ),
    )
    y_scale = alt.Scale(domain=[bottom, top], nice=False, zero=False)
    y = alt.Y(
        "gain:Q",
        title=say("charts.gains.per_doubling.title_gain_doubling_load"),
        scale=y_scale,
        axis=alt.Axis(
            values=[t / 2 for t in range(1, 7) if bottom <= t / 2 <= top],
            labelExpr=_named_levels(),
        ),
    )
    bands = alt.Chart(pd.DataFrame([{"y": bottom, "y2": 1.0}]))
    rules = alt.Chart(pd.DataFrame({"y": [2.0, 1.0]})).encode(y=alt.Y("y:Q", scale=y_scale))
    colour = alt.Color("colour:N", scale=None)
    base = alt.Chart(steps).encode(x=x, y=y)
    ends = steps.sort_values(["series", "middle"], kind="stable").drop_duplicates(
        "series", keep="last"
    )
    ends = ends.assign(label=ends["name"])[["middle", "gain", "label", "ink"]]
    height = max(height, label_room(ends["label"]) + 60)
    placed = _labelled(steps, x_range, (bottom, top), height - 50)
    *leaders, named = end_column(
        ends, x, y, "gain", x_range[1], (bottom, top), height, along="middle", log=False
    )
    return theme.finish(
        alt.layer(
            bands.mark_rect(color="#f3f3f3").encode(
                y=alt.Y("y:Q", scale=y_scale), y2=alt.Y2("y2:Q")
            ),
            rules.mark_rule(color=theme.CONTEXT),
            *leaders,
            named,
            base.mark_line(strokeWidth=1.5, opacity=0.5).encode(
                color=colour,
                strokeDash=_dashes(steps.drop_duplicates("series")),
                detail=alt.Detail("series:N"),
                order=alt.Order("middle:Q"),
            ),
            base.mark_point(size=85).encode(
                color=colour,
                shape=alt.Shape("shape:N", scale=None),
                tooltip=[
                    alt.Tooltip("label:N", title=say("charts.gains.per_doubling.title_series")),
                    alt.Tooltip(
                        "concurrencies:N", title=say("charts.gains.per_doubling.title_step")
                    ),
                    alt.Tooltip(
                        "text:N", title=say("charts.gains.per_doubling.title_gain_doubling")
                    ),
                ],
            ),
            *theme.haloed(
                alt.Chart(placed).encode(
                    x=x,
                    y=y,
                    text=alt.Text("text:N"),
                    color=alt.Color("ink:N", scale=None),
                ),
                **placed_at(),
            ),
        ),
        height=height,
    )


def _named_levels() -> str:
    """The expression of the axis' labels: the factors, "no gain" and "as the load" below theirs."""
    names = {1: say("charts.gains.per_doubling.gain"), 2: say("charts.gains.per_doubling.load")}
    cases = [f"datum.value == {at} ? ['×{at}', {json.dumps(text)}]" for at, text in names.items()]
    return " : ".join([*cases, "'×' + format(datum.value, '.2~f')"])


def _dashes(looks: pd.DataFrame) -> alt.StrokeDash:
    """Series of one configuration, which share its colour, told apart by their lines."""
    return alt.StrokeDash(
        "series:N",
        scale=alt.Scale(
            domain=list(looks["series"]),
            range=[list(DASHES[int(d) % len(DASHES)]) for d in looks["dash"]],
        ),
        legend=None,
    )


def _labelled(steps: pd.DataFrame, across: Range, inside: Range, height: int) -> pd.DataFrame:
    """The steps with dx, dy and align: words beside the points, where no line or level runs."""
    right = math.log(across[1] / across[0])
    at = [
        (math.log(x / across[0]) / right, (inside[1] - y) / (inside[1] - inside[0]))
        for x, y in zip(steps["middle"], steps["gain"], strict=True)
    ]
    points = pd.Series(at, index=steps.index)
    lines = [
        list(points[part.sort_values("middle", kind="stable").index])
        for _, part in steps.groupby("series", sort=True)
    ]
    rules = [(inside[1] - level) / (inside[1] - inside[0]) for level in (1.0, 2.0)]
    places = clear_places(at, list(steps["text"]), lines, height, rules=rules)
    return steps.assign(**{key: [getattr(p, key) for p in places] for key in ("dx", "dy", "align")})
