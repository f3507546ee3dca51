"""Readings of counters while a source is read: the columns of each series, in plain arrays.

A log of a switch holds ten million readings in a gigabyte. As rows of Python they take 200 bytes
each, by series a dozen to 24: its name and kind are said once.
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


class SeriesPoints:
    """The readings of one series, in file order."""

    def __init__(self, *, counter: bool) -> None:
        self._ts, self._values = array("q"), array("Q" if counter else "d")
        self._lines, self._stamps = array("q"), array("i")
        # One stamp and no line, as long as all are so: then it is not kept for each.
        self._stamp: int | None = None
        self.counter = counter

    def add(self, ts_ns: int, value: int | float, line: int | None, stamp: int) -> None:
        """One more reading."""
        if stamp != self._stamp:
            self._another(stamp)
        if self._stamp is None:
            self._stamps.append(stamp)
        if line is not None or self._lines:
            self._with_line(line)
        self._ts.append(ts_ns)
        self._values.append(value)  # type: ignore[arg-type]

    def _another(self, stamp: int) -> None:
        if not self._ts:
            self._stamp = stamp
        elif self._stamp is not None:
            self._stamps = array("i", [self._stamp]) * len(self._ts)
            self._stamp = None

    def _with_line(self, line: int | None) -> None:
        if not self._lines and self._ts:
            self._lines = array("q", [_NO_LINE]) * len(self._ts)
        self._lines.append(_NO_LINE if line is None else line)

    def __len__(self) -> int:
        return len(self._ts)

    # Views of the arrays, without a copy; what grows meanwhile would have to move them.
    def ts_ns(self) -> Ints:
        """Times."""
        return np.frombuffer(self._ts, np.int64)

    def values(self) -> npt.NDArray[Any]:
        """Counts as uint64, or values as float64."""
        return np.frombuffer(self._values, np.uint64 if self.counter else np.float64)

    def lines(self) -> tuple[Ints, Bools]:
        """Lines, and where there is none."""
        lines = np.frombuffer(self._lines, np.int64)
        lines = lines if self._lines else np.full(len(self), _NO_LINE)
        return lines, lines == _NO_LINE

    def stamps(self) -> Ints:
        """Numbers of stamps."""
        if self._stamp is not None:
            return np.full(len(self), self._stamp)
        return np.frombuffer(self._stamps, np.int32).astype(np.int64)

    def one_stamp(self) -> int | None:
        """The stamp that all readings have; None where they have several."""
        return self._stamp


class Points:
    """Readings by the number of their series, and up to a million their order in the file."""

    def __init__(self) -> None:
        self._series: list[SeriesPoints] = []
        self._order: array[int] | None = array("i")
        self._n = 0

    def series(self, *, counter: bool) -> None:
        """One more series; they are numbered as they come."""
        self._series.append(SeriesPoints(counter=counter))

    def add(
        self, series: int, ts_ns: int, value: int | float, line: int | None, stamp: int
    ) -> None:
        """One reading; a counter's value must be an integer below 2^64."""
        self._series[series].add(ts_ns, value, line, stamp)
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
