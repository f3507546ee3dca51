"""Usual record lines of AIPerf as columns: as little work for each record as can be.

simdjson parses a line and hands its list of gaps over as an array; the few other values that a
request needs are collected and checked many records at once. Whatever is not as AIPerf writes it (a
name twice, an error, a cancelled request, a value of another kind or out of bounds) goes the long
way of ``aiperf_records.request``, which decides what it is and says why a line cannot be used. So
both ways give the same, and this one only decides whether it may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import simdjson

from servebook.gap_table import Lengths
from servebook.read.aiperf_summary import UNIT_TO_NS, Settings
from servebook.read.values import LONGEST_NS, MAX_TOKENS

__all__ = ["MISSING", "Batch", "Parser", "Usual", "checked"]

#: Stands for null in a column of whole numbers.
MISSING = -(2**63)
#: Whole numbers up to here are exact in a float.
_EXACT = 2.0**53
_EPOCH_NS = (10**18, 4_102_444_800 * 10**9)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_NUMBER: set[type] = {int, float, type(None)}
_WHOLE: set[type] = {int, type(None)}
#: Each value of a usual record, in the order of ``Usual.row``, and the types that it may have.
_TYPES: dict[str, set[type]] = {
    "request_id": {str},
    "start": {int},
    "scheduled": _WHOLE,
    "end": _WHOLE,
    "session": _WHOLE,
    "turn": _WHOLE,
    "phase_index": _WHOLE,
    "conversation": {str, type(None)},
    "phase": {str},
    "ttft": _NUMBER,
    "latency": _NUMBER,
    "isl": _NUMBER,
    "osl": {int, float},
    "cached": _NUMBER,
    "usage": _NUMBER,
    "mismatch": _NUMBER,
}


class Usual(NamedTuple):
    """One usual record, not checked yet: values in the order of ``_TYPES``, gaps in their unit.

    ``units`` are those of TTFT and ``_METRICS``, then of the gaps; "" where there is no metric.
    """

    row: list[Any]
    units: list[Any]
    gaps: Any  # a buffer of doubles, or None


@dataclass(frozen=True)
class Batch:
    """Usual records that hold what they must, column by column; ``MISSING`` where null."""

    request_id: list[str]
    conversation: list[str | None]
    warmup: Bools
    columns: dict[str, Ints]  # of ``requests``
    session: Ints  # -1: none, or none that counts
    turn: Ints
    phase_index: Ints
    usage: Ints
    short_output: Bools
    counts: Ints  # gaps per record
    gap_ns: Lengths


class Parser:
    """Takes usual records apart; remembers which names they have, which is hardly ever new."""

    def __init__(self) -> None:
        self._parser = simdjson.Parser()
        self._names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._about: list[str] = []
        self._metrics: list[str] = []
        self._cancels = self._gaps = False

    def usual(self, line: bytes) -> Usual | None:
        """The values of a line, not checked yet; None where it is not a usual record."""
        try:
            return self._usual(line)
        except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, IndexError):
            self._parser = simdjson.Parser()  # the old one may hold a document
            return None

    def _usual(self, line: bytes) -> Usual:
        record: Any = self._parser.parse(line)
        about, metrics = record["metadata"], record["metrics"]
        if len(record) != 2 and (len(record) != 3 or record["error"] is not None):
            raise ValueError
        names = tuple(about), tuple(metrics)
        if names != self._names:
            self._learn(*names)
        if self._cancels and about["was_cancelled"] is not False:
            raise ValueError
        row: list[Any] = [about[name] if name else None for name in self._about]
        units = []
        for name in self._metrics:
            if name:
                metric = metrics[name]
                units.append(metric["unit"])
                row.append(metric["value"])
                if len(metric) != 2:  # so that both are there once
                    raise ValueError
            else:
                units.append("")
                row.append(None)
        buffer = None
        if self._gaps:
            metric = metrics["inter_chunk_latency"]
            values = metric["value"]
            units.append(metric["unit"])
            # The only list of the line: nothing is nested in it.
            if len(metric) != 2 or line.find(b"[") != line.rfind(b"["):
                raise ValueError
            if len(values):
                buffer = values.as_buffer(of_type="d")
        else:
            units.append("ms")
        return Usual(row, units, buffer)

    def _learn(self, about: tuple[str, ...], metrics: tuple[str, ...]) -> None:
        # A name that comes twice means its last value elsewhere; here it would mean the first.
        if len(set(about)) != len(about) or len(set(metrics)) != len(metrics):
            raise ValueError
        phase = next((name for name in _PHASES if name in about), "")
        self._about = [name if name in about else "" for name in (*_ABOUT, phase)]
        ttft = next((name for name in _TTFT if name in metrics), "")
        if ttft and set(_TTFT) <= set(metrics):
            raise ValueError
        self._metrics = [name if name in metrics else "" for name in (ttft, *_METRICS)]
        self._cancels = "was_cancelled" in about
        self._gaps = "inter_chunk_latency" in metrics
        self._names = about, metrics


#: In the order of ``_TYPES``, where the phase and the TTFT stand between them.
_ABOUT = (
    *("x_request_id", "request_start_ns", "credit_issued_ns", "request_end_ns"),
    *("session_num", "turn_index", "phase_index", "conversation_id"),
)
_METRICS = (
    *("request_latency", "input_sequence_length", "output_sequence_length"),
    *("usage_prompt_cache_read_tokens", "usage_completion_tokens", "osl_mismatch_diff_pct"),
)
#: The first that says something counts; a record in which it says nothing goes the long way.
_PHASES = ("phase_kind", "benchmark_phase", "credit_phase")
_TTFT = ("time_to_first_token", "ttft")
_UNITS = ("ttft", "latency", *_METRICS[1:], "gaps")


def checked(records: Sequence[Usual], settings: Settings) -> tuple[Batch, Bools]:
    """The columns of the records that are as they must be, and which those are."""
    good = np.ones(len(records), bool)
    columns = dict(zip(_TYPES, zip(*(one.row for one in records), strict=True), strict=True))
    for name, kinds in _TYPES.items():
        if not set(map(type, columns[name])) <= kinds:
            good &= np.array([type(value) in kinds for value in columns[name]])
    if not good.all():
        kept = [one for one, fine in zip(records, good, strict=True) if fine]
        batch, fine = checked(kept, settings) if kept else (_nothing(), np.empty(0, bool))
        good[good] = fine
        return batch, good
    batch, good = _batch(records, columns, settings)
    if not good.all():
        kept = [one for one, fine in zip(records, good, strict=True) if fine]
        batch = checked(kept, settings)[0] if kept else _nothing()
    return batch, good


def _nothing() -> Batch:
    none, no = np.empty(0, np.int64), np.empty(0, bool)
    return Batch([], [], no, dict.fromkeys(_COLUMNS, none), none, none, none, none, no, none, none)


_COLUMNS = (
    *("scheduled_ns", "start_ns", "first_token_ns", "end_ns"),
    *("isl", "osl", "osl_requested", "cached_tokens"),
)


def _batch(
    records: Sequence[Usual], columns: dict[str, tuple[Any, ...]], settings: Settings
) -> tuple[Batch, Bools]:
    """The columns of all records, and which of them are within bounds."""
    units = dict(zip(_UNITS, zip(*(one.units for one in records), strict=True), strict=True))
    good = np.array(list(map(str.isprintable, columns["request_id"])))
    for name in ("request_id", "phase"):
        good &= np.array(list(map(bool, columns[name])))

    def whole(name: str, low: int, high: int, missing: int = MISSING) -> Ints:
        nonlocal good
        try:
            given = [missing if value is None else value for value in columns[name]]
            values = np.array(given, np.int64)
        except OverflowError:
            given = [value if abs(value) < 2**62 else -2 for value in given]
            values = np.array(given, np.int64)
        good &= (values == missing) | ((values >= low) & (values < high))
        return values

    def floats(name: str) -> tuple[Floats, Bools]:
        try:
            values = np.array(columns[name], np.float64)
        except OverflowError:
            values = np.array([_float(value) for value in columns[name]])
        return values, np.array([value is not None for value in columns[name]])

    def span(name: str) -> tuple[Ints, Bools]:
        nonlocal good
        values, there = floats(name)
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.where(there, values * _ns_per_unit(units[name]), 0.0)
        good &= (values >= 0) & (values < min(_EXACT, LONGEST_NS))
        return np.rint(np.where(good, values, 0.0)).astype(np.int64), there

    def count(name: str) -> tuple[Ints, Bools]:
        nonlocal good
        values, there = floats(name)
        values = np.where(there, values, 0.0)
        good &= (values >= 0) & (values < MAX_TOKENS)
        return np.rint(np.where(good, values, 0.0)).astype(np.int64), there

    start = whole("start", *_EPOCH_NS)
    scheduled, end = whole("scheduled", *_EPOCH_NS), whole("end", *_EPOCH_NS)
    session, turn = whole("session", 0, 10**8, -1), whole("turn", 0, 2**53, 0)
    phase_index = whole("phase_index", 0, 2**53, -1)
    ttft, has_ttft = span("ttft")
    latency, has_latency = span("latency")
    end = np.where(has_latency, start + latency, end)
    good &= (end >= start) | (end == MISSING)
    good &= ~(has_ttft & has_latency) | (ttft <= latency)
    isl, has_isl = count("isl")
    osl, _ = count("osl")
    cached, has_cached = count("cached")
    usage, has_usage = count("usage")
    percent, asked = floats("mismatch")
    asked &= percent > -100
    with np.errstate(all="ignore"):
        wanted = np.where(asked, osl / (1 + percent / 100), 0.0)
    good &= (wanted >= 0) & (wanted < _EXACT)
    requested = np.rint(np.where(good, wanted, 0.0)).astype(np.int64)
    produced = np.where(has_usage & (usage > 0), usage, osl)
    short = asked & (requested > 0) & (produced > 0) & (produced < requested)
    counts, gap_ns, fine = _gaps(records, units["gaps"])
    return Batch(
        request_id=list(columns["request_id"]),
        conversation=list(columns["conversation"]),
        warmup=np.array([phase == "warmup" for phase in columns["phase"]]),
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


def _float(value: Any) -> float:
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.inf


def _ns_per_unit(units: Sequence[Any]) -> Any:
    """By what values in these units become ns; NaN for what is none of time."""
    some = set(map(type, units)) - {str}
    known = {unit: UNIT_TO_NS.get(unit, np.nan) for unit in set(units)} if not some else {}
    if len(known) == 1:
        return next(iter(known.values()))
    return np.array([known.get(unit, np.nan) if type(unit) is str else np.nan for unit in units])


def _gaps(records: Sequence[Usual], units: Sequence[Any]) -> tuple[Ints, Lengths, Bools]:
    """Gaps per record, all of them in whole ns, and whose are zero or more and no sum of years."""
    arrays = [_NO_GAPS if one.gaps is None else np.frombuffer(one.gaps) for one in records]
    counts = np.array([len(one) for one in arrays], np.int64)
    factor = _ns_per_unit(units)
    known = np.broadcast_to(~np.isnan(factor), len(records))
    n = int(counts.sum())
    if not n:
        return counts, np.empty(0, np.int32), known
    gaps = _room(n)
    np.concatenate(arrays, out=gaps)
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(gaps, factor if np.ndim(factor) == 0 else np.repeat(factor, counts), out=gaps)
        most = float(gaps.max())
        fine = known
        if not (gaps.min() >= 0 and most * int(counts.max()) < LONGEST_NS):
            has = counts > 0
            begin = (np.cumsum(counts) - counts)[has]
            fine = known.copy()
            fine[has] &= np.minimum.reduceat(gaps, begin) >= 0
            # Nearer to the bound the long way decides.
            fine[has] &= np.add.reduceat(gaps, begin) < LONGEST_NS / 2
            most = LONGEST_NS
        np.rint(gaps, out=gaps)
        return counts, gaps.astype(np.int32 if most < 2**31 - 1 else np.int64), fine


_NO_GAPS = np.empty(0)
_scratch = np.empty(0)


def _room(n: int) -> Floats:
    """Memory for n numbers, the same every time: fresh memory costs more than the arithmetic."""
    global _scratch
    if len(_scratch) < n:
        _scratch = np.empty(2 * n)
    return _scratch[:n]
