"""A campaign of any size whose tokens follow the clock of an engine, as those of a real one do.

Two AIPerf runs: ``mixed_c16`` takes nine tenths of the gaps, ``decode_c16`` the rest. Sixteen
requests run at all times; each decode step takes 6 ms give or take 50 µs, each prompt a step of its
own that stops the others, and the client delivers each token some 20 µs late. The record around the
gaps is one of ``data/loopback``. What ``benchmarks/dumps.py`` writes follows no clock at all.

With more ``lanes`` than one number there are two runs for each: ``mixed_c16``, ``decode_c16``,
``mixed_c32`` and so on, which share the gaps. Fewer tokens a request make more requests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

__all__ = ["campaign"]

LOOPBACK = Path(__file__).resolve().parents[1] / "data" / "loopback" / "raw"
LANES, TOKENS = (16,), 1000
_STEP_NS, _NOISE_NS, _LATE_NS = 6e6, 5e4, 2e4
_PROMPT_TOKENS = {"mixed": (512, 4096), "decode": (16, 16)}
_TOKENS_A_S = 50_000
_MANIFEST = """\
servebook: 1
name: engine
title: Two runs of an engine model
provenance: measured
model: {name: mock-model}
configurations:
  slots16: {label: 16 slots, engine: engine model, nodes: 1, max_num_seqs: 16}
runs:
  - {match: "raw/{workload}_c{concurrency}", configuration: slots16}
"""


def campaign(
    folder: Path, n_gaps: float, n_tokens: int = TOKENS, lanes: Sequence[int] = LANES
) -> Path:
    """A folder with ``campaign.yaml`` and two runs a number of lanes, ``n_gaps`` together.

    A gap takes 10.5 bytes, and what stands around the gaps of a request 2.5 kB.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "campaign.yaml").write_text(_MANIFEST)
    for n_lanes in lanes:
        for workload, share in (("mixed", 0.9), ("decode", 0.1)):
            part = n_gaps * share / len(lanes)
            _run(folder / "raw" / f"{workload}_c{n_lanes}", workload, part, n_tokens, n_lanes)
    return folder


def _record() -> dict[str, Any]:
    path = LOOPBACK / "aiperf" / "spread" / "mixed_c8" / "profile_export.jsonl"
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    return next(r for r in records if r["metadata"]["phase_kind"] == "profiling")


def _run(folder: Path, workload: str, n_gaps: float, n_tokens: int, n_lanes: int) -> None:
    rng = np.random.default_rng(0)
    n_requests = max(n_lanes, round(n_gaps / (n_tokens - 1)))
    # Of each lane one request after the other; lanes are apart by equal parts of a request.
    lane = np.arange(n_requests) % n_lanes
    begin = 1 + lane * n_tokens // n_lanes + (n_tokens - 1) * (np.arange(n_requests) // n_lanes)
    low, high = _PROMPT_TOKENS[workload]
    prompt = rng.integers(low, high + 1, n_requests)
    n_steps = int(begin.max()) + n_tokens
    prefill = np.bincount(begin, prompt, n_steps) / _TOKENS_A_S * 1e9
    length = rng.normal(_STEP_NS, _NOISE_NS, n_steps) + prefill
    ends = np.cumsum(length)
    record = _record()
    zero = int(record["metadata"]["request_start_ns"])
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "profile_export.jsonl").open("wb") as stream:
        for number in np.argsort(begin, kind="stable").tolist():
            step = int(begin[number])
            times = np.empty(n_tokens)
            times[0] = ends[step - 1] + prefill[step]
            times[1:] = ends[step : step + n_tokens - 1]
            times = np.sort(np.rint(times + rng.exponential(_LATE_NS, n_tokens))).astype(np.int64)
            start = int(ends[step - 1]) - 100_000 * int(rng.integers(1, 10))
            stream.write(_line(record, number, zero, start, times, int(prompt[number])))


def _line(
    record: dict[str, Any], number: int, zero: int, start: int, times: Any, prompt: int
) -> bytes:
    own = f"{number:08x}-0000-4000-8000-{number:012x}"
    metrics = record["metrics"]
    record["metadata"] |= {
        "session_num": number,
        "x_request_id": own,
        "x_correlation_id": own,
        "credit_issued_ns": zero + start - 50_000,
        "request_start_ns": zero + start,
        "request_ack_ns": zero + start + 50_000,
        "request_end_ns": zero + int(times[-1]),
    }
    for name, value in (
        ("request_latency", (int(times[-1]) - start) / 1e6),
        ("time_to_first_token", (int(times[0]) - start) / 1e6),
        ("input_sequence_length", prompt),
        ("usage_prompt_tokens", prompt),
        ("output_sequence_length", len(times)),
        ("output_token_count", len(times)),
        ("usage_completion_tokens", len(times)),
        ("inter_chunk_latency", (np.diff(times) / 1e6).tolist()),
    ):
        metrics[name]["value"] = value
    return orjson.dumps(record) + b"\n"
