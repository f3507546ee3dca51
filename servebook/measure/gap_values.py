"""The lengths of each run's gaps, read when a statistic asks for them, and their statistics.

A run of up to ``MOST_AT_ONCE`` gaps is taken into memory; a longer one is read in pieces, as often
as its exact percentiles need (``servebook.measure.selection``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from servebook.gap_table import NO_CLOCK, GapPart, GapTable, Lengths
from servebook.measure.selection import percentiles, summary
from servebook.tables import Tables

__all__ = [
    "MOST_AT_ONCE",
    "GapValues",
    "gap_positions",
    "lengths_by_request",
    "n_gaps_of_requests",
    "statistics",
    "values_by_run",
]

MOST_AT_ONCE = 1 << 23
_NS_PER_MS = 1e6
_Q = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
_PIECE = 1 << 20

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass
class GapValues:
    """Gaps in whole ns: ``arrays`` that are at hand, or parts that are read.

    ``ends`` says when the gaps of each array ended, ``NO_CLOCK`` where that is not known.
    """

    arrays: list[Lengths] = field(default_factory=list)
    ends: list[Ints] = field(default_factory=list)
    parts: list[GapPart] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self.arrays)) + sum(part.n for part in self.parts)

    def pieces(self) -> Iterator[Lengths]:
        """All of them in the order of the table, piece by piece."""
        yield from self.arrays
        for part in self.parts:
            gap_ns = part.gap_ns()
            for begin in range(0, len(gap_ns), _PIECE):
                yield gap_ns[begin : begin + _PIECE]

    def timed_pieces(self) -> Iterator[tuple[Ints, Lengths]]:
        """When each gap that has an end time ended, and its length, piece by piece."""
        for end_ns, gap_ns in zip(self.ends, self.arrays, strict=True):
            known = end_ns != NO_CLOCK
            yield end_ns[known], gap_ns[known]
        for part in self.parts:
            timed = part.only(part.start_ns != NO_CLOCK)
            gap_ns = timed.gap_ns()
            end_ns, _ = timed.end_ns(gap_ns)
            for begin in range(0, len(gap_ns), _PIECE):
                here = slice(begin, begin + _PIECE)
                yield end_ns[here], gap_ns[here]

    def starts(self) -> Ints:
        """When the first gap of each request began, of parts alone; without those not known."""
        none = np.empty(0, np.int64)
        found = np.concatenate([none, *(part.start_ns for part in self.parts)])
        return np.asarray(found[found != NO_CLOCK])

    def n_timed(self) -> int:
        """How many have an end time."""
        n = sum(int((end_ns != NO_CLOCK).sum()) for end_ns in self.ends)
        return n + sum(int(part.count[part.start_ns != NO_CLOCK].sum()) for part in self.parts)

    def zeros(self) -> int:
        """How many have no length."""
        return sum(int((piece == 0).sum()) for piece in self.pieces())


def values_by_run(
    tables: Tables,
    requests: pd.DataFrame | pa.Table | None = None,
    wanted: npt.NDArray[np.bool_] | None = None,
) -> dict[str, GapValues]:
    """The gaps of each run that has any, by run_id.

    ``requests`` (run_id, request_id) and ``wanted``: of these requests alone.
    """
    gaps = tables.gaps
    out: dict[str, GapValues] = {}
    rows = gaps.spans() if isinstance(gaps, GapTable) else gaps
    keep = np.ones(rows.num_rows, bool)
    if requests is not None and wanted is not None:
        position = gap_positions(rows, requests)
        keep = position >= 0
        keep[keep] = wanted[position[keep]]
    if isinstance(gaps, GapTable):
        for part, own in gaps.with_spans(keep):
            if own.any():
                out.setdefault(part.run_id, GapValues()).parts.append(part.only(own))
        return out
    keep &= ~gaps["gap_ns"].is_null().to_numpy()
    some = gaps.select(["run_id", "end_ns", "gap_ns"]).filter(pa.array(keep))
    gap_ns, codes = some["gap_ns"].to_numpy(), some["run_id"].to_numpy()
    end_ns = pc.fill_null(some["end_ns"], NO_CLOCK).to_numpy()
    for run, at in pd.Series(codes).groupby(codes, sort=False).indices.items():
        out[str(run)] = GapValues([gap_ns[at]], [end_ns[at]])
    return out


def lengths_by_request(
    tables: Tables, requests: pd.DataFrame, wanted: npt.NDArray[np.bool_]
) -> Iterator[tuple[Ints, Lengths]]:
    """Of the gaps of the ``wanted`` requests: the row of the request, and the length in ns.

    In pieces; all gaps of a request are in one.
    """
    gaps = tables.gaps
    rows = gaps.spans() if isinstance(gaps, GapTable) else gaps
    position = gap_positions(rows, requests)
    keep = position >= 0
    keep[keep] = wanted[position[keep]]
    if not isinstance(gaps, GapTable):
        keep &= ~gaps["gap_ns"].is_null().to_numpy()
        yield position[keep], gaps["gap_ns"].filter(pa.array(keep)).to_numpy()
        return
    for part, own in gaps.with_spans(np.where(keep, position, -1)):
        if (own >= 0).any():
            some = part.only(own >= 0)
            yield np.repeat(own[own >= 0], some.count), some.gap_ns()


def n_gaps_of_requests(tables: Tables, requests: pd.DataFrame) -> npt.NDArray[np.int64]:
    """How many gaps each request has."""
    gaps = tables.gaps
    rows = gaps.spans() if isinstance(gaps, GapTable) else gaps
    position = gap_positions(rows, requests)
    counts = np.zeros(len(requests), np.int64)
    if isinstance(gaps, GapTable):
        for part, own in gaps.with_spans(position):
            np.add.at(counts, own[own >= 0], part.count[own >= 0])
    else:
        known = (position >= 0) & ~gaps["gap_ns"].is_null().to_numpy()
        np.add.at(counts, position[known], 1)
    return counts


def gap_positions(
    gaps: pa.Table | GapTable, requests: pd.DataFrame | pa.Table
) -> npt.NDArray[np.int64]:
    """For each gap the row position of its request, -1 where the request is not there.

    Readers give no name to two requests of a run.
    """
    if isinstance(gaps, GapTable):
        counts = np.concatenate([np.empty(0, np.int64), *(part.count for part in gaps.parts)])
        return np.repeat(gap_positions(gaps.spans(), requests), counts)
    position = np.full(gaps.num_rows, -1, dtype=np.int64)
    if not gaps.num_rows or not len(requests):
        return position
    ids, gap_ids = _texts(requests["request_id"]), _texts(gaps["request_id"])
    runs, run_code = _coded(_texts(requests["run_id"]))
    gap_run = _codes(gaps["run_id"], runs)
    alone = len(runs) == 1 and bool((gap_run == 0).all())
    if alone and len(ids) == len(gap_ids) and not ids.null_count and ids.equals(gap_ids):
        return np.arange(len(ids))
    # Run by run, so that the texts of one at a time are sorted into memory.
    rows, gap_rows = _by_code(run_code, len(runs)), _by_code(gap_run, len(runs))
    for own, of_gaps in zip(rows, gap_rows, strict=True):
        if len(of_gaps):
            names = ids if alone else ids.take(pa.array(own))
            place = _codes(gap_ids if alone else gap_ids.take(pa.array(of_gaps)), names)
            position[of_gaps] = np.where(place >= 0, own[place], -1)
    return position


def _by_code(code: npt.NDArray[np.int64], n: int) -> list[npt.NDArray[np.int64]]:
    """The places of each code from 0 to n - 1, in their order."""
    if n == 1:
        return [np.flatnonzero(code == 0)]
    order = np.argsort(code, kind="stable")
    return np.split(order, np.searchsorted(code[order], np.arange(n + 1)))[1:-1]


def _texts(column: pd.Series[Any] | pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as Arrow has it, which keeps a text in as many bytes as it has."""
    return (
        column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column], pa.string())
    )


