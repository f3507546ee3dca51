"""What the wire carries over what is served: a floor and a slope, with intervals where they exist.

Rate on the links = floor + slope x tokens/s, by least squares over conditions (the runs of one
condition count as their mean: they share the load, so that they are no further points of the
line). Gross and net of idle share the slope where the idle rate is one; the floor moves down by
it. With four conditions or more each coefficient has a t interval of the regression (n - 2
degrees of freedom); three give the line alone, fewer none. The floor is the line at no load, which
nobody measured: an extrapolation, whatever its interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from servebook.measure.limits import CONFIDENCE, LEAST_FOR_INTERVAL

__all__ = ["LEAST_FOR_INTERVAL", "LEAST_FOR_LINE", "LEAST_REACH", "CostLine", "cost_line"]

LEAST_FOR_LINE = 3
#: Token rates whose highest is less than this many times their lowest cannot tell floor from slope.
LEAST_REACH = 1.5


@dataclass(frozen=True)
class CostLine:
    """``rate = floor + slope * tokens_s``; pairs are intervals, NaN with the reason in ``why``.

    ``n`` counts conditions; ``scatter`` is the standard deviation of the residuals, in the unit of
    the rate.
    """

    floor: float
    slope: float
    floor_interval: tuple[float, float]
    slope_interval: tuple[float, float]
    scatter: float
    n: int
    confidence: float
    why: str = ""

    def at(self, tokens_s: float) -> float:
        """The line's rate at this load."""
        return self.floor + self.slope * tokens_s


def cost_line(
    tokens_s: Sequence[float], rates: Sequence[float], confidence: float = CONFIDENCE
) -> CostLine:
    """The line through one point per condition; coefficients are NaN where there is no line.

    Raises ValueError for sequences of different lengths.
    """
    from scipy import stats  # a second to import; constants are wanted without

    x, y = np.asarray(tokens_s, dtype=np.float64), np.asarray(rates, dtype=np.float64)
    if x.shape != y.shape:
        raise ValueError(f"{x.size} loads with {y.size} rates")
    nan = float("nan")
    unknown = (nan, nan)
    n = len(x)
    if n < LEAST_FOR_LINE:
        why = f"no line: {_count(n)}, {LEAST_FOR_LINE} are needed"
        return CostLine(nan, nan, unknown, unknown, nan, n, confidence, why)
    if not x.max() >= LEAST_REACH * x.min():
        why = (
            f"no line: the token rates differ by {100 * (x.max() / x.min() - 1):.0f} % only, so "
            "floor and slope cannot be told apart"
        )
        return CostLine(nan, nan, unknown, unknown, nan, n, confidence, why)
    fit = stats.linregress(x, y)
    residuals = y - (fit.intercept + fit.slope * x)
    scatter = float(np.sqrt((residuals**2).sum() / (n - 2)))
    floor, slope = float(fit.intercept), float(fit.slope)
    if n < LEAST_FOR_INTERVAL:
        why = f"no interval: {_count(n)}, {LEAST_FOR_INTERVAL} are needed"
        return CostLine(floor, slope, unknown, unknown, scatter, n, confidence, why)
    t = float(stats.t.ppf((1 + confidence) / 2, n - 2))
    ends = [
        (float(value - t * error), float(value + t * error))
        for value, error in ((floor, fit.intercept_stderr), (slope, fit.stderr))
    ]
    return CostLine(floor, slope, ends[0], ends[1], scatter, n, confidence)


def _count(n: int) -> str:
    return f"{n} condition{'' if n == 1 else 's'}"
