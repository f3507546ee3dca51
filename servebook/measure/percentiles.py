"""Percentiles, and the number of values below which a tail percentile says nothing.

A percentile is numpy's linear interpolation, which is what AIPerf and vLLM use as well. Below its
floor a percentile is an interpolation among the one or two largest values; it is then called by
its name, "max of n".

The floors are Wilks' sample sizes for a two-sided tolerance interval (S. S. Wilks, Annals of
Mathematical Statistics 12, 1941): the smallest n for which, with a confidence of 99 %, at least
two of n independent values lie above the true quantile, so that the sample has a tail to
interpolate in. Values that share an engine step are not independent: a floor that n passes is
necessary, not sufficient.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "CONFIDENCE",
    "FLOORS",
    "below_floor",
    "floor",
    "percentile",
    "percentile_name",
    "quantile_of",
    "rests_on",
]

CONFIDENCE = 0.99


def floor(q: float, confidence: float = CONFIDENCE) -> int:
    """The smallest n with 1 - n p^(n-1) + (n-1) p^n >= confidence, where p = q / 100.

    That is the probability that at least two of n independent values exceed the quantile
    (one minus the probability of none, p^n, and of exactly one, n p^(n-1) (1-p)).

    Raises ValueError for a q outside (0, 100).
    """
    if not 0 < q < 100:
        raise ValueError(f"a percentile lies between 0 and 100, not at {q}")
    p = q / 100

    def holds(n: int) -> bool:
        return bool(1 - n * p ** (n - 1) + (n - 1) * p**n >= confidence)

    high = 2
    while not holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:  # the probability grows with n, so bisection finds the first
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


FLOORS: Mapping[float, int] = {q: floor(q) for q in (50, 90, 95, 99, 99.9)}


def below_floor(q: float, n: float) -> bool:
    """Whether n values are too few for percentile ``q``; an unknown n (NaN) is too few."""
    needed = FLOORS.get(q) or floor(q)
    return not n >= needed


def quantile_of(metric: str) -> float | None:
    """The percentile that a metric's name tells ("itl_p999_ms": 99.9); None for other metrics."""
    found = re.search(r"_p(\d\d)(\d*)_", metric)
    return float(f"{found.group(1)}.{found.group(2) or 0}") if found else None


def rests_on(metric: str) -> str | None:
    """The column of ``run_metrics`` that counts what a latency rests on; None for other metrics."""
    family = metric.split("_", 1)[0]
    return {"ttft": "n_ttft", "tpot": "n_tpot", "itl": "n_gaps", "e2e": "n_e2e"}.get(family)


def percentile(values: npt.ArrayLike, q: float) -> float:
    """Percentile ``q`` of the values by linear interpolation; NaN for no values.

    NaN among the values are left out.
    """
    array: npt.NDArray[Any] = np.asarray(values, dtype=np.float64)
    array = array[~np.isnan(array)]
    return float(np.percentile(array, q)) if array.size else float("nan")


def percentile_name(q: float, n: float) -> str:
    """How to call percentile ``q`` of n values: "p99", or "p99 (max of 40)" below the floor."""
    name = "median" if q == 50 else f"p{q:g}"
    if below_floor(q, n):
        return f"{name} of {n:.0f}" if q == 50 else f"{name} (max of {n:.0f})"
    return name
