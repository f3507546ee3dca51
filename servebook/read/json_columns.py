"""Long lists of a JSON object, kept as columns: eight bytes a number, on disk where they are many.

A column is a sequence of what the list holds. One of lists of numbers gives arrays of floats for
them; what is no list of numbers is given as it was read.
"""

from __future__ import annotations

import sys
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, repeat
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, TypeGuard

import numpy as np
import numpy.typing as npt

__all__ = ["Column", "Floats", "Lists", "Numbers", "Unkept", "Values", "is_list", "sizes_of"]

Floats = npt.NDArray[np.float64]
#: Numbers beyond so many bytes go into a file.
_IN_MEMORY_BYTES = 64 << 20
_AT_ONCE_BYTES = 8 << 20


class Column(ABC):
    """What all columns share: a length, and their values one after another."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Any]: ...


def is_list(value: Any) -> TypeGuard[Column | list[Any]]:
    """Whether a value of an object was a list, kept as one or as a column."""
    return isinstance(value, list | Column)


class Unkept(Column):
    """A list of which only the length was kept; its values are all None."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[None]:
        return repeat(None, self._length)


class Values(Column):
    """A list of any values, of which equal texts are kept once."""

    def __init__(self) -> None:
        self._places: list[npt.NDArray[np.int32]] = []
        self._kept: list[Any] = []
        self._texts: dict[Any, int] = {}

    def extend(self, values: Sequence[Any]) -> None:
        """Add values."""
        places: list[int | None]
        try:
            places = list(map(self._texts.get, values))
        except TypeError:  # lists and objects cannot be looked up
            places = [None] * len(values)
        if None in places:
            places = [self._place(value) for value in values]
        self._places.append(np.array(places, np.int32))

    def _place(self, value: Any) -> int:
        if isinstance(value, str) and value in self._texts:
            return self._texts[value]
        self._kept.append(value)
        if isinstance(value, str):
            self._texts[value] = len(self._kept) - 1
        return len(self._kept) - 1

    def coded(self) -> tuple[npt.NDArray[np.int32], list[Any]]:
        """(for each value its place in a list, that list)."""
        return np.concatenate([*self._places, np.zeros(0, np.int32)]), self._kept

    def __len__(self) -> int:
        return sum(map(len, self._places))

    def __iter__(self) -> Iterator[Any]:
        return (self._kept[place] for part in self._places for place in part.tolist())


class Numbers(Column):
    """A list of numbers, and of other values where it has such."""

    def __init__(self) -> None:
        self._parts: list[npt.NDArray[Any] | list[Any]] = []

    def extend(self, part: npt.NDArray[Any] | list[Any]) -> None:
        """Add numbers as an array, or values as a list."""
        self._parts.append(part)

    def parts(self) -> list[npt.NDArray[Any] | list[Any]]:
        """The values in order: numbers as arrays, others as lists."""
        return self._parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(
            part if isinstance(part, list) else part.tolist() for part in self._parts
        )


#: Some lists in a row: their numbers one after another and the length of each; or other values.
Part = tuple[npt.NDArray[Any], npt.NDArray[np.int64]] | list[Any]


