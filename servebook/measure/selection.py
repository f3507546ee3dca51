"""Exact percentiles of more numbers than memory holds, from whole numbers that come in pieces.

Each pass counts the numbers by 16 of their bits, the highest first, and keeps the interval in which
each wanted order statistic lies: numbers below 2**31 need two passes, any of 64 bits four. Between
two order statistics the value is interpolated as ``numpy.percentile`` does, so that both give the
same float. Memory: one piece, and 2**16 counts per order statistic.

Own code: numpy and Arrow sort or partition all numbers at once, and a sketch is not exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Summary", "order_statistics", "percentiles", "summary"]

Whole = npt.NDArray[Any]
#: Gives the same pieces each time it is called.
Pieces = Callable[[], Iterable[Whole]]

_BITS = 16


@dataclass(frozen=True)
class Summary:
    """How many numbers, their exact sum, the largest."""

    n: int
    total: int
    largest: int


def summary(pieces: Pieces) -> Summary:
    """One pass over whole numbers of zero or more."""
    n = total = 0
    largest = 0
    for piece in pieces():
        if len(piece):
            n += len(piece)
            total += int(piece.sum(dtype=np.int64))
            largest = max(largest, int(piece.max()))
    return Summary(n, total, largest)


def order_statistics(pieces: Pieces, ranks: Sequence[int], largest: int) -> list[int]:
    """The numbers that stand at these places (from 0) when all are sorted.

    All are whole, zero or more, and at most ``largest``; each rank is below their count.
    """
    low = dict.fromkeys(ranks, 0)  # by rank: where its interval begins,
    left = {rank: rank for rank in ranks}  # and its place in it
    bits = max(int(largest).bit_length(), 1)
    some = False  # at first every number lies in the interval
    while bits > 0:
        shift = max(bits - _BITS, 0)
        counts = _counts(pieces, sorted(set(low.values())), bits, shift, some=some)
        for rank in low:
            found = counts[low[rank]]
            place = int(np.searchsorted(np.cumsum(found), left[rank], side="right"))
            left[rank] -= int(found[:place].sum())
            low[rank] += place << shift
        bits, some = shift, True
    return [low[rank] for rank in ranks]


def _counts(
    pieces: Pieces, begins: Sequence[int], bits: int, shift: int, *, some: bool
) -> dict[int, npt.NDArray[np.int64]]:
    """For each interval of ``2**bits`` numbers: how many have which of its highest bits."""
    size = 1 << (bits - shift)
    counts = {begin: np.zeros(size, np.int64) for begin in begins}
    for piece in pieces():
        which = piece >> bits if some else None
        for begin in begins:
            own = piece if which is None else piece[which == begin >> bits]
            counts[begin] += np.bincount((own - begin) >> shift, minlength=size)
    return counts


def percentiles(pieces: Pieces, q: Sequence[float], about: Summary, scale: float) -> list[float]:
    """The percentiles of the numbers divided by ``scale``, to the bit those of numpy."""
    places = [(about.n - 1) * (one / 100) for one in q]
    before = [int(np.floor(place)) for place in places]
    ranks = sorted({min(k + i, about.n - 1) for k in before for i in (0, 1)})
    known = dict(zip(ranks, order_statistics(pieces, ranks, about.largest), strict=True))
    out = []
    for place, k in zip(places, before, strict=True):
        a, b = known[k] / scale, known[min(k + 1, about.n - 1)] / scale
        t = place - k
        # From the nearer end, which is what keeps the result between the two.
        out.append(b - (b - a) * (1 - t) if t >= 0.5 else a + (b - a) * t)
    return out
