"""Words of a row of a chart, readable over whatever rule or bar runs behind them."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.line_breaks import wrapped

__all__ = ["LETTERS", "LINE_PX", "in_lines", "words_above", "words_beside"]

#: So many letters of a row's words a phone has room for; a line more takes so many pixels.
LETTERS = 58
LINE_PX = 14


def _twice(base: Any, encoding: dict[str, Any], ink: Any, **look: Any) -> list[Any]:
    """The words with a white edge below themselves."""
    behind = base.mark_text(**look, stroke="#ffffff", strokeWidth=4, strokeJoin="round", aria=False)
    return [
        behind.encode(**encoding, color=alt.value("#ffffff")),
        base.mark_text(**look).encode(**encoding, color=ink),
    ]


def in_lines(rows: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Rows whose ``label`` is broken where a phone has no room for it, and the most lines of one.

    ``lines`` is how many each has.
    """
    labels = [wrapped(label, LETTERS) if len(label) > LETTERS else label for label in rows["label"]]
    lines = [1 + label.count("\n") for label in labels]
    return rows.assign(label=labels, lines=lines), max(lines, default=1)


def words_above(
    base: Any, y: alt.Y, *, dy: float = -10, whole: bool = False, lines: int = 1
) -> list[Any]:
    """Layers of the chart ``base``: ``label`` at the left edge, above the marks of the row.

    ``lines`` is the most lines that a label has (``in_lines``); its last one stands nearest.

    Where the plot is the ``whole`` picture, with no names at its right, words that a phone has no
    room for end in an ellipsis instead of being cut by the picture's edge.
    """
    encoding = {"x": alt.value(0), "y": y, "text": alt.Text("label:N")}
    look: dict[str, Any] = {"align": "left", "baseline": "bottom", "dy": dy}
    if whole:
        look["limit"] = alt.ExprRef("width + 8")
    if lines == 1:
        return _twice(base, encoding, alt.value(theme.INK), **look)
    # Words hang from their first line.
    layers: list[Any] = []
    for n in range(1, lines + 1):
        part = base.transform_filter(f"datum.lines == {n}")
        at = {**look, "dy": dy - LINE_PX * (n - 1)}
        layers += _twice(part, encoding, alt.value(theme.INK), **at)
    return layers


def words_beside(base: Any, x: alt.X, y: alt.Y, *, align: str = "left") -> list[Any]:
    """Layers of the chart ``base``: ``text`` beside where ``x`` says, in ``ink``.

    ``align`` is the end of the words that is at ``x``: "left" puts them to its right.
    """
    encoding = {"x": x, "y": y, "text": alt.Text("text:N")}
    shift = 9 if align == "left" else -9
    look = {"align": align, "dx": shift, "baseline": "middle", "fontWeight": "bold"}
    return _twice(base, encoding, alt.Color("ink:N", scale=None), **look)
