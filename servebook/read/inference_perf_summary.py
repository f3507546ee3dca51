"""inference-perf's own reports and configuration: settings, its figures under our names, and what
it means by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from servebook.read.client_figures import counts, numbers, statistics_ms
from servebook.read.definition import Definition, Records, statistic_of
from servebook.read.inference_perf_records import Call
from servebook.read.values import boolean, model_name, number, object_of, objects_in, whole

__all__ = ["DEFINITIONS", "Settings", "Stage", "native", "recomputed", "settings", "utc"]

_LATENCIES = {
    "time_to_first_token": "ttft",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
    "request_latency": "e2e",
}
_RATES = {
    "input_tokens_per_sec": "input_throughput_tok_s",
    "output_tokens_per_sec": "output_throughput_tok_s",
    "total_tokens_per_sec": "total_throughput_tok_s",
    "requests_per_sec": "request_throughput_req_s",
}
_PERCENTILES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}


def _zeros(metric: str, records: Records) -> float:
    # A token that came with another has no gap of its own; the client counts it as 0.
    more = int(records.native.get("_tokens_in_chunks") or 0)
    ok = records.ok[records.gap_request]
    return statistic_of(metric, np.concatenate([records.gap_ms[ok], np.zeros(more)]))


def _several(records: Records) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray(records.ok & (records.osl > 1), dtype=bool)


def _stored(metric: str, records: Records) -> float:
    value = (records.native.get("_recomputed") or {}).get(metric)
    return float(value) if isinstance(value, int | float) else np.nan


DEFINITIONS: Mapping[str, Definition] = {
    "reply_end": Definition(
        "inference-perf's request latency ends when the reply was read to its end; ours with its "
        "last token",
        _stored,
    ),
    "replies_end": Definition(
        "inference-perf's time runs to the end of the last reply; ours to its last token",
        _stored,
    ),
    "two_tokens": Definition(
        "inference-perf takes the TTFT of replies of two tokens and more; ours has all",
        lambda metric, records: statistic_of(metric, records.ttft_ms[_several(records)]),
        lambda metric, records: bool((records.ok & (records.osl == 1)).any()),
    ),
    "gap_per_token": Definition(
        "inference-perf counts a gap of 0 for each token that came in one chunk with another; "
        "ours are the gaps between chunks",
        _zeros,
        lambda metric, records: bool(records.native.get("_tokens_in_chunks")),
    ),
}
_CODES = {
    "duration": "replies_end",
    "throughput": "replies_end",
    "e2e": "reply_end",
    "ttft": "two_tokens",
    "itl": "gap_per_token",
    "tpot": "mean_of_requests",
}


@dataclass(frozen=True)
class Stage:
    """What was asked of one stage."""

    concurrency: int | None = None
    rate: float | None = None
    requests: int | None = None


@dataclass(frozen=True)
class Settings:
    """What ``config.yaml`` says; None where it is not there or does not say."""

    model: str | None = None
    streaming: bool | None = None
    ignore_eos: bool | None = None
    server_counts: bool | None = None
    isl: int | None = None
    osl: int | None = None
    fixed_osl: bool = False
    stages: tuple[Stage, ...] = ()


def settings(config: Mapping[str, Any]) -> Settings:
    """The settings of a configuration; an empty one gives nothing."""
    load, server = object_of(config.get("load")), object_of(config.get("server"))
    data = object_of(config.get("data"))
    shared = object_of(data.get("shared_prefix"))
    lengths = [shared.get("system_prompt_len"), shared.get("question_len")]
    isl = _fixed(data.get("input_distribution"))
    osl = _fixed(data.get("output_distribution"))
    if data.get("type") == "shared_prefix":
        known = [n for n in map(whole, lengths) if n is not None]
        isl = sum(known) if len(known) == 2 else None
        osl = whole(shared.get("output_len"))
    lifecycle = object_of(object_of(config.get("report")).get("request_lifecycle"))
    return Settings(
        model=model_name(server.get("model_name")),
        streaming=boolean(object_of(config.get("api")).get("streaming")),
        ignore_eos=boolean(server.get("ignore_eos")),
        server_counts=boolean(lifecycle.get("use_server_output_tokens", False if config else None)),
        isl=isl or None,
        osl=osl or None,
        fixed_osl=bool(osl) and _is_fixed(data),
        stages=tuple(_stage(stage) for stage in objects_in(load.get("stages"))),
    )


def _fixed(distribution: Any) -> int | None:
    """The mean length asked for, where there is one."""
    mean = number(object_of(distribution).get("mean"))
    return None if mean is None else whole(round(mean))


def _is_fixed(data: Mapping[str, Any]) -> bool:
    """Whether every reply was asked to be of the mean length."""
    if data.get("type") == "shared_prefix":
        return True
    wanted = object_of(data.get("output_distribution"))
    return wanted.get("min") == wanted.get("max") is not None or wanted.get("type") == "fixed"


def _stage(stage: Mapping[str, Any]) -> Stage:
    concurrency = whole(stage.get("concurrency_level"))
    if concurrency:
        # Its rate only repeats the number of requests.
        return Stage(concurrency, None, whole(stage.get("num_requests")))
    return Stage(None, number(stage.get("rate")), None)


def utc(value: Any) -> str | None:
    """A time of day with an offset as UTC to the ms; None for anything else."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(at, datetime) or at.tzinfo is None:
            return None
        return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return None


def native(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report's figures under our metric names, with the codes of its definitions."""
    done, failed = object_of(report.get("successes")), object_of(report.get("failures"))
    latency, rates = object_of(done.get("latency")), object_of(done.get("throughput"))
    out: dict[str, Any] = {}
    for theirs, ours in _LATENCIES.items():
        out |= statistics_ms(ours, object_of(latency.get(theirs)), 1e3)
    out |= numbers(rates, _RATES) | counts(done, {"count": "n_ok"})
    out |= counts(failed, {"count": "n_failed"})
    duration = number(report.get("benchmark_time_seconds"))
    if duration:
        out["duration_s"] = duration
    if out:
        out["_definition"] = dict(_CODES)
    return dict(sorted(out.items()))


def recomputed(calls: Sequence[Call]) -> dict[str, float]:
    """The client's latencies and rates, by its definition, from the records' own ends.

    The tables keep the last token's time, not the reply's end, so it is done here.
    """
    ok = [call for call in calls if call.status == "ok"]
    span = max(c.close_s for c in calls) - min(c.start_s for c in calls)
    out = {"duration_s": span}
    e2e = np.fromiter((c.close_s - c.start_s for c in ok), np.float64, len(ok)) * 1e3
    if e2e.size:
        out |= {"e2e_mean_ms": float(e2e.mean()), "e2e_max_ms": float(e2e.max())}
        out |= {f"e2e_{k}_ms": float(np.percentile(e2e, q)) for k, q in _PERCENTILES.items()}
    if span > 0:
        tokens_in = sum(c.isl or 0 for c in ok)
        tokens_out = sum(c.osl or 0 for c in ok)
        out |= {
            "input_throughput_tok_s": tokens_in / span,
            "output_throughput_tok_s": tokens_out / span,
            "total_throughput_tok_s": (tokens_in + tokens_out) / span,
            "request_throughput_req_s": len(ok) / span,
        }
    return out
