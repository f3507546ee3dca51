"""Write a simulated run in the form that a benchmark client leaves.

Two forms: an AIPerf artifact folder (``profile_export.jsonl.gz`` with one record a request,
``profile_export_aiperf.json``) and one ``--save-detailed`` object of vLLM's bench serve. Times are
rounded to microseconds before differences are taken, so that gaps add up to the same instants.
Versions and ids say that the files are reconstructed; nothing in them claims a client's run.
"""

from __future__ import annotations

import gzip
import json
import uuid
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.explain.engine import Run
from servebook.explain.reconstruct.condition import Condition, figures

__all__ = ["aiperf_folder", "pack", "vllm_object"]

_CLOCK_US = 1_000_000_000  # a performance counter counts from boot: it never stands at 0
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "servebook:reconstruction")
Ints = npt.NDArray[np.int64]


def pack(content: bytes) -> bytes:
    """Compressed without a time stamp or name, so that the same content gives the same bytes."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def aiperf_folder(run: Run, condition: Condition, start_ns: int, model: str) -> dict[str, bytes]:
    """The files of one AIPerf artifact folder, by name; ``start_ns`` is the run's first start."""
    lines = []
    for i in np.argsort(run.end_s, kind="stable"):
        start, end = _us(run.start_s[i]), _us(run.end_s[i])
        tokens = _token_times_us(run, int(i))
        latency_ms = (end - start) / 1e3
        metrics: dict[str, Any] = {
            "request_latency": {"value": latency_ms, "unit": "ms"},
            "time_to_first_token": {"value": (int(tokens[0]) - start) / 1e3, "unit": "ms"},
            "input_sequence_length": {"value": int(run.isl[i]), "unit": "tokens"},
            "output_sequence_length": {"value": int(run.osl[i]), "unit": "tokens"},
        }
        if len(tokens) > 1:
            metrics["inter_token_latency"] = {
                "value": (end - int(tokens[0])) / 1e3 / (len(tokens) - 1),
                "unit": "ms",
            }
            metrics["inter_chunk_latency"] = {
                "value": (np.diff(tokens) / 1e3).tolist(),
                "unit": "ms",
            }
        metadata = {
            "session_num": int(i),
            "x_request_id": str(uuid.uuid5(_NAMESPACE, f"{condition.run}#{i}")),
            "request_start_ns": start_ns + start * 1000,
            "request_end_ns": start_ns + end * 1000,
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        }
        lines.append(_compact({"metadata": metadata, "metrics": metrics}))
    return {
        "profile_export.jsonl.gz": pack("".join(line + "\n" for line in lines).encode()),
        "profile_export_aiperf.json": (
            json.dumps(_aiperf_summary(run, condition, model), indent=2) + "\n"
        ).encode(),
    }


def vllm_object(run: Run, condition: Condition, model: str) -> bytes:
    """The object that ``--save-detailed`` writes: lists in request order, times in seconds."""
    order = np.argsort(run.start_s, kind="stable")
    tokens = [_token_times_us(run, int(i)) for i in order]
    starts = [_us(run.start_s[i]) for i in order]
    found = figures(run)
    document: dict[str, Any] = {
        "backend": "reconstructed",
        "label": "reconstructed by an engine model; only the form is vLLM's",
        "model_id": model,
        "num_prompts": len(order),
        "request_rate": "inf",
        "max_concurrency": condition.concurrency,
        "duration": found["duration_s"],
        "completed": len(order),
        "failed": 0,
        "total_input_tokens": int(run.isl.sum()),
        "total_output_tokens": int(run.osl.sum()),
        "request_throughput": len(order) / found["duration_s"],
        "output_throughput": found["output_throughput"],
        "total_token_throughput": found["total_throughput"],
        "input_lens": run.isl[order].tolist(),
        "output_lens": run.osl[order].tolist(),
        "ttfts": [(int(t[0]) - s) / 1e6 for t, s in zip(tokens, starts, strict=True)],
        "itls": [(np.diff(t) / 1e6).tolist() for t in tokens],
        "start_times": [(_CLOCK_US + s) / 1e6 for s in starts],
        "errors": [""] * len(order),
    }
    return pack((_compact(document) + "\n").encode())


def _aiperf_summary(run: Run, condition: Condition, model: str) -> dict[str, Any]:
    found = figures(run)
    units = {"throughput": "tokens/sec"}
    summary: dict[str, Any] = {
        "schema_version": "1.4",
        "aiperf_version": "reconstructed",
        "request_count": {"unit": "requests", "avg": float(len(run.osl))},
        "benchmark_duration": {"unit": "sec", "avg": found["duration_s"]},
        "input_token_throughput": {"unit": units["throughput"], "avg": found["input_throughput"]},
        "output_token_throughput": {"unit": units["throughput"], "avg": found["output_throughput"]},
        "time_to_first_token": {"unit": "ms", "avg": found["ttft_mean_s"] * 1e3},
    }
    if "tpot_mean_ms" in found:
        summary["inter_token_latency"] = {"unit": "ms", "avg": found["tpot_mean_ms"]}
        summary["inter_chunk_latency"] = {"unit": "ms", "avg": found["itl_mean_ms"]}
    return summary | {
        "input_config": {
            "models": {"items": [{"name": model}]},
            "endpoint": {"streaming": True, "use_server_token_count": True},
            "datasets": [
                {"prompts": {"isl": {"mean": condition.isl}, "osl": {"mean": condition.osl}}}
            ],
            "phases": [{"name": "profiling", "concurrency": condition.concurrency}],
        },
        "was_cancelled": False,
        "is_complete": True,
        "error_summary": [],
    }


def _token_times_us(run: Run, request: int) -> Ints:
    times: Ints = np.rint(run.token_times_s(request) * 1e6).astype(np.int64)
    return times


def _us(seconds: float) -> int:
    return round(float(seconds) * 1e6)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
