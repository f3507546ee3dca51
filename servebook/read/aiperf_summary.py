"""What AIPerf's own summary and configuration say: settings, and metrics under our names.

Its times ``start_time`` and ``end_time`` are naive local time and are never used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["UNIT_TO_NS", "Settings", "native", "settings"]

#: AIPerf names the unit beside each value.
UNIT_TO_NS = {"ns": 1, "us": 1e3, "ms": 1e6, "sec": 1e9, "s": 1e9}

#: AIPerf's metric -> ours. Its inter-token latency is one value per request, our TPOT.
_LATENCIES = {
    "time_to_first_token": "ttft",
    "ttft": "ttft",
    "inter_token_latency": "tpot",
    "inter_chunk_latency": "itl",
    "request_latency": "e2e",
}
_STATISTICS = {"avg": "mean", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "max": "max"}
_SCALARS = {
    "request_throughput": "request_throughput_req_s",
    "output_token_throughput": "output_throughput_tok_s",
    "input_token_throughput": "input_throughput_tok_s",
    "total_token_throughput": "total_throughput_tok_s",
    "request_count": "n_ok",
    "error_request_count": "n_failed",
}


@dataclass(frozen=True)
class Settings:
    """What was asked for, as far as the dump tells; None where it does not."""

    model: str | None = None
    streaming: bool | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    isl: int | None = None
    osl: int | None = None
    requests: int | None = None
    server_counts: bool | None = None
    ignore_eos: bool | None = None
    per_chunk_usage: bool | None = None
    deadline_s: float | None = None


def native(summary: Mapping[str, Any]) -> dict[str, Any]:
    """AIPerf's own values under our metric names and units, with hints on its definitions."""
    out: dict[str, Any] = {}
    for theirs, ours in _LATENCIES.items():
        metric = _object(summary.get(theirs))
        factor = UNIT_TO_NS.get(str(metric.get("unit")))
        for key, statistic in _STATISTICS.items():
            value = _number(metric.get(key))
            if value is not None and factor is not None:
                out[f"{ours}_{statistic}_ms"] = value * (factor / 1e6)
    for theirs, ours in _SCALARS.items():
        value = _number(_object(summary.get(theirs)).get("avg"))
        if value is not None:
            out[ours] = int(value) if ours.startswith("n_") else value
    duration = _object(summary.get("benchmark_duration"))
    value = _number(duration.get("avg"))
    factor = UNIT_TO_NS.get(str(duration.get("unit")))
    if value is not None and factor is not None:
        out["duration_s"] = value * (factor / 1e9)
    completed = _number(_object(summary.get("completed_request_count")).get("avg"))
    if "n_ok" in out and "n_failed" not in out and completed == out["n_ok"]:
        out["n_failed"] = 0  # the key is absent when there were none
    if out:
        out["_definition"] = {
            "duration": "valid_only",
            "throughput": "valid_only",
            "n_ok": "stream_errors_count_as_ok",
            "n_failed": "includes_cancelled",
            "ttft": "stream_errors_count_as_ok",
            "e2e": "stream_errors_count_as_ok",
            "itl": "stream_errors_count_as_ok",
            "tpot": "mean_of_requests",
        }
    return dict(sorted(out.items()))


def settings(config: Mapping[str, Any], run_info: Mapping[str, Any] | None = None) -> Settings:
    """Settings from ``input_config`` of either layout (to 0.8; from 0.9) and ``run_info``."""
    endpoint = _object(config.get("endpoint"))
    found = _phased(config) if "phases" in config or "datasets" in config else _flat(config)
    extra = _pairs(endpoint.get("extra")) | _pairs(_object(config.get("input")).get("extra"))
    found |= {
        "streaming": _boolean(endpoint.get("streaming")),
        "server_counts": _boolean(
            endpoint.get("use_server_token_count", _object(config.get("tokenizer")).get("server"))
        ),
        "per_chunk_usage": _boolean(endpoint.get("per_chunk_usage")),
        "ignore_eos": _boolean(extra.get("ignore_eos")),
    }
    # In a sweep the command shows the whole list; the variation is this run's own value.
    values = _object(_object(run_info or {}).get("variation_values"))
    for key, value in sorted(values.items()):
        leaf = str(key).rpartition(".")[2]
        if leaf == "concurrency":
            found["concurrency"] = _whole(value)
        elif leaf in ("rate", "request_rate"):
            found["request_rate"] = _number(value)
    return Settings(**found)


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    load, source = _object(config.get("loadgen")), _object(config.get("input"))
    prompt = _object(source.get("prompt"))
    output = _object(prompt.get("output_tokens"))
    names = _object(config.get("endpoint")).get("model_names")
    return {
        "model": _name(names[0] if isinstance(names, list) and names else names),
        "concurrency": _whole(load.get("concurrency")),
        "request_rate": _number(load.get("request_rate")),
        "requests": _whole(load.get("request_count")),
        "deadline_s": _number(load.get("benchmark_duration")),
        "isl": _whole(_object(prompt.get("input_tokens")).get("mean")),
        "osl": _whole(output.get("mean")),
    }


def _phased(config: Mapping[str, Any]) -> dict[str, Any]:
    items = _object(config.get("models")).get("items")
    phase = next((p for p in _objects(config.get("phases")) if _measured(p)), {})
    prompts = _object(next(iter(_objects(config.get("datasets"))), {}).get("prompts"))
    return {
        "model": _name(next(_objects(items), {}).get("name")),
        "concurrency": _whole(phase.get("concurrency")),
        "request_rate": _number(phase.get("rate")),
        "requests": _whole(phase.get("requests")),
        "deadline_s": _number(phase.get("duration")),
        "isl": _whole(_object(prompts.get("isl")).get("mean")),
        "osl": _whole(_object(prompts.get("osl")).get("mean")),
    }


def _measured(phase: Mapping[str, Any]) -> bool:
    return phase.get("kind", "profiling") == "profiling" and not phase.get("exclude_from_results")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    return (v for v in value if isinstance(v, dict)) if isinstance(value, list) else iter(())


def _pairs(value: Any) -> dict[str, Any]:
    """Extra inputs are an object, or a list of pairs in the older layout."""
    if isinstance(value, list):
        pairs = [v for v in value if isinstance(v, list) and len(v) == 2]
        return {str(key): item for key, item in pairs}
    return _object(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else round(number)


def _boolean(value: Any) -> bool | None:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _name(value: Any) -> str | None:
    """A model's name; of a path only the last part, because a path names a machine's folders."""
    if not isinstance(value, str) or not value.strip("/"):
        return None
    return value.rstrip("/").rpartition("/")[2] if value.startswith(("/", "~", ".")) else value
