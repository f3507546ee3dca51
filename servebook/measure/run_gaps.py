"""The gaps of one run as arrays; of a long run those of its beginning.

Recovering an engine's steps takes some 200 bytes of memory a gap. A run with more than ``MOST``
gaps is therefore taken from its start to a time up to which it has at most so many, as if the
benchmark had been stopped then: requests that began later are left out, and of those that were
running the gaps after it. What is known of these requests otherwise stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servebook.gap_table import NO_CLOCK, GapPart, GapTable
from servebook.measure.gap_values import gap_positions
from servebook.tables import Tables

__all__ = ["MOST", "RunGaps", "run_gaps"]

#: Gaps of a run that are looked at together.
MOST = 3_000_000
_BINS = 1 << 16
#: So often is the time narrowed down at which a long run is cut.
_ROUNDS = 4

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RunGaps:
    """Gaps of one run that belong to requests, request by request.

    ``row`` (position in the table ``gaps``), ``owner`` (position among ``requests``), ``index``,
    ``end_ns`` (0 where unknown) and ``gap_ns`` are per gap; ``requests`` holds positions in the
    table ``requests``, in its order, and ``n_whole`` how many gaps each of them has in all.
    ``timed``: every gap has an end time. ``n_run``: the gaps of the whole run; ``cut_ns`` is when
    the part of a long run ends, else None.
    """

    row: Ints
    owner: Ints
    index: Ints
    end_ns: Ints
    gap_ns: Ints
    requests: Ints
    n_whole: Ints
    timed: bool
    n_run: int
    cut_ns: int | None


def run_gaps(
    tables: Tables, run_ids: Sequence[str], most: int | None = None
) -> Iterator[tuple[str, RunGaps]]:
    """The gaps of each of these runs that has any, one run at a time.

    ``most``: in place of ``MOST``.
    """
    most = MOST if most is None else most
    names = pa.array(run_ids, type=pa.string())
    found = pc.fill_null(pc.index_in(tables.requests["run_id"], names), -1)
    run_of = np.asarray(found.to_numpy())
    by_run = np.argsort(run_of, kind="stable")
    edges = np.searchsorted(run_of[by_run], np.arange(len(run_ids) + 1))
    rows_of = _built(tables, run_ids) if not isinstance(tables.gaps, GapTable) else None
    for number, run in enumerate(run_ids):
        mine = by_run[edges[number] : edges[number + 1]]
        own = tables.requests.select(["run_id", "request_id"]).take(mine)
        if isinstance(tables.gaps, GapTable):
            one = _packed(tables, tables.gaps, run, mine, own, most)
        else:
            one = _plain(tables.gaps, (rows_of or {})[run], mine, own)
        if one is not None:
            yield run, one


def _built(tables: Tables, run_ids: Sequence[str]) -> dict[str, Ints]:
    """The rows of each run in a table ``gaps`` that is built."""
    codes = pc.index_in(tables.gaps["run_id"], pa.array(run_ids, type=pa.string()))
    run_of = np.asarray(pc.fill_null(codes, -1).to_numpy())
    order = np.argsort(run_of, kind="stable")
    edges = np.searchsorted(run_of[order], np.arange(len(run_ids) + 1))
    return {run: order[edges[n] : edges[n + 1]] for n, run in enumerate(run_ids)}


def _plain(gaps: pa.Table, rows: Ints, mine: Ints, own: pa.Table) -> RunGaps | None:
    gaps = gaps.take(rows)
    owner = gap_positions(gaps, own)
    known = (owner >= 0) & ~gaps["gap_ns"].is_null().to_numpy()
    if not known.any():
        return None
    untimed = gaps["end_ns"].is_null().to_numpy()
    end_ns, gap_ns = (pc.fill_null(gaps[name], 0).to_numpy() for name in ("end_ns", "gap_ns"))
    return _ordered(
        rows[known],
        owner[known],
        gaps["index"].to_numpy()[known].astype(np.int64),
        end_ns[known],
        gap_ns[known],
        mine,
        None,
        not untimed[known].any(),
        int(known.sum()),
        None,
    )


def _packed(
    tables: Tables, gaps: GapTable, run: str, mine: Ints, own: pa.Table, most: int
) -> RunGaps | None:
    ends = np.cumsum([0, *(part.n for part in gaps.parts)])
    parts = [(int(ends[n]), part) for n, part in enumerate(gaps.parts) if part.run_id == run]
    n_run = sum(part.n for _, part in parts)
    packed = GapTable(part for _, part in parts)
    owners = [owner for _, owner in packed.with_spans(gap_positions(packed.spans(), own))]
    if not any((owner >= 0).any() for owner in owners):
        return None
    timed = not any(
        (part.start_ns[owner >= 0] == NO_CLOCK).any()
        for (_, part), owner in zip(parts, owners, strict=True)
    )
    cut = None
    whole = np.zeros(len(mine), np.int64)
    for (_, part), owner in zip(parts, owners, strict=True):
        np.add.at(whole, owner[owner >= 0], part.count[owner >= 0])
    if n_run > most:
        cut = _cut([part for _, part in parts], most) if timed else None
        parts, owners = _some(parts, owners, cut, most)
    pieces = [
        _piece(begin, part, owner, cut) for (begin, part), owner in zip(parts, owners, strict=True)
    ]
    row, at, index, end_ns, gap_ns = (
        np.concatenate(column) for column in zip(*pieces, strict=True)
    )
    if not len(row):
        return None
    n_whole = int(whole.sum())
    one = _ordered(row, at, index, end_ns, gap_ns, mine, whole, timed, n_whole, cut)
    return one if cut is None else _begun(one, tables.requests, cut)


def _cut(parts: Sequence[GapPart], most: int) -> int:
    """The last time up to which the run has at most ``most`` gaps, or a little before."""
    low = min(int(part.start_ns.min()) for part in parts)
    parts = sorted(parts, key=lambda part: int(part.start_ns.min()))
    high, before = None, 0
    for _ in range(_ROUNDS):
        if high is None:
            high = max(int(part.end_ns()[0].max()) for part in parts)
        width = -(-(high - low + 1) // _BINS)
        counts = np.zeros(_BINS + 1, np.int64)
        for part in parts:
            within = int(np.searchsorted(before + np.cumsum(counts), most, side="right"))
            if int(part.start_ns.min()) > low + within * width:
                break  # it begins when there are enough
            end = part.end_ns()[0]
            end = end[(end >= low) & (end <= high)]
            counts += np.bincount((end - low) // width, minlength=_BINS + 1)
        sums = before + np.cumsum(counts)
        within = int(np.searchsorted(sums, most, side="right"))
        before = int(sums[within - 1]) if within else before
        low, high = low + within * width, low + (within + 1) * width - 1
        if before > most // 2 or width == 1:
            break
    return low - 1


def _some(
    parts: list[tuple[int, GapPart]], owners: list[Ints], cut: int | None, most: int
) -> tuple[list[tuple[int, GapPart]], list[Ints]]:
    """The parts that are read of a long run."""
    kept = []
    n = 0
    for one, owner in zip(parts, owners, strict=True):
        if cut is None:  # without a clock nothing is told of them together
            if n and n + one[1].n > most:
                break
            n += one[1].n
        elif int(one[1].start_ns.min()) > cut:
            continue
        kept.append((one, owner))
    return [one for one, _ in kept], [owner for _, owner in kept]


def _piece(
    begin: int, part: GapPart, owner: Ints, cut: int | None
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """The gaps of a part: row, owner, index, end_ns, gap_ns."""
    wanted = owner >= 0
    if cut is not None:
        wanted &= part.start_ns <= cut
    row = np.flatnonzero(np.repeat(wanted, part.count))
    part, owner = part.only(wanted), owner[wanted]
    gap_ns = part.gap_ns()
    end_ns, unknown = part.end_ns(gap_ns)
    if unknown is not None:
        end_ns[unknown] = 0
    at = np.repeat(owner, part.count)
    index = part.index().astype(np.int64)
    if cut is not None and not (keep := end_ns <= cut).all():
        row, at, index, end_ns, gap_ns = (one[keep] for one in (row, at, index, end_ns, gap_ns))
    return begin + row, at, index, end_ns, gap_ns.astype(np.int64, copy=False)


def _ordered(
    row: Ints,
    owner: Ints,
    index: Ints,
    end_ns: Ints,
    gap_ns: Ints,
    requests: Ints,
    whole: Ints | None,
    timed: bool,
    n_run: int,
    cut_ns: int | None,
) -> RunGaps:
    """Request by request, as readers write them."""
    same = owner[1:] == owner[:-1]
    if not ((owner[1:] > owner[:-1]) | (same & (index[1:] >= index[:-1]))).all():
        order = np.lexsort((index, owner))
        row, owner, index, end_ns, gap_ns = (
            one[order] for one in (row, owner, index, end_ns, gap_ns)
        )
    whole = np.bincount(owner, minlength=len(requests)) if whole is None else whole
    return RunGaps(row, owner, index, end_ns, gap_ns, requests, whole, timed, n_run, cut_ns)


def _begun(one: RunGaps, table: pa.Table, cut: int) -> RunGaps:
    """Without the requests that began, or were first answered, after the cut."""
    late = np.zeros(len(one.requests), dtype=bool)
    for name in ("start_ns", "first_token_ns"):
        late |= pc.fill_null(pc.greater(table[name].take(one.requests), cut), False).to_numpy()
    late &= np.bincount(one.owner, minlength=len(late)) == 0
    place = np.cumsum(~late) - 1
    return RunGaps(
        one.row,
        place[one.owner],
        one.index,
        one.end_ns,
        one.gap_ns,
        one.requests[~late],
        one.n_whole[~late],
        one.timed,
        one.n_run,
        one.cut_ns,
    )
