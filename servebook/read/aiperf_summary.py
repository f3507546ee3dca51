"""What AIPerf's own summary and configuration say: settings, and metrics under our names.

Its times ``start_time`` and ``end_time`` are naive local time and are never used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servebook.read.client_figures import counts, numbers, statistics_ms
from servebook.read.values import boolean, model_name, number, object_of, objects_in, whole

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
_SCALARS = {
    "request_throughput": "request_throughput_req_s",
    "output_token_throughput": "output_throughput_tok_s",
    "input_token_throughput": "input_throughput_tok_s",
    "total_token_throughput": "total_throughput_tok_s",
}
_COUNTS = {"request_count": "n_ok", "error_request_count": "n_failed"}


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
    """AIPerf's own values under our metric names and units, with hints on its definitions.

    ``duration_s`` spans valid requests only. Throughputs are those of valid requests, but 0.13
    divides them by a longer time, that of its whole phase: request count over request throughput
    tells which.
    """
    out: dict[str, Any] = {}
    summary = object_of(summary.get("records")) or summary  # 0.2 keeps them one level down
    for theirs, ours in _LATENCIES.items():
        metric = object_of(summary.get(theirs))
        factor = UNIT_TO_NS.get(str(metric.get("unit")))
        if factor is not None:
            out |= statistics_ms(ours, metric, factor / 1e6)
    means = {name: object_of(metric).get("avg") for name, metric in summary.items()}
    out |= numbers(means, _SCALARS) | counts(means, _COUNTS)
    duration = object_of(summary.get("benchmark_duration"))
    value = number(duration.get("avg"))
    factor = UNIT_TO_NS.get(str(duration.get("unit")))
    if value is not None and factor is not None:
        out["duration_s"] = value * (factor / 1e9)
    completed = number(object_of(summary.get("completed_request_count")).get("avg"))
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
    """Settings from ``input_config`` of either layout (to 0.8; from 0.9) and ``run_info``.

    Streaming and server-side token counts are off unless the configuration asks for them.
    """
    endpoint = object_of(config.get("endpoint"))
    found = _phased(config) if "phases" in config or "datasets" in config else _flat(config)
    extra = _pairs(endpoint.get("extra")) | _pairs(object_of(config.get("input")).get("extra"))
    found |= {
        "streaming": boolean(endpoint.get("streaming", False if endpoint else None)),
        "server_counts": boolean(
            endpoint.get("use_server_token_count", False if endpoint else None)
        ),
        "per_chunk_usage": boolean(endpoint.get("per_chunk_usage")),
        "ignore_eos": boolean(extra.get("ignore_eos")),
    }
    # In a sweep the command shows the whole list; the variation is this run's own value.
    values = object_of(object_of(run_info or {}).get("variation_values"))
    for key, value in sorted(values.items()):
        leaf = str(key).rpartition(".")[2]
        if leaf == "concurrency":
            found["concurrency"] = _length(value)
        elif leaf in ("rate", "request_rate"):
            found["request_rate"] = number(value)
    return Settings(**found)


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    load, source = object_of(config.get("loadgen")), object_of(config.get("input"))
    prompt = object_of(source.get("prompt"))
    output = object_of(prompt.get("output_tokens"))
    names = object_of(config.get("endpoint")).get("model_names")
    return {
        "model": model_name(names[0] if isinstance(names, list) and names else names),
        "concurrency": _length(load.get("concurrency")),
        "request_rate": number(load.get("request_rate")),
        "requests": _length(load.get("request_count")),
        "deadline_s": number(load.get("benchmark_duration")),
        "isl": _length(object_of(prompt.get("input_tokens")).get("mean")),
        "osl": _length(output.get("mean")),
    }


def _phased(config: Mapping[str, Any]) -> dict[str, Any]:
    items = object_of(config.get("models")).get("items")
    phase = next((p for p in objects_in(config.get("phases")) if _measured(p)), {})
    prompts = object_of(next(iter(objects_in(config.get("datasets"))), {}).get("prompts"))
    return {
        "model": model_name(next(objects_in(items), {}).get("name")),
        "concurrency": _length(phase.get("concurrency")),
        "request_rate": number(phase.get("rate")),
        "requests": _length(phase.get("requests")),
        "deadline_s": number(phase.get("duration")),
        "isl": _length(object_of(prompts.get("isl")).get("mean")),
        "osl": _length(object_of(prompts.get("osl")).get("mean")),
    }


def _measured(phase: Mapping[str, Any]) -> bool:
    return phase.get("kind", "profiling") == "profiling" and not phase.get("exclude_from_results")


def _pairs(value: Any) -> dict[str, Any]:
    """Extra inputs are an object, or a list of pairs in the older layout."""
    if isinstance(value, list):
        pairs = [v for v in value if isinstance(v, list) and len(v) == 2]
        return {str(key): item for key, item in pairs}
    return object_of(value)


def _length(value: Any) -> int | None:
    """A mean length or a number of requests as a whole number."""
    found = number(value)
    return None if found is None else whole(round(found))
