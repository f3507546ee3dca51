"""Pieces of AIPerf's record lines, joined in the order of the file.

What a line is does not depend on the others, but for three things that are added here: its number
in the file, the name of a request that has none (it is that number), and whether an earlier line is
of the same request. So the result is the same however the file was cut and whoever read the pieces.

Pieces are taken one after the other and their columns stay as they are, for a dump of short
requests has millions of them: beside the tables a request takes some 20 bytes here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servebook.gap_table import NO_CLOCK, GapPart, InFile
from servebook.read.aiperf_piece import Piece
from servebook.read.aiperf_records import Parsed
from servebook.read.aiperf_rows import MISSING
from servebook.read.prompt_prefix import SentColumns
from servebook.read.records import Aside, Requests
from servebook.read.shared_columns import SharedColumns

__all__ = ["join"]

Ints = npt.NDArray[np.int64]
#: Whole numbers of as few bytes as hold them.
Narrow = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, eq=False)
class _Held:
    """A piece as it waits for the last one."""

    piece: Piece  # without what stands below
    first_line: int  # lines before it
    beside: Mapping[str, Narrow]
    conversation: pa.DictionaryArray | None

    def lines(self, own: Ints) -> Ints:
        """Lines of its requests in the file."""
        lines: Ints = self.beside["line"][own].astype(np.int64) + self.first_line
        return lines


def join(pieces: Iterable[Piece], out: Requests, holder: object = None) -> Parsed:
    """Add the requests of all pieces, in their order, to ``out``; what the lines held besides.

    ``holder`` keeps the files of the gaps. Of two records of one request the second is set aside.
    """
    found = Parsed()
    held: list[_Held] = []
    hashes: list[Ints] = []
    shared = SharedColumns()
    n_lines = 0
    for piece in pieces:
        found.set_aside += [
            (None if line is None else line + n_lines, kind, why)
            for line, kind, why in piece.set_aside
        ]
        held.append(_held(piece, n_lines, shared))
        n_lines += piece.n_lines
        # Python's own: seeded anew in each process, so that no dump can make them meet.
        names = held[-1].piece.columns["request_id"].to_numpy(zero_copy_only=False)
        hashes.append(np.fromiter(map(hash, names), np.int64, len(names)))
    keep = _keep(held, hashes, found.set_aside)
    del hashes
    named: list[Narrow] = [np.empty(0, np.int8)]
    phases: set[str] = set()
    for number, (one, kept) in enumerate(zip(held, keep, strict=True)):
        counted = _add(one, kept, out, holder)
        own = one.beside["session"][counted]
        named.append(own[own >= 0])
        usage = one.beside["usage"]
        ok = counted & (usage >= 0) & pc.equal(one.piece.columns["status"], "ok").to_numpy(False)
        found.usage_tokens += int(usage[ok].sum(dtype=np.int64))
        found.counted_tokens += pc.sum(one.piece.columns["osl"].filter(pa.array(ok))).as_py() or 0
        there = np.bincount(one.beside["phase_index"][counted], minlength=len(one.piece.phases))
        phases.update(name for name, n in zip(one.piece.phases, there, strict=True) if n)
        if one.conversation is None:
            held[number] = dataclasses.replace(one, beside={})
    sessions = np.unique(np.concatenate(named))
    found.n_sessions = len(sessions)
    found.last_session = int(sessions[-1]) if len(sessions) else -1
    found.several_phases = len(phases) > 1
    if any(one.conversation is not None for one in held):
        found.sent = _sent(held, keep)
    found.set_aside.sort(key=lambda one: 2**63 if one[0] is None else one[0])
    return found


def _held(piece: Piece, first_line: int, shared: SharedColumns) -> _Held:
    ids = _named(piece.columns["request_id"], piece.beside["line"] + first_line)
    usage = piece.beside["usage"]
    beside = {key: _narrow(values) for key, values in piece.beside.items() if key != "usage"}
    beside["usage"] = _narrow(np.where(usage == MISSING, -1, usage))
    conversation = None
    if piece.conversation is not None:
        conversation = piece.conversation.dictionary_encode()
    rest = dataclasses.replace(
        piece,
        columns={
            name: ids if name == "request_id" else shared.array(values)
            for name, values in piece.columns.items()
        },
        beside={},
        set_aside=[],
        conversation=None,
    )
    return _Held(rest, first_line, beside, conversation)


def _narrow(values: Ints) -> Narrow:
    """The same numbers in as few bytes as hold them all."""
    if not len(values):
        return values.astype(np.int8)
    for kind in (np.int8, np.int16, np.int32):
        most = np.iinfo(kind)
        if values.min() >= most.min and values.max() <= most.max:
            return values.astype(kind)
    return values


def _named(ids: pa.Array, lines: Ints) -> pa.Array:
    """The ids of the requests; one without has the number of its line."""
    if not ids.null_count:
        return ids
    lacking = ids.is_null()
    own = [f"line {line}" for line in lines[lacking.to_numpy(False)].tolist()]
    return pc.replace_with_mask(ids, lacking, pa.array(own, pa.string()))


def _keep(held: Sequence[_Held], hashes: Sequence[Ints], aside: Aside) -> list[Bools]:
    """Per piece the requests that no earlier line is of; the others are set aside.

    ``hashes`` are those of the names, of which only such are compared as have one in common.
    """
    keep = [np.ones(len(own), bool) for own in hashes]
    all_of_them = np.concatenate([np.empty(0, np.int64), *hashes])
    all_of_them.sort()
    twice = np.unique(all_of_them[1:][all_of_them[1:] == all_of_them[:-1]])
    if not len(twice):
        return keep
    first: dict[str, int] = {}
    for one, own, kept in zip(held, hashes, keep, strict=True):
        rows = np.flatnonzero(np.isin(own, twice))
        names = one.piece.columns["request_id"].take(pa.array(rows)).to_pylist()
        for row, name, line in zip(rows, names, one.lines(rows).tolist(), strict=True):
            if first.setdefault(name, line) != line:
                kept[row] = False
                reason = f"a second record of the request of line {first[name]}"
                aside.append((line, "request", reason))
    return keep


def _add(one: _Held, keep: Bools, out: Requests, holder: object) -> Bools:
    """Add the requests of a piece; which of them count."""
    columns = one.piece.columns
    counted: Bools = keep & pc.equal(columns["phase"], "profiling").to_numpy(False)
    counts = one.beside["gaps"].astype(np.int64)
    parts = _parts(one.piece, counts, keep, out.run_id, holder)
    if not keep.all():
        mask = pa.array(keep)
        columns = {key: values.filter(mask) for key, values in columns.items()}
    out.add_parts(columns, parts, int(counts[counted].sum()))
    return counted


def _parts(
    piece: Piece, counts: Ints, keep: Bools, run_id: str, holder: object
) -> Sequence[GapPart]:
    """The parts of a piece whose requests have so many gaps."""
    parts = []
    begin = 0
    for data, end in piece.parts:
        own = slice(begin, end)
        count = counts[own]
        has = keep[own] & (count > 0)
        first = np.cumsum(count) - count
        ids = piece.columns["request_id"][own]
        start = piece.columns["first_token_ns"][own].fill_null(NO_CLOCK).to_numpy()
        if not has.all():
            ids, first, count, start = ids.filter(pa.array(has)), first[has], count[has], start[has]
        if isinstance(data, InFile):
            data = dataclasses.replace(data, holder=holder)
        parts.append(GapPart(run_id, ids, first, count, start, data))
        begin = end
    return parts


def _sent(held: Sequence[_Held], keep: Sequence[Bools]) -> SentColumns:
    """What names the prompts of the requests elsewhere."""
    columns: dict[str, list[pa.Array]] = {
        "request_id": [], "start_ns": [], "counted": [], "session": [], "turn": []
    }  # fmt: skip
    for one, kept in zip(held, keep, strict=True):
        mask = pa.array(kept)
        of_requests = one.piece.columns
        conversation = one.conversation
        if conversation is None:  # no requests
            continue
        each = (
            of_requests["request_id"],
            of_requests["start_ns"],
            pc.equal(of_requests["phase"], "profiling"),
            conversation,
            pa.array(one.beside["turn"].astype(np.int64)),
        )
        for values, name in zip(each, columns, strict=True):
            columns[name].append(values if kept.all() else values.filter(mask))
    return SentColumns(pa.table({name: pa.chunked_array(each) for name, each in columns.items()}))
