"""Lists of gaps cut out of AIPerf's record lines, many lines at a time.

Does what ``aiperf_columns.Parser`` does of one line, with less work for each: the numbers of a list
become whole ns while they are in the processor's cache, and msgspec takes what is left of all lines
in one call. It knows one form, that which AIPerf writes: milliseconds, no list of more than 2.1 s
between two chunks. Where a list is of another form it gives all lines back to be read one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import simdjson

from servebook.gap_table import Lengths
from servebook.read.aiperf_columns import AFTER, BEFORE, NAME, NO_CUT, Gaps, Record

__all__ = ["Cut", "Cutter"]

#: Numbers that become whole ns at once: they stay in the processor's cache.
_ROOM = 1 << 14
_NS_PER_MS = 1e6
_MOST_32 = 2.0**31 - 1


@dataclass(frozen=True)
class Cut:
    """Of each line a record, not checked yet, or None; gaps of those that have one."""

    records: Sequence[Record | None]
    gaps: Gaps


class Cutter:
    """Takes lines, then gives what they held."""

    def __init__(self) -> None:
        self._numbers = simdjson.Parser()
        self._rest = msgspec.json.Decoder(Record)
        self._room = np.empty(_ROOM)
        self._begin()

    def _begin(self) -> None:
        self._rests: list[bytes] = []
        self._counts: list[int] = []  # -1: no list was cut out
        self._done: list[Lengths] = []
        self._used = 0
        self._usual = True

    def add(self, line: bytes) -> None:
        """Cut the list out of one line."""
        start = line.find(BEFORE)
        if start < 0:
            self._rests.append(line)
            self._counts.append(-1)
            return
        start += len(BEFORE) - 1
        end = line.find(b"]", start) + 1
        if not line.startswith(AFTER, end):
            self._usual = False
        if self._usual:
            try:
                self._take(line[start:end])
            except (ValueError, TypeError, AttributeError, RuntimeError):
                self._numbers = simdjson.Parser()  # the old one may hold a document
                self._usual = False
        self._rests.append(b"null".join((line[:start], line[end:])))

    def _take(self, text: bytes) -> None:
        values: Any = self._numbers.parse(text)
        n = len(values)
        self._counts.append(n)
        if not n:
            return
        found = np.frombuffer(values.as_buffer(of_type="d"))
        del values  # the parser may not be used again before
        if n > len(self._room):
            self._convert()
            self._room = np.empty(2 * n)
        elif self._used + n > len(self._room):
            self._convert()
        self._room[self._used : self._used + n] = found
        self._used += n

    def _convert(self) -> None:
        """Make whole ns of the numbers that wait."""
        if not self._used:
            return
        gaps = self._room[: self._used]
        np.multiply(gaps, _NS_PER_MS, out=gaps)
        # A list of fewer sums up to less than three years, then.
        if not (gaps.min() >= 0 and gaps.max() < _MOST_32 and self._used < 1 << 24):
            self._usual = False
        else:
            np.rint(gaps, out=gaps)
            self._done.append(gaps.astype(np.int32))
        self._used = 0

    def end(self) -> Cut | None:
        """What all lines held that were added; None where a list is not of the usual form."""
        self._convert()
        rests, usual = self._rests, self._usual
        counts, done = np.array(self._counts, np.int64), self._done
        self._begin()
        if not usual:
            return None
        has = counts >= 0
        records: Sequence[Record | None] | None = self._together(rests, int(has.sum()))
        if records is None:
            records = [
                self._alone(rest, cut) for rest, cut in zip(rests, has.tolist(), strict=True)
            ]
        if [one.metrics.inter_chunk_latency is not NO_CUT for one in records if one] != [
            cut for one, cut in zip(records, has.tolist(), strict=True) if one
        ]:
            return None
        counts[~has] = 0
        gap_ns = np.concatenate(done) if done else np.empty(0, np.int32)
        known = np.array([one is not None for one in records])
        gaps = Gaps(counts, gap_ns, np.ones(len(rests), bool))
        return Cut(records, gaps.only(known))

    def _together(self, rests: list[bytes], n_cut: int) -> list[Record] | None:
        """All records, where nothing is unusual about any of them."""
        # Only between two values can a line end after } before {, since msgspec takes no control
        # character in a text; so as many values as lines are one a line.
        text = b"\n".join(rests)
        if b"\\" in text or not text.isascii() or text.count(NAME) != n_cut:
            return None
        if not all(one[:1] == b"{" and one[-1:] == b"}" for one in rests):
            return None
        try:
            found: list[Record] = self._rest.decode_lines(text)
        except msgspec.DecodeError:
            return None
        if len(found) != len(rests) or any(one.metadata.was_cancelled for one in found):
            return None
        return found

    def _alone(self, rest: bytes, cut: bool) -> Record | None:
        if b"\\" in rest or not rest.isascii() or rest.count(NAME) != cut:
            return None
        try:
            record = self._rest.decode(rest)
        except msgspec.DecodeError:
            return None
        return None if record.metadata.was_cancelled else record
