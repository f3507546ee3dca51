"""The ratio of two configurations from their runs, with an interval, or why there is none.

A run is one observation: its requests share an engine, a client and a machine, so that thousands
of requests in one run say nothing about the next run. Ratios are compared as logarithms (Welch's
t with Satterthwaite's degrees of freedom: B. L. Welch, Biometrika 34, 1947), because throughputs
and latencies scatter in proportion to their size and because the interval of a / b must be the
inverse of that of b / a. What comes out is an interval of the ratio of the geometric means over
runs. It takes the runs of an arm for independent and alike; what all of them share (one machine,
one day, one start of the server) is not in it.

Satterthwaite's degrees of freedom are too generous where the arms differ much in their number of
runs: with 3 runs that scatter more than 10 (30) others, Welch's 95 % interval covers 92.8 %
(92.4 %). Cochran's weighting of the two critical values (Biometrics 20, 1964) hardly falls short
but covers up to 98.7 %. ``degrees`` therefore moves from the one to the other as the arms' numbers
part. With 3 or more runs per arm the interval then covers 93.8 to 96.8 %, whatever the scatters
(``benchmarks/coverage.py`` integrates and simulates it); with 2 runs in one arm, 90.6 to 97.8 %.

A percentile bootstrap over so few runs is no substitute: over three it can never reach beyond
their range and covers far less than it says (``servebook.measure.coverage`` measures how much).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.measure.limits import CONFIDENCE, POWER

__all__ = [
    "CONFIDENCE",
    "POWER",
    "Ratio",
    "degrees",
    "detectable",
    "log_interval",
    "ratio",
    "runs_needed",
]

#: How far the degrees of freedom go from Satterthwaite's to Cochran's as the arms' numbers part.
_TOWARDS_COCHRAN = 0.7

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Ratio:
    """``value`` = first / second over runs, and what its scatter allows to say.

    ``low``, ``high`` are the ends of the interval at ``confidence``; NaN, with the reason in
    ``why``, where none exists; ``error`` is the standard error of the ratio's logarithm and ``df``
    its degrees of freedom. ``detectable`` is the smallest true ratio above 1 that so many runs
    with this scatter find in ``POWER`` of all campaigns (NaN likewise): "1.07" means that a
    difference of 7 % may well go unnoticed.
    """

    value: float
    low: float
    high: float
    error: float
    df: float
    detectable: float
    n_first: int
    n_second: int
    confidence: float
    why: str = ""

    @property
    def known(self) -> bool:
        """Whether an interval exists."""
        return not self.why

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval leaves 1 out."""
        return self.known and not self.low <= 1 <= self.high

    @property
    def n(self) -> str:
        """Runs per arm: "3 and 5 runs"."""
        return f"{self.n_first} and {self.n_second} runs"


def degrees(share: npt.ArrayLike, n_first: int, n_second: int) -> Floats:
    """Degrees of freedom of the difference of two means with scatters of their own.

    ``share`` is the first arm's part of the squared standard error, 0 to 1, any shape. Between
    Satterthwaite's (1 / df = r^2 / f + (1 - r)^2 / g) and those of Cochran's weighting (r / f +
    (1 - r) / g), the nearer to the latter the more the numbers of runs differ; equal numbers keep
    Satterthwaite's. Never more than f + g, never fewer than the smaller of f and g.
    """
    r, f, g = np.asarray(share, dtype=np.float64), n_first - 1, n_second - 1
    towards = _TOWARDS_COCHRAN * (1 - min(f, g) / max(f, g))
    cross = towards * r * (1 - r)
    return np.asarray(1 / ((r**2 + cross) / f + ((1 - r) ** 2 + cross) / g))


def log_interval(
    first: npt.ArrayLike, second: npt.ArrayLike, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats, Floats]:
    """The interval of log(first / second) and its degrees of freedom, along the last axis.

    ``first`` and ``second`` hold logarithms, shape (..., n) and (..., m), n and m at least 2.
    Returns low, high, df, each of shape (...). NaN where neither arm scatters.
    """
    from scipy import stats  # a second to import; constants are wanted without

    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    n, m = a.shape[-1], b.shape[-1]
    # Each arm is moved to its first run, so that an arm of equal runs has exactly no scatter.
    own, other = a - a[..., :1], b - b[..., :1]
    parts = own.var(axis=-1, ddof=1) / n, other.var(axis=-1, ddof=1) / m
    total = parts[0] + parts[1]
    share = np.divide(parts[0], total, out=np.full_like(total, np.nan), where=total > 0)
    df = degrees(share, n, m)
    half = stats.t.ppf((1 + confidence) / 2, df) * np.sqrt(total)
    middle = own.mean(axis=-1) - other.mean(axis=-1) + (a[..., 0] - b[..., 0])
    return np.asarray(middle - half), np.asarray(middle + half), df


def ratio(
    first: Sequence[float] | Floats,
    second: Sequence[float] | Floats,
    confidence: float = CONFIDENCE,
) -> Ratio:
    """How many times ``first`` is ``second``; both hold one value per run of an arm.

    Raises ValueError for an arm without runs and for values that are not above 0.
    """
    from scipy import stats  # a second to import; constants are wanted without

    a, b = _logs(first), _logs(second)
    value = float(np.exp(a.mean() - b.mean()))
    why = _why(a, b)
    if why:
        nan = float("nan")
        return Ratio(value, nan, nan, nan, nan, nan, len(a), len(b), confidence, why)
    low, high, df = (float(v) for v in log_interval(a, b, confidence))
    error = float(np.hypot(stats.sem(a), stats.sem(b)))
    return Ratio(
        value,
        float(np.exp(low)),
        float(np.exp(high)),
        error,
        df,
        float(np.exp(detectable(error, df, confidence))),
        len(a),
        len(b),
        confidence,
    )


def detectable(
    error: float, df: float, confidence: float = CONFIDENCE, power: float = POWER
) -> float:
    """The true difference that a t test finds with this power.

    ``error`` is the standard error of the difference, taken for known as it was measured; the
    test statistic then follows the noncentral t distribution with ``df`` degrees of freedom. That
    a two-sided test may also reject on the wrong side adds less than one in 10,000.
    """
    from scipy import special, stats  # a second to import; constants are wanted without

    limit = float(stats.t.ppf((1 + confidence) / 2, df))
    return error * float(special.nctdtrinc(df, 1 - power, limit))


def runs_needed(cv: float, effect: float, most: int = 200) -> int | None:
    """How many runs an arm needs to find ``effect`` (a fraction) with ``POWER``; None above most.

    Both arms scatter by ``cv`` (the standard deviation of their logarithms) and run equally often.
    """
    for n in range(2, most + 1):
        if detectable(cv * float(np.sqrt(2 / n)), 2 * n - 2) <= np.log1p(effect):
            return n
    return None


def _why(a: Floats, b: Floats) -> str:
    """Why no interval exists; empty where one does."""
    if len(a) < 2 or len(b) < 2:
        single = "one run on each side" if len(a) == len(b) else "one run on one side"
        return f"no interval exists: {single}, and one run does not show how runs scatter"
    scale = max(1.0, float(np.abs(np.concatenate([a, b])).max()))
    if max(np.ptp(a), np.ptp(b)) <= 1e-12 * scale:
        return "no interval: the repeats are equal to the last digit, so they show no scatter"
    return ""


def _logs(values: Any) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        raise ValueError("an arm without runs has no ratio")
    if not (array > 0).all() or not np.isfinite(array).all():
        raise ValueError(f"a ratio needs finite values above 0, found {array.tolist()}")
    return np.log(array)
