"""The token times of each run, request by request, as arrays: what the steps are recovered from.

Requests of every phase and status are here: a warm-up or failed request was prefilled too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from servebook.gap_table import GapTable
from servebook.measure.runs import TOKEN_GAP_TOLERANCE, gap_positions
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
    common clock.
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


def run_tokens(tables: Tables) -> Iterator[RunTokens]:
    """Each run that has gaps, in the order of the table ``runs``; the gaps of one at a time."""
    runs = tables.runs["run_id"].to_pylist()
    clocks = tables.runs["clock"].to_pylist()
    counted_by = tables.runs["tokens_counted_by"].to_pylist()
    requests = tables.requests
    keys = pd.DataFrame(
        {name: requests[name].to_pandas().astype(object) for name in ("run_id", "request_id")}
    )
    names = pa.array(runs, type=pa.string())
    run_of = np.asarray(pc.fill_null(pc.index_in(requests["run_id"], names), -1).to_numpy())
    columns = {name: _ints(requests[name]) for name in _REQUEST}
    by_run = np.argsort(run_of, kind="stable")
    request_edges = np.searchsorted(run_of[by_run], np.arange(len(runs) + 1))
    ok = pc.fill_null(pc.equal(requests["status"], "ok"), False).to_numpy()
    for number, (gaps, rows) in enumerate(_by_run(tables, runs)):
        mine = by_run[request_edges[number] : request_edges[number + 1]]
        # Positions among the requests of the run, -1 for gaps of no request.
        owner = gap_positions(gaps, keys.iloc[mine])
        known = np.flatnonzero((owner >= 0) & ~gaps["gap_ns"].is_null().to_numpy())
        if not len(known):
            continue
        index = gaps["index"].to_numpy()[known].astype(np.int64)
        # Readers write gaps in order; sorting again costs little and asks for nothing.
        order = np.lexsort((index, owner[known]))
        known, index = known[order], index[order]
        end_ns, untimed = _ints(gaps["end_ns"])
        gap_ns, _ = _ints(gaps["gap_ns"])
        yield _one(
            str(runs[number]),
            clocks[number] != "none" and not untimed[known].any(),
            mine,
            {name: (value[mine], null[mine]) for name, (value, null) in columns.items()},
            ok[mine],
            rows[known],
            owner[known],
            index,
            end_ns[known],
            gap_ns[known].astype(np.float64),
            _RECOUNTED if counted_by[number] == "client" else 0.0,
        )


def _by_run(tables: Tables, runs: list[str]) -> Iterator[tuple[pa.Table, Ints]]:
    """The gaps of each run, and their positions in the table ``gaps``."""
    gaps = tables.gaps
    wanted = ["run_id", "request_id", "index", "end_ns", "gap_ns"]
    if not isinstance(gaps, GapTable):
        codes = pc.index_in(gaps["run_id"], pa.array(runs, type=pa.string()))
        run_of = np.asarray(pc.fill_null(codes, -1).to_numpy())
        order = np.argsort(run_of, kind="stable")
        edges = np.searchsorted(run_of[order], np.arange(len(runs) + 1))
        for number in range(len(runs)):
            rows = order[edges[number] : edges[number + 1]]
            yield gaps.select(wanted).take(rows), rows
        return
    ends = np.cumsum([0, *(part.n for part in gaps.parts)])
    for run in runs:
        own = [n for n, part in enumerate(gaps.parts) if part.run_id == run]
        parts = [np.arange(ends[n], ends[n + 1]) for n in own]
        rows = np.concatenate([np.empty(0, np.int64), *parts])
        packed = GapTable(gaps.parts[n] for n in own)
        yield pa.table({name: packed[name] for name in wanted}), rows


_REQUEST = ("scheduled_ns", "start_ns", "first_token_ns", "end_ns", "isl", "osl", "cached_tokens")


def _one(
    run_id: str,
    timed: bool,
    mine: Ints,
    columns: dict[str, tuple[Ints, npt.NDArray[np.bool_]]],
    ok: npt.NDArray[np.bool_],
    rows: Ints,
    request: Ints,
    index: Ints,
    end_ns: Ints,
    gap: Floats,
    slack: float,
) -> RunTokens:
    start_ns, unknown = columns["start_ns"]
    zero = int(start_ns[~unknown].min()) if (~unknown).any() else int(end_ns.min())

    def relative(name: str) -> Floats:
        value, null = columns[name]
        return np.where(null, np.nan, (value - zero).astype(np.float64))

    def number(name: str) -> Floats:
        value, null = columns[name]
        return np.where(null, np.nan, value.astype(np.float64))

    bounds = np.searchsorted(request, np.arange(len(mine) + 1))
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
    extra = np.zeros(len(mine), dtype=bool)
    extra[begun] = (n_gaps[begun] == osl[begun]) & (gap[bounds[:-1][begun]] < _LEADING * scale)
    leading = np.zeros(len(gap), dtype=bool)
    leading[bounds[:-1][extra]] = True
    first[extra] = gap_end[bounds[:-1][extra]]
    with np.errstate(invalid="ignore"):
        counted = np.abs(n_gaps - extra - (osl - 1)) <= slack * osl
    stated = begun & ~np.isnan(osl)
    usual = bool(counted[stated].mean() >= 0.5) if stated.any() else True
    exact = np.where(np.isnan(osl), usual, counted)
    cached = number("cached_tokens")
    return RunTokens(
        run_id=run_id,
        zero_ns=zero,
        timed=timed,
        scale=scale,
        request_row=mine,
        scheduled=relative("scheduled_ns"),
        start=relative("start_ns"),
        first=first,
        end=relative("end_ns"),
        isl=number("isl") - np.where(np.isnan(cached), 0.0, cached),
        osl=osl,
        ok=ok,
        exact=exact,
        bounds=bounds,
        gap_row=rows,
        request=request,
        index=index,
        gap_end=gap_end,
        gap=gap,
        leading=leading,
    )


def _ints(column: pa.ChunkedArray) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The column exactly, 0 where it is null, and where it is null."""
    null = column.is_null().to_numpy()
    return np.asarray(pc.fill_null(column, 0).to_numpy(), dtype=np.int64), np.asarray(null)
