"""A stream of bytes through a window, and the places between JSON values in it.

A window holds what is being read and no more. Where an element of an array ends is told from its
bytes alone: by quotes that no backslash hides and by brackets outside of texts, many at once.

Own code: parsers want the whole of a document in memory, and those that work on parts of it
(ijson) make an object of every number first.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from servebook.read.files import too_large

__all__ = ["Window", "element_end", "elements_end"]

_SPACE = re.compile(rb"[ \t\r\n]*")
_BOM = b"\xef\xbb\xbf"
_SHORT = 4096


class Window:
    """The bytes from ``at`` on in ``data``; ``more`` reads further, and lets go what lies before.

    ``open_again`` opens the stream from its beginning; ``size`` is what is read at once, ``most``
    what may be read in all. What reading raises comes through.
    """

    def __init__(self, open_again: Callable[[], BinaryIO], size: int, most: int) -> None:
        self._open, self._size, self._most = open_again, size, most
        self._stream = open_again()
        #: Where the content begins in a file that holds it as it is; None of a packed one.
        self.file_start = self._stream.tell() if type(self._stream) is io.BufferedReader else None
        self.data = b""
        self.at = 0
        self.ended = False
        self._base = 0  # where ``data`` begins in the stream
        self._lines = 0  # line ends before ``data``

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def more(self) -> bool:
        """Read at least as much again as is left; whether there was more."""
        if self.ended:
            return False
        if self._base + len(self.data) > self._most:
            raise too_large()
        wanted = max(self._size, len(self.data) - self.at)
        new = self._stream.read(wanted)
        self.ended = not new
        self._lines += _line_ends(self.data, 0, self.at)
        self._base += self.at
        self.data = self.data[self.at :] + new
        self.at = 0
        return not self.ended

    def skip(self, spaces: re.Pattern[bytes] = _SPACE) -> bytes:
        """Go to the next byte that is no space, and return it; empty at the end of the stream."""
        while True:
            found = spaces.match(self.data, self.at)
            self.at = found.end() if found else self.at
            left = len(self.data) - self.at
            # A byte order mark may lie across the edge of what was read.
            whole = left >= len(_BOM) or (left and self.data[self.at] != _BOM[0])
            if whole or not self.more():
                return self.data[self.at : self.at + 1]

    def place(self) -> tuple[int, int]:
        """Where ``at`` is: bytes and line ends before it."""
        return self._base + self.at, self._lines + _line_ends(self.data, 0, self.at)

    def go(self, place: tuple[int, int]) -> None:
        """Go to a ``place``, if need be by reading the stream again from its beginning."""
        offset, lines = place
        if self._base <= offset <= self._base + len(self.data):
            self.at = offset - self._base
            return
        self._stream.close()
        self._stream = self._open()
        if self._stream.seekable():
            self._stream.seek(self._stream.tell() + offset)  # after a byte order mark
        else:
            left = offset
            while left and (piece := self._stream.read(min(left, 1 << 20))):
                left -= len(piece)
        self.data, self.at, self.ended = b"", 0, False
        self._base, self._lines = offset, lines

    def seek(self, text: bytes) -> bool:
        """Go to where ``text`` begins next; whether it does, else to the end of the stream."""
        while True:
            found = self.data.find(text, self.at)
            if found >= 0:
                self.at = found
                return True
            if self.ended:
                self.at = len(self.data)
                return False
            # It may lie across the edge of what was read.
            self.at = max(self.at, len(self.data) - len(text) + 1)
            self.more()


def _line_ends(data: bytes, start: int, end: int) -> int:
    # Most dumps are one line: looking for the first is five times as fast as counting.
    first = data.find(b"\n", start, end)
    return 0 if first < 0 else data.count(b"\n", first, end)


@dataclass(frozen=True)
class _Marks:
    """Of a text that begins outside of strings: its quotes, its brackets and their depths."""

    quotes: npt.NDArray[np.intp]
    brackets: npt.NDArray[np.intp]
    depth: npt.NDArray[np.intp]  # after each bracket
    braces: bool  # whether one opens an object


def _growing(data: bytes, at: int, size: int) -> Iterator[int]:
    """Ends of ever more of ``data`` from ``at`` on."""
    while at + size < len(data):
        yield at + size
        size *= 16
    yield len(data)


def _marks(data: bytes, at: int, upto: int) -> _Marks:
    text = data[at:upto]
    if b"\\" in text:  # pairs first: what is left of a run of backslashes hides what follows
        text = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    raw = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(raw == ord('"'))
    either = raw | 0x20  # square ones become curly
    brackets = np.flatnonzero((either == ord("{")) | (either == ord("}")))
    brackets = brackets[np.searchsorted(quotes, brackets) & 1 == 0]
    opens = either[brackets] == ord("{")
    depth = np.cumsum(np.where(opens, 1, -1))
    return _Marks(quotes, brackets, depth, bool((raw[brackets] == ord("{")).any()))


def element_end(data: bytes, at: int) -> int:
    """Where the object or array that begins at ``at`` ends; -1 where not in ``data``."""
    for upto in _growing(data, at, _SHORT):
        marks = _marks(data, at, upto)
        ends = np.flatnonzero(marks.depth == 0)
        if len(ends):
            return at + int(marks.brackets[ends[0]]) + 1
    return -1


def elements_end(data: bytes, at: int, first: int = _SHORT) -> tuple[int, bool, bool]:
    """(end, closed, objects) of the elements of an array from ``at`` on.

    ``closed``: the array's bracket stands at ``end``. Otherwise ``end`` is behind the last text,
    object or array that is whole, or -1 where none is. ``objects``: there may be some among them.
    The first so many bytes are looked at first: most arrays are short.
    """
    for upto in _growing(data, at, first):
        marks = _marks(data, at, upto)
        closing = np.flatnonzero(marks.depth < 0)
        if len(closing):
            return at + int(marks.brackets[closing[0]]), True, marks.braces
    ends = np.flatnonzero(marks.depth == 0)
    last = int(ends[-1]) if len(ends) else -1
    end = int(marks.brackets[last]) + 1 if last >= 0 else -1
    # Texts behind it, up to the bracket that stays open.
    stop = last + 1
    limit = int(marks.brackets[stop]) if stop < len(marks.brackets) else len(data) - at
    n = int(np.searchsorted(marks.quotes, limit)) // 2 * 2
    if n:
        end = max(end, int(marks.quotes[n - 1]) + 1)
    return (at + end if end > 0 else -1), False, marks.braces
