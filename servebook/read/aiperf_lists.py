"""Record lines of AIPerf taken apart by compiled code, where it is there.

Own code in C: of the libraries that read JSON simdjson is the fastest with a list of decimals, and
it takes three times as long to make floats of them as ``aiperf_lists.c`` takes to make whole ns,
which is what tables hold; and none reads lines of one shape into columns, without an object for
each of them, as ``aiperf_rows.c`` does (``benchmarks/README.md``). It is compiled when Servebook is
installed (``hatch_build.py``), to a library whose name tells of which source. Without a compiler,
or with ``SERVEBOOK_COMPILED=0``, simdjson and msgspec read; both ways give the same numbers.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servebook.gap_table import Lengths
from servebook.read.aiperf_rows import AT, LIMITS, NO_GAPS, NONE, Rows, of_strings
from servebook.read.aiperf_shapes import Shapes, again, leave

__all__ = ["PAD", "SOURCES", "SWITCH", "Found", "Lists", "digest", "library", "room_for"]

SWITCH = "SERVEBOOK_COMPILED"
SOURCES = tuple(Path(__file__).with_name(f"aiperf_{name}.c") for name in ("lists", "rows", "wide"))
#: So many bytes behind a block are looked at, whatever they are.
PAD = 64

#: Room for so many lines, and for twice as many where there are more.
_SOME_LINES = 4096
#: A number and its comma take no less.
_LEAST_BYTES = 4

Ints = npt.NDArray[np.int64]


def digest(*contents: bytes) -> str:
    """Part of a checksum, as it stands in names of libraries."""
    return hashlib.sha256(b"\0".join(contents)).hexdigest()[:16]


def library() -> Any:
    """The compiled functions; None where they are switched off, missing or of another source."""
    return None if os.environ.get(SWITCH) == "0" else _loaded(SOURCES)


@functools.cache
def _loaded(sources: Sequence[Path]) -> Any:
    try:
        name = f"libaiperf-{digest(*(one.read_bytes() for one in sources))}-"
        for path in sorted(sources[0].parent.glob(f"{name}*.so")):
            # A library that was cut short would end the process that loads it.
            if path.name == f"{name}{digest(path.read_bytes())}.so":
                return _declared(ctypes.CDLL(str(path)))
    except (OSError, AttributeError):
        pass
    return None


class _CShapes(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("nodes", "texts", "limits", "missing")),
        ("n_columns", ctypes.c_int64),
    )


def _declared(functions: Any) -> Any:
    number, place = ctypes.c_int64, ctypes.c_void_p
    take = functions.servebook_aiperf_lines
    take.argtypes = [
        *(place, number, ctypes.POINTER(_CShapes), place, place, number),
        *(place, number, place, place, place, number, number),
    ]
    take.restype = number
    functions.servebook_use_wide(1)
    return functions


def room_for(block: memoryview) -> int:
    """No block has more gaps."""
    return len(block) // _LEAST_BYTES + 1


class Found(NamedTuple):
    """Lines of a block taken apart; it holds until the next block is.

    ``lines``: of each where it ends in the block, line feed included, and its rest in ``rests``,
    how many of ``gap_ns`` are its own (0: it has no list), and whether it is the next of ``rows``
    (without their gaps), and has no rest. A rest is ASCII without escapes, which names the list of
    gaps once or never, and has null in its place. A line to be read in another way has -1 gaps, and
    no rest.
    """

    lines: Ints
    rests: memoryview
    gap_ns: npt.NDArray[np.int32]
    rows: Rows

    @property
    def is_row(self) -> npt.NDArray[np.bool_]:
        """Which lines are rows."""
        return self.lines[:, 3] > 0

    def line(self, at: int) -> tuple[int, int]:
        """Where a line begins and ends in the block."""
        return self._span(at, 0)

    def rest(self, at: int) -> memoryview:
        """What is left of a line that is no row and not to be read in another way."""
        begin, end = self._span(at, 1)
        return self.rests[begin:end]

    def _span(self, at: int, column: int) -> tuple[int, int]:
        begin = int(self.lines[at - 1, column]) if at else 0
        return begin, int(self.lines[at, column])

    def gaps(self) -> list[npt.NDArray[np.int32] | None]:
        """The gaps of each line in ns; None where it is to be read in another way."""
        counts = self.lines[:, 2]
        ends = np.cumsum(np.maximum(counts, 0))[:-1]
        each = np.split(self.gap_ns, ends) if len(counts) else []
        return [None if n < 0 else one for n, one in zip(counts.tolist(), each, strict=True)]


class Lists:
    """Takes blocks of lines apart, in memory that the next block takes again.

    ``is_usual`` says of a rest, and of how many gaps its line has, whether it is a usual request;
    so lines of the same shape become rows. ``with_sent``: rows tell their conversations.
    """

    def __init__(
        self,
        functions: Any,
        is_usual: Callable[[memoryview, int], bool] = lambda rest, n: False,
        *,
        with_sent: bool = False,
    ) -> None:
        self._take = functions.servebook_aiperf_lines
        self._is_usual = is_usual
        self._shapes = again(with_sent=with_sent)
        self._described = _described(self._shapes)
        self._lines = np.empty((_SOME_LINES, 4), np.int64)
        self._rows = np.empty((_SOME_LINES, len(NONE)), np.int64)
        self._texts = np.empty((3, 0), np.uint8)  # rests, names, conversations

    def take(self, block: memoryview, room: Lengths | None = None) -> Found:
        """The lines of a block, which ends with a line feed and has ``PAD`` bytes behind it.

        Gaps go to ``room``, 32-bit numbers, at least ``room_for(block)``.
        """
        if len(block) > self._texts.shape[1]:
            self._texts = np.empty((3, len(block)), np.uint8)
        gaps = np.empty(room_for(block), np.int32) if room is None else room
        text = np.frombuffer(block, np.uint8).ctypes.data
        rests, names, talks = (one.ctypes.data for one in self._texts)
        at = end = rest_end = n_gaps = n_rows = n_names = n_talks = 0
        tried = -1
        while end < len(block):
            if at == len(self._lines):
                self._lines = np.concatenate([self._lines, np.empty_like(self._lines)])
            if n_rows == len(self._rows):
                self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
            lines, rows = self._lines[at:], self._rows[n_rows:]
            wants = self._shapes.wants()
            n = self._take(
                *(text + end, len(block) - end, self._described, rests + rest_end),
                *(gaps.ctypes.data + 4 * n_gaps, len(gaps) - n_gaps),
                *(rows.ctypes.data, len(rows), names + n_names, talks + n_talks),
                *(lines.ctypes.data, len(lines), max(tried + 1 - at, 0) if wants else len(lines)),
            )
            lines[:n, :2] += (end, rest_end)
            new = rows[: np.count_nonzero(lines[:n, 3])]
            if len(new):
                new[:, _ENDS] += (n_names, n_talks)
                n_names, n_talks = new[-1, _ENDS].tolist()
                n_rows += len(new)
            _, last_end, last_gaps, is_row = lines[n - 1].tolist()
            if wants and not is_row and last_gaps >= 0 and at + n - 1 > tried:
                tried = at + n - 1
                begin = int(lines[n - 2, 1]) if n > 1 else rest_end
                if self._learned(self._texts[0, begin:last_end].data, last_gaps):
                    n -= 1  # that line once more
            n_gaps += int(lines[:n, 2].clip(0).sum())
            at += n
            if n:
                end, rest_end = lines[n - 1, :2].tolist()
        self._shapes.n_lines += at
        return Found(self._lines[:at], self._texts[0].data, gaps[:n_gaps], self._taken(
            n_rows, n_names, n_talks
        ))  # fmt: skip

    def done(self) -> None:
        """No more blocks come."""
        leave(self._shapes)

    def _learned(self, rest: memoryview, n_gaps: int) -> bool:
        """Whether lines like this one are known from now on."""
        if not self._is_usual(rest, n_gaps):
            self._shapes.tried()
            return False
        if not self._shapes.add(bytes(rest), n_gaps > 0):
            return False
        self._described = _described(self._shapes)
        return True

    def _taken(self, n_rows: int, n_names: int, n_talks: int) -> Rows:
        """The rows that were found, without their gaps."""
        values = self._rows[:n_rows].copy()
        values[:, AT["warmup"]] = self._shapes.is_warmup[values[:, AT["warmup"]]]
        names, talks = values[:, _ENDS].T
        _, own_names, own_talks = self._texts
        return Rows(
            of_strings(own_names[:n_names].tobytes(), names),
            of_strings(own_talks[:n_talks].tobytes(), talks)
            if self._shapes.with_sent
            else pa.nulls(n_rows, pa.string()),
            values,
            NO_GAPS,
        )


_ENDS = [AT["name_end"], AT["talk_end"]]


def _described(shapes: Shapes) -> _CShapes:
    """The shapes as the compiled part takes them, for as long as there are no more."""
    own = (shapes.nodes, shapes.texts, LIMITS, NONE)
    return _CShapes(*(one.ctypes.data for one in own), len(NONE))
