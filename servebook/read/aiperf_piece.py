"""AIPerf's record lines in pieces: each read by itself, by any process; ``aiperf_join`` joins them.

Lines of the usual form are taken as columns (``aiperf_columns``), all others go the long way of
``aiperf_records``; requests, gaps and what is set aside keep the order of the lines.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servebook.errors import DumpError
from servebook.gap_table import InFile, InMemory, Lengths, narrow
from servebook.read.aiperf_lists import room_for
from servebook.read.aiperf_records import BadRecordError, count_of_usage, object_of, request
from servebook.read.aiperf_rows import MISSING, NO_GAPS, Rows, joined, table_columns
from servebook.read.aiperf_summary import Settings
from servebook.read.aiperf_usual import Parser, Taken
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
    conversation: pa.Array | None = None


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
        for taken in _taken(lines, Parser(with_sent=with_sent), out):
            out.add(taken)
    except DumpError as damage:
        place = None if damage.line is None else out.n_lines + 1
        out.set_aside.append((place, "rest of the file", damage.reason))
    finally:
        if collecting:
            gc.enable()
    return out.end()


def _taken(
    lines: Iterable[bytes] | Iterable[memoryview], parser: Parser, out: _Building
) -> Iterator[Taken]:
    """The lines, some at a time, each until the next are asked for; damage comes behind them."""
    batch: list[bytes] = []
    size = 0
    try:
        for one in lines:
            if isinstance(one, memoryview):
                yield parser.of_block(one, out.gaps.behind(room_for(one)))
                continue
            batch.append(one)
            size += len(one)
            if len(batch) >= _BATCH or size >= _BATCH_BYTES:
                yield parser.of_lines(batch)
                batch, size = [], 0
    except DumpError:
        yield parser.of_lines(batch)
        raise
    yield parser.of_lines(batch)
    parser.done()


class _Building:
    """A piece on its way."""

    def __init__(self, settings: Settings, folder: Path | None, name: str, with_sent: bool) -> None:
        self.settings, self.folder, self.name, self.with_sent = settings, folder, name, with_sent
        self.batches: list[pa.RecordBatch] = []
        self.beside: dict[str, list[Ints]] = {key: [] for key in _BESIDE}
        self.phases: dict[str, int] = {}
        self.conversation: list[pa.Array] = []
        self.set_aside: Aside = []
        self.gaps = _rooms.pop() if _rooms else _Room()
        self.n_lines = self.n_requests = 0
        self.parts: list[tuple[InMemory | InFile, int]] = []
        self.usual: list[tuple[Rows, Ints]] = []
        self.others: list[tuple[dict[str, Any], tuple[int, ...], str]] = []
        self.other_gaps: list[Lengths] = []

    def add(self, taken: Taken) -> None:
        """Add the next lines, in order, whichever way each goes."""
        first = self.n_lines + 1
        self.n_lines += taken.n_lines
        if len(taken.at) == taken.n_lines:
            self._add(taken.rows, taken.at + first)
            return
        # Usual records and others, in turn.
        done = 0
        is_other = np.ones(taken.n_lines, bool)
        is_other[taken.at] = False
        for index in np.flatnonzero(is_other).tolist():
            n = int(np.searchsorted(taken.at, index))
            if n > done:
                self._add(taken.rows.slice(done, n), taken.at[done:n] + first)
                done = n
            self._long_way(index + first, taken.line(index))
        if len(taken.at) > done:
            self._add(taken.rows.slice(done, len(taken.at)), taken.at[done:] + first)
        self._add_others()  # before the next ones' gaps are written behind all that were added

    def _add(self, rows: Rows, lines: Ints) -> None:
        if not len(lines):
            return
        self._add_others()
        self.usual.append((replace(rows, gap_ns=NO_GAPS), lines))
        self.n_requests += len(lines)
        self._more_gaps(rows.gap_ns)

    def _add_usual(self) -> None:
        """Close the usual records, which came one after the other."""
        if not self.usual:
            return
        each, lines = zip(*self.usual, strict=True)
        self.usual = []
        rows = joined(each)
        self.conversation.append(rows.conversation)
        self._append(*_columns(rows, np.concatenate(lines), self.phases, self.settings))

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
                str(about.get("conversation_id")),
            )
        )
        if gap_ns is not None:
            self.other_gaps.append(narrow(gap_ns))

    def _add_others(self) -> None:
        """Close the records that went the long way one after the other."""
        if not self.others:
            return
        rows, beside, talk = zip(*self.others, strict=True)
        if self.with_sent:
            self.conversation.append(pa.array(talk, pa.string()))
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
            pa.concat_arrays(self.conversation) if self.with_sent and self.conversation else None,
        )


def _columns(
    rows: Rows, lines: Ints, phases: dict[str, int], settings: Settings
) -> tuple[Any, ...]:
    """The columns of usual records, and what is kept beside; their phases are added to all."""
    n = len(rows)
    numbers, is_short = table_columns(rows)
    columns = {
        "request_id": rows.request_id,
        "phase": _PHASES.take(pa.array(rows.column("warmup"))),
        "status": pa.repeat(pa.scalar("ok"), n),
        "error_kind": pa.nulls(n, pa.string()),
        "flags": _flags(is_short & bool(settings.ignore_eos)),
    }
    for name, values in numbers.items():
        columns[name] = pa.array(values, mask=values == MISSING)
    found, index = np.unique(rows.column("phase_index"), return_inverse=True)
    names = ["None" if i < 0 else str(i) for i in found.tolist()]
    codes = np.array([phases.setdefault(name, len(phases)) for name in names])
    beside = (rows.column(name) for name in ("gaps", "session", "turn"))
    return columns, lines, *beside, codes[index], rows.column("usage")


_PHASES = pa.array(["profiling", "warmup"])


class _Room:
    """Gaps one after the other, in memory that the next ones take again.

    Fresh memory costs more than copying.
    """

    def __init__(self) -> None:
        self.n = 0
        self._all: Lengths = np.empty(0, np.int32)

    def behind(self, n: int) -> Lengths | None:
        """Room for so many more, which may be written there and added; None where they are 64-bit.

        It is that until others are added.
        """
        if self._all.dtype != np.int32:
            return None
        self._hold(self.n + n, np.int32)
        return self._all[self.n :]

    def add(self, gap_ns: Lengths) -> None:
        """Put some gaps behind those that are there."""
        n = self.n + len(gap_ns)
        wider = gap_ns.dtype == np.int64 or self._all.dtype == np.int64
        self._hold(n, np.int64 if wider else np.int32)
        own = self._all[self.n : n]
        if own.ctypes.data != gap_ns.ctypes.data:
            own[:] = gap_ns
        self.n = n

    def _hold(self, n: int, kind: Any) -> None:
        if n > len(self._all) or self._all.dtype != kind:
            room: Lengths = np.empty(max(n + n // 2, _PART + (_PART >> 1)), kind)
            room[: self.n] = self.held()
            self._all = room

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
