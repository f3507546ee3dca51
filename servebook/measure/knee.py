"""Where a curve saturates, by three methods, and whether they agree.

- **share of plateau**: the lowest concurrency whose throughput reaches ``PLATEAU_SHARE`` of the
  highest that was measured.
- **curvature**: the point farthest above the chord from first to last point, both axes
  logarithmic and scaled to 0..1 (the idea of Kneedle: V. Satopaa et al., ICDCS Workshops 2011),
  if it lies at least ``LEAST_BEND`` above it. On log axes proportional growth is the straight
  line, so that the bend is where growth stops being proportional.
- **Little's law**: N* = highest request rate x latency at the lowest concurrency, the load at
  which the two asymptotes of a closed system cross (P. J. Denning, J. P. Buzen, Computing Surveys
  10, 1978): below it latency stands still, above it latency grows with the load.

In a closed loop throughput and latency are tied by Little's law, so the methods share their data:
their agreement shows that the place does not hang on the method, not that it was seen three times.
Curves that are not saturated, and those that are flat from the first point on, have no knee.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod

import numpy as np
import numpy.typing as npt
import pandas as pd

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

PLATEAU_SHARE = 0.95
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
    agreement: str  # agree, disagree, no knee in range


def knees(
    concurrency: Sequence[float], throughput: Sequence[float], latency_s: Sequence[float]
) -> Knees:
    """The knees of one curve: throughput in requests/s and mean latency in s per concurrency.

    Any throughput that is proportional to requests/s gives the same kind and the first two
    places; the third needs requests/s. Raises ValueError for lengths that differ.
    """
    load, rate, wait = (
        np.asarray(v, dtype=np.float64) for v in (concurrency, throughput, latency_s)
    )
    if not load.shape == rate.shape == wait.shape:
        raise ValueError("concurrency, throughput and latency differ in length")
    order = np.argsort(load, kind="stable")
    load, rate, wait = load[order], rate[order], wait[order]
    none: tuple[float | None, ...] = (None,) * len(METHODS)
    if len(load) < 3:
        return Knees("too few points", none, "no knee in range")
    kind = _kind(load, rate)
    if kind in ("not saturated", "flat"):
        return Knees(kind, none, "no knee in range")
    top = int(rate.argmax())
    places = (
        float(load[int(np.argmax(rate >= PLATEAU_SHARE * rate[top]))]),
        _bend(load[: top + 1], rate[: top + 1]) if kind == "reversal" else _bend(load, rate),
        _crossing(load, rate, wait),
    )
    known = [p for p in places if p is not None]
    same = len(known) == len(places) and max(known) <= AGREE_WITHIN * min(known)
    return Knees(kind, places, "agree" if same else "disagree")


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


def _kind(load: Floats, rate: Floats) -> str:
    curve = pd.DataFrame(
        {"concurrency": load, "value": rate, "low": rate, "high": rate, "n_runs": 1}
    )
    row = saturation(curve, []).iloc[0]
    flat = row["finding"] == "plateau" and row["plateau_from"] == row["first_concurrency"]
    return "flat" if flat else str(row["finding"])


def _bend(load: Floats, rate: Floats) -> float | None:
    """The point farthest above the chord; None where the curve hardly bends."""
    if len(load) < 3:
        return None
    x, y = np.log(load), np.log(rate)
    if not np.ptp(y) > 0:
        return None
    above = (y - y.min()) / np.ptp(y) - (x - x[0]) / (x[-1] - x[0])
    at = int(above.argmax())
    return float(load[at]) if above[at] >= LEAST_BEND else None


def _crossing(load: Floats, rate: Floats, wait: Floats) -> float | None:
    """N*, where it lies within the measured range."""
    place = float(rate.max() * wait[0])
    return place if load[0] <= place <= load[-1] else None
