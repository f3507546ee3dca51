"""Dumps of any size in the forms that clients write: one shipped record, with other numbers.

The record around the gaps is one of ``data/loopback``, which AIPerf 0.13 and vLLM wrote. The gaps
are random: whole ns in ms as AIPerf spells them (half of them with the noise of a float's last
digits, as measured on its dumps), seconds with all digits as vLLM does. Same size, same bytes.
"""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

__all__ = ["aiperf", "vllm"]

LOOPBACK = Path(__file__).resolve().parents[1] / "data" / "loopback" / "raw"
POOL = 100_000


def _record() -> dict[str, Any]:
    path = LOOPBACK / "aiperf" / "spread" / "decode_c2" / "profile_export.jsonl"
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    return next(r for r in records if r["metadata"]["phase_kind"] == "profiling")


def aiperf(folder: Path, n_bytes: int, n_gaps: int = 999) -> Path:
    """``profile_export.jsonl`` of at least ``n_bytes``, with ``n_gaps`` gaps a request."""
    rng = random.Random(0)
    pool = []
    for _ in range(POOL):
        ns = max(1000, round(rng.gauss(6e6, 4e5)))
        pool.append(repr(ns * 1e-9 * 1000 if rng.random() < 0.5 else ns / 1e6))
    # All gaps twice in one text, of which each request's list is a piece: joining them anew takes
    # ten times as long.
    twice = [*pool, *pool]
    text = ",".join(twice).encode()
    ends = [0, *itertools.accumulate(len(one) + 1 for one in twice)]
    record = _record()
    start = int(record["metadata"]["request_start_ns"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "profile_export.jsonl"
    written = number = 0
    with path.open("wb") as stream:
        while written < n_bytes:
            own = f"{number:08x}-0000-4000-8000-{number:012x}"
            begin = start + number * 10_000_000
            record["metadata"] |= {
                "session_num": number,
                "x_request_id": own,
                "credit_issued_ns": begin - 1_000_000,
                "request_start_ns": begin,
                "request_ack_ns": begin + 1_000_000,
                "request_end_ns": begin + n_gaps * 6_500_000,
            }
            record["metrics"]["request_latency"]["value"] = n_gaps * 6.25
            record["metrics"]["output_sequence_length"]["value"] = n_gaps + 1
            record["metrics"]["inter_chunk_latency"]["value"] = "@"
            at = rng.randrange(POOL)
            rounds, left = divmod(n_gaps, POOL)
            gaps = [text[ends[at] : ends[at + POOL] - 1]] * rounds
            gaps += [text[ends[at] : ends[at + left] - 1]] if left else []
            before, after = json.dumps(record, separators=(",", ":")).encode().split(b'"@"')
            written += stream.write(b"%b[%b]%b\n" % (before, b",".join(gaps), after))
            number += 1
    return path


def vllm(folder: Path, n_bytes: int, n_gaps: int = 999) -> Path:
    """One result of ``vllm bench serve --save-detailed`` of at least ``n_bytes``."""
    rng = random.Random(0)
    pool = [max(1e-6, rng.gauss(6e-3, 4e-4)) for _ in range(POOL)]
    shipped = next(iter(sorted((LOOPBACK / "vllm" / "decode_c2").glob("*.json"))))
    result = json.loads(shipped.read_bytes())
    n = max(2, n_bytes // (n_gaps * 22))
    # All gaps in one text, again and again, of which each request's list is a piece.
    rounds = pool * (2 + n_gaps // POOL)
    text = ", ".join(map(repr, rounds))
    ends = [0, *itertools.accumulate(len(repr(one)) + 2 for one in rounds)]
    starts = [rng.randrange(POOL) for _ in range(n)]
    begin = float(result["start_times"][0])
    result |= {
        "num_prompts": n,
        "completed": n,
        "input_lens": [16] * n,
        "output_lens": [n_gaps + 1] * n,
        "ttfts": [0.02] * n,
        "itls": "@",
        "latencies": [0.02 + sum(rounds[at : at + n_gaps]) for at in starts],
        "start_times": [begin + 0.01 * i for i in range(n)],
        "queue_times": [0.0] * n,
        "generated_texts": [""] * n,
        "errors": [""] * n,
        "total_input_tokens": 16 * n,
        "total_output_tokens": n * (n_gaps + 1),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / shipped.name
    before, after = json.dumps(result).split('"@"')
    with path.open("w") as stream:
        stream.write(before + "[")
        for number, at in enumerate(starts):
            own = text[ends[at] : ends[at + n_gaps] - 2]
            stream.write(f"{', ' if number else ''}[{own}]")
        stream.write("]" + after)
    return path
