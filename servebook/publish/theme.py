"""The look of every chart: fonts, inks, and one colour and marker per configuration.

Importing the module registers and enables the Altair theme ``servebook``. Charts stand on a
light card in both themes of the page, so that the inks are dark whatever the reader prefers.
Colours are those of Okabe and Ito (Color Universal Design, 2008), which people with a colour
vision deficiency can tell apart; markers differ too. Text is never drawn in a light colour: it
stands beside a coloured mark and is dark itself (contrast 4.5 or more on white).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import altair as alt

__all__ = [
    "ALARM",
    "CONTEXT",
    "FONT",
    "GRID",
    "HEIGHT",
    "INK",
    "MUTED",
    "PALE",
    "PHASES",
    "PLAIN",
    "SMALL",
    "TEXT",
    "WIDTH",
    "Look",
    "Stated",
    "colours",
    "enable",
    "finish",
    "haloed",
    "looks",
]

WIDTH = 790  # px of the whole chart, labels and axes included
HEIGHT = 370

# Liberation Sans is what vl-convert bundles for SVG and PNG; Arial has the same widths.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
TEXT = 13  # px: at 400 px wide the page keeps the text size and narrows the plot
SMALL = 12

INK = "#222222"  # text and rules that carry meaning
MUTED = "#595959"  # axis titles, context text: contrast 7.0 on white
CONTEXT = "#8a8a8a"  # marks that are context, never text
GRID = "#e4e4e4"

# Marks that stand for no configuration take none of the colours below: a hue is a configuration.
PLAIN = "#3B3B3B"  # what is as it should be, or the first of two kinds
PALE = "#b8b8b8"  # the second of two kinds
ALARM = "#B2182B"  # what is not as it should be

# Hue by number of nodes, shade by the order within it.
_FAMILIES = (("#0072B2", "#56B4E9"), ("#D55E00", "#E69F00"), ("#009E73", "#7BCDB6"))
# For everything else: fixed order, strongest contrast first.
_ORDER = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B5B95", "#444444")
_SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")
# Text beside a mark in the mark's own hue, dark enough to be read (contrast >= 4.5 on white).
_DARK = {
    "#0072B2": "#005D91",
    "#56B4E9": "#1F6391",
    "#D55E00": "#A34800",
    "#E69F00": "#805800",
    "#009E73": "#00664A",
    "#7BCDB6": "#2C6B59",
    "#CC79A7": "#8F3F6B",
    "#6B5B95": "#55487A",
    "#444444": "#333333",
}

# Phases of a run behind a curve: tints that stay apart in grey, always labelled by name.
# No configuration has one of these: a tint names a workload only.
PHASES = {"prefill": "#F3EFDD", "decode": "#ECE7F4", "mixed": "#E3E9EC", "other": "#EEEEEE"}


class Stated(Protocol):
    """What the colours need to know of a configuration; None means "not stated"."""

    @property
    def name(self) -> str:
        """The configuration's name in the manifest."""
        ...

    @property
    def nodes(self) -> int | None:
        """How many nodes it runs on."""
        ...


@dataclass(frozen=True)
class Look:
    """How one configuration is drawn, everywhere on the page."""

    name: str
    colour: str  # of marks
    text: str  # of words beside them
    shape: str  # Vega symbol


