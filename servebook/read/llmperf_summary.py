"""llmperf's own summary under our names, and what it means by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from servebook.read.client_figures import counts, statistics_ms
from servebook.read.definition import Definition, Records
from servebook.read.values import model_name, number, text, whole

__all__ = ["DEFINITIONS", "ITL", "Settings", "native", "recomputed", "settings"]

#: The record's key of what llmperf calls inter-token latency.
ITL = "inter_token_latency_s"
_LATENCIES = {"ttft_s": "ttft", ITL: "tpot", "end_to_end_latency_s": "e2e"}
_COUNTS = {"results_num_completed_requests": "n_ok", "results_number_errors": "n_failed"}


def _stored(metric: str, records: Records) -> float:
    value = (records.native.get("_recomputed") or {}).get(metric)
    return float(value) if isinstance(value, int | float) else np.nan


DEFINITIONS: Mapping[str, Definition] = {
    "ttft_inside": Definition(
        "llmperf divides the time from the request's start to its last chunk by all output tokens, "
        "so TTFT is inside; ours is (end - first token) / (tokens - 1)",
        _stored,
    ),
}


@dataclass(frozen=True)
class Settings:
    """What the summary says was asked for."""

    version: str | None = None
    model: str | None = None
    concurrency: int | None = None
    isl: int | None = None
    osl: int | None = None


def settings(summary: Mapping[str, Any]) -> Settings:
    """The settings of a run; an empty summary gives nothing."""
    return Settings(
        version=text(summary.get("version")),
        model=model_name(summary.get("model")),
        concurrency=whole(summary.get("num_concurrent_requests")) or None,
        isl=whole(summary.get("mean_input_tokens")) or None,
        osl=whole(summary.get("mean_output_tokens")) or None,
    )


def native(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The client's figures under our metric names; its duration follows from its rate."""
    out: dict[str, Any] = {}
    for theirs, ours in _LATENCIES.items():
        for quantiles in ("", "quantiles_"):
            out |= statistics_ms(ours, summary, 1e3, key=f"results_{theirs}_{quantiles}{{}}")
    rate = number(summary.get("results_mean_output_throughput_token_per_s"))
    if rate is not None:
        out["output_throughput_tok_s"] = rate
    completed = whole(summary.get("results_num_completed_requests"))
    per_minute = number(summary.get("results_num_completed_requests_per_min"))
    if per_minute is not None:
        out["request_throughput_req_s"] = per_minute / 60
        if completed and per_minute > 0:
            out["duration_s"] = completed / per_minute * 60
    out |= counts(summary, _COUNTS)
    if out:
        out["_definition"] = {"tpot": "ttft_inside"}
    return dict(sorted(out.items()))


def recomputed(itl_s: Sequence[float]) -> dict[str, float]:
    """Statistics of the records' own "inter-token latency", which the tables do not keep."""
    if not itl_s:
        return {}
    values = np.asarray(itl_s) * 1e3
    out = {"tpot_mean_ms": float(values.mean()), "tpot_max_ms": float(values.max())}
    return out | {f"tpot_p{q}_ms": float(np.percentile(values, q)) for q in (50, 90, 95, 99)}
