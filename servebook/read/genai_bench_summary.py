"""genai-bench's own summary under our names, and what it means by it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from servebook.read.client_figures import counts, numbers, statistics_ms
from servebook.read.definition import Definition, Records, statistic_of
from servebook.read.values import number, object_of

__all__ = ["DEFINITIONS", "UNITS", "Trim", "native", "scenario", "trim"]

#: Nanoseconds of the unit that ``_time_unit`` names.
UNITS: Mapping[str, float] = {"s": 1e9, "ms": 1e6}

_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "e2e_latency": "e2e"}
_RATES = {
    "mean_input_throughput_tokens_per_s": "input_throughput_tok_s",
    "mean_output_throughput_tokens_per_s": "output_throughput_tok_s",
    "mean_total_tokens_throughput_tokens_per_s": "total_throughput_tok_s",
    "requests_per_second": "request_throughput_req_s",
}
_COUNTS = {"num_completed_requests": "n_ok", "num_error_requests": "n_failed"}
_RATIO = r"--{}-ratio[ =](0?\.\d+)(?=\s|$)"
_FIXED = re.compile(r"D\((\d{1,9}),\s*(\d{1,9})\)")
_NORMAL = re.compile(r"N\((\d{1,9}),\s*\d+\)/\((\d{1,9}),\s*\d+\)")


@dataclass(frozen=True)
class Trim:
    """How many requests at both ends the client's statistics leave out."""

    first: int = 0
    last: int = 0


def trim(about: Mapping[str, Any], n: int) -> Trim:
    """What the command in the metadata says of warm-up and cool-down, for ``n`` requests."""
    command = about.get("cmd")
    shares = []
    for name in ("warmup", "cooldown"):
        said = re.search(_RATIO.format(name), command) if isinstance(command, str) else None
        shares.append(float(said[1]) if said else 0.0)
    return Trim(*(int(n * share) for share in shares))


def scenario(value: Any) -> tuple[int | None, int | None]:
    """Input and output length of a traffic scenario: D(in,out), or the means of N(..)/(..)."""
    for pattern in (_FIXED, _NORMAL):
        found = pattern.fullmatch(value) if isinstance(value, str) else None
        if found:
            return int(found[1]) or None, int(found[2]) or None
    return None, None


def _kept(records: Records) -> np.ndarray[Any, np.dtype[np.bool_]]:
    first, last = records.native.get("_trim") or (0, 0)
    position = np.arange(len(records.status))
    return np.asarray(records.ok & (position >= first) & (position < len(position) - last))


def _latency(metric: str, records: Records) -> float:
    kept = _kept(records)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = {
            "ttft": records.ttft_ms,
            "tpot": records.decode_ms / (records.osl - 1),
            "e2e": records.e2e_ms,
        }[metric.partition("_")[0]]
    return statistic_of(metric, values[kept])


def _rate(metric: str, records: Records) -> float:
    kept = _kept(records)
    duration = number(records.native.get("duration_s"))
    tokens_in, tokens_out = records.isl[kept].sum(), records.osl[kept].sum()
    amount = {"input": tokens_in, "output": tokens_out, "total": tokens_in + tokens_out}
    return float(amount[metric.partition("_")[0]]) / duration if duration else np.nan


def _trimmed(metric: str, records: Records) -> bool:  # noqa: ARG001
    return any(records.native.get("_trim") or ())


DEFINITIONS: Mapping[str, Definition] = {
    "trimmed": Definition(
        "genai-bench leaves its warm-up and cool-down requests out; ours holds all",
        _latency,
        _trimmed,
    ),
    "trimmed_over_all": Definition(
        "genai-bench divides the tokens without those of its warm-up and cool-down requests by a "
        "duration with them; ours holds all tokens",
        _rate,
        _trimmed,
    ),
}


def native(aggregated: Mapping[str, Any], unit_ns: float, cut: Trim) -> dict[str, Any]:
    """The client's figures under our metric names; ``run_duration`` is always in seconds."""
    out: dict[str, Any] = {}
    stats = object_of(aggregated.get("stats"))
    for theirs, ours in _LATENCIES.items():
        out |= statistics_ms(ours, object_of(stats.get(theirs)), unit_ns / 1e6)
    duration = number(aggregated.get("run_duration"))
    if duration is not None and duration > 0:
        out["duration_s"] = duration
        out |= numbers(aggregated, _RATES)
    out |= counts(aggregated, _COUNTS)
    if out:
        out["_trim"] = [cut.first, cut.last]
        out["_definition"] = {
            "ttft": "trimmed",
            "tpot": "trimmed",
            "e2e": "trimmed",
            "throughput": "trimmed_over_all",
            "request_throughput_req_s": "same",
        }
    return dict(sorted(out.items()))