def looks(configurations: Sequence[Stated]) -> dict[str, Look]:
    """One look per configuration, in manifest order.

    Where every configuration states its nodes, at least two counts differ and no count has more
    configurations than shades, hue tells the nodes and shade the order among equals (for the
    layouts of a one-against-two-nodes campaign that is one hue per deployment, one shade per
    layout). Otherwise a fixed order of distinct hues. Beyond its end colours repeat with other
    markers.
    """
    names = [c.name for c in configurations]
    nodes = [c.nodes for c in configurations]
    counts = sorted({n for n in nodes if n is not None})
    by_nodes = (
        None not in nodes
        and 2 <= len(counts) <= len(_FAMILIES)
        and all(nodes.count(n) <= len(_FAMILIES[i]) for i, n in enumerate(counts))
    )
    seen: dict[int | None, int] = {}
    result: dict[str, Look] = {}
    for index, (name, n) in enumerate(zip(names, nodes, strict=True)):
        if by_nodes and n is not None:
            colour = _FAMILIES[counts.index(n)][seen.get(n, 0)]
        else:
            colour = _ORDER[index % len(_ORDER)]
        seen[n] = seen.get(n, 0) + 1
        shape = _SHAPES[(index + 2 * (index // len(_ORDER))) % len(_SHAPES)]
        result[name] = Look(name, colour, _DARK[colour], shape)
    return result


def colours(field: str, pairs: Sequence[tuple[str, str]], *, channel: str = "color") -> Any:
    """An Altair colour channel that maps the values of ``field`` to fixed colours, no legend.

    ``pairs`` are (value, colour); ``channel`` is color, fill or stroke.
    """
    kind = {"color": alt.Color, "fill": alt.Fill, "stroke": alt.Stroke}[channel]
    return kind(
        f"{field}:N",
        scale=alt.Scale(domain=[p[0] for p in pairs], range=[p[1] for p in pairs]),
        legend=None,
    )


def finish(chart: Any, *, height: int | None = None, width: int | None = WIDTH) -> Any:
    """The chart at the page's width, axes and labels inside it.

    ``width`` is the whole width, not the plot's: with autosize "fit" a label at a line's end
    narrows the plot instead of running out of the picture, also after the page has set another
    width.
    """
    properties: dict[str, Any] = {
        "autosize": alt.AutoSizeParams(type="fit", contains="padding"),
    }
    if width is not None:
        properties["width"] = width
    if height is not None:
        properties["height"] = height
    return chart.properties(**properties)


def haloed(chart: Any, **mark: Any) -> list[Any]:
    """Two layers: the text of ``chart`` with a white edge below it, for words that cross a line.

    ``chart`` is an encoded chart without a mark; ``mark`` are the properties of ``mark_text``.
    """
    return [
        chart.mark_text(**mark, stroke="#ffffff", strokeWidth=4, strokeJoin="round", aria=False),
        chart.mark_text(**mark),
    ]


def _config() -> Any:
    axis = {
        "labelFont": FONT,
        "titleFont": FONT,
        "labelFontSize": SMALL,
        "titleFontSize": SMALL,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": MUTED,
        "domainColor": CONTEXT,
        "tickColor": CONTEXT,
        "gridColor": GRID,
        "titlePadding": 8,
        "labelPadding": 4,
    }
    return {
        "background": "#ffffff",
        "font": FONT,
        "padding": {"left": 4, "right": 8, "top": 8, "bottom": 4},
        "lineBreak": "\n",
        "customFormatTypes": False,
        "view": {"stroke": None, "continuousWidth": WIDTH, "continuousHeight": HEIGHT},
        "axis": axis,
        # From the left: a long title on a narrow plot then runs to the right, not out at both ends.
        # Ticks that would nearly touch ("500" and "1,000" on a phone) read as one number.
        "axisX": {
            "grid": False,
            "labelFlush": False,
            "labelSeparation": 5,
            "titleAnchor": "start",
        },
        "axisY": {"grid": True, "domain": False, "ticks": False},
        "legend": {"labelFont": FONT, "titleFont": FONT, "labelFontSize": SMALL},
        "header": {
            "labelFont": FONT,
            "titleFont": FONT,
            "labelFontSize": TEXT,
            "labelColor": INK,
            "labelFontWeight": "bold",
            "labelAnchor": "start",
        },
        "title": {
            "font": FONT,
            "fontSize": TEXT,
            "subtitleFont": FONT,
            "anchor": "start",
            "color": INK,
        },
        "text": {"font": FONT, "fontSize": SMALL, "color": INK},
        "line": {"strokeWidth": 2.5, "strokeJoin": "round", "strokeCap": "round"},
        "point": {"filled": True, "size": 80, "opacity": 1},
        "rule": {"color": CONTEXT},
        "range": {"category": list(_ORDER)},
    }


@alt.theme.register("servebook", enable=True)
def _theme() -> alt.theme.ThemeConfig:
    return alt.theme.ThemeConfig(config=_config())


def enable() -> None:
    """Makes ``servebook`` the active theme again, should another have been enabled since."""
    alt.theme.enable("servebook")
