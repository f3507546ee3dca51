"""SGLang's own summary under our metric names, and what it means by its figures.

The client writes 0.0 where it has no value (TPOT and ITL when no request had a second token) and
NaN where nothing completed. A family of which every statistic is 0 is therefore missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from servebook.read.client_figures import numbers, statistics_ms
from servebook.read.definition import Definition, Records, statistic_of
from servebook.read.values import number, whole

__all__ = ["DEFINITIONS", "NATIVE_BACKENDS", "native", "whole_replies"]

#: Backends that speak SGLang's own protocol (/generate), not OpenAI's.
NATIVE_BACKENDS = ("sglang", "sglang-native")

_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e_latency": "e2e"}
_SCALARS = {
    "duration": "duration_s",
    "request_throughput": "request_throughput_req_s",
    "input_throughput": "input_throughput_tok_s",
    "output_throughput": "output_throughput_tok_s",
    "total_throughput": "total_throughput_tok_s",
}


def native(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The client's own values under our metric names and units, with its definitions' codes."""
    out: dict[str, Any] = {}
    completed = whole(summary.get("completed"))
    for theirs, ours in _LATENCIES.items():
        found = statistics_ms(ours, summary, key=f"{{}}_{theirs}_ms")
        if completed != 0 and any(found.values()):
            out |= found
    out |= numbers(summary, _SCALARS)
    if out.get("duration_s", 1) <= 0:
        del out["duration_s"]
    if whole_replies(summary):  # the time of the whole reply is in it
        out = {key: value for key, value in out.items() if not key.startswith("tpot_")}
    if completed is not None:
        out["n_ok"] = completed
    if not out:
        return {}
    codes = {
        "duration": "stopwatch_with_failures",
        "throughput": "stopwatch_with_failures",
        "n_ok": "no_error_recorded",
        "tpot": "mean_of_requests",
    }
    if summary.get("backend") in NATIVE_BACKENDS:
        codes["itl"] = "sglang_per_token"
    else:
        codes |= {"e2e": "sglang_stream_end", "tpot": "sglang_stream_end_tpot"}
        if (number(summary.get("accept_length")) or 0) > 0:
            codes["itl"] = "sglang_retokenised"
    return dict(sorted((out | {"_definition": codes}).items()))


def whole_replies(summary: Mapping[str, Any]) -> bool:
    """Whether replies came in one piece: SGLang writes 0 for every TTFT.

    Its TPOT is then the whole latency over the tokens less one, with the TTFT inside.
    """
    first = [summary.get(f"{statistic}_ttft_ms") for statistic in ("mean", "median", "p99")]
    told = [value for value in map(number, first) if value is not None]
    return bool(told) and not any(told) and bool(whole(summary.get("completed")))


def _per_token(metric: str, records: Records) -> float:
    keep = records.ok[records.gap_request]
    tokens = np.nan_to_num(records.gap_tokens[keep], nan=1.0)
    return statistic_of(metric, np.repeat(records.gap_ms[keep] / tokens, tokens.astype(int)))


def _several_in_a_chunk(_metric: str, records: Records) -> bool:
    return bool((records.gap_tokens > 1).any())


_END = (
    "SGLang's latency ends with the last message of the stream, which is the usage that follows "
    "the last token; ours ends with the last token. The dump keeps no time of that message"
)
DEFINITIONS: Mapping[str, Definition] = {
    "sglang_per_token": Definition(
        "SGLang divides the gap before a chunk by the chunk's tokens and counts it once per token; "
        "ours is one gap per chunk",
        _per_token,
        _several_in_a_chunk,
    ),
    "sglang_retokenised": Definition(
        "under speculative decoding SGLang divides each gap by the tokens that it counts in the "
        "chunk's text, once per token; ours is one gap per chunk, and the dump keeps no chunk texts"
    ),
    "sglang_stream_end": Definition(_END),
    "sglang_stream_end_tpot": Definition(
        _END, differs=lambda _metric, records: bool((records.osl[records.ok] > 1).any())
    ),
}
