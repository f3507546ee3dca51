"""The distribution of the pooled gaps as a short curve: the share of gaps longer than x.

The curve is exact at its points; between them it is thinned for drawing: evenly in the body, and
evenly on a log scale in the tail, where single gaps matter. All gaps are used.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from servebook.gap_table import Lengths
from servebook.measure.gap_values import MOST_AT_ONCE, GapValues, values_by_run
from servebook.measure.percentiles import percentile
from servebook.measure.runs import request_metrics
from servebook.measure.selection import Summary, percentiles, ranked, summary
from servebook.tables import Tables

__all__ = ["POINTS", "GapPool", "gap_pools", "longer_than"]

POINTS = 200
_NS_PER_MS = 1e6

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class GapPool:
    """The gaps of some runs together, in ms; of many of them no more than a piece is in memory."""

    def __init__(self, runs: Iterable[GapValues]) -> None:
        self._runs = list(runs)
        self._n = sum(map(len, self._runs))
        self._ms = None
        if self._n <= MOST_AT_ONCE:
            pieces = [np.empty(0, np.int64), *self._pieces()]
            self._ms = np.sort(np.concatenate(pieces) / _NS_PER_MS)

    def __len__(self) -> int:
        return self._n

    def _pieces(self) -> Iterator[Lengths]:
        for run in self._runs:
            yield from run.pieces()

    @functools.cached_property
    def _about(self) -> Summary:
        return summary(self._pieces)

    @property
    def longest(self) -> float:
        """The longest gap; NaN where there is none."""
        if self._ms is not None:
            return float(self._ms[-1]) if self._n else np.nan
        return self._about.largest / _NS_PER_MS

    def percentiles(self, q: Sequence[float]) -> list[float]:
        """Exact percentiles, by linear interpolation; NaN where there is no gap."""
        if self._ms is not None:
            return [percentile(self._ms, one) for one in q]
        return percentiles(self._pieces, q, self._about, _NS_PER_MS) if q else []

    def longer_than(self, points: int = POINTS) -> pd.DataFrame:
        """``longer_than`` of the pool."""
        if self._ms is not None:
            return longer_than(self._ms, points)
        ranks = [max(self._n - k - 1, 0) for k in _thinned(self._n, points).tolist()]
        found = ranked(self._pieces, ranks, self._about.largest)
        x = np.array([value for value, _ in found]) / _NS_PER_MS
        upto = np.array([n for _, n in found])
        return _curve(_thinned(self._n, points), x, upto, self._n)


def gap_pools(
    tables: Tables, groups: Iterable[Iterable[str]]
) -> Iterator[tuple[list[str], GapPool]]:
    """For each group of run_ids: those that have gaps, and these gaps of ok profiling requests."""
    groups = [list(group) for group in groups]
    requests = request_metrics(tables)
    wanted = requests["status"].to_numpy() == "ok"
    wanted &= requests["run_id"].isin({run for group in groups for run in group}).to_numpy()
    values = values_by_run(tables, requests, wanted)
    for group in groups:
        known = [run for run in group if run in values]
        yield known, GapPool(values[run] for run in known)


def longer_than(values: npt.ArrayLike, points: int = POINTS) -> pd.DataFrame:
    """At most ``points`` rows x, share: the share of the values that are longer than x.

    From just below the smallest value (share 1) to the second largest (share 1/n); the largest
    itself has share 0, which a log axis cannot show. Raises ValueError for fewer than four points.
    """
    if points < 4:
        raise ValueError(f"expected at least 4 points, found {points}")
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    if n == 0:
        return pd.DataFrame({"x": [], "share": []}, dtype="float64")
    longer = _thinned(n, points)
    # The value that exactly ``k`` others exceed, where values do not tie.
    x = ordered[np.maximum(n - longer - 1, 0)]
    return _curve(longer, x, np.searchsorted(ordered, x, side="right"), n)


def _thinned(n: int, points: int) -> Ints:
    """How many values are longer, at the points of the curve."""
    return np.unique(
        np.concatenate(
            [
                np.geomspace(1, n, points // 2).round(),  # the tail, counted from its end
                np.linspace(1, n, points // 2).round(),
            ]
        )
    ).astype(np.int64)


def _curve(longer: Ints, x: Floats, upto: Ints, n: int) -> pd.DataFrame:
    """``x`` and the share that is longer; ``upto`` counts the values that are not."""
    share = np.where(longer < n, (n - upto) / n, 1.0)
    frame = pd.DataFrame({"x": x, "share": share})
    frame = frame[frame["share"] > 0]
    return frame.drop_duplicates().sort_values(
        ["x", "share"], ascending=[True, False], kind="stable", ignore_index=True
    )