class Lists(Column):
    """A list of lists of numbers, and of other values where it has such."""

    def __init__(self) -> None:
        self._lengths: list[npt.NDArray[np.int64] | list[Any]] = []
        self._numbers = _Spool()

    def extend(self, numbers: Floats, lengths: npt.NDArray[np.int64]) -> None:
        """Add lists: their numbers one after another, and the length of each."""
        self.extend_kept(numbers, lengths)

    def extend_kept(self, numbers: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> None:
        """As ``extend``, of what ``parts`` gives again."""
        self._lengths.append(lengths)
        self._numbers.append(numbers)

    def extend_odd(self, values: list[Any]) -> None:
        """Add values that are kept as they are."""
        self._lengths.append(values)

    def join(self, other: Self, holder: object = None) -> None:
        """Add all that another column of this kind holds; ``holder`` keeps its file, if any."""
        self._lengths += other._lengths
        self._numbers.join(other._numbers, holder)

    def put_into(self, path: Path) -> list[int]:
        """Put the numbers into a file, from which they are read when somebody wants them.

        Parts in a row become one, as long as they are of one type; how many each was before.
        Raises OSError where the file cannot be written.
        """
        numbers = iter(self._numbers)
        parts = [(one, None if isinstance(one, list) else next(numbers)) for one in self._lengths]
        self._lengths, self._numbers = [], _Spool()
        merged = []
        with path.open("wb") as stream:
            for kind, run in groupby(parts, _kind_of):
                some = list(run)
                if not kind:
                    self._lengths += [values for values, _ in some]
                    continue
                at = stream.tell()
                for _, array in some:
                    if array is not None:
                        stream.write(array.data.cast("B"))
                self._lengths.append(np.concatenate([lengths for lengths, _ in some]))
                self._numbers.keep(_InFile(path, at, stream.tell() - at, np.dtype(kind)))
                merged.append(len(some))
        return merged

    def extend_values(self, values: Sequence[Any]) -> None:
        """Add values, of which some may be no lists of numbers."""
        arrays = [_floats(value) for value in values]
        for usual, some in groupby(
            zip(values, arrays, strict=True), lambda one: one[1] is not None
        ):
            if usual:
                found = [array for _, array in some if array is not None]
                self.extend(np.concatenate(found), np.array([len(one) for one in found]))
            else:
                self.extend_odd([value for value, _ in some])

    def __len__(self) -> int:
        return sum(map(len, self._lengths))

    def parts(self) -> Iterator[Part]:
        """Lists in a row as (numbers, length of each), or a list of other values, in order."""
        numbers = iter(self._numbers)
        for lengths in self._lengths:
            yield lengths if isinstance(lengths, list) else (next(numbers), lengths)

    def sizes(self) -> npt.NDArray[np.int64]:
        """The length of each list; of what is no list of numbers 0 or 1, whether it is anything."""
        parts = [
            np.array([bool(v) for v in part], np.int64) if isinstance(part, list) else part
            for part in self._lengths
        ]
        return np.concatenate(parts or [np.zeros(0, np.int64)])

    def __iter__(self) -> Iterator[Any]:
        for part in self.parts():
            if isinstance(part, tuple):
                numbers, lengths = part
                ends = np.cumsum(lengths).tolist()
                start = 0
                for end in ends:
                    yield numbers[start:end]
                    start = end
            else:
                yield from part


def sizes_of(values: Column | list[Any]) -> npt.NDArray[np.int64]:
    """The lengths of lists, and 0 or 1 of other values: whether it is anything."""
    if isinstance(values, Lists):
        return values.sizes()
    return np.array([len(v) if isinstance(v, list) else bool(v) for v in values], np.int64)


def _kind_of(part: tuple[Any, npt.NDArray[Any] | None]) -> str:
    return "" if part[1] is None else part[1].dtype.str  # a type of floats equals None


def _floats(value: Any) -> Floats | None:
    """A list of numbers as an array; None for anything else."""
    if not isinstance(value, list) or not all(type(one) in (int, float) for one in value):
        return None
    try:
        return np.array(value, np.float64)
    except OverflowError:  # hundreds of digits
        return None


class _InFile(NamedTuple):
    """An array that lies in a file; ``holder`` is what keeps the file from being removed."""

    path: Path | None  # None: in that of the spool
    at: int
    size: int  # bytes
    kind: np.dtype[Any]
    holder: object = None


class _Spool:
    """Arrays in the order in which they came, in a file once they are many."""

    def __init__(self) -> None:
        self._arrays: list[npt.NDArray[Any] | _InFile] = []
        self._bytes = 0  # in memory
        self._written = 0
        self._limit = _IN_MEMORY_BYTES
        self._file: BinaryIO | None = None

    def append(self, array: npt.NDArray[Any]) -> None:
        self._arrays.append(array)
        self._bytes += array.nbytes
        if self._bytes > self._limit:
            self._write()

    def keep(self, array: _InFile) -> None:
        """Add an array that lies in a file."""
        self._arrays.append(array)

    def join(self, other: _Spool, holder: object) -> None:
        """Add all that another holds."""
        for array in other._arrays:
            if isinstance(array, _InFile) and array.path is not None:
                self.keep(array._replace(holder=holder))
            else:
                self.append(array if isinstance(array, np.ndarray) else other._read(array))

    def _write(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="sb-")  # noqa: SIM115
                weakref.finalize(self, self._file.close)
            self._file.seek(self._written)
            for array in self._arrays:
                if isinstance(array, np.ndarray):
                    self._file.write(array.data.cast("B"))
            self._file.flush()
        except OSError:  # no room: what is in memory stays there
            self._limit = sys.maxsize
            return
        for place, array in enumerate(self._arrays):
            if isinstance(array, np.ndarray):
                self._arrays[place] = _InFile(None, self._written, array.nbytes, array.dtype)
                self._written += array.nbytes
        self._bytes, self._limit = 0, _AT_ONCE_BYTES

    def _read(self, array: _InFile) -> npt.NDArray[Any]:
        if array.path is not None:
            n = array.size // array.kind.itemsize
            return np.fromfile(array.path, array.kind, n, offset=array.at)
        assert self._file is not None
        self._file.seek(array.at)
        return np.frombuffer(self._file.read(array.size), array.kind)

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        for array in self._arrays:
            yield self._read(array) if isinstance(array, _InFile) else array
