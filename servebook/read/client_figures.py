"""A client's own figures under our metric names, from the objects of its summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servebook.read.values import number, whole

__all__ = ["counts", "numbers", "statistics_ms"]

#: Our statistics by the clients' names for them.
_STATISTICS = {
    "avg": "mean",
    "mean": "mean",
    "median": "p50",
    "p50": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p99.9": "p999",
    "p99p9": "p999",
    "max": "max",
}


def statistics_ms(
    ours: str, values: Mapping[str, Any], ms_per_unit: float = 1.0, *, key: str = "{}"
) -> dict[str, float]:
    """The statistics of one latency in ms, by our names, such as ``ttft_p99_ms``.

    ``key`` is what the keys of ``values`` make of a statistic's name, such as ``{}_ttft_ms``.
    What is no number is left out.
    """
    return {
        f"{ours}_{statistic}_ms": value * ms_per_unit
        for theirs, statistic in _STATISTICS.items()
        if (value := number(values.get(key.format(theirs)))) is not None
    }


def numbers(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, float]:
    """Figures by our names, as ``names`` gives them by the client's; others are left out."""
    return {
        ours: value
        for theirs, ours in names.items()
        if (value := number(values.get(theirs))) is not None
    }


def counts(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, int]:
    """Counts by our names; as ``numbers``, for whole numbers of zero or more."""
    return {
        ours: count
        for theirs, ours in names.items()
        if (count := whole(values.get(theirs))) is not None
    }
