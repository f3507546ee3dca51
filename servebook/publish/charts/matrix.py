"""A table of texts as a picture: rows of settings, columns of configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme, words
from servebook.read.manifest import Configuration

__all__ = ["ROW_PX", "column_letters", "heads_of", "of_settings"]

ROW_PX = 28


def column_letters(n: int) -> int:
    """The letters of a line that each of ``n`` columns has room for at 400 px."""
    return 14 if n < 4 else 9


def heads_of(settings: Sequence[Configuration], every: Sequence[Configuration]) -> pd.DataFrame:
    """The heads of ``of_settings``: one per configuration, with the looks it has among all."""
    looks = theme.looks(every)
    room = column_letters(len(settings))
    return pd.DataFrame(
        {
            "column": range(len(settings)),
            "text": [words.wrapped(c.label, room) for c in settings],
            "colour": [looks[c.name].colour for c in settings],
            "ink": [looks[c.name].text for c in settings],
            "shape": [looks[c.name].shape for c in settings],
        }
    )


def of_settings(
    cells: pd.DataFrame, heads: pd.DataFrame, *, row_px: int = ROW_PX, bold_names: bool = True
) -> Any:
    """Cells with a text each; bold where the setting differs, a bar where it is a quantity.

    Args:
        cells: setting, column (index of the configuration), text, bold (bool), share (0 to 1:
            length of the bar behind the text; NaN for none), colour (of the bar).
        heads: column, text (may hold line breaks), colour, ink, shape: the configurations.
        row_px: height of a row; names of settings may hold line breaks where it is enough.
        bold_names: whether the name of a setting is bold where one of its cells is.

    """
    order = list(dict.fromkeys(cells["setting"]))
    bold = list(dict.fromkeys(cells.loc[cells["bold"] & bold_names, "setting"]))
    n = len(heads)
    x_scale = alt.Scale(domain=[0, n], nice=False)
    lines = 1 + int(heads["text"].str.count("\n").max())
    top = [f"head{i}" for i in range((lines * 15 + 22) // row_px + 1)]
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
            labelOffset=-7 * max(name.count("\n") for name in order),
            grid=False,
            ticks=False,
        ),
    )
    cells = cells.assign(dy=[-7 * str(t).count("\n") for t in cells["text"]])
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
            .mark_bar(opacity=0.3, height=min(row_px, ROW_PX) - 6)
            .encode(x=x, x2=alt.X2("bar_end:Q"), y=y, color=alt.Color("colour:N", scale=None))
        )
    for _, part in placed.groupby(["bold", "dy"], sort=True):
        heavy = bool(part["bold"].iloc[0])
        layers.append(
            alt.Chart(part)
            .mark_text(
                align="left",
                dx=4,
                dy=float(part["dy"].iloc[0]),
                lineHeight=13,
                baseline="middle",
                fontWeight="bold" if heavy else "normal",
                color=theme.INK if heavy else theme.MUTED,
            )
            .encode(x=x, y=y, text=alt.Text("text:N"))
        )
    layers += [
        head.mark_point(size=85, xOffset=8).encode(
            x=x,
            y=y,
            color=alt.Color("colour:N", scale=None),
            shape=alt.Shape("shape:N", scale=None),
        ),
        head.mark_text(
            align="left",
            dx=2,
            dy=12,
            baseline="top",
            fontWeight="bold" if n < 4 else "normal",  # bold heads touch on a phone
            fontSize=theme.SMALL if n < 4 else theme.SMALL - 1,
            lineHeight=15,
        ).encode(
            x=x,
            y=y,
            text=alt.Text("text:N"),
            color=alt.Color("ink:N", scale=None),
        ),
    ]
    return theme.finish(alt.layer(*layers), height=row_px * (len(order) + len(top)) + 16)
