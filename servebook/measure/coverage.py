"""How often intervals cover: simulated campaigns whose true ratio is known.

A model, not a measurement: each run's logarithm is drawn from a normal distribution around its
arm's truth, with the arm's scatter. It tells what a method does when its assumptions hold, and
that a bootstrap over a handful of runs falls short even then.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servebook.measure.ratio import CONFIDENCE, log_interval

__all__ = ["COVERED", "COVERED_BY_TWO", "bootstrap_coverage", "coverage", "simulated"]

#: Least and largest coverage of a 95 % interval over all scatters of both arms, for 3 to 30 runs
#: per arm, and for 2 runs in one arm: integrated by ``benchmarks/coverage.py``.
COVERED, COVERED_BY_TWO = (0.938, 0.968), (0.906, 0.978)

Floats = npt.NDArray[np.float64]


def simulated(
    n_first: int,
    n_second: int,
    *,
    campaigns: int,
    seed: int,
    truth: float = 1.3,
    scatter_first: float = 0.05,
    scatter_second: float = 0.05,
) -> tuple[Floats, Floats]:
    """Logarithms of the runs of two arms, shapes (campaigns, n_first), (campaigns, n_second).

    ``truth`` is the planted ratio first / second; the scatters are standard deviations of the
    logarithm over runs (0.05: about 5 %).
    """
    rng = np.random.default_rng(seed)
    return (
        rng.normal(np.log(truth), scatter_first, (campaigns, n_first)),
        rng.normal(0.0, scatter_second, (campaigns, n_second)),
    )


def coverage(first: Floats, second: Floats, truth: float, confidence: float = CONFIDENCE) -> float:
    """The share of campaigns (rows of logarithms) whose Welch interval holds the true ratio."""
    low, high, _ = log_interval(first, second, confidence)
    return float(((low <= np.log(truth)) & (np.log(truth) <= high)).mean())


def bootstrap_coverage(
    first: Floats,
    second: Floats,
    truth: float,
    *,
    seed: int,
    resamples: int = 999,
    confidence: float = CONFIDENCE,
) -> float:
    """The same for a percentile bootstrap that resamples the runs of each arm."""
    from scipy import stats  # a second to import, of which many campaigns have no need

    def difference(a: Floats, b: Floats, axis: int = -1) -> Floats:
        return np.asarray(a.mean(axis=axis) - b.mean(axis=axis))

    interval = stats.bootstrap(
        (first, second),
        difference,
        axis=-1,
        vectorized=True,
        method="percentile",
        n_resamples=resamples,
        confidence_level=confidence,
        batch=100,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(((interval.low <= np.log(truth)) & (np.log(truth) <= interval.high)).mean())
