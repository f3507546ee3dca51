"""AIPerf's record lines in pieces: each read by itself, by any process; ``aiperf_join`` joins them.

Lines of the usual form are taken as columns (``aiperf_columns``), all others go the long way of
``aiperf_records``; requests, gaps and what is set aside keep the order of the lines.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servebook.errors import DumpError
from servebook.gap_table import InFile, InMemory, Lengths, narrow
from servebook.read.aiperf_batch import MISSING, Batch, joined, part_of
from servebook.read.aiperf_columns import checked
from servebook.read.aiperf_lists import Lists, library
from servebook.read.aiperf_records import BadRecordError, count_of_usage, object_of, request
from servebook.read.aiperf_summary import Settings
from servebook.read.aiperf_usual import Parser, Taken
from servebook.read.line_blocks import lines_of
from servebook.read.records import Aside
from servebook.read.spool import write
from servebook.read.values import whole

__all__ = ["Piece", "read_piece"]

Ints = npt.NDArray[np.int64]

_BATCH = 256  # lines
_BATCH_BYTES = 4 << 20
#: Gaps of one part.
_PART = 1 << 22

_TIMES = ("scheduled_ns", "start_ns", "first_token_ns", "end_ns")
_NUMBERS = (*_TIMES, "isl", "osl", "osl_requested", "cached_tokens")
#: What is kept of each request beside its columns, all whole numbers.
_BESIDE = ("line", "gaps", "session", "turn", "phase_index", "usage")
_MAX_SESSIONS = 10**8


@dataclass(frozen=True)
class Piece:
    """Some lines. ``columns`` are those of ``requests`` without run_id, request_id null where none.

    ``beside``: per request its line (from 1), gaps, session (-1: none), turn, place of its phase in
    ``phases``, output tokens that the server counted (``MISSING``: none). ``parts``: gaps, and up
    to which request they go. ``sent``: conversation of each request, where asked for.
    """

    n_lines: int
    columns: dict[str, pa.Array]
    beside: dict[str, Ints]
    phases: list[str]
    parts: list[tuple[InMemory | InFile, int]]
    set_aside: Aside
    conversation: list[str] = field(default_factory=list)


def read_piece(
    lines: Iterable[bytes] | Iterable[memoryview],
    settings: Settings,
    folder: Path | None = None,
    name: str = "",
    *,
    with_sent: bool = False,
) -> Piece:
    """Read lines, or blocks of them; gaps go to files ``name``... in ``folder``.

    Without a folder, or where it has no room, they stay in memory. ``with_sent``: what names
    prompts elsewhere is kept. A DumpError of ``lines`` ends the piece and is set aside.
    """
    out = _Building(settings, folder, name, with_sent)
    collecting = gc.isenabled()
    gc.disable()  # it would look through all values again and again, and they make no circles
    try:
        for batch in _batches(lines):
            out.add(batch)
    except DumpError as damage:
        place = None if damage.line is None else out.n_lines + 1
        out.set_aside.append((place, "rest of the file", damage.reason))
    finally:
        if collecting:
            gc.enable()
    return out.end()


def _batches(lines: Iterable[bytes] | Iterable[memoryview]) -> Iterator[Taken]:
    """The lines, some at a time, each until the next are asked for; damage comes behind them."""
    parser, functions = Parser(), library()
    lists = None if functions is None else Lists(functions)
    batch: list[bytes] = []
    size = 0
    try:
        for one in lines:
            if isinstance(one, memoryview) and lists is not None:
                yield parser.of_block(one, lists.take(one))
                continue
            own = lines_of(one) if isinstance(one, memoryview) else [one]
            batch += own
            size += sum(map(len, own))
            if len(batch) >= _BATCH or size >= _BATCH_BYTES:
                yield parser.of_lines(batch)
                batch, size = [], 0
    except DumpError:
        yield parser.of_lines(batch)
        raise
    yield parser.of_lines(batch)


class _Building:
    """A piece on its way."""

    def __init__(self, settings: Settings, folder: Path | None, name: str, with_sent: bool) -> None:
        self.settings, self.folder, self.name, self.with_sent = settings, folder, name, with_sent
        self.batches: list[pa.RecordBatch] = []
        self.beside: dict[str, list[Ints]] = {key: [] for key in _BESIDE}
        self.phases: dict[str, int] = {}
        self.conversation: list[str] = []
        self.set_aside: Aside = []
        self.gaps = _rooms.pop() if _rooms else _Room()
        self.n_lines = self.n_requests = 0
        self.parts: list[tuple[InMemory | InFile, int]] = []
        self.usual: list[tuple[Batch, Ints]] = []
        self.others: list[tuple[dict[str, Any], tuple[int, ...]]] = []
        self.other_gaps: list[Lengths] = []

    def add(self, taken: Taken) -> None:
        """Add the next lines, in order, whichever way each goes."""
        records = [one for one in taken.records if one is not None]
        batch, good = None, np.empty(0, bool)
        if records:
            batch, good = checked(records, taken.gaps, taken.counts, self.settings)
        fine = np.zeros(len(taken.records), bool)
        fine[[one is not None for one in taken.records]] = good
        lines = self.n_lines + np.arange(1, len(fine) + 1)
        self.n_lines += len(fine)
        if batch is not None and fine.all():
            self._add(batch, lines)
            return
        # Usual records and others, in turn.
        done = 0
        for index in np.flatnonzero(~fine).tolist():
            n = int(fine[:index].sum())
            if batch is not None and n > done:
                self._add(part_of(batch, done, n), lines[fine][done:n])
                done = n
            self._long_way(int(lines[index]), taken.line(index))
        if batch is not None and fine.sum() > done:
            self._add(part_of(batch, done, int(fine.sum())), lines[fine][done:])

    def _add(self, batch: Batch, lines: Ints) -> None:
        if not len(lines):
            return
        self._add_others()
        self.usual.append((batch, lines))
        self.n_requests += len(lines)
        self._talk(batch.conversation)
        self._more_gaps(batch.gap_ns)

    def _add_usual(self) -> None:
        """Close the usual records, which came one after the other."""
        if not self.usual:
            return
        batches, lines = zip(*self.usual, strict=True)
        self.usual = []
        self._append(*_columns(joined(batches), np.concatenate(lines), self.phases))

    def _talk(self, conversation: Iterable[str | None]) -> None:
        if self.with_sent:
            self.conversation += map(str, conversation)

    def _append(self, columns: dict[str, pa.Array], *beside: Any) -> None:
        self.batches.append(pa.record_batch(columns))
        for key, values in zip(_BESIDE, beside, strict=True):
            self.beside[key].append(np.asarray(values, np.int64))

    def _more_gaps(self, gap_ns: Lengths) -> None:
        self.gaps.add(gap_ns)
        if self.gaps.n >= _PART:
            self._close()

    def _close(self) -> None:
        if not self.gaps.n:
            return
        data = self._in_file() or InMemory(narrow(self.gaps.held().copy()))
        self.gaps.n = 0
        if self.gaps.held().dtype != np.int32:  # few gaps need 64 bits
            self.gaps = _Room()
        self.parts.append((data, self.n_requests))

    def _in_file(self) -> InFile | None:
        """The gaps that wait as a file; None where none is asked for, or there is no room."""
        if self.folder is None:
            return None
        path = self.folder / f"{self.name}-{len(self.parts):03d}.parquet"
        try:
            return write(path, InMemory(self.gaps.held()))
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
            return None

    def _long_way(self, at: int, line: bytes) -> None:
        if not line.strip():
            return
        self._add_usual()
        try:
            record = object_of(line)
            row, gap_ns = request(record, self.settings)
            usage = count_of_usage(record)
        except BadRecordError as bad:
            self.set_aside.append((at, "request", str(bad)))
            return
        about = record["metadata"]
        session = whole(about.get("session_num"))
        phase = self.phases.setdefault(str(about.get("phase_index")), len(self.phases))
        self.others.append(
            (
                row,
                (
                    at,
                    0 if gap_ns is None else len(gap_ns),
                    -1 if session is None or session >= _MAX_SESSIONS else session,
                    whole(about.get("turn_index")) or 0,
                    phase,
                    MISSING if usage is None else usage,
                ),
            )
        )
        self._talk([str(about.get("conversation_id"))])
        if gap_ns is not None:
            self.other_gaps.append(narrow(gap_ns))

    def _add_others(self) -> None:
        """Close the records that went the long way one after the other."""
        if not self.others:
            return
        rows, beside = zip(*self.others, strict=True)
        columns = {
            name: pa.array([row[name] for row in rows], kind) for name, kind in _KINDS.items()
        }
        self._append(columns, *zip(*beside, strict=True))
        self.n_requests += len(rows)
        gaps, self.others, self.other_gaps = self.other_gaps, [], []
        if gaps:
            self._more_gaps(np.concatenate(gaps))

    def end(self) -> Piece:
        self._add_usual()
        self._add_others()
        self._close()
        _rooms[:] = [self.gaps]
        empty = {name: pa.array([], kind) for name, kind in _KINDS.items()}
        names = list(empty)
        batches = [batch.select(names) for batch in self.batches]
        if batches:
            whole_piece = pa.Table.from_batches(batches).combine_chunks()
            empty = {name: whole_piece[name].combine_chunks() for name in names}
        beside = {
            key: np.concatenate(values) if values else np.empty(0, np.int64)
            for key, values in self.beside.items()
        }
        return Piece(
            self.n_lines,
            empty,
            beside,
            list(self.phases),
            self.parts,
            self.set_aside,
            self.conversation,
        )


def _columns(batch: Batch, lines: Ints, phases: dict[str, int]) -> tuple[Any, ...]:
    """The columns of usual records, and what is kept beside; their phases are added to all."""
    n = len(lines)
    phases_told = ["warmup" if one else "profiling" for one in batch.warmup.tolist()]
    columns = {
        "request_id": pa.array(batch.request_id, pa.string()),
        "phase": pa.array(phases_told, pa.string()),
        "status": pa.array(["ok"] * n),
        "error_kind": pa.nulls(n, pa.string()),
        "flags": _flags(batch.short_output),
    }
    for name, values in batch.columns.items():
        columns[name] = pa.array(values, mask=values == MISSING)
    numbers = {int(i): "None" if i < 0 else str(i) for i in np.unique(batch.phase_index)}
    codes = {i: phases.setdefault(text, len(phases)) for i, text in numbers.items()}
    index = np.array([codes[i] for i in batch.phase_index.tolist()])
    return columns, lines, batch.counts, batch.session, batch.turn, index, batch.usage


class _Room:
    """Gaps one after the other, in memory that the next ones take again.

    Fresh memory costs more than copying.
    """

    def __init__(self) -> None:
        self.n = 0
        self._all: Lengths = np.empty(0, np.int32)

    def add(self, gap_ns: Lengths) -> None:
        """Copy some gaps behind those that are there."""
        n = self.n + len(gap_ns)
        wider = gap_ns.dtype == np.int64 and self._all.dtype == np.int32
        if n > len(self._all) or wider:
            kind = np.int64 if wider else self._all.dtype
            room: Lengths = np.empty(max(n + n // 2, _PART + (_PART >> 2)), kind)
            room[: self.n] = self.held()
            self._all = room
        self._all[self.n : n] = gap_ns
        self.n = n

    def held(self) -> Lengths:
        """All that were added, until more are."""
        return self._all[: self.n]


#: Of a process, when nobody uses it.
_rooms: list[_Room] = []


def _flags(short: npt.NDArray[np.bool_]) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(short)]).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(ends), pa.array(["short_output"] * int(ends[-1]), pa.string())
    )


_KINDS: dict[str, pa.DataType] = {
    "request_id": pa.string(),
    "phase": pa.string(),
    "status": pa.string(),
    "error_kind": pa.string(),
    "flags": pa.list_(pa.string()),
    **dict.fromkeys(_NUMBERS, pa.int64()),
}
