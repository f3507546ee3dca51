"""Pieces of AIPerf's record lines, joined in the order of the file.

What a line is does not depend on the others, but for three things that are added here: its number
in the file, the name of a request that has none (it is that number), and whether an earlier line is
of the same request. So the result is the same however the file was cut and whoever read the pieces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servebook.gap_table import NO_CLOCK, GapPart, InFile
from servebook.read.aiperf_columns import MISSING
from servebook.read.aiperf_piece import Piece
from servebook.read.aiperf_records import Parsed
from servebook.read.prompt_prefix import Sent
from servebook.read.records import Aside, Requests

__all__ = ["join"]

Ints = npt.NDArray[np.int64]


def join(pieces: Sequence[Piece], out: Requests, holder: object = None) -> Parsed:
    """Add the requests of all pieces, in their order, to ``out``; what the lines held besides.

    ``holder`` keeps the files of the gaps. Of two records of one request the second is set aside.
    """
    found = Parsed()
    sessions: list[Ints] = []
    phases: set[str] = set()
    before = np.cumsum([0, *(piece.n_lines for piece in pieces)])
    names = [_named(piece, int(n)) for piece, n in zip(pieces, before, strict=False)]
    twice = _twice(names, pieces, before, found.set_aside)
    for piece, n, ids, drop in zip(pieces, before, names, twice, strict=False):
        found.set_aside += [
            (None if line is None else int(line + n), kind, why)
            for line, kind, why in piece.set_aside
        ]
        keep = np.ones(len(ids), bool)
        keep[drop] = False
        columns = {**piece.columns, "request_id": ids}
        parts = _parts(piece, columns, keep, out.run_id, holder)
        if drop:
            kept = {name: column.filter(pa.array(keep)) for name, column in columns.items()}
            out.add_parts(kept, parts)
        else:
            out.add_parts(columns, parts)
        counted = keep & (pc.equal(columns["phase"], "profiling").to_numpy(False))
        beside = piece.beside
        sessions.append(beside["session"][counted & (beside["session"] >= 0)])
        phases.update(piece.phases[i] for i in np.unique(beside["phase_index"][counted]))
        ok = counted & (beside["usage"] != MISSING)
        ok &= pc.equal(columns["status"], "ok").to_numpy(False)
        found.usage_tokens += int(beside["usage"][ok].sum())
        found.counted_tokens += pc.sum(columns["osl"].filter(pa.array(ok))).as_py() or 0
        found.sent.update(_sent(piece, columns, keep))
    every = np.unique(np.concatenate([*sessions, np.empty(0, np.int64)]))
    found.n_sessions, found.last_session = len(every), int(every[-1]) if len(every) else -1
    found.several_phases = len(phases) > 1
    found.set_aside.sort(key=lambda one: 2**63 if one[0] is None else one[0])
    return found


def _named(piece: Piece, before: int) -> pa.Array:
    """The ids of the requests; one without has the number of its line."""
    ids = piece.columns["request_id"]
    if not ids.null_count:
        return ids
    lines = (piece.beside["line"] + before).tolist()
    own = [f"line {line}" for line in lines]
    return pc.coalesce(ids, pa.array(own, pa.string()))


def _twice(
    names: list[pa.Array], pieces: Sequence[Piece], before: Ints, aside: Aside
) -> list[list[int]]:
    """Per piece the requests that an earlier line is of; they are set aside."""
    every = pa.chunked_array(names, pa.string())
    drop: list[list[int]] = [[] for _ in pieces]
    if pc.count_distinct(every).as_py() == len(every):
        return drop
    first: dict[str, int] = {}
    for number, (ids, piece) in enumerate(zip(names, pieces, strict=True)):
        lines = (piece.beside["line"] + before[number]).tolist()
        for index, (name, line) in enumerate(zip(ids.to_pylist(), lines, strict=True)):
            if first.setdefault(name, line) != line:
                drop[number].append(index)
                reason = f"a second record of the request of line {first[name]}"
                aside.append((line, "request", reason))
    return drop


def _parts(
    piece: Piece,
    columns: Mapping[str, pa.Array],
    keep: npt.NDArray[np.bool_],
    run_id: str,
    holder: object,
) -> list[GapPart]:
    counts = piece.beside["gaps"]
    start = columns["first_token_ns"].fill_null(NO_CLOCK).to_numpy()
    parts, begin = [], 0
    for data, end in piece.parts:
        own = slice(begin, end)
        first = np.cumsum(counts[own]) - counts[own]
        has = keep[own] & (counts[own] > 0)
        ids = columns["request_id"][begin:end].filter(pa.array(has))
        if isinstance(data, InFile):
            data = dataclasses.replace(data, holder=holder)
        parts.append(GapPart(run_id, ids, first[has], counts[own][has], start[own][has], data))
        begin = end
    return parts


def _sent(
    piece: Piece, columns: Mapping[str, pa.Array], keep: npt.NDArray[np.bool_]
) -> dict[str, Sent]:
    if not piece.conversation:
        return {}
    profiling = pc.equal(columns["phase"], "profiling")
    rows = zip(
        columns["request_id"].to_pylist(),
        columns["start_ns"].to_pylist(),
        profiling.to_pylist(),
        piece.conversation,
        piece.beside["turn"].tolist(),
        keep.tolist(),
        strict=True,
    )
    return {
        name: Sent(start, counted, session, turn)
        for name, start, counted, session, turn, kept in rows
        if kept
    }
