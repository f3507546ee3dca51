"""Usual record lines of AIPerf taken apart: the few values that a request needs, and its gaps.

Compiled code takes lines whose shape it knows as rows, and of the others cuts out the list of gaps,
which is nine tenths of a token-level line (``aiperf_lists``); where it is missing, simdjson hands
that list over as an array. msgspec takes the other values from the rest. Whatever is not as AIPerf
writes it (an escape, a name where it does not belong, an error, a cancelled request, a value of
another kind) goes the long way of ``aiperf_records.request``, which decides what it is and says why
a line cannot be used. So all ways give the same, and this one only decides whether it may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import simdjson

from servebook.gap_table import Lengths
from servebook.read.aiperf_columns import checked
from servebook.read.aiperf_lists import Found, Lists, library
from servebook.read.aiperf_rows import Rows, merged
from servebook.read.aiperf_structs import Record, is_usual
from servebook.read.line_blocks import bare, lines_of

__all__ = ["Parser", "Taken"]

_NAME = b"inter_chunk_latency"
_BEFORE = b'"inter_chunk_latency":{"value":['

Ints = npt.NDArray[np.int64]


class Taken(NamedTuple):
    """Lines in order."""

    #: Each line, from 0, without its line end; until more lines are asked for.
    line: Callable[[int], bytes]
    n_lines: int
    #: Those that are usual: which lines they are, and what they hold.
    at: Ints
    rows: Rows


class Parser:
    """Takes usual records apart."""

    def __init__(self, *, with_sent: bool = False) -> None:
        self._with_sent = with_sent
        self._numbers = simdjson.Parser()
        self._rest = msgspec.json.Decoder(Record)
        functions = library()
        self.lists = functions and Lists(functions, self._is_usual, with_sent=with_sent)

    def of_lines(self, lines: Sequence[bytes]) -> Taken:
        """The values of lines."""
        at, rows = self._checked(enumerate(map(self._usual, lines)))
        return Taken(lines.__getitem__, len(lines), at, rows)

    def of_block(self, block: memoryview, room: Lengths | None = None) -> Taken:
        """The values of the lines of a block, which has ``aiperf_lists.PAD`` bytes behind it.

        Gaps may lie in ``room``, where that is given (``aiperf_lists.Lists.take``).
        """
        if self.lists is None:
            return self.of_lines(lines_of(block))
        found = self.lists.take(block, room)

        def line(at: int) -> bytes:
            begin, end = found.line(at)
            return bare(bytes(block[begin:end]))

        is_row, n_lines = found.is_row, len(found.lines)
        at = np.flatnonzero(is_row)
        if len(at) == n_lines:
            return Taken(line, n_lines, at, replace(found.rows, gap_ns=found.gap_ns))
        if not len(at) and (records := self._all(found)):
            counts = found.lines[:, 2].copy()
            rows, good = checked(records, [found.gap_ns], counts, with_sent=self._with_sent)
            return Taken(line, n_lines, np.flatnonzero(good), rows)
        gaps = found.gaps()
        own = [gaps[row] for row in at.tolist()]
        shaped = replace(found.rows, gap_ns=np.concatenate([found.gap_ns[:0], *own]))
        others = np.flatnonzero(~is_row).tolist()
        also, rows = self._checked((n, self._other(found, n, gaps[n], line)) for n in others)
        if len(at):
            both = np.concatenate([at, also])
            order = np.argsort(both, kind="stable")
            also, rows = both[order], merged(shaped, rows, order)
        return Taken(line, n_lines, also, rows)

    def done(self) -> None:
        """No more lines come."""
        if self.lists is not None:
            self.lists.done()

    def _checked(self, each: Any) -> tuple[Ints, Rows]:
        """Of numbered lines, None where it is no usual one: which hold what they must, and that."""
        usual = [(at, *one) for at, one in each if one is not None]
        at, records, gaps = zip(*usual, strict=True) if usual else ((), (), ())
        rows, good = checked(records, gaps, with_sent=self._with_sent)
        return np.array(at, np.int64)[good], rows

    def _all(self, found: Found) -> list[Record]:
        """The records of all lines; none where there is a line that is no usual one."""
        counts = found.lines[:, 2].tolist()
        if min(counts) < 0:
            return []
        try:
            records = [self._rest.decode(found.rest(at)) for at in range(len(counts))]
        except msgspec.DecodeError:
            return []
        return records if all(map(is_usual, records, counts)) else []

    def _other(
        self, found: Found, at: int, gap_ns: Any, line: Callable[[int], bytes]
    ) -> tuple[Record, Any] | None:
        one = None
        if gap_ns is not None:
            one = self._of(found.rest(at), gap_ns, len(gap_ns))
        return one or self._usual(line(at))

    def _usual(self, line: bytes) -> tuple[Record, Any] | None:
        try:
            start = line.find(_BEFORE)
            if start < 0:
                rest, gaps = line, None
            else:
                start += len(_BEFORE) - 1
                end = line.find(b"]", start) + 1
                values: Any = self._numbers.parse(line[start:end])
                gaps = values.as_buffer(of_type="d") if len(values) else None
                del values
                if line.find(b'"value"', end, line.find(b"}", end)) >= 0:
                    return None  # the last of two counts
                rest = b"null".join((line[:start], line[end:]))
        except (ValueError, TypeError, AttributeError, RuntimeError):
            self._numbers = simdjson.Parser()  # the old one may hold a document
            return None
        # Without an escape, no name is spelled in another way and no string holds a quote.
        if b"\\" in rest or not rest.isascii() or (start >= 0 and rest.count(_NAME) != 1):
            return None
        return self._of(rest, gaps, start >= 0)

    def _of(
        self, rest: bytes | memoryview, gaps: Any, has_list: object
    ) -> tuple[Record, Any] | None:
        try:
            record = self._rest.decode(rest)
        except msgspec.DecodeError:
            return None
        return (record, gaps) if is_usual(record, has_list) else None

    def _is_usual(self, rest: memoryview, n_gaps: int) -> bool:
        return self._of(rest, None, n_gaps) is not None
