"""Usual record lines of AIPerf taken apart: the few values that a request needs, and its gaps.

Nine tenths of a token-level line are one list of gaps. It is cut out: by compiled code where that
is there (``aiperf_lists``), else simdjson hands it over as an array; msgspec takes the other values
from the rest. Whatever is not as AIPerf writes it (an escape, a name where it does not belong, an
error, a cancelled request, a value of another kind) goes the long way of
``aiperf_records.request``, which decides what it is and says why a line cannot be used. So all ways
give the same, and this one only decides whether it may. (One thing it passes over: a number beyond
all floats, such as 1e999, in a value that nobody reads.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import simdjson

from servebook.read.aiperf_lists import Found
from servebook.read.line_blocks import bare

__all__ = ["NO_SPAN", "Parser", "Record", "Span", "Taken", "Value"]

_NAME = b"inter_chunk_latency"
_BEFORE = b'"inter_chunk_latency":{"value":['

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


NO_SPAN, _NO_VALUE, _NO_CUT = Span(np.nan, "ns"), Value(np.nan), _Cut(None, "ns")


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
    inter_chunk_latency: _Cut = _NO_CUT
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


class Taken(NamedTuple):
    """Lines in order, not checked yet."""

    #: Each line, from 0, without its line end; until more lines are asked for.
    line: Callable[[int], bytes]
    #: Of each line; None where it is not a usual one.
    records: list[Record | None]
    #: Of each record: doubles in their unit as a buffer, 32-bit whole ns as an array, or None.
    gaps: list[Any]
    #: How many gaps each record has, where ``gaps`` is one array of all their ns.
    counts: npt.NDArray[np.int64] | None = None


class Parser:
    """Takes usual records apart."""

    def __init__(self) -> None:
        self._numbers = simdjson.Parser()
        self._rest = msgspec.json.Decoder(Record)

    def of_lines(self, lines: Sequence[bytes]) -> Taken:
        """The values of lines."""
        return _each(lines.__getitem__, [self._usual(line) for line in lines])

    def of_block(self, block: memoryview, found: Found) -> Taken:
        """The values of the lines of a block, which ``aiperf_lists`` took apart."""

        def line(at: int) -> bytes:
            return bare(bytes(block[found.begins[at] : found.ends[at]]))

        decode, rests = self._rest.decode, found.rests
        if not found.refused:
            try:
                records: list[Any] = [
                    decode(rests[a:b])
                    for a, b in zip(found.rest_begins, found.rest_ends, strict=True)
                ]
            except msgspec.DecodeError:
                pass
            else:
                cancelled = [one.metadata.was_cancelled for one in records]
                have = [one.metrics.inter_chunk_latency is not _NO_CUT for one in records]
                if not any(cancelled) and have == (found.counts > 0).tolist():
                    return Taken(line, records, [found.gap_ns], found.counts)
        usual = []
        for at, gap_ns in enumerate(found.gaps()):
            one = None
            if gap_ns is not None:
                rest = rests[found.rest_begins[at] : found.rest_ends[at]]
                one = self._of(rest, gap_ns, len(gap_ns))
            usual.append(one or self._usual(line(at)))
        return _each(line, usual)

    def _usual(self, line: bytes) -> tuple[Record, Any] | None:
        try:
            start = line.find(_BEFORE)
            if start < 0:
                rest, gaps = line, None
            else:
                start += len(_BEFORE) - 1
                end = line.find(b"]", start) + 1
                values: Any = self._numbers.parse(line[start:end])
                gaps = values.as_buffer(of_type="d") if len(values) else None
                del values
                if line.find(b'"value"', end, line.find(b"}", end)) >= 0:
                    return None  # the last of two counts
                rest = b"null".join((line[:start], line[end:]))
        except (ValueError, TypeError, AttributeError, RuntimeError):
            self._numbers = simdjson.Parser()  # the old one may hold a document
            return None
        # Without an escape, no name is spelled in another way and no string holds a quote.
        if b"\\" in rest or not rest.isascii() or (start >= 0 and rest.count(_NAME) != 1):
            return None
        return self._of(rest, gaps, start >= 0)

    def _of(
        self, rest: bytes | memoryview, gaps: Any, has_list: object
    ) -> tuple[Record, Any] | None:
        try:
            record = self._rest.decode(rest)
        except msgspec.DecodeError:
            return None
        return (record, gaps) if _is_usual(record, has_list) else None


def _is_usual(record: Any, has_list: object) -> bool:
    """Whether the request was not cancelled, and the list that was cut out was its list of gaps."""
    is_there = record.metrics.inter_chunk_latency is not _NO_CUT
    return is_there == bool(has_list) and not record.metadata.was_cancelled


def _each(line: Callable[[int], bytes], usual: Sequence[tuple[Record, Any] | None]) -> Taken:
    return Taken(
        line,
        [None if one is None else one[0] for one in usual],
        [one[1] for one in usual if one is not None],
    )
