"""Exact percentiles of more numbers than memory holds, from whole numbers that come in pieces.

Each pass counts the numbers by 16 of their bits, the highest first, and keeps the interval in which
each wanted order statistic lies: numbers below 2**31 need two passes, any of 64 bits four. Between
two order statistics the value is interpolated as ``numpy.percentile`` does, so that both give the
same float. Memory: one piece, and 2**16 counts per order statistic (per interval that holds some).

Own code: numpy and Arrow sort or partition all numbers at once, and a sketch is not exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Summary", "order_statistics", "percentiles", "ranked", "summary"]

Whole = npt.NDArray[Any]
#: Gives the same pieces each time it is called.
Pieces = Callable[[], Iterable[Whole]]

_BITS = 16
#: Up to so many intervals are gone through one by one.
_FEW = 12
#: More of them than this, where they are far apart, are searched.
_MOST_KNOWN = 1 << 17


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
            most = int(piece.max())
            largest = max(largest, most)
            if most < 2**40:
                total += int(piece.sum(dtype=np.int64))
            else:  # a sum of 64 bits might not hold them
                total += (int((piece >> 32).sum()) << 32) + int((piece & 0xFFFFFFFF).sum())
    return Summary(n, total, largest)


def order_statistics(pieces: Pieces, ranks: Sequence[int], largest: int) -> list[int]:
    """The numbers that stand at these places (from 0) when all are sorted.

    All are whole, zero or more, and at most ``largest``; each rank is below their count.
    """
    return [value for value, _ in ranked(pieces, ranks, largest)]


def ranked(pieces: Pieces, ranks: Sequence[int], largest: int) -> list[tuple[int, int]]:
    """``order_statistics``, and how many numbers are no larger than each."""
    low = dict.fromkeys(ranks, 0)  # by rank: where its interval begins,
    left = {rank: rank for rank in ranks}  # its place in it,
    alike = dict.fromkeys(ranks, 0)  # and how many lie in it
    bits = max(int(largest).bit_length(), 1)
    some = False  # at first every number lies in the interval
    while bits > 0:
        shift = max(bits - _BITS, 0)
        counts = _counts(pieces, sorted(set(low.values())), bits, shift, some=some)
        sums = {begin: np.cumsum(found) for begin, found in counts.items()}
        for rank in low:
            found, upto = counts[low[rank]], sums[low[rank]]
            place = int(np.searchsorted(upto, left[rank], side="right"))
            alike[rank] = int(found[place])
            left[rank] -= int(upto[place]) - alike[rank]
            low[rank] += place << shift
        bits, some = shift, True
    return [(low[rank], rank - left[rank] + alike[rank]) for rank in ranks]


def _counts(
    pieces: Pieces, begins: Sequence[int], bits: int, shift: int, *, some: bool
) -> dict[int, npt.NDArray[np.int64]]:
    """For each interval of ``2**bits`` numbers: how many have which of its highest bits."""
    if len(begins) > _FEW:
        return _counts_of_many(pieces, begins, bits, shift)
    size = 1 << (bits - shift)
    counts = {begin: np.zeros(size, np.int64) for begin in begins}
    for piece in pieces():
        which = piece >> bits if some else None
        for begin in begins:
            own = piece if which is None else piece[which == begin >> bits]
            counts[begin] += np.bincount((own - begin) >> shift, minlength=size)
    return counts


def _counts_of_many(
    pieces: Pieces, begins: Sequence[int], bits: int, shift: int
) -> dict[int, npt.NDArray[np.int64]]:
    """The same for so many intervals that each number looks for its own."""
    size = 1 << (bits - shift)
    counts = np.zeros(len(begins) * size, np.int64)
    tops = np.array([begin >> bits for begin in begins])
    first = int(tops[0])
    known = np.full(min(int(tops[-1]) - first + 3, _MOST_KNOWN), -1)
    near = tops - first + 1 < len(known) - 1
    known[tops[near] - first + 1] = np.flatnonzero(near)
    for piece in pieces():
        which = piece >> bits
        if near.all():
            at = known[np.clip(which - (first - 1), 0, len(known) - 1)]
            inside = at >= 0
        else:
            at = np.minimum(np.searchsorted(tops, which), len(tops) - 1)
            inside = tops[at] == which
        np.add.at(counts, at[inside] * size + ((piece[inside] >> shift) & (size - 1)), 1)
    return dict(zip(begins, np.split(counts, len(begins)), strict=True))


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
