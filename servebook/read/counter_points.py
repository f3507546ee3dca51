"""Readings of counters while a source is read: the columns of each series, in plain arrays.

A log of a switch holds ten million readings in a gigabyte. As rows of Python they take 200 bytes
each, by series a dozen to 24: its name and kind are said once. Series that are read together, as
the columns of a row are, have their times, lines and stamps once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MOST_IN_ORDER", "Points", "SeriesPoints"]

#: Up to so many readings their order in the file is kept.
MOST_IN_ORDER = 1 << 20
_NO_LINE = -1

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class _Track:
    """When readings were made, on which line and with which stamp, in file order."""

    def __init__(self) -> None:
        self.ts, self.lines, self.stamps = array("q"), array("q"), array("i")
        # One stamp and no line, as long as all are so: then it is not kept for each.
        self.stamp: int | None = None

    def append(self, ts_ns: int, line: int | None, stamp: int) -> None:
        if stamp != self.stamp:
            self._another(stamp)
        if self.stamp is None:
            self.stamps.append(stamp)
        if line is not None or self.lines:
            self._with_line(line)
        self.ts.append(ts_ns)

    def _another(self, stamp: int) -> None:
        if not self.ts:
            self.stamp = stamp
        elif self.stamp is not None:
            self.stamps = array("i", [self.stamp]) * len(self.ts)
            self.stamp = None

    def _with_line(self, line: int | None) -> None:
        if not self.lines and self.ts:
            self.lines = array("q", [_NO_LINE]) * len(self.ts)
        self.lines.append(_NO_LINE if line is None else line)

    def is_at(self, n: int, ts_ns: int, line: int | None, stamp: int) -> bool:
        """Whether this is what the track holds at place ``n``."""
        return (
            self.ts[n] == ts_ns
            and (self.lines[n] if self.lines else _NO_LINE) == (_NO_LINE if line is None else line)
            and (self.stamps[n] if self.stamp is None else self.stamp) == stamp
        )

    def head(self, n: int) -> _Track:
        """A track of its own of the first ``n``."""
        out = _Track()
        out.ts, out.lines, out.stamps = self.ts[:n], self.lines[:n], self.stamps[:n]
        out.stamp = self.stamp
        return out


class SeriesPoints:
    """The readings of one series, in file order."""

    def __init__(self, *, counter: bool) -> None:
        self._track: _Track | None = None
        self._values = array("Q" if counter else "d")
        self.counter = counter

    def add(
        self, ts_ns: int, value: int | float, line: int | None, stamp: int, beside: SeriesPoints
    ) -> None:
        """One more reading; the series' first may begin the track of the one ``beside``."""
        n, track = len(self._values), self._track
        if track is None:
            track = beside._track
            if track is None or not track.is_at(0, ts_ns, line, stamp):
                track = _Track()
            self._track = track
        if n == len(track.ts):
            track.append(ts_ns, line, stamp)
        elif not track.is_at(n, ts_ns, line, stamp):
            self._track = track = track.head(n)
            track.append(ts_ns, line, stamp)
        self._values.append(value)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._values)

    # Views of the arrays, without a copy; what grows meanwhile would have to move them.
    def ts_ns(self) -> Ints:
        """Times."""
        return np.frombuffer(self._told().ts, np.int64)[: len(self)]

    def values(self) -> npt.NDArray[Any]:
        """Counts as uint64, or values as float64."""
        return np.frombuffer(self._values, np.uint64 if self.counter else np.float64)

    def lines(self) -> tuple[Ints, Bools]:
        """Lines, and where there is none."""
        held = self._told().lines
        lines = np.frombuffer(held, np.int64)[: len(self)] if held else None
        lines = np.full(len(self), _NO_LINE) if lines is None else lines
        return lines, lines == _NO_LINE

    def stamps(self) -> Ints:
        """Numbers of stamps."""
        track = self._told()
        if track.stamp is not None:
            return np.full(len(self), track.stamp)
        return np.frombuffer(track.stamps, np.int32)[: len(self)].astype(np.int64)

    def one_stamp(self) -> int | None:
        """The stamp that all readings have; None where they may have several."""
        return self._told().stamp

    def _told(self) -> _Track:
        return self._track or _Track()


class Points:
    """Readings by the number of their series, and up to a million their order in the file."""

    def __init__(self) -> None:
        self._series: list[SeriesPoints] = []
        self._order: array[int] | None = array("i")
        self._n = 0
        self._last = SeriesPoints(counter=True)  # the series that was added to before

    def series(self, *, counter: bool) -> None:
        """One more series; they are numbered as they come."""
        self._series.append(SeriesPoints(counter=counter))

    def add(
        self, series: int, ts_ns: int, value: int | float, line: int | None, stamp: int
    ) -> None:
        """One reading; a counter's value must be an integer below 2^64."""
        own = self._series[series]
        own.add(ts_ns, value, line, stamp, self._last)
        self._last = own
        self._n += 1
        if self._order is not None:
            self._order.append(series)
            if self._n > MOST_IN_ORDER:
                self._order = None

    def __len__(self) -> int:
        return self._n

    def of(self, series: int) -> SeriesPoints:
        """The readings of a series."""
        return self._series[series]

    def used(self) -> list[int]:
        """The series that have readings."""
        return [number for number, own in enumerate(self._series) if len(own)]

    @property
    def in_order(self) -> bool:
        """Whether the order of all readings in the file is known."""
        return self._order is not None

    def places(self) -> Iterator[tuple[int, Ints]]:
        """Of each series that is used, where its readings stood in the file."""
        assert self._order is not None
        order = np.frombuffer(self._order, np.int32)
        by_series = np.argsort(order, kind="stable")
        used = self.used()
        ends = np.cumsum([len(self._series[number]) for number in used])
        return zip(used, np.split(by_series, ends[:-1]) if used else (), strict=True)
