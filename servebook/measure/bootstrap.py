"""How uncertain a figure of one run is, given how it swung within that run: a block bootstrap.

The run is cut into blocks of equal time, each at least as long as a mean request, so that what
hangs together (the requests of a wave, the gaps of an engine step) stays together; whole blocks
are resampled (non-overlapping blocks: E. Carlstein, Annals of Statistics 14, 1986; resampling by
``scipy.stats.bootstrap``). The interval holds **within this run only**: it says what another
stretch of the same run might have shown. It does not see what changes from run to run and is
therefore never an interval of a ratio of configurations.

Percentile bootstraps over few blocks cover less than they say; below ``LEAST_BLOCKS`` there is no
interval, and the number of blocks stands beside each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from servebook.measure.limits import LEAST_BLOCKS

__all__ = ["LEAST_BLOCKS", "RESAMPLES", "SCOPE", "Within", "blocks", "within_pieces", "within_run"]

MOST_BLOCKS = 60
RESAMPLES = 999
CONFIDENCE = 0.95
SCOPE = "within this run only"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Within:
    """A figure of one run with its interval within that run; NaN and ``why`` where none is."""

    value: float
    low: float
    high: float
    n: int  # values
    n_blocks: int
    block_s: float
    why: str = ""
    scope: str = SCOPE


def blocks(times_s: Floats, block_s: float) -> npt.NDArray[np.int64]:
    """The number of the block (0, 1, ...) of each time, the first block beginning at the least."""
    return np.asarray((times_s - times_s.min()) // block_s, dtype=np.int64)


def within_run(
    values: npt.ArrayLike,
    times_s: npt.ArrayLike,
    dependence_s: float,
    *,
    q: float | None = None,
    confidence: float = CONFIDENCE,
) -> Within:
    """The mean of ``values`` (or their percentile ``q``) with its interval within the run.

    ``times_s`` say when each value was taken; ``dependence_s`` is how long values hang together (a
    mean request). Seeded from the values: the same run gives the same interval. Raises ValueError
    for arrays of different lengths.
    """
    own, when = np.asarray(values, dtype=np.float64), np.asarray(times_s, dtype=np.float64)
    if own.shape != when.shape:
        raise ValueError(f"{own.size} values with {when.size} times")
    nan = float("nan")
    if not own.size:
        return Within(nan, nan, nan, 0, 0, nan, "no values")
    value = float(own.mean() if q is None else np.percentile(own, q))
    extent = float(np.ptp(when))
    block_s, possible = _division(extent, dependence_s)
    if possible < LEAST_BLOCKS:
        return _too_short(value, own.size, possible, block_s)
    number = blocks(when, extent / possible * (1 + 1e-12))
    parts = [own[number == k] for k in range(possible)]
    parts = [part for part in parts if part.size]
    sums = np.array([part.sum() for part in parts])
    sizes = np.array([part.size for part in parts], dtype=np.float64)
    digest = hashlib.sha256(own.tobytes())

    def percentile(index: npt.NDArray[np.int64]) -> float:
        return float(np.percentile(np.concatenate([parts[k] for k in index]), q or 0))

    low, high = _resampled(sums, sizes, digest, confidence, None if q is None else percentile)
    return Within(value, low, high, own.size, len(parts), extent / possible)


def within_pieces(
    pieces: Callable[[], Iterable[tuple[Floats, Floats]]], dependence_s: float
) -> Within:
    """``within_run`` of a mean, of more values than memory holds: values and times in pieces.

    ``pieces`` gives the same ones each time it is called.
    """
    digest, nan = hashlib.sha256(), float("nan")
    n, total, first, last = 0, 0.0, np.inf, -np.inf
    for own, when in pieces():
        if own.size:
            n, total = n + own.size, total + float(own.sum())
            first, last = min(first, float(when.min())), max(last, float(when.max()))
            digest.update(own.tobytes())
    if not n:
        return Within(nan, nan, nan, 0, 0, nan, "no values")
    extent = last - first
    block_s, possible = _division(extent, dependence_s)
    if possible < LEAST_BLOCKS:
        return _too_short(total / n, n, possible, block_s)
    sums, sizes = np.zeros(possible), np.zeros(possible)
    for own, when in pieces():
        number = ((when - first) // (extent / possible * (1 + 1e-12))).astype(np.int64)
        sums += np.bincount(number, own, possible)
        sizes += np.bincount(number, minlength=possible)
    sums, sizes = sums[sizes > 0], sizes[sizes > 0]
    low, high = _resampled(sums, sizes, digest, CONFIDENCE, None)
    return Within(total / n, low, high, n, len(sums), extent / possible)


def _division(extent: float, dependence_s: float) -> tuple[float, int]:
    """How long a block is at least, and how many there can be."""
    block_s = max(dependence_s, extent / MOST_BLOCKS)
    return block_s, int(extent // block_s) if block_s > 0 else 0


def _too_short(value: float, n: int, possible: int, block_s: float) -> Within:
    why = (
        f"the run is too short: {possible} blocks of a mean request's length, "
        f"{LEAST_BLOCKS} are needed"
    )
    return Within(value, float("nan"), float("nan"), n, possible, block_s, why)


def _resampled(
    sums: Floats,
    sizes: Floats,
    digest: hashlib._Hash,
    confidence: float,
    percentile: Callable[[npt.NDArray[np.int64]], float] | None,
) -> tuple[float, float]:
    """The interval of the mean over resampled blocks, or of ``percentile`` of their numbers."""
    from scipy import stats  # a second to import; constants are wanted without

    def mean(index: npt.NDArray[np.int64], axis: int = -1) -> Floats:
        return np.asarray(sums[index].sum(axis=axis) / sizes[index].sum(axis=axis))

    found = stats.bootstrap(
        (np.arange(len(sums)),),
        percentile or mean,
        vectorized=percentile is None,
        n_resamples=RESAMPLES,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(int.from_bytes(digest.digest()[:8], "little")),
    ).confidence_interval
    return float(found.low), float(found.high)
