"""Usual records of AIPerf, checked many at once, as columns.

A record with a value out of bounds goes the long way, as any other that is not as it should be
(``aiperf_usual``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.gap_table import Lengths
from servebook.read.aiperf_batch import MISSING, NOTHING, Batch
from servebook.read.aiperf_summary import UNIT_TO_NS, Settings
from servebook.read.aiperf_usual import NO_SPAN, Record, Span, Value
from servebook.read.values import LONGEST_NS, MAX_TOKENS

__all__ = ["MISSING", "Batch", "checked"]

#: Whole numbers up to here are exact in a float.
_EXACT = 2.0**53
_EPOCH_NS = (10**18, 4_102_444_800 * 10**9)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def checked(
    records: Sequence[Record], gaps: Sequence[Any], counts: Ints | None, settings: Settings
) -> tuple[Batch, Bools]:
    """The columns of the records that are within bounds, and which those are.

    ``gaps`` and ``counts`` are those of ``aiperf_usual.Taken``.
    """
    batch, good = _batch(records, gaps, counts, settings)
    if not good.all():
        if counts is not None:
            gaps = np.split(gaps[0], np.cumsum(counts)[:-1])
        kept = [one for one, fine in zip(records, good, strict=True) if fine]
        own = [one for one, fine in zip(gaps, good, strict=True) if fine]
        batch = _batch(kept, own, None, settings)[0] if kept else NOTHING
    return batch, good


def _batch(
    records: Sequence[Record], gaps: Sequence[Any], counts: Ints | None, settings: Settings
) -> tuple[Batch, Bools]:
    """The columns of all records, and which of them are within bounds."""
    about = [one.metadata for one in records]
    metrics = [one.metrics for one in records]
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

    def span(given: list[Span]) -> tuple[Ints, Bools]:
        nonlocal good
        values = np.array([one.value for one in given])
        there = ~np.isnan(values)
        with np.errstate(over="ignore", invalid="ignore"):
            values *= _ns_per_unit([one.unit for one in given])
            good &= ~there | ((values >= 0) & (values < min(_EXACT, LONGEST_NS)))
        return np.rint(np.where(good & there, values, 0.0)).astype(np.int64), there

    def count(given: list[Value]) -> tuple[Ints, Bools]:
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
        [one.ttft if one.time_to_first_token is NO_SPAN else one.time_to_first_token
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
    fine = np.ones(len(good), bool)
    if counts is None:
        units = [one.inter_chunk_latency.unit for one in metrics]
        counts, gap_ns, fine = _gaps(gaps, units)
    else:
        gap_ns = gaps[0]
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
