"""Where a curve saturates, by three methods, and whether they agree.

- **share of plateau**: the lowest concurrency whose throughput reaches ``PLATEAU_SHARE`` of the
  highest that was measured.
- **curvature**: the point farthest above the chord from the first point to the peak's height at
  the last load, both axes logarithmic and scaled to 0..1 (the idea of Kneedle: V. Satopaa et al.,
  ICDCS Workshops 2011), if it lies at least ``LEAST_BEND`` above it. On log axes proportional
  growth is the straight line, so that the bend is where growth stops being proportional.
- **Little's law**: N* = highest request rate x latency at the lowest concurrency, the load at
  which the two asymptotes of a closed system cross (P. J. Denning, J. P. Buzen, Computing Surveys
  10, 1978): below it latency stands still, above it latency grows with the load.

In a closed loop throughput and latency are tied by Little's law, so the methods share their data:
their agreement shows that the place does not hang on the method, not that it was seen three times.
Curves that are not saturated, and those that are flat from the first point on, have no knee. A
method may also find none on a curve that has one (it hardly bends, or N* lies outside of what was
measured); then the others are compared, and no agreement of three is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod

import numpy as np
import numpy.typing as npt
import pandas as pd

from servebook.measure.limits import PLATEAU_SHARE
from servebook.measure.saturation import saturation

__all__ = [
    "AGREE_WITHIN",
    "LEAST_BEND",
    "METHODS",
    "PLATEAU_SHARE",
    "Knees",
    "knees",
    "over_repeats",
]

LEAST_BEND = 0.1
#: Knees agree when the highest is at most this many times the lowest: one doubling of the load.
AGREE_WITHIN = 2.0
METHODS = ("share of plateau", "curvature", "Little's law")
_MOST_CHOICES = 250

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Knees:
    """Concurrencies by ``METHODS`` (None: no knee by this method), the curve's kind, agreement."""

    kind: str  # plateau, reversal, not saturated, flat, too few points
    places: tuple[float | None, ...]
    agreement: str  # agree, two agree, disagree, one alone, no knee in range


def knees(
    concurrency: Sequence[float],
    throughput: Sequence[float],
    latency_s: Sequence[float],
    n_runs: Sequence[int] | None = None,
) -> Knees:
    """The knees of one curve: throughput in requests/s and mean latency in s per concurrency.

    ``n_runs``: how many runs each value is the mean of; one each if not given. Any throughput that
    is proportional to requests/s gives the same kind and the first two places; the third needs
    requests/s. Raises ValueError for lengths that differ.
    """
    load, rate, wait, runs = (
        np.asarray(v, dtype=np.float64)
        for v in (concurrency, throughput, latency_s, n_runs or [1] * len(concurrency))
    )
    if not load.shape == rate.shape == wait.shape == runs.shape:
        raise ValueError("concurrency, throughput, latency and runs differ in length")
    order = np.argsort(load, kind="stable")
    load, rate, wait, runs = load[order], rate[order], wait[order], runs[order]
    none: tuple[float | None, ...] = (None,) * len(METHODS)
    if len(load) < 3:
        return Knees("too few points", none, "no knee in range")
    kind = _kind(load, rate, runs)
    if kind in ("not saturated", "flat"):
        return Knees(kind, none, "no knee in range")
    top = int(rate.argmax())
    places = (
        float(load[int(np.argmax(rate >= PLATEAU_SHARE * rate[top]))]),
        _bend(load, rate),
        _crossing(load, rate, wait),
    )
    return Knees(kind, places, _agreement([p for p in places if p is not None]))


def over_repeats(
    concurrency: Sequence[float],
    throughputs: Sequence[Sequence[float]],
    latencies_s: Sequence[Sequence[float]],
) -> list[Knees]:
    """The knees of every curve that one run per concurrency makes: how far repeats move them.

    Each inner sequence holds the runs of one concurrency (the same order in both). Above 250
    curves every k-th of them; a single curve where nothing was repeated.
    """
    sizes = [len(runs) for runs in throughputs]
    choices = product(*(range(n) for n in sizes))
    step = prod(sizes) // _MOST_CHOICES + 1  # spread over all of them, not the first corner
    return [
        knees(
            concurrency,
            [runs[k] for runs, k in zip(throughputs, choice, strict=True)],
            [runs[k] for runs, k in zip(latencies_s, choice, strict=True)],
        )
        for choice in islice(choices, 0, None, step)
    ]


def _agreement(known: list[float]) -> str:
    """How the methods that place a knee stand to each other; the first one always does."""
    if len(known) < 2:
        return "one alone"
    if max(known) > AGREE_WITHIN * min(known):
        return "disagree"
    return "agree" if len(known) == len(METHODS) else "two agree"


def _kind(load: Floats, rate: Floats, runs: Floats) -> str:
    curve = pd.DataFrame(
        {"concurrency": load, "value": rate, "low": rate, "high": rate, "n_runs": runs}
    )
    row = saturation(curve, []).iloc[0]
    flat = row["finding"] == "plateau" and row["plateau_from"] == row["first_concurrency"]
    return "flat" if flat else str(row["finding"])


def _bend(load: Floats, rate: Floats) -> float | None:
    """The point farthest above the chord; None where the curve hardly bends.

    The chord rises from the first point to the height of the peak, also where the curve falls
    after it: growth in proportion that ends in a peak bends there.
    """
    x, y = np.log(load), np.log(rate)
    rise = y.max() - y[0]
    if not rise > 0:
        return None
    above = (y - y[0]) / rise - (x - x[0]) / (x[-1] - x[0])
    at = int(above.argmax())
    return float(load[at]) if above[at] >= LEAST_BEND else None


def _crossing(load: Floats, rate: Floats, wait: Floats) -> float | None:
    """N*, where it lies within the measured range."""
    place = float(rate.max() * wait[0])
    return place if load[0] <= place <= load[-1] else None
