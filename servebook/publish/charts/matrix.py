"""A table of texts as a picture: rows of settings, columns of configurations."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme

__all__ = ["ROW_PX", "of_settings"]

ROW_PX = 26


def of_settings(cells: pd.DataFrame, heads: pd.DataFrame) -> Any:
    """Cells with a text each; bold where the setting differs, a bar where it is a quantity.

    Args:
        cells: setting, column (index of the configuration), text, bold (bool), share (0 to 1:
            length of the bar behind the text; NaN for none), colour (of the bar).
        heads: column, text (may hold line breaks), colour, ink, shape: the configurations.

    """
    order = list(dict.fromkeys(cells["setting"]))
    bold = list(dict.fromkeys(cells.loc[cells["bold"], "setting"]))
    n = len(heads)
    x_scale = alt.Scale(domain=[0, n], nice=False)
    lines = 1 + int(heads["text"].str.count("\n").max())
    top = [f"head{i}" for i in range((lines * 15 + 22) // ROW_PX + 1)]
    weights = " || ".join(f"datum.value == {name!r}" for name in bold) or "false"
    blank = " || ".join(f"datum.value == {name!r}" for name in top)
    y = alt.Y(
        "setting:N",
        title=None,
        sort=[*top, *order],
        scale=alt.Scale(domain=[*top, *order]),
        axis=alt.Axis(
            labelExpr=f"{blank} ? '' : datum.label",
            labelFontWeight={"condition": {"test": weights, "value": "bold"}, "value": "normal"},
            labelLimit=170,
            grid=False,
            ticks=False,
        ),
    )
    placed = cells.assign(
        left=cells["column"] + 0.04,
        bar_end=cells["column"] + 0.04 + 0.9 * cells["share"],
    )
    head = alt.Chart(heads.assign(setting=top[0], left=heads["column"] + 0.04))
    x = alt.X("left:Q", scale=x_scale, axis=None)
    layers: list[Any] = []
    if placed["bar_end"].notna().any():
        layers.append(
            alt.Chart(placed.dropna(subset=["bar_end"]))
            .mark_bar(opacity=0.3, height=ROW_PX - 6)
            .encode(x=x, x2="bar_end:Q", y=y, color=alt.Color("colour:N", scale=None))
        )
    for weight in (False, True):
        part = placed[placed["bold"] == weight]
        if len(part):
            layers.append(
                alt.Chart(part)
                .mark_text(
                    align="left",
                    dx=4,
                    baseline="middle",
                    fontWeight="bold" if weight else "normal",
                    color=theme.INK if weight else theme.MUTED,
                )
                .encode(x=x, y=y, text="text:N")
            )
    layers += [
        head.mark_point(size=85, xOffset=8).encode(
            x=x,
            y=y,
            color=alt.Color("colour:N", scale=None),
            shape=alt.Shape("shape:N", scale=None),
        ),
        head.mark_text(
            align="left", dx=2, dy=12, baseline="top", fontWeight="bold", lineHeight=15
        ).encode(x=x, y=y, text="text:N", color=alt.Color("ink:N", scale=None)),
    ]
    return theme.finish(alt.layer(*layers), height=ROW_PX * (len(order) + len(top)) + 16)
