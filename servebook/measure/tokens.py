"""The token times of each run, request by request, as arrays: what the steps are recovered from.

Requests of every phase and status are here: a warm-up or failed request was prefilled too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servebook.measure.run_gaps import RunGaps, run_gaps
from servebook.measure.runs import TOKEN_GAP_TOLERANCE
from servebook.tables import Tables

__all__ = ["RunTokens", "run_tokens"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
#: A chunk this much sooner than a decode step after the first token carries no token of its own.
_LEADING = 0.1
#: A client that counts tokens with its own tokenizer is off by up to this share.
_RECOUNTED = TOKEN_GAP_TOLERANCE


@dataclass(frozen=True)
class RunTokens:
    """One run. Times are floats in ns since ``zero_ns``, NaN where unknown.

    Per request, in the order of the table ``requests``: ``request_row`` (position in the table),
    ``scheduled``, ``start``, ``first``, ``end``, ``isl`` (less cached tokens), ``osl``, ``ok``,
    ``exact`` (each chunk is one token), ``bounds`` (its gaps are ``bounds[i]:bounds[i + 1]``).
    Per gap, request by request: ``gap_row`` (position in the table ``gaps``), ``request``,
    ``index``, ``gap_end``, ``gap``, ``leading`` (a first gap that ends with the first token).
    ``scale`` is the median gap of note. ``timed`` is false where gaps have lengths, but no
    common clock. ``n_run`` counts the gaps of the whole run; ``cut`` is when the part of a long run
    ends that is here (``servebook.measure.run_gaps``), None where all of it is.
    """

    run_id: str
    zero_ns: int
    timed: bool
    scale: float
    request_row: Ints
    scheduled: Floats
    start: Floats
    first: Floats
    end: Floats
    isl: Floats
    osl: Floats
    ok: npt.NDArray[np.bool_]
    exact: npt.NDArray[np.bool_]
    bounds: Ints
    gap_row: Ints
    request: Ints
    index: Ints
    gap_end: Floats
    gap: Floats
    leading: npt.NDArray[np.bool_]
    n_run: int
    cut: float | None


def run_tokens(
    tables: Tables, run_ids: Sequence[str] | None = None, most: int | None = None
) -> Iterator[RunTokens]:
    """Each run that has gaps, in the order of the table ``runs``; the gaps of one at a time.

    ``run_ids``: these alone, in this order. ``most``: see ``servebook.measure.run_gaps``.
    """
    runs = {row["run_id"]: row for row in tables.runs.select(list(_RUN)).to_pylist()}
    columns = {name: _ints(tables.requests[name]) for name in _REQUEST}
    ok = pc.fill_null(pc.equal(tables.requests["status"], "ok"), False).to_numpy()
    for run_id, gaps in run_gaps(tables, list(runs) if run_ids is None else run_ids, most):
        run, mine = runs[run_id], gaps.requests
        yield _one(
            run_id,
            run["clock"] != "none" and gaps.timed,
            {name: (value[mine], null[mine]) for name, (value, null) in columns.items()},
            ok[mine],
            gaps,
            _RECOUNTED if run["tokens_counted_by"] == "client" else 0.0,
        )


_RUN = ("run_id", "clock", "tokens_counted_by")
_REQUEST = ("scheduled_ns", "start_ns", "first_token_ns", "end_ns", "isl", "osl", "cached_tokens")


def _one(
    run_id: str,
    timed: bool,
    columns: dict[str, tuple[Ints, npt.NDArray[np.bool_]]],
    ok: npt.NDArray[np.bool_],
    gaps: RunGaps,
    slack: float,
) -> RunTokens:
    end_ns, gap = gaps.end_ns, gaps.gap_ns.astype(np.float64)
    start_ns, unknown = columns["start_ns"]
    zero = int(start_ns[~unknown].min()) if (~unknown).any() else int(end_ns.min())

    def relative(name: str) -> Floats:
        value, null = columns[name]
        return np.where(null, np.nan, (value - zero).astype(np.float64))

    def number(name: str) -> Floats:
        value, null = columns[name]
        return np.where(null, np.nan, value.astype(np.float64))

    bounds = np.searchsorted(gaps.owner, np.arange(len(gaps.requests) + 1))
    n_gaps = np.diff(bounds)
    gap_end = (end_ns - zero).astype(np.float64)
    first = relative("first_token_ns")
    begun = n_gaps > 0
    # The first gap starts at the first token, also where the record lost that time.
    first[begun] = (gap_end - gap)[bounds[:-1][begun]]
    # Chunks that the client read at once leave gaps of next to nothing.
    real = gap[gap >= 0.05 * gap.mean()]
    scale = float(np.median(real)) if len(real) and real.max() > 0 else 1.0
    osl = number("osl")
    # An empty chunk ahead of the first token makes one gap more, of next to no length.
    extra = np.zeros(len(gaps.requests), dtype=bool)
    extra[begun] = (gaps.n_whole[begun] == osl[begun]) & (
        gap[bounds[:-1][begun]] < _LEADING * scale
    )
    leading = np.zeros(len(gap), dtype=bool)
    leading[bounds[:-1][extra]] = True
    first[extra] = gap_end[bounds[:-1][extra]]
    with np.errstate(invalid="ignore"):
        counted = np.abs(gaps.n_whole - extra - (osl - 1)) <= slack * osl
    stated = begun & ~np.isnan(osl)
    usual = bool(counted[stated].mean() >= 0.5) if stated.any() else True
    exact = np.where(np.isnan(osl), usual, counted)
    cached = number("cached_tokens")
    return RunTokens(
        run_id=run_id,
        zero_ns=zero,
        timed=timed,
        scale=scale,
        request_row=gaps.requests,
        scheduled=relative("scheduled_ns"),
        start=relative("start_ns"),
        first=first,
        end=relative("end_ns"),
        isl=number("isl") - np.where(np.isnan(cached), 0.0, cached),
        osl=osl,
        ok=ok,
        exact=exact,
        bounds=bounds,
        gap_row=gaps.row,
        request=gaps.owner,
        index=gaps.index,
        gap_end=gap_end,
        gap=gap,
        leading=leading,
        n_run=gaps.n_run,
        cut=None if gaps.cut_ns is None else float(gaps.cut_ns - zero),
    )


def _ints(column: pa.ChunkedArray) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The column exactly, 0 where it is null, and where it is null."""
    null = column.is_null().to_numpy()
    return np.asarray(pc.fill_null(column, 0).to_numpy(), dtype=np.int64), np.asarray(null)
