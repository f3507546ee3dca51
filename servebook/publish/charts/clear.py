"""Words beside points, where no line runs through them.

Own code: Vega-Lite has no transform that places labels, and Vega's works on its own scene only. A
word has twelve places around its point, four of them further away. Each is held against the lines,
the rules, the other points and the words placed before, on a wide plot and on a phone's, and the
one that meets the least is taken. Layout only: nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import altair as alt

from servebook.publish.charts.layout import LETTER_PX

__all__ = ["Place", "clear_places", "placed_at"]

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom

#: The widths of a plot without the names at its right: on a wide page and on a phone.
_WIDTHS = (600.0, 190.0)
_HALF_PX = 8.0  # half the height of a word, with room above and below
_MARK_PX = 6.0  # half the size of a point
#: What it costs that a word meets a line, a point, another word, or the plot's edge.
_LINE, _MARK, _WORD, _EDGE = 10.0, 18.0, 60.0, 100.0
_ORDER = 30.0  # that it stands above the word of a point which lies above its own
_LATER, _FAR = 0.6, 16.0  # and that a place is the next best, or further away


@dataclass(frozen=True)
class Place:
    """Where a word stands from its point: its anchor in pixels, and which end of it is there."""

    dx: float
    dy: float
    align: str


#: In the order in which they are read best.
_PLACES = (
    Place(7, -9, "left"),
    Place(0, -15, "center"),
    Place(9, 0, "left"),
    Place(7, 10, "left"),
    Place(0, 16, "center"),
    Place(-7, -9, "right"),
    Place(-7, 10, "right"),
    Place(-9, 0, "right"),
    Place(8, -24, "left"),
    Place(8, 25, "left"),
    Place(-8, -24, "right"),
    Place(-8, 25, "right"),
)


def _box(at: Point, place: Place, text: str) -> Box:
    wide = LETTER_PX * len(text)
    left = at[0] + place.dx - {"left": 0.0, "center": wide / 2, "right": wide}[place.align]
    middle = at[1] + place.dy
    return (left, middle - _HALF_PX, left + wide, middle + _HALF_PX)


def _meets(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _crosses(start: Point, end: Point, box: Box) -> bool:
    """Whether the line from ``start`` to ``end`` runs through the box (Liang and Barsky's rule)."""
    low, high = 0.0, 1.0
    for axis in (0, 1):
        step = end[axis] - start[axis]
        for edge, sign in ((box[axis], 1.0), (box[axis + 2], -1.0)):
            room = sign * (start[axis] - edge)
            speed = sign * step
            if speed == 0:
                if room < 0:
                    return False
            elif speed > 0:
                low = max(low, -room / speed)
            else:
                high = min(high, -room / speed)
    return low < high


def clear_places(
    points: Sequence[Point],
    texts: Sequence[str],
    lines: Iterable[Sequence[Point]],
    height: float,
    *,
    rules: Sequence[float] = (),
    words: Sequence[tuple[Point, Place, str]] = (),
) -> list[Place]:
    """Where each of ``texts`` stands beside its point; the same input gives the same places.

    Args:
        points: of the words, as shares of the plot: from its left edge, and from its top.
        texts: one line each; an empty one takes no room.
        lines: the chart's lines, each through points like those above.
        height: of the plot in px.
        rules: heights of level rules that run across the whole plot, as shares from its top.
        words: what stands there already: point, place and text of each.

    """
    plot = _Plot(points, texts, height, [*lines, *([(0.0, y), (1.0, y)] for y in rules)], words)
    order = sorted((n for n in range(len(points)) if texts[n]), key=lambda n: (points[n], n))
    for _, group in groupby(order, key=lambda n: points[n][0]):
        below_one_another = list(group)
        # Whichever comes first has the choice: from above or from below, as meets less.
        down, up = (plot.tried(part) for part in (below_one_another, below_one_another[::-1]))
        plot.put(down[1] if down[0] <= up[0] else up[1])
    return [plot.placed.get(n, _PLACES[0]) for n in range(len(points))]


class _Plot:
    """A plot's lines and points, and the words that stand there by now."""

    def __init__(
        self,
        points: Sequence[Point],
        texts: Sequence[str],
        height: float,
        lines: Iterable[Sequence[Point]],
        words: Sequence[tuple[Point, Place, str]],
    ) -> None:
        self.texts = texts
        self.placed: dict[int, Place] = {}
        self.points = {w: [(x * w, y * height) for x, y in points] for w in _WIDTHS}
        paths = [list(line) for line in lines]
        self.steps = {
            w: [list(pairwise([(x * w, y * height) for x, y in path])) for path in paths]
            for w in _WIDTHS
        }
        self.taken = {
            w: [_box((x * w, y * height), place, text) for (x, y), place, text in words]
            for w in _WIDTHS
        }
        self.height = height

    def cost(self, at: int, place: Place, width: float) -> float:
        """What the word of the point ``at`` would meet there, on a plot of that width."""
        points = self.points[width]
        box = _box(points[at], place, self.texts[at])
        found = _EDGE * (box[0] < 0 or box[2] > width + 2 or box[1] < -4 or box[3] > self.height)
        for path in self.steps[width]:
            found += _LINE * any(_crosses(a, b, box) for a, b in path)
        for n, (x, y) in enumerate(points):
            around = (x - _MARK_PX, y - _MARK_PX, x + _MARK_PX, y + _MARK_PX)
            found += _MARK * (n != at and _meets(box, around))
        for n, other in self.placed.items():
            if points[n][0] == points[at][0]:
                apart = points[n][1] - points[at][1]
                found += _ORDER * (apart * (apart + other.dy - place.dy) < 0)
        return found + _WORD * sum(_meets(box, other) for other in self.taken[width])

    def tried(self, order: Sequence[int]) -> tuple[float, dict[int, Place]]:
        """The places of these words if they are placed in this order, and what they cost."""
        total, found = 0.0, {}
        for at in order:
            costs = [
                (sum(self.cost(at, place, width) for width in _WIDTHS) + _preference(rank), rank)
                for rank, place in enumerate(_PLACES)
            ]
            best, rank = min(costs)
            total, found[at] = total + best, _PLACES[rank]
            self.put({at: _PLACES[rank]})
        for at in order:
            del self.placed[at]
        for boxes in self.taken.values():
            del boxes[len(boxes) - len(order) :]
        return total, found

    def put(self, places: dict[int, Place]) -> None:
        """These words stand where they do."""
        self.placed |= places
        for width, boxes in self.taken.items():
            boxes += [_box(self.points[width][n], p, self.texts[n]) for n, p in places.items()]


def _preference(rank: int) -> float:
    return _LATER * rank + _FAR * (abs(_PLACES[rank].dy) > 20)


def placed_at() -> dict[str, object]:
    """Properties of a text mark whose rows have the columns dx, dy and align."""
    return {
        "dx": alt.ExprRef("datum.dx"),
        "dy": alt.ExprRef("datum.dy"),
        "align": alt.ExprRef("datum.align"),
        "baseline": "middle",
    }
