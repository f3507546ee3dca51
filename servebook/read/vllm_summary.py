"""What vLLM's own summary says: settings, and metrics under our names.

The client writes 0.0 where it has no value: all statistics when nothing completed, TPOT and ITL
when no request had a second token. A statistic whose mean is 0.0 is therefore taken as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servebook.read.values import number, whole

__all__ = ["native"]

_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e"}
_STATISTICS = {
    "mean": "mean",
    "median": "p50",
    "p50": "p50",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p99.9": "p999",
}
_SCALARS = {
    "duration": "duration_s",
    "request_throughput": "request_throughput_req_s",
    "output_throughput": "output_throughput_tok_s",
    "total_token_throughput": "total_throughput_tok_s",
}


def native(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The client's own values under our metric names and units, with hints on its definitions."""
    out: dict[str, Any] = {}
    completed = whole(summary.get("completed"))
    for theirs, ours in _LATENCIES.items():
        if completed == 0 or not number(summary.get(f"mean_{theirs}_ms")):
            continue
        for key, statistic in _STATISTICS.items():
            value = number(summary.get(f"{key}_{theirs}_ms"))
            if value is not None:
                out[f"{ours}_{statistic}_ms"] = value
    for theirs, ours in _SCALARS.items():
        value = number(summary.get(theirs))
        if value is not None and (value > 0 or ours != "duration_s"):
            out[ours] = value
    prompts, failed = whole(summary.get("num_prompts")), whole(summary.get("failed"))
    if completed is not None:
        out["n_ok"] = completed
        if failed is None and prompts is not None:
            failed = max(0, prompts - completed)  # older files do not write it
    if failed is not None:
        out["n_failed"] = failed
    if out:
        out["_definition"] = {
            "duration": "stopwatch_with_failures",
            "throughput": "stopwatch_with_failures",
            "n_ok": "no_error_recorded",
            "tpot": "mean_of_requests",
        }
    return dict(sorted(out.items()))
