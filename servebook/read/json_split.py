"""A long list of lists of numbers, read by several processes at once.

Every so many bytes the next bracket begins an element, as long as no text comes before it. Between
these places the list is cut into ranges, forked processes read them into files, and the results are
put together in order. A range that is no list of JSON values by itself holds the end of the list,
or something unusual: from there on the caller reads as ever. What a process left undone this one
does itself.
"""

from __future__ import annotations

import contextlib
import pickle
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from servebook.read.ahead import at_once, cores
from servebook.read.json_columns import Lists
from servebook.read.json_stream import WINDOW_BYTES, InvalidError, Reader
from servebook.read.json_window import Window
from servebook.read.spool import Spool

__all__ = ["lists_at_once"]

#: A shorter list is read before the processes are there.
_LEAST_BYTES = 64 << 20
_RANGE_BYTES = 16 << 20
_NAME = "list"

#: How far behind a place its next element is looked for.
_LOOK_BYTES = 1 << 20
_COMMA = re.compile(rb",[ \t\r\n]*\Z")


class _Range(NamedTuple):
    """From an element to the comma before another, and the line ends from there to that."""

    start: int
    comma: int
    next: int
    lines: int


def lists_at_once(path: Path, reader: Reader, column: Lists) -> int:
    """Adds elements of the list of lists whose first begins at the reader's place in ``path``.

    Returns how many; the reader then stands at the next. None of a short or packed file, and none
    where there is but one core.
    """
    ahead = reader.ahead
    if ahead.file_start is None or cores() < 2:
        return 0
    offset, line = ahead.place()
    start = ahead.file_start + offset
    try:
        ranges = _ranges(path, start)
        if not ranges or ranges[-1].next - start < _LEAST_BYTES:
            return 0
        spool = Spool()
    except OSError:  # no room for files
        return 0
    places = [spool.folder / f"{number:05d}.lists" for number in range(len(ranges))]
    jobs = [partial(_read, path, one, reader.lists, unique=reader.unique) for one in ranges]
    at_once([partial(_leave, job, place) for job, place in zip(jobs, places, strict=True)])
    n = 0
    for one, job, place in zip(ranges, jobs, places, strict=True):
        found = _taken(place) or job()
        if found is None:
            break
        part, lines = found
        column.join(part, spool)
        n += len(part)
        offset, line = one.next - ahead.file_start, line + lines + one.lines
    ahead.go((offset, line))
    return n


def _ranges(path: Path, start: int) -> list[_Range]:
    """Ranges in a row from ``start`` on, as far as elements are sure to be those of a list."""
    ranges: list[_Range] = []
    with path.open("rb", buffering=0) as stream:
        while True:
            from_ = start + _RANGE_BYTES - _LOOK_BYTES // 16
            stream.seek(from_)
            text = stream.read(_LOOK_BYTES)
            quote = text.find(b'"')
            text = text if quote < 0 else text[:quote]
            bracket = text.find(b"[", _LOOK_BYTES // 16)
            comma = _COMMA.search(text, 0, bracket) if bracket >= 0 else None
            if comma is None:
                return ranges
            at = from_ + bracket
            ranges.append(_Range(start, from_ + comma.start(), at, comma.group().count(b"\n")))
            start = at


Found = tuple[Lists, int]


class _Between:
    """The bytes of a file from one place to another as a stream, in the brackets of an array."""

    def __init__(self, path: Path, start: int, end: int) -> None:
        self._stream = path.open("rb", buffering=0)
        self._stream.seek(start)
        self._left = end - start
        self._open, self._closed = b"[", b"]"

    def read(self, size: int) -> bytes:
        if self._open:
            self._open = b""
            return b"["
        piece = self._stream.read(min(size, self._left)) if self._left else b""
        self._left -= len(piece)
        if not piece:
            piece, self._closed = self._closed, b""
        return piece

    def close(self) -> None:
        self._stream.close()


def _read(path: Path, one: _Range, lists: Callable[[], Lists], *, unique: bool) -> Found | None:
    """The elements of a range and its line ends; None where they are no list of JSON values."""
    between = partial(_between, path, one.start, one.comma)
    ahead = Window(between, WINDOW_BYTES, sys.maxsize)
    try:
        reader = Reader(ahead, (_NAME,), lists, unique=unique)
        ahead.skip()
        found = reader.list_of(_NAME)
        whole = not ahead.skip() and reader.repeated is None
    except (InvalidError, RecursionError):
        return None
    finally:
        ahead.close()
    return (found, ahead.place()[1]) if whole and isinstance(found, Lists) else None


def _between(path: Path, start: int, end: int) -> BinaryIO:
    return cast("BinaryIO", _Between(path, start, end))


def _leave(job: Callable[[], Found | None], place: Path) -> None:
    found = job()
    if found is not None:
        found[0].put_into(place.with_suffix(".numbers"))
        work = place.with_suffix(".part")
        work.write_bytes(pickle.dumps(found, protocol=5))
        work.replace(place)


def _taken(place: Path) -> Found | None:
    """What a process of ours left there."""
    with contextlib.suppress(OSError):
        found: Found = pickle.loads(place.read_bytes())
        place.unlink()
        return found
    return None
