"""Small guidellm reports by hand, in the three layouts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

START = 1_795_973_256.0
ZERO = {
    "mean": 0.0,
    "max": 0.0,
    "count": 0,
    "percentiles": dict.fromkeys(("p50", "p90", "p95", "p99"), 0.0),
}
GROUPS = ("successful", "errored", "incomplete")
FIXTURES = Path(__file__).parents[1] / "fixtures" / "clients" / "guidellm"


def entry(at: float, ttft: float, decode: float, osl: int | None, **changes: Any) -> dict[str, Any]:
    """A request of 0.4 or later, from ``at`` s on; the response ends 1 ms after the last token."""
    start = START + at
    timings = {
        "targeted_start": start - 0.002,
        "request_start": start,
        "first_token_iteration": start + ttft,
        "last_token_iteration": start + ttft + decode,
        "request_end": start + ttft + decode + 0.001,
    }
    timings |= changes.pop("timings", {})
    out: dict[str, Any] = {
        "request_id": "a secret",
        "request_args": "a secret prompt",
        "output": "a secret",
        "info": {"status": "completed", "timings": timings, "error": changes.pop("error", None)},
        "input_metrics": {"total_tokens": 16, "cached_tokens": None},
        "output_metrics": {"total_tokens": osl},
        "prompt_tokens": 16,
        "output_tokens": osl,
    }
    return out | changes


#: Two ok requests of 3 and 5 tokens: TTFT 10 and 20 ms, 10 and 40 ms from first to last token.
OK = (entry(0.0, 0.010, 0.010, 3), entry(0.1, 0.020, 0.040, 5))


def old_entry(at: float, ttft: float, decode: float, osl: int, **changes: Any) -> dict[str, Any]:
    """A request of 0.3."""
    start = START + at
    return {
        "type_": "generative_text_response",
        "scheduler_info": {
            "targeted_start_time": start - 0.002,
            "request_start": start,
            "request_end": start + ttft + decode + 0.001,
        },
        "prompt": "a secret",
        "output": "a secret",
        "prompt_tokens": 16,
        "output_tokens": osl,
        "start_time": start,
        "first_token_time": start + ttft,
        "last_token_time": start + ttft + decode,
        "end_time": start + ttft + decode + 0.001,
    } | changes


def distribution(**values: Any) -> dict[str, Any]:
    """A metric with values in the group "successful" and empty groups beside it."""
    found = copy.deepcopy(ZERO) | {"count": 1} | values
    return {"successful": found, "errored": ZERO, "incomplete": ZERO, "total": found}


def benchmark(
    successful: Sequence[Any] = (),
    errored: Sequence[Any] = (),
    incomplete: Sequence[Any] = (),
    **changes: Any,
) -> dict[str, Any]:
    """A benchmark of 0.4 or later with two streams."""
    made = {"successful": len(successful), "errored": len(errored), "incomplete": len(incomplete)}
    made["total"] = sum(made.values())
    return {
        "type_": "generative_benchmark",
        "config": {
            "strategy": {"type_": "concurrent", "streams": 2, "max_concurrency": 2},
            "sample_size": None,
            "backend": {
                "model": "/secret/models/a-model",
                "target": "http://secret.example",
                "api_key": "secret",
                "stream": True,
            },
            "warmup": {"percent": None, "value": None},
            "cooldown": {"percent": None, "value": None},
        },
        "scheduler_metrics": {"requests_made": made},
        "metrics": {"time_to_first_token_ms": distribution(mean=15.0)},
        "requests": {
            "successful": list(successful),
            "errored": list(errored),
            "incomplete": list(incomplete),
            "total": None,
        },
        "start_time": START,
        "end_time": START + 0.25,
        "duration": 0.25,
    } | changes


def report(*benchmarks: Any, **changes: Any) -> dict[str, Any]:
    """A report of schema 2 whose synthetic prompts ask for 16 tokens in and 3 out."""
    data = {"kind": "synthetic_text", "prompt_tokens": 16, "output_tokens": 3}
    return {
        "metadata": {"version": 2, "guidellm_version": "0.8.1", "platform": "a secret machine"},
        "config": {"spec": {"data": [data], "backend": {"target": "http://secret.example"}}},
        "benchmarks": list(benchmarks),
    } | changes


def schema_1(*benchmarks: Any) -> dict[str, Any]:
    """A report of 0.4 to 0.6."""
    return {
        "metadata": {"version": 1, "guidellm_version": "0.6.0"},
        "args": {
            "data": ["prompt_tokens=16,output_tokens=3"],
            "backend_kwargs": {"target": "http://secret.example", "model": "a-model"},
        },
        "benchmarks": [
            one | {"config": {k: v for k, v in one["config"].items() if k != "backend"}}
            for one in benchmarks
        ],
    }


def layout_0_3(
    successful: Sequence[Any] = (), incomplete: Sequence[Any] = (), **changes: Any
) -> dict[str, Any]:
    """A report of 0.3: no schema number, settings in the benchmark."""
    made = {"successful": len(successful), "errored": 0, "incomplete": len(incomplete)}
    made["total"] = sum(made.values())
    one = {
        "type_": "generative_benchmark",
        "args": {"strategy": {"type_": "constant", "rate": 10.0}, "warmup_number": None},
        "run_stats": {"requests_made": made},
        "worker": {"backend_target": "http://secret.example", "backend_model": "a/model"},
        "request_loader": {"data": "prompt_tokens=16,output_tokens=3"},
        "metrics": {"time_to_first_token_ms": distribution(mean=15.0)},
        "request_totals": made,
        "requests": {
            "successful": list(successful),
            "errored": [],
            "incomplete": list(incomplete),
            "total": None,
        },
        "start_time": START,
        "end_time": START + 0.25,
        "duration": 0.25,
    }
    return {"benchmarks": [one | changes]}