def _coded(texts: pa.ChunkedArray) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The different names, and which one each is."""
    names = texts.unique()
    code = pc.index_in(texts, value_set=names)
    return names, np.asarray(code.to_numpy(), dtype=np.int64)


def _codes(column: pa.ChunkedArray, names: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int64]:
    found = pc.index_in(column, value_set=names, skip_nulls=True)
    return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int64)


def statistics(values: GapValues, names: Sequence[str]) -> dict[str, float]:
    """Mean, max and percentiles (p50, ..., p999) in ms, exact; NaN where there are no gaps."""
    if not len(values):
        return dict.fromkeys(names, np.nan)
    asked = [name for name in names if name in _Q]
    if len(values) <= MOST_AT_ONCE:
        ms: Floats = np.concatenate(list(values.pieces())) / _NS_PER_MS
        out = dict(zip(asked, np.percentile(ms, [_Q[name] for name in asked]), strict=True))
        out |= {"mean": ms.mean(), "max": ms.max()}
    else:
        about = summary(values.pieces)
        found = percentiles(values.pieces, [_Q[name] for name in asked], about, _NS_PER_MS)
        out = dict(zip(asked, found, strict=True))
        out |= {"mean": about.total / about.n / _NS_PER_MS, "max": about.largest / _NS_PER_MS}
    return {name: float(out[name]) for name in names}
