"""What a request needs of AIPerf's record lines, as msgspec takes it from them.

One thing it passes over: a number beyond all floats, such as 1e999, in a value that nobody reads.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np

__all__ = ["NO_CUT", "NO_SPAN", "Record", "Span", "Value", "is_usual"]

#: Of another one the long way says that it is none of time. A literal makes no text of each.
_Unit = Literal["ns", "us", "ms", "sec", "s"]


class Span(msgspec.Struct, frozen=True, gc=False):
    """A metric in a unit of time."""

    value: float
    unit: _Unit


class Value(msgspec.Struct, frozen=True, gc=False):
    """A metric whose unit is of no matter."""

    value: float


class _Cut(msgspec.Struct, frozen=True, gc=False):
    """The metric whose list was cut out."""

    value: None
    unit: _Unit


NO_SPAN, _NO_VALUE, NO_CUT = Span(np.nan, "ns"), Value(np.nan), _Cut(None, "ns")


class _About(msgspec.Struct, gc=False):
    x_request_id: str
    request_start_ns: int
    credit_issued_ns: int | None = None
    request_end_ns: int | None = None
    session_num: int | None = None
    turn_index: int | None = None
    phase_index: int | None = None
    conversation_id: str | None = None
    phase_kind: str | None = None
    benchmark_phase: str | None = None
    credit_phase: str | None = None
    was_cancelled: bool | None = None


class _Metrics(msgspec.Struct, gc=False):
    output_sequence_length: Value
    inter_chunk_latency: _Cut = NO_CUT
    time_to_first_token: Span = NO_SPAN
    ttft: Span = NO_SPAN
    request_latency: Span = NO_SPAN
    input_sequence_length: Value = _NO_VALUE
    usage_prompt_cache_read_tokens: Value = _NO_VALUE
    usage_completion_tokens: Value = _NO_VALUE
    osl_mismatch_diff_pct: Value = _NO_VALUE


class Record(msgspec.Struct, gc=False):
    """What a request needs of a line, without its gaps."""

    metadata: _About
    metrics: _Metrics
    error: None = None


def is_usual(record: Any, has_list: object) -> bool:
    """Whether the request was not cancelled, and the list that was cut out was its list of gaps."""
    is_there = record.metrics.inter_chunk_latency is not NO_CUT
    return is_there == bool(has_list) and not record.metadata.was_cancelled
