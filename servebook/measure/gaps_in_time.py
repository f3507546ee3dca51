"""The gaps of a run that ended within some time: how many, and their percentiles.

Of a long run no more than a piece is in memory; it is read anew for each question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from servebook.gap_table import Lengths
from servebook.measure.gap_values import GapValues
from servebook.measure.percentiles import below_floor, percentile
from servebook.measure.selection import percentiles, summary

__all__ = ["GapsInTime"]

#: Up to so many gaps of a run are held.
MOST_HELD = 1 << 22
_NS_PER_MS = 1e6

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class GapsInTime:
    """The gaps of one run that have end times; ``n`` of them."""

    def __init__(self, values: GapValues) -> None:
        self._values = values
        self.n = values.n_timed()
        self._held: tuple[Ints, Floats] | None = None
        if self.n <= MOST_HELD:
            pieces = list(values.timed_pieces())
            none = np.empty(0, np.int64)
            end_ns, gap_ns = (
                np.concatenate([none, *(piece[column] for piece in pieces)]) for column in (0, 1)
            )
            self._held = end_ns, gap_ns / _NS_PER_MS

    def within(self, t0_ns: int, t1_ns: int, q: Sequence[float]) -> tuple[int, list[float]]:
        """How many gaps ended after t0 and until t1, and these percentiles of them in ms.

        NaN for a percentile that so few gaps do not tell.
        """
        if self._held is not None:
            end_ns, gap_ms = self._held
            own = gap_ms[(end_ns > t0_ns) & (end_ns <= t1_ns)]
            return own.size, [
                np.nan if below_floor(one, own.size) else percentile(own, one) for one in q
            ]
        pieces = self._between(t0_ns, t1_ns)
        about = summary(pieces)
        told = [one for one in q if not below_floor(one, about.n)]
        found = percentiles(pieces, told, about, _NS_PER_MS) if told else []
        known = dict(zip(told, found, strict=True))
        return about.n, [known.get(one, np.nan) for one in q]

    def _between(self, t0_ns: int, t1_ns: int) -> Callable[[], Iterator[Lengths]]:
        def pieces() -> Iterator[Lengths]:
            for end_ns, gap_ns in self._values.timed_pieces():
                if not len(end_ns):
                    continue
                if end_ns.min() > t0_ns and end_ns.max() <= t1_ns:
                    yield gap_ns
                else:
                    yield gap_ns[(end_ns > t0_ns) & (end_ns <= t1_ns)]

        return pieces
