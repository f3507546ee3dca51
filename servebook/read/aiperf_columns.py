"""Usual records of AIPerf, checked many at once, as rows.

A record with a value out of bounds goes the long way, as any other that is not as it should be
(``aiperf_usual``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servebook.gap_table import Lengths
from servebook.read.aiperf_rows import AT, EXACT, LIMITS, MISSING, NO_GAPS, NONE, Rows, wanted
from servebook.read.aiperf_structs import NO_SPAN, Record, Span, Value
from servebook.read.aiperf_summary import UNIT_TO_NS
from servebook.read.values import LONGEST_NS

__all__ = ["checked"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def checked(
    records: Sequence[Record],
    gaps: Sequence[Any],
    counts: Ints | None = None,
    *,
    with_sent: bool = False,
) -> tuple[Rows, Bools]:
    """The rows of the records that are within bounds, and which those are.

    ``gaps``: of each record doubles in its unit as a buffer, 32-bit whole ns as an array, or None;
    where ``counts`` tells how many each record has, one array of the ns of all.
    """
    values, good = _values(records)
    if counts is not None:
        gap_ns: Lengths = gaps[0]
        if not good.all():
            gaps = np.split(gap_ns, np.cumsum(counts)[:-1])
    else:
        units = [one.metrics.inter_chunk_latency.unit for one in records]
        counts, gap_ns, fine = _gaps(gaps, units)
        good &= fine
    values[:, AT["gaps"]] = counts
    if not good.all():
        records = [one for one, is_good in zip(records, good, strict=True) if is_good]
        own = [one for one, is_good in zip(gaps, good, strict=True) if is_good]
        gap_ns = _gaps(own, [one.metrics.inter_chunk_latency.unit for one in records])[1]
        values = values[good]
    names = [one.metadata.x_request_id for one in records]
    talks = [str(one.metadata.conversation_id) if with_sent else None for one in records]
    return Rows(pa.array(names, pa.string()), pa.array(talks, pa.string()), values, gap_ns), good


def _values(records: Sequence[Record]) -> tuple[Ints, Bools]:
    """The columns of all records, and which of them are within bounds."""
    about = [one.metadata for one in records]
    metrics = [one.metrics for one in records]
    names = [one.x_request_id for one in about]
    good = np.array([name.isprintable() and name != "" for name in names], bool)
    found = np.tile(NONE, (len(records), 1))

    def whole(name: str, values: list[int | None]) -> Ints:
        nonlocal good
        missing, (low, high) = int(NONE[AT[name]]), LIMITS[AT[name]]
        given = [missing if value is None else value for value in values]
        try:
            own = np.array(given, np.int64)
        except OverflowError:
            own = np.array([v if -(2**63) <= v < 2**63 else -2 for v in given], np.int64)
        none = own == missing
        if missing == MISSING and none.any():  # a dump may hold this very number
            none = np.array([value is None for value in values])
        good &= none | ((own >= low) & (own < high))
        found[:, AT[name]] = own
        return own

    def measured(name: str, values: Floats, factor: Any = 1.0) -> Ints:
        nonlocal good
        low, high = LIMITS[AT[name]]
        there = ~np.isnan(values)
        with np.errstate(over="ignore", invalid="ignore"):
            values *= factor
            is_good = (values >= low) & (values < high)
        good &= ~there | is_good
        own = np.rint(np.where(there & is_good, values, 0.0)).astype(np.int64)
        own[~there] = MISSING
        found[:, AT[name]] = own
        return own

    def span(name: str, given: list[Span]) -> Ints:
        factor = _ns_per_unit([one.unit for one in given]) if given else 1.0
        return measured(name, np.array([one.value for one in given], float), factor)

    def count(name: str, given: list[Value]) -> Ints:
        return measured(name, np.array([one.value for one in given], float))

    start = whole("start_ns", [one.request_start_ns for one in about])
    whole("scheduled_ns", [one.credit_issued_ns for one in about])
    end = whole("end_ns", [one.request_end_ns for one in about])
    whole("session", [one.session_num for one in about])
    whole("turn", [one.turn_index for one in about])
    whole("phase_index", [one.phase_index for one in about])
    ttft = span(
        "ttft_ns",
        [one.ttft if one.time_to_first_token is NO_SPAN else one.time_to_first_token
         for one in metrics],
    )  # fmt: skip
    latency = span("latency_ns", [one.request_latency for one in metrics])
    good &= (latency != MISSING) | (end >= start) | (end == MISSING)
    good &= (ttft == MISSING) | (latency == MISSING) | (ttft <= latency)
    count("isl", [one.input_sequence_length for one in metrics])
    osl = count("osl", [one.output_sequence_length for one in metrics])
    count("cached_tokens", [one.usage_prompt_cache_read_tokens for one in metrics])
    count("usage", [one.usage_completion_tokens for one in metrics])
    percent = np.array([one.osl_mismatch_diff_pct.value for one in metrics], float)
    asked_for = wanted(osl, percent)
    good &= (asked_for >= 0) & (asked_for < EXACT)
    found[:, AT["percent"]] = percent.view(np.int64)
    phases = [one.phase_kind or one.benchmark_phase or one.credit_phase for one in about]
    found[:, AT["warmup"]] = [phase == "warmup" for phase in phases]
    return found, good


def _ns_per_unit(units: Sequence[str]) -> Any:
    """By what values in these units become ns."""
    first, *others = set(units)
    return np.array([UNIT_TO_NS[unit] for unit in units]) if others else UNIT_TO_NS[first]


def _gaps(buffers: Sequence[Any], units: Sequence[str]) -> tuple[Ints, Lengths, Bools]:
    """Gaps per record, all of them in whole ns, and whose are zero or more and no sum of years."""
    arrays = [
        NO_GAPS if one is None else one if isinstance(one, np.ndarray) else np.frombuffer(one)
        for one in buffers
    ]
    counts = np.array([len(one) for one in arrays], np.int64)
    in_ns = np.array([one.dtype == np.int32 for one in arrays], bool)
    fine = np.ones(len(arrays), bool)
    if in_ns.all():
        return counts, np.concatenate([NO_GAPS, *arrays]), fine
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


_scratch = np.empty(0)


def _room(n: int) -> Floats:
    """Memory for n numbers, the same every time: fresh memory costs more than the arithmetic."""
    global _scratch
    if len(_scratch) < n:
        _scratch = np.empty(2 * n)
    return _scratch[:n]
