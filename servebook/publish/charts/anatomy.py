"""What stalls are made of: time lost against prompt tokens, and shares with a control beside."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.charts.layout import LINE_PX, label_positions
from servebook.publish.charts.row_words import words_above
from servebook.publish.text import say

__all__ = ["ROW_PX", "lost_over_tokens", "own_against_other"]

ROW_PX = 34


def lost_over_tokens(
    points: pd.DataFrame,
    lines: pd.DataFrame,
    unexplained: pd.DataFrame,
    *,
    height: int = theme.HEIGHT,
) -> Any:
    """Stalled steps: time lost over prompt tokens, a line and its spread per configuration.

    Args:
        points: series, tokens, lost_ms, n (steps that the point stands for), colour, shape, tip.
        lines: series, label, colour, ink, x_low, x_high, y_low, y_high (of the line at both),
            spread (half the height of the band around it).
        unexplained: lost_ms of steps without a cause, drawn at 0 tokens as open crosses.
        height: of the picture in px.

    """
    right = 1.04 * float(points["tokens"].max())
    values = [*points["lost_ms"], *lines["y_high"], *unexplained["lost_ms"], 0.0]
    low, high = min(values), 1.06 * max(values)
    x = alt.X(
        "tokens:Q",
        title=say("charts.anatomy.lost_over_tokens.title_prompt_tokens_prefilled"),
        scale=alt.Scale(domain=[-0.02 * right, right], nice=False),
        axis=alt.Axis(format=",.0f", tickCount=5),
    )
    y = alt.Y(
        "lost_ms:Q",
        title=say("charts.anatomy.lost_over_tokens.title_time_lost_stall"),
        scale=alt.Scale(domain=[low, high], nice=False),
    )
    colour = alt.Color("colour:N", scale=None)
    layers: list[Any] = []
    if len(lines):
        ends = pd.concat(
            [
                pd.DataFrame(
                    {
                        "series": lines["series"],
                        "colour": lines["colour"],
                        "tokens": lines[f"x_{end}"],
                        "lost_ms": lines[f"y_{end}"],
                        "below": (lines[f"y_{end}"] - lines["spread"]).clip(lower=low),
                        "above": (lines[f"y_{end}"] + lines["spread"]).clip(upper=high),
                    }
                )
                for end in ("low", "high")
            ]
        )
        base = alt.Chart(ends)
        layers += [
            base.mark_area(opacity=0.15).encode(
                x=x,
                y=alt.Y("below:Q"),
                y2=alt.Y2("above:Q"),
                color=colour,
                detail=alt.Detail("series:N"),
            ),
            base.mark_line(strokeWidth=2).encode(
                x=x, y=y, color=colour, detail=alt.Detail("series:N")
            ),
        ]
    layers.append(
        alt.Chart(points)
        .mark_point(opacity=0.7)
        .encode(
            x=x,
            y=y,
            color=colour,
            shape=alt.Shape("shape:N", scale=None),
            size=alt.Size(
                "n:Q",
                scale=alt.Scale(domain=[1, max(2, int(points["n"].max()))], range=[22, 220]),
                legend=None,
            ),
            tooltip=[
                alt.Tooltip(
                    "tip:N", title=say("charts.anatomy.lost_over_tokens.title_stalled_steps")
                )
            ],
        )
    )
    if len(unexplained):
        layers.append(
            alt.Chart(unexplained.assign(tokens=0, text="unexplained"))
            .mark_point(shape="cross", filled=False, size=70, color=theme.INK)
            .encode(
                x=x,
                y=y,
                tooltip=[
                    alt.Tooltip("text:N", title=say("charts.anatomy.lost_over_tokens.title_cause"))
                ],
            )
        )
    if len(lines):
        placed = lines.assign(
            edge=right,
            label_y=label_positions(
                list(lines["y_high"]), list(lines["label"]), (low, high), height - 50, log=False
            ),
        )
        text = alt.Chart(placed)
        layers += [
            # Dotted and pale: a leader is no data.
            text.mark_rule(
                strokeWidth=1, strokeDash=[1, 4], color=theme.CONTEXT, opacity=0.8
            ).encode(
                x=alt.X("x_high:Q"),
                x2=alt.X2("edge:Q"),
                y=alt.Y("y_high:Q"),
                y2=alt.Y2("label_y:Q"),
            ),
            text.mark_text(align="left", dx=6, baseline="middle", lineHeight=LINE_PX).encode(
                x=alt.X("edge:Q"),
                y=alt.Y("label_y:Q"),
                text=alt.Text("label:N"),
                color=alt.Color("ink:N", scale=None),
            ),
        ]
    return theme.finish(alt.layer(*layers), height=height)


def own_against_other(rows: pd.DataFrame, x_title: str) -> Any:
    """Per row a share (filled), its control (open) and what chance gives (a tick), 0 to 100 %.

    ``rows``: row (key, in the order to draw), label (above the row), own, other, chance (shares),
    colour, tip.
    """
    order = list(rows["row"])
    y = alt.Y("row:N", sort=order, axis=None, scale=alt.Scale(domain=order))

    def x(field: str) -> alt.X:
        return alt.X(
            f"{field}:Q",
            title=x_title,
            scale=alt.Scale(domain=[0, 1], nice=False),
            axis=alt.Axis(
                values=[0, 0.25, 0.5, 0.75, 1],
                labelExpr="format(datum.value * 100, '~g') + ' %'",
                grid=True,
                labelFlush=True,
            ),
        )

    colour = alt.Color("colour:N", scale=None)
    base = alt.Chart(rows)
    both = alt.Chart(rows.dropna(subset=["own", "other"]))
    tip = [
        alt.Tooltip("label:N", title=say("charts.anatomy.own_against_other.title_run")),
        alt.Tooltip("tip:N", title=say("charts.anatomy.own_against_other.title_long_steps")),
    ]
    layers = [
        both.mark_rule(strokeWidth=1.2, yOffset=8).encode(x=x("own"), x2=alt.X2("other:Q"), y=y),
        base.mark_tick(thickness=2, height=12, color=theme.CONTEXT, yOffset=8).encode(
            x=x("chance"), y=y
        ),
        base.mark_point(size=65, yOffset=8).encode(x=x("own"), y=y, color=colour, tooltip=tip),
        both.mark_point(size=60, yOffset=8, filled=True, fill="white", strokeWidth=2).encode(
            x=x("other"), y=y, stroke=alt.Stroke("colour:N", scale=None), tooltip=tip
        ),
        *words_above(base, y, dy=1),
    ]
    return theme.finish(alt.layer(*layers), height=ROW_PX * len(order) + 60)
