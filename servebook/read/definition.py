"""What a client means by its own figures, where it means something else than we do.

A reader puts the client's summary into ``runs.native`` under our metric names and says, per metric
or family of metrics, by which code each is defined (``_definition``). The codes that are the
client's alone stand in its ``Format.definitions``: words for the page, and a pure function that
applies the client's definition to our records. ``servebook.measure.native`` compares; nothing
else has to know of a new client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Definition", "Floats", "Records", "family", "statistic_name", "statistic_of"]

Floats = npt.NDArray[np.float64]

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True)
class Records:
    """One run as a client's definition sees it: its profiling requests and gaps, as arrays.

    One entry per request, in file order: ``status`` and ``error_kind`` ("" where there is none);
    ``start_s``, ``first_s`` and ``end_s`` in s since the run's first start (since the request's own
    start where the clock is "none"); ``isl``, ``osl``, ``osl_requested``. One entry per gap:
    ``gap_ms``, ``gap_tokens`` (in the chunk that ends it) and ``gap_request``, the position of its
    request. NaN is unknown. ``native`` is the client's own summary, with the ``_`` keys that the
    reader put beside it.
    """

    status: npt.NDArray[np.object_]
    error_kind: npt.NDArray[np.object_]
    start_s: Floats
    first_s: Floats
    end_s: Floats
    isl: Floats
    osl: Floats
    osl_requested: Floats
    gap_ms: Floats
    gap_request: npt.NDArray[np.int64]
    gap_tokens: Floats
    native: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> npt.NDArray[np.bool_]:
        """The requests that we call ok."""
        return np.asarray(self.status == "ok", dtype=bool)

    @property
    def ttft_ms(self) -> Floats:
        """First token minus start."""
        return (self.first_s - self.start_s) * 1e3

    @property
    def e2e_ms(self) -> Floats:
        """End minus start."""
        return (self.end_s - self.start_s) * 1e3

    @property
    def decode_ms(self) -> Floats:
        """End minus first token."""
        return (self.end_s - self.first_s) * 1e3


def _cannot(_metric: str, _records: Records) -> float:
    return np.nan


def _always(_metric: str, _records: Records) -> bool:
    return True


@dataclass(frozen=True)
class Definition:
    """A definition of a client's own.

    ``words`` completes "differs by definition: " (what the client does; then what ours is).
    ``recompute(metric, records)`` gives the client's figure from our records, NaN where they do
    not allow it. ``differs(metric, records)`` says whether the two part in this run; it looks at
    what the run holds, never at whether the two numbers agree.
    """

    words: str
    recompute: Callable[[str, Records], float] = _cannot
    differs: Callable[[str, Records], bool] = _always


def family(metric: str) -> str:
    """What a metric belongs to: "throughput" for all rates, "ttft" for "ttft_p99_ms"."""
    if "_throughput_" in metric:
        return "throughput"
    return metric if metric.startswith("n_") else metric.partition("_")[0]


def statistic_name(metric: str) -> str:
    """The statistic of a latency: "p99" of "ttft_p99_ms"."""
    return metric.split("_")[1]


def statistic_of(metric: str, values: Floats) -> float:
    """The statistic that ``metric`` names, of the known ``values``; percentiles interpolate."""
    values = values[~np.isnan(values)]
    if not values.size:
        return np.nan
    name = statistic_name(metric)
    if name in _QUANTILES:
        return float(np.quantile(values, _QUANTILES[name]))
    if name == "mean":
        return float(values.mean())
    return float(values.max()) if name == "max" else np.nan
