"""Usual record lines of AIPerf as columns: as little work for each record as can be.

Nine tenths of a token-level line are one list of gaps. It is cut out: simdjson hands it over as an
array, and msgspec takes the few values that a request needs from the rest, many of which are then
checked at once. Whatever is not as AIPerf writes it (an escape, a name where it does not belong, an
error, a cancelled request, a value of another kind or out of bounds) goes the long way of
``aiperf_records.request``, which decides what it is and says why a line cannot be used. So both
ways give the same, and this one only decides whether it may. (One thing it passes over: a number
beyond all floats, such as 1e999, in a value that nobody reads.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import simdjson

from servebook.gap_table import Lengths
from servebook.read.aiperf_batch import MISSING, NOTHING, Batch
from servebook.read.aiperf_summary import UNIT_TO_NS, Settings
from servebook.read.values import LONGEST_NS, MAX_TOKENS

__all__ = ["MISSING", "Batch", "Parser", "Usual", "checked"]

#: Whole numbers up to here are exact in a float.
_EXACT = 2.0**53
_EPOCH_NS = (10**18, 4_102_444_800 * 10**9)
_NAME = b"inter_chunk_latency"
_BEFORE = b'"inter_chunk_latency":{"value":['

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


#: Of another one the long way says that it is none of time. A literal makes no text of each.
_Unit = Literal["ns", "us", "ms", "sec", "s"]


class _Span(msgspec.Struct, frozen=True, gc=False):
    value: float
    unit: _Unit


class _Number(msgspec.Struct, frozen=True, gc=False):
    """A metric whose unit is of no matter."""

    value: float


class _Cut(msgspec.Struct, frozen=True, gc=False):
    """The metric whose list was cut out."""

    value: None
    unit: _Unit


_NO_SPAN, _NO_NUMBER, _NO_CUT = _Span(np.nan, "ns"), _Number(np.nan), _Cut(None, "ns")


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
    output_sequence_length: _Number
    inter_chunk_latency: _Cut = _NO_CUT
    time_to_first_token: _Span = _NO_SPAN
    ttft: _Span = _NO_SPAN
    request_latency: _Span = _NO_SPAN
    input_sequence_length: _Number = _NO_NUMBER
    usage_prompt_cache_read_tokens: _Number = _NO_NUMBER
    usage_completion_tokens: _Number = _NO_NUMBER
    osl_mismatch_diff_pct: _Number = _NO_NUMBER


class _Record(msgspec.Struct, gc=False):
    metadata: _About
    metrics: _Metrics
    error: None = None


class Usual(NamedTuple):
    """One usual record, not checked yet.

    ``gaps``: doubles in their unit as a buffer, whole ns as an array of 32-bit numbers, or None.
    """

    record: _Record
    gaps: Any


class Parser:
    """Takes usual records apart."""

    def __init__(self) -> None:
        self._numbers = simdjson.Parser()
        self._rest = msgspec.json.Decoder(_Record)

    def usual(self, line: bytes) -> Usual | None:
        """The values of a line, not checked yet; None where it is not a usual record."""
        try:
            return self._usual(line)
        except msgspec.DecodeError:
            return None
        except (ValueError, TypeError, AttributeError, RuntimeError):
            self._numbers = simdjson.Parser()  # the old one may hold a document
            return None

    def _usual(self, line: bytes) -> Usual | None:
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
        # Without an escape, no name is spelled in another way and no string holds a quote.
        if b"\\" in rest or not rest.isascii() or (start >= 0 and rest.count(_NAME) != 1):
            return None
        return self._of(rest, gaps, start >= 0)

    def without_list(self, rest: memoryview, gap_ns: npt.NDArray[np.int32] | None) -> Usual | None:
        """As ``usual`` for the parts of a line into which ``aiperf_lists`` took it."""
        try:
            return self._of(rest, gap_ns, gap_ns is not None)
        except msgspec.DecodeError:
            return None

    def _of(self, rest: bytes | memoryview, gaps: Any, was_cut: bool) -> Usual | None:
        record = self._rest.decode(rest)
        if record.metadata.was_cancelled:
            return None
        has_list = record.metrics.inter_chunk_latency is not _NO_CUT
        return Usual(record, gaps) if has_list == was_cut else None


def checked(records: Sequence[Usual], settings: Settings) -> tuple[Batch, Bools]:
    """The columns of the records that are within bounds, and which those are."""
    batch, good = _batch(records, settings)
    if not good.all():
        kept = [one for one, fine in zip(records, good, strict=True) if fine]
        batch = _batch(kept, settings)[0] if kept else NOTHING
    return batch, good


def _batch(records: Sequence[Usual], settings: Settings) -> tuple[Batch, Bools]:
    """The columns of all records, and which of them are within bounds."""
    about = [one.record.metadata for one in records]
    metrics = [one.record.metrics for one in records]
    names = [one.x_request_id for one in about]
    good = np.array([name.isprintable() and name != "" for name in names])

    def whole(values: list[int | None], low: int, high: int, missing: int = MISSING) -> Ints:
        nonlocal good
        given = [missing if value is None else value for value in values]
        try:
            found = np.array(given, np.int64)
        except OverflowError:
            found = np.array([v if abs(v) < 2**62 else -2 for v in given], np.int64)
        none = found == missing
        if missing == MISSING and none.any():  # a dump may hold this very number
            none = np.array([value is None for value in values])
        good &= none | ((found >= low) & (found < high))
        return found

    def span(given: list[_Span]) -> tuple[Ints, Bools]:
        nonlocal good
        values = np.array([one.value for one in given])
        there = ~np.isnan(values)
        with np.errstate(over="ignore", invalid="ignore"):
            values *= _ns_per_unit([one.unit for one in given])
            good &= ~there | ((values >= 0) & (values < min(_EXACT, LONGEST_NS)))
        return np.rint(np.where(good & there, values, 0.0)).astype(np.int64), there

    def count(given: list[_Number]) -> tuple[Ints, Bools]:
        nonlocal good
        values = np.array([one.value for one in given])
        there = ~np.isnan(values)
        good &= ~there | ((values >= 0) & (values < MAX_TOKENS))
        return np.rint(np.where(good & there, values, 0.0)).astype(np.int64), there

    start = whole([one.request_start_ns for one in about], *_EPOCH_NS)
    scheduled = whole([one.credit_issued_ns for one in about], *_EPOCH_NS)
    end = whole([one.request_end_ns for one in about], *_EPOCH_NS)
    session = whole([one.session_num for one in about], 0, 10**8, -1)
    turn = whole([one.turn_index for one in about], 0, 2**53, 0)
    phase_index = whole([one.phase_index for one in about], 0, 2**53, -1)
    ttft, has_ttft = span(
        [one.ttft if one.time_to_first_token is _NO_SPAN else one.time_to_first_token
         for one in metrics]
    )  # fmt: skip
    latency, has_latency = span([one.request_latency for one in metrics])
    end = np.where(has_latency, start + latency, end)
    good &= (end >= start) | (end == MISSING)
    good &= ~(has_ttft & has_latency) | (ttft <= latency)
    isl, has_isl = count([one.input_sequence_length for one in metrics])
    osl, _ = count([one.output_sequence_length for one in metrics])
    cached, has_cached = count([one.usage_prompt_cache_read_tokens for one in metrics])
    usage, has_usage = count([one.usage_completion_tokens for one in metrics])
    percent = np.array([one.osl_mismatch_diff_pct.value for one in metrics])
    asked = percent > -100  # NaN is not
    with np.errstate(all="ignore"):
        wanted = np.where(asked, osl / (1 + percent / 100), 0.0)
    good &= (wanted >= 0) & (wanted < _EXACT)
    requested = np.rint(np.where(good, wanted, 0.0)).astype(np.int64)
    produced = np.where(has_usage & (usage > 0), usage, osl)
    short = asked & (requested > 0) & (produced > 0) & (produced < requested)
    counts, gap_ns, fine = _gaps(
        [one.gaps for one in records], [one.inter_chunk_latency.unit for one in metrics]
    )
    return Batch(
        request_id=names,
        conversation=[one.conversation_id for one in about],
        warmup=np.array(
            [
                (one.phase_kind or one.benchmark_phase or one.credit_phase) == "warmup"
                for one in about
            ]
        ),
        columns={
            "scheduled_ns": scheduled,
            "start_ns": start,
            "first_token_ns": np.where(has_ttft, start + ttft, MISSING),
            "end_ns": end,
            "isl": np.where(has_isl, isl, MISSING),
            "osl": osl,
            "osl_requested": np.where(asked, requested, MISSING),
            "cached_tokens": np.where(has_cached, cached, MISSING),
        },
        session=session,
        turn=turn,
        phase_index=phase_index,
        usage=np.where(has_usage, usage, MISSING),
        short_output=short & bool(settings.ignore_eos),
        counts=counts,
        gap_ns=gap_ns,
    ), good & fine


def _ns_per_unit(units: Sequence[str]) -> Any:
    """By what values in these units become ns."""
    first, *others = set(units)
    return np.array([UNIT_TO_NS[unit] for unit in units]) if others else UNIT_TO_NS[first]


def _gaps(buffers: Sequence[Any], units: Sequence[str]) -> tuple[Ints, Lengths, Bools]:
    """Gaps per record, all of them in whole ns, and whose are zero or more and no sum of years."""
    arrays = [
        _NO_NS if one is None else one if isinstance(one, np.ndarray) else np.frombuffer(one)
        for one in buffers
    ]
    counts = np.array([len(one) for one in arrays], np.int64)
    in_ns = np.array([one.dtype == np.int32 for one in arrays])
    fine = np.ones(len(arrays), bool)
    if in_ns.all():
        return counts, np.concatenate(arrays), fine
    factor = np.where(in_ns, 1.0, _ns_per_unit(units))
    gaps = _room(int(counts.sum()))
    np.concatenate(arrays, out=gaps)
    with np.errstate(over="ignore", invalid="ignore"):
        same = (factor == factor[0]).all()
        np.multiply(gaps, factor[0] if same else np.repeat(factor, counts), out=gaps)
        most = float(gaps.max())
        if not (gaps.min() >= 0 and most * int(counts.max()) < LONGEST_NS):
            has = counts > 0
            begin = (np.cumsum(counts) - counts)[has]
            fine[has] &= np.minimum.reduceat(gaps, begin) >= 0
            # Nearer to the bound the long way decides.
            fine[has] &= np.add.reduceat(gaps, begin) < LONGEST_NS / 2
            most = LONGEST_NS
        np.rint(gaps, out=gaps)
        return counts, gaps.astype(np.int32 if most < 2**31 - 1 else np.int64), fine


_NO_NS = np.empty(0, np.int32)
_scratch = np.empty(0)


def _room(n: int) -> Floats:
    """Memory for n numbers, the same every time: fresh memory costs more than the arithmetic."""
    global _scratch
    if len(_scratch) < n:
        _scratch = np.empty(2 * n)
    return _scratch[:n]
