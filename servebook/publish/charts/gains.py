"""What each step up in concurrency bought: the gain in throughput per doubling of the load."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import counts_axis, label_positions, log_scale
from servebook.publish.text import say

__all__ = ["per_doubling"]


def per_doubling(steps: pd.DataFrame, *, height: int = 240) -> Any:
    """Dots for the gain of each step, between "no gain" (x1) and "in full" (x2).

    Args:
        steps: middle (where on the concurrency axis the dot stands), concurrencies (text of the
            step), gain (throughput factor per doubling), text (label beside the dot), series,
            label, colour, ink, shape.
        height: of the picture in px.

    """
    top = max(2.15, float(steps["gain"].max()) * 1.05)
    bottom = min(0.75, float(steps["gain"].min()) * 0.95)
    x_range, _ = counts_axis(list(steps["middle"]))
    # Room at the right for the value beside the last dot.
    x_range = (x_range[0] * 0.9, x_range[1] * 1.4)
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
            values=[1, 1.25, 1.5, 1.75, 2], labelExpr="'×' + format(datum.value, '.2~f')"
        ),
    )
    bands = alt.Chart(pd.DataFrame([{"y": bottom, "y2": 1.0}]))
    lines = pd.DataFrame(
        [
            {"y": 2.0, "text": say("charts.gains.per_doubling.load")},
            {"y": 1.0, "text": say("charts.gains.per_doubling.gain")},
        ]
    )
    rules = alt.Chart(lines).encode(y=alt.Y("y:Q", scale=y_scale))
    colour = alt.Color("colour:N", scale=None)
    base = alt.Chart(steps).encode(x=x, y=y)
    placed = _labelled(steps, (bottom, top), height - 50)
    return theme.finish(
        alt.layer(
            bands.mark_rect(color="#f3f3f3").encode(y=alt.Y("y:Q", scale=y_scale), y2="y2:Q"),
            rules.mark_rule(color=theme.CONTEXT),
            # Right of the plot, where no value stands.
            rules.mark_text(
                align="left", baseline="middle", dx=6, color=theme.MUTED, fontStyle="italic"
            ).encode(x=alt.value("width"), text="text:N"),
            base.mark_line(strokeWidth=1.5, opacity=0.5).encode(
                color=colour, detail="series:N", order="middle:Q"
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
                    y=alt.Y("label_y:Q"),
                    text="text:N",
                    color=alt.Color("ink:N", scale=None),
                ),
                align="left",
                baseline="middle",
                dx=9,
            ),
        ),
        height=height,
    )


def _labelled(steps: pd.DataFrame, inside: tuple[float, float], height: int) -> pd.DataFrame:
    """The steps with label_y: labels of one step kept apart from one another."""
    parts = [
        part.assign(
            label_y=label_positions(
                [g + 0.04 * (inside[1] - inside[0]) for g in part["gain"]],
                list(part["text"]),
                inside,
                height,
                log=False,
            )
        )
        for _, part in steps.groupby("middle", sort=True)
    ]
    return pd.concat(parts, ignore_index=True)
