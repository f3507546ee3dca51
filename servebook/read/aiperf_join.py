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
    before = np.cumsum([0, *(piece.n_lines for piece in pieces)])
    found.set_aside = [
        (None if line is None else int(line + n), kind, why)
        for piece, n in zip(pieces, before, strict=False)
        for line, kind, why in piece.set_aside
    ]
    columns = {
        name: pa.concat_arrays([piece.columns[name] for piece in pieces])
        for name in pieces[0].columns
    }
    beside = {
        key: np.concatenate([piece.beside[key] for piece in pieces]) for key in pieces[0].beside
    }
    sizes = [len(piece.beside["line"]) for piece in pieces]
    beside["line"] += np.repeat(before[:-1], sizes)
    columns["request_id"] = _named(columns["request_id"], beside["line"])
    keep = np.ones(len(beside["line"]), bool)
    keep[_twice(columns["request_id"], beside["line"], found.set_aside)] = False
    counted = keep & (pc.equal(columns["phase"], "profiling").to_numpy(False))
    ends = np.cumsum(sizes)
    parts = [
        part
        for piece, end, n in zip(pieces, ends, sizes, strict=True)
        for part in _parts(piece, int(end - n), columns, beside["gaps"], keep, out.run_id, holder)
    ]
    mask = None if keep.all() else pa.array(keep)
    kept = columns if mask is None else {key: one.filter(mask) for key, one in columns.items()}
    out.add_parts(kept, parts, int(beside["gaps"][counted].sum()))
    sessions = np.unique(beside["session"][counted & (beside["session"] >= 0)])
    found.n_sessions = len(sessions)
    found.last_session = int(sessions[-1]) if len(sessions) else -1
    ok = counted & (beside["usage"] != MISSING)
    ok &= pc.equal(columns["status"], "ok").to_numpy(False)
    found.usage_tokens = int(beside["usage"][ok].sum())
    found.counted_tokens = pc.sum(columns["osl"].filter(pa.array(ok))).as_py() or 0
    found.several_phases = len(_phases(pieces, beside["phase_index"], counted)) > 1
    if any(piece.conversation for piece in pieces):
        conversation = [name for piece in pieces for name in piece.conversation]
        found.sent = _sent(columns, conversation, beside["turn"], keep)
    found.set_aside.sort(key=lambda one: 2**63 if one[0] is None else one[0])
    return found


def _named(ids: pa.Array, lines: Ints) -> pa.Array:
    """The ids of the requests; one without has the number of its line."""
    if not ids.null_count:
        return ids
    own = [f"line {line}" for line in lines.tolist()]
    return pc.coalesce(ids, pa.array(own, pa.string()))


def _twice(ids: pa.Array, lines: Ints, aside: Aside) -> list[int]:
    """The requests that an earlier line is of; they are set aside."""
    if len(ids.unique()) == len(ids):
        return []
    first: dict[str, int] = {}
    drop = []
    for index, (name, line) in enumerate(zip(ids.to_pylist(), lines.tolist(), strict=True)):
        if first.setdefault(name, line) != line:
            drop.append(index)
            aside.append((line, "request", f"a second record of the request of line {first[name]}"))
    return drop


def _phases(pieces: Sequence[Piece], index: Ints, counted: npt.NDArray[np.bool_]) -> set[str]:
    """The phases of the requests that count."""
    found: set[str] = set()
    begin = 0
    for piece in pieces:
        end = begin + len(piece.beside["phase_index"])
        there = np.bincount(index[begin:end][counted[begin:end]], minlength=len(piece.phases))
        found.update(name for name, n in zip(piece.phases, there, strict=True) if n)
        begin = end
    return found


def _parts(
    piece: Piece,
    begin: int,
    columns: Mapping[str, pa.Array],
    counts: Ints,
    keep: npt.NDArray[np.bool_],
    run_id: str,
    holder: object,
) -> list[GapPart]:
    """The parts of a piece whose requests begin at ``begin`` in all these."""
    parts = []
    before = begin
    for data, end in piece.parts:
        own = slice(begin, before + end)
        count = counts[own]
        has = keep[own] & (count > 0)
        first = np.cumsum(count) - count
        ids = columns["request_id"][own]
        start = columns["first_token_ns"][own].fill_null(NO_CLOCK).to_numpy()
        if not has.all():
            ids, first, count, start = ids.filter(pa.array(has)), first[has], count[has], start[has]
        if isinstance(data, InFile):
            data = dataclasses.replace(data, holder=holder)
        parts.append(GapPart(run_id, ids, first, count, start, data))
        begin = before + end
    return parts


def _sent(
    columns: Mapping[str, pa.Array],
    conversation: Sequence[str],
    turns: Ints,
    keep: npt.NDArray[np.bool_],
) -> dict[str, Sent]:
    rows = zip(
        columns["request_id"].to_pylist(),
        columns["start_ns"].to_pylist(),
        pc.equal(columns["phase"], "profiling").to_pylist(),
        conversation,
        turns.tolist(),
        keep.tolist(),
        strict=True,
    )
    return {
        name: Sent(start, counted, session, turn)
        for name, start, counted, session, turn, kept in rows
        if kept
    }
