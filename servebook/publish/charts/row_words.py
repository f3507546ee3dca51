"""Words of a row of a chart, readable over whatever rule or bar runs behind them."""

from __future__ import annotations

from typing import Any

import altair as alt

from servebook.publish import theme

__all__ = ["words_above", "words_beside"]


def _twice(base: Any, encoding: dict[str, Any], ink: Any, **look: Any) -> list[Any]:
    """The words with a white edge below themselves."""
    behind = base.mark_text(**look, stroke="#ffffff", strokeWidth=4, strokeJoin="round", aria=False)
    return [
        behind.encode(**encoding, color=alt.value("#ffffff")),
        base.mark_text(**look).encode(**encoding, color=ink),
    ]


def words_above(base: Any, y: alt.Y, *, dy: float = -10, whole: bool = False) -> list[Any]:
    """Layers of the chart ``base``: ``label`` at the left edge, above the marks of the row.

    Where the plot is the ``whole`` picture, with no names at its right, words that a phone has no
    room for end in an ellipsis instead of being cut by the picture's edge.
    """
    encoding = {"x": alt.value(0), "y": y, "text": alt.Text("label:N")}
    look: dict[str, Any] = {"align": "left", "baseline": "bottom", "dy": dy}
    if whole:
        look["limit"] = alt.ExprRef("width + 8")
    return _twice(base, encoding, alt.value(theme.INK), **look)


def words_beside(base: Any, x: alt.X, y: alt.Y, *, align: str = "left") -> list[Any]:
    """Layers of the chart ``base``: ``text`` beside where ``x`` says, in ``ink``.

    ``align`` is the end of the words that is at ``x``: "left" puts them to its right.
    """
    encoding = {"x": x, "y": y, "text": alt.Text("text:N")}
    shift = 9 if align == "left" else -9
    look = {"align": align, "dx": shift, "baseline": "middle", "fontWeight": "bold"}
    return _twice(base, encoding, alt.Color("ink:N", scale=None), **look)
