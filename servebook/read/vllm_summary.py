"""What vLLM's own summary says: settings, and metrics under our names.

The client writes 0.0 where it has no value: all statistics when nothing completed, TPOT and ITL
when no request had a second token. A statistic whose mean is 0.0 is therefore taken as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servebook.read.client_figures import numbers, statistics_ms
from servebook.read.values import number, text, whole

__all__ = ["client", "length_asked", "native", "setup_notes", "wall_ns"]

_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e"}
_SCALARS = {
    "duration": "duration_s",
    "request_throughput": "request_throughput_req_s",
    "input_throughput": "input_throughput_tok_s",  # of 2024
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
        out |= statistics_ms(ours, summary, key=f"{{}}_{theirs}_ms")
    out |= numbers(summary, _SCALARS)
    if out.get("duration_s", 1) <= 0:
        del out["duration_s"]
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


#: Settings that a sweep writes into a result, and that may be told: numbers and short words.
_SET = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "enable_expert_parallel",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "block_size",
    "gpu_memory_utilization",
    "kv_cache_dtype",
    "quantization",
    "run_number",
)
_LONGEST = 40


def client(result: Mapping[str, Any]) -> str:
    """Which script wrote a result: InferenceX's copy adds interactivity and the time of day."""
    forked = "benchmark_start_time_unix" in result or any("_intvty" in key for key in result)
    return "InferenceX benchmark_serving" if forked else "vLLM bench serve"


def length_asked(result: Mapping[str, Any], which: str) -> int | None:
    """Input or output length that a sweep set; a result of its own does not tell them."""
    asked = {key.replace("-", "_"): value for key, value in result.items()}
    found = (asked.get(f"{prefix}{which}_len") for prefix in ("random_", ""))
    return next((n for value in found if (n := whole(value)) is not None), None)


def setup_notes(result: Mapping[str, Any]) -> list[str]:
    """What a sweep set, as one sentence; settings of a known name alone, never other metadata."""
    asked = {key.replace("-", "_"): value for key, value in result.items()}
    told = []
    for key in _SET:
        value = asked.get(key)
        shown = text(value) if isinstance(value, str) else None
        if isinstance(value, bool | int | float) or (shown and len(shown) <= _LONGEST):
            told.append(f"{key} {shown if shown else value}")
    return [f"set by the sweep: {', '.join(told)}"] if told else []


def wall_ns(result: Mapping[str, Any], which: str) -> int | None:
    """Epoch ns of the run's start or end, which InferenceX's copy of the script writes."""
    seconds = number(result.get(f"benchmark_{which}_time_unix"))
    return round(seconds * 1e9) if seconds is not None and 1e9 <= seconds < 4e9 else None
