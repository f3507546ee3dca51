"""Where things go in a picture: axis ranges, ticks, labels kept apart.

Layout only: pixels and ticks, no measurement. Everything is deterministic in its input.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import altair as alt

__all__ = [
    "LINE_PX",
    "Range",
    "axis_end",
    "counts_axis",
    "label_positions",
    "label_room",
    "log_range",
    "log_scale",
    "log_ticks",
    "spread_out",
]

LINE_PX = 15  # height of one line of label text
LETTER_PX = 6.4  # the width of a letter of small text, about
BESIDE_PX = 12  # between a bar and the words beside it, and after them
_NARROW_PX = 320  # of a plot without names at its left, on a page of 400 px
GAP_PX = 7.0  # between one name and the next: lines of one name stand closer

Range = tuple[float, float]


def log_range(values: Sequence[float], below: float = 0.08, above: float = 0.08) -> Range:
    """A range for a log axis around the positive values, with room at both ends.

    ``below`` and ``above`` are shares of the values' own extent (of a factor of 2 where they
    hardly differ).
    """
    known = [v for v in values if v is not None and math.isfinite(v) and v > 0]
    if not known:
        return (1.0, 10.0)
    low, high = math.log(min(known)), math.log(max(known))
    extent = max(high - low, math.log(2.0))
    middle = (low + high) / 2
    low, high = min(low, middle - extent / 2), max(high, middle + extent / 2)
    return (math.exp(low - below * extent), math.exp(high + above * extent))


def log_ticks(inside: Range, most: int = 7) -> list[float]:
    """Round numbers (1-2-5, or powers of ten) within the range, at most ``most`` of them.

    >>> log_ticks((7, 130))
    [10, 20, 50, 100]
    """
    low, high = inside
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for steps in ((1, 2, 3, 4, 5, 6, 8), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [
            float(f"{step * 10.0**power:.6g}")
            for power in range(first, last + 1)
            for step in steps
            if low <= step * 10.0**power <= high
        ]
        if len(ticks) <= most:
            return [int(t) if t.is_integer() else t for t in ticks]
    every = math.ceil(len(ticks) / most)
    return [int(t) if t.is_integer() else t for t in ticks[::every]]


def counts_axis(values: Sequence[float], most: int = 10) -> tuple[Range, list[float]]:
    """Range and ticks of a log axis on which the values themselves are the ticks.

    For concurrencies: 2, 4, 8, 16, 24. Where there are too many, powers of two stay first; values
    that are no whole numbers get round ticks.
    """
    known = sorted({float(v) for v in values if v is not None and math.isfinite(v) and v > 0})
    if len(known) > most:
        twos = [v for v in known if math.log2(v).is_integer()]
        kept = twos if 2 <= len(twos) <= most else known[:: math.ceil(len(known) / most)]
    else:
        kept = known
    if not all(v.is_integer() for v in known):
        inside = log_range(known, 0.05, 0.05)
        return inside, log_ticks(inside)
    ticks = [float(f"{v:.6g}") for v in kept]
    return log_range(known, 0.05, 0.05), [int(t) if t.is_integer() else t for t in ticks]


def spread_out(
    wanted: Sequence[float], sizes: Sequence[float], low: float, high: float
) -> list[float]:
    """Positions near ``wanted`` so that intervals of ``sizes`` around them do not overlap.

    In pixels, in the order given. Groups that collide are moved apart around their common middle
    (isotonic regression on the ordered positions), then kept within [low, high] as far as they
    fit.
    """
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    blocks: list[tuple[list[int], float]] = []  # members in order, top of the block
    for i in order:
        blocks.append(([i], wanted[i] - sizes[i] / 2))
        while len(blocks) > 1:
            (above, top), (below, next_top) = blocks[-2], blocks[-1]
            if top + sum(sizes[j] for j in above) <= next_top:
                break
            members = [*above, *below]
            offset, tops = 0.0, []
            for j in members:
                tops.append(wanted[j] - sizes[j] / 2 - offset)
                offset += sizes[j]
            blocks[-2:] = [(members, sum(tops) / len(tops))]
    placed = [0.0] * len(wanted)
    edge = low
    for members, top in blocks:
        height = sum(sizes[j] for j in members)
        start = max(edge, min(top, high - height))
        for j in members:
            placed[j] = start + sizes[j] / 2
            start += sizes[j]
        edge = start
    overflow = edge - high
    if overflow > 0:  # push back up; labels at the top may then leave the range, never overlap
        limit = high
        for members, _ in reversed(blocks):
            for j in reversed(members):
                placed[j] = min(placed[j], limit - sizes[j] / 2)
                limit = placed[j] - sizes[j] / 2
    return placed


def axis_end(ends: Sequence[float], texts: Sequence[str], narrow: int = _NARROW_PX) -> float:
    """Where an axis from 0 must end so that words beside bars fit on a plot of ``narrow`` px.

    ``ends`` is where each bar ends, on the axis; ``texts`` stands to the right of it.

    >>> axis_end([100.0, 50.0], ["", ""], narrow=300)
    103.0
    """
    reach = [0.0]
    for end, text in zip(ends, texts, strict=True):
        taken = LETTER_PX * len(str(text)) + BESIDE_PX if text else 0.0
        # Words that are wider than half of a phone are cut there rather than press all bars flat.
        reach.append(end / (1 - min(taken / narrow, 0.5)))
    return max(1.03 * max(ends), *reach)


def label_room(texts: Iterable[str]) -> int:
    r"""The px that the labels of ``label_positions`` take below one another.

    >>> label_room(["one", "two\nlines", ""])
    59
    """
    return round(sum(LINE_PX * (1 + str(text).count("\n")) + GAP_PX for text in texts if text))


def label_positions(
    values: Sequence[float],
    texts: Sequence[str],
    inside: Range,
    height: int,
    *,
    log: bool = True,
) -> list[float]:
    """Where on the axis each label's first line goes so that no two labels overlap.

    ``inside`` is the axis range over ``height`` px, low values at the bottom; a text may hold line
    breaks; an empty text takes no room. Vega puts the first line of a text at its position and the
    others below.
    """
    low, high = (math.log(v) for v in inside) if log else inside
    scale = height / (high - low)
    pixels = [(high - (math.log(v) if log else v)) * scale for v in values]
    more = [str(text).count("\n") for text in texts]
    sizes = [
        LINE_PX * (1 + n) + GAP_PX if text else 0.0 for n, text in zip(more, texts, strict=True)
    ]
    middles = spread_out(pixels, sizes, 0, height)
    placed = [
        high - (middle - LINE_PX * n / 2) / scale for middle, n in zip(middles, more, strict=True)
    ]
    return [math.exp(v) for v in placed] if log else placed


def log_scale(inside: Range, base: float = 10) -> alt.Scale:
    """A log scale of exactly this range."""
    return alt.Scale(type="log", base=base, domain=list(inside), nice=False)
