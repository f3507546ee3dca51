"""Small hand-made records, and the trimmed real runs under tests/fixtures/runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

FIXTURES = Path(__file__).parent.parent / "fixtures" / "runs"
START = 1_795_972_676_000_000_000


def record(n: int = 0, **changes: Any) -> dict[str, Any]:
    """An ok request that starts n seconds in: TTFT 20 ms, gaps of 5, 7 and 0 ms, four tokens."""
    start = START + n * 10**9
    out: dict[str, Any] = {
        "metadata": {
            "session_num": n,
            "x_request_id": f"request-{n}",
            "credit_issued_ns": start - 1_000_000,
            "request_start_ns": start,
            "request_end_ns": start + 40_000_000,
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        },
        "metrics": {
            "time_to_first_token": {"value": 20.0, "unit": "ms"},
            "request_latency": {"value": 32.0, "unit": "ms"},
            "inter_chunk_latency": {"value": [5.0, 7.0, 0.0], "unit": "ms"},
            "output_sequence_length": {"value": 4, "unit": "tokens"},
            "input_sequence_length": {"value": 16, "unit": "tokens"},
        },
    }
    out["metadata"] |= changes.pop("metadata", {})
    return out | changes


def failed(n: int, code: int | None, kind: str, message: str = "", **metadata: Any) -> Any:
    error = {"code": code, "type": kind, "message": message}
    return record(n, metrics={}, error=error, metadata=metadata)


def summary(**changes: Any) -> dict[str, Any]:
    """A summary of the layout of 0.9 and later."""
    phase = {"name": "profiling", "kind": "profiling", "concurrency": 8, "requests": 2}
    return {
        "schema_version": "1.4",
        "aiperf_version": "0.13.0",
        "request_latency": {"unit": "ms", "avg": 32.0, "p50": 32.0, "p99": 32.0},
        "request_count": {"unit": "requests", "avg": 2.0},
        "completed_request_count": {"unit": "requests", "avg": 2.0},
        "benchmark_duration": {"unit": "sec", "avg": 1.032},
        "input_config": {
            "models": {"items": [{"name": "a-model"}]},
            "endpoint": {"type": "chat", "streaming": True, "use_server_token_count": True},
            "datasets": [{"prompts": {"isl": {"mean": 16.0}, "osl": {"mean": 4.0}}}],
            "phases": [{"name": "warmup", "kind": "warmup", "concurrency": 1}, phase],
        },
        "was_cancelled": False,
        "is_complete": True,
        **changes,
    }


def write_lines(path: Path, *records: Any) -> Path:
    """One JSON record a line; bytes are written as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in records]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))
    return path


def vllm_result(**changes: Any) -> dict[str, Any]:
    """A detailed result of three requests: two streamed, one refused with HTTP 500."""
    return {
        "date": "20261129-172505",
        "backend": "vllm",
        "model_id": "a-model",
        "num_prompts": 3,
        "request_rate": "inf",
        "max_concurrency": 2,
        "duration": 0.2,
        "completed": 2,
        "failed": 1,
        "total_input_tokens": 32,
        "total_output_tokens": 6,
        "request_throughput": 10.0,
        "request_goodput:": None,
        "output_throughput": 30.0,
        "total_token_throughput": 190.0,
        "mean_ttft_ms": 15.0,
        "median_ttft_ms": 15.0,
        "p99_ttft_ms": 19.9,
        "mean_tpot_ms": 5.0,
        "mean_itl_ms": 5.0,
        "input_lens": [16, 16, 16],
        "output_lens": [3, 3, 0],
        "ttfts": [0.01, 0.02, 0.0],
        "itls": [[0.004, 0.006], [0.005, 0.005], []],
        "start_times": [1584.5, 1584.75, 1584.6],
        "generated_texts": ["a", "b", ""],
        "errors": ["", "", "Internal Server Error"],
        **changes,
    }


#: Any JSON value, NaN and numbers of any size included.
JUNK_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
