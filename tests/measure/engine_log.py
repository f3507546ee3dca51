"""What an engine's own log says of each gap: the oracle for the stalls.

Beside the loopback dumps lies ``_server_truth/``: requests.jsonl (per request the time of its
first token and its number of tokens) and steps.jsonl (every engine step with its start, end and
kind). Token k of a request is emitted at the end of its k-th decode step after the first token;
the gap between two of them is stalled exactly if a prefill step ran between the two emissions.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

SLACK_NS = 200_000  # the log stamps a first token just after its step's end


def stalled_gaps(run: Path) -> dict[str, npt.NDArray[np.bool_]]:
    """For each request (by its X-Request-ID) whether each of its gaps was stalled."""
    folder = run / "_server_truth"
    steps = [json.loads(line) for line in _lines(next(folder.glob("steps.jsonl*")))]
    decode = [step for step in steps if step["k"] in ("decode", "mixed")]
    start = np.array([step["s"] for step in decode], dtype=np.int64)
    end = np.array([step["e"] for step in decode], dtype=np.int64)
    prefill = np.array([step["e"] for step in steps if step["k"] == "prefill"], dtype=np.int64)
    out = {}
    for line in _lines(folder / "requests.jsonl"):
        request = json.loads(line)
        if not request.get("t_first"):
            continue
        first = int(request["t_first"])
        begin = int(np.searchsorted(start, first - SLACK_NS))
        emitted = end[begin : begin + request["out"] - 1]
        before = np.concatenate([[first], emitted[:-1]])
        count = np.searchsorted(prefill, emitted) - np.searchsorted(prefill, before + SLACK_NS // 2)
        out[str(request["hdr"].get("X-Request-ID"))] = count > 0
    return out


def _lines(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()
