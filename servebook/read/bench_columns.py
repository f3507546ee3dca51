"""The per-request lists of a benchmark's result, worked on as columns.

What holds for nearly all slots (numbers in their place, gaps of zero or more) is worked out for
many of them at once; a slot with anything else is left to its reader, which looks at it by itself.
Both give the same numbers: products and roundings are the same steps on the same 64-bit floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servebook.gap_table import Lengths
from servebook.read.errorkind import error_kind
from servebook.read.json_columns import Column, Floats, Lists, Numbers, Values
from servebook.read.records import Ints, Requests
from servebook.read.values import LONGEST_NS, MAX_TOKENS, number

__all__ = ["GapLists", "Group", "Slots", "add_group", "flags_of", "floats_of", "groups", "optional"]

Flags = npt.NDArray[np.bool_]

_GROUP_GAPS = 1 << 19
_GROUP_REQUESTS = 1 << 16
#: A list with a longer gap is looked at by itself; a million shorter ones fit into 64 bits.
_USUAL_GAP_S = 9e3


def floats_of(column: Column | list[Any] | None, n: int) -> tuple[Floats, Flags]:
    """(numbers, which are absent) of ``n`` slots; what is no number is NaN."""
    if column is None:
        return np.zeros(n), np.ones(n, bool)
    parts = column.parts() if isinstance(column, Numbers) else [list(column)]
    values, absent = [], []
    for part in parts:
        if isinstance(part, list):
            found = [np.nan if (v := number(one)) is None else v for one in part]
            values.append(np.array(found, np.float64))
            absent.append(np.array([one is None for one in part], bool))
        else:
            values.append(part)
            absent.append(np.zeros(len(part), bool))
    return np.concatenate(values or [np.zeros(0)]), np.concatenate(absent or [np.zeros(0, bool)])


def _spans_ns(column: Column | list[Any] | None, n: int) -> tuple[Ints, Flags]:
    """(whole ns of seconds, which are usable) as of ``values.time_ns``; 0 where there is none."""
    if column is None:
        return np.zeros(n, np.int64), np.ones(n, bool)
    values, absent = floats_of(column, n)
    with np.errstate(over="ignore", invalid="ignore"):
        values = values * 1e9
    usable = absent | ((values >= 0) & (values < LONGEST_NS))
    return np.rint(np.where(usable & ~absent, values, 0)).astype(np.int64), usable


def _token_counts(column: Column | list[Any] | None, n: int) -> tuple[Ints, Flags]:
    """(counts, which are usable) as of ``values.token_count``; -1 where there is none."""
    values, absent = floats_of(column, n)
    usable = absent | ((values >= 0) & (values < MAX_TOKENS) & (values == np.floor(values)))
    return np.where(usable & ~absent, values, -1).astype(np.int64), usable


def optional(values: Ints, known: Flags) -> pa.Array:
    """A column of whole numbers, null where they are not known."""
    return pa.array(values, pa.int64(), mask=~known)


class _Lists(NamedTuple):
    """Gap lists in a row, one after another: gaps in whole ns, 0 in lists that are not usable."""

    gap_ns: Lengths
    counts: Ints
    sums_ns: Ints
    usable: Flags
    seconds: Floats | None


def _lists(seconds: Floats, counts: Ints) -> _Lists:
    """Lists of seconds in whole ns, by the steps of ``values.gaps``."""
    usable = np.ones(len(counts), bool)
    ends = np.cumsum(counts)
    clean = seconds
    if len(seconds) and not (seconds.min() >= 0 and seconds.max() < _USUAL_GAP_S):
        bad = ~((seconds >= 0) & (seconds < _USUAL_GAP_S))
        usable[np.searchsorted(ends, np.flatnonzero(bad), "right")] = False
        clean = np.where(bad, 0, seconds)
    scaled = clean * 1e9
    np.rint(scaled, out=scaled)
    small = not len(scaled) or scaled.max() < 2**31
    gap_ns = scaled.astype(np.int32) if small else scaled.astype(np.int64)
    sums = np.zeros(len(counts), np.int64)
    if len(gap_ns):
        some = counts > 0
        sums[some] = np.add.reduceat(gap_ns, (ends - counts)[some], dtype=np.int64)
    return _Lists(gap_ns, counts, sums, usable & (sums < LONGEST_NS), seconds)


class GapLists(Lists):
    """A list of lists of gaps in seconds, held in whole ns: half the room of floats."""

    def __init__(self) -> None:
        super().__init__()
        self._sums: list[Ints] = []

    def extend(self, numbers: Floats, lengths: Ints) -> None:
        """Add lists: their seconds one after another, and the length of each."""
        found = _lists(numbers, lengths)
        ends = np.cumsum(lengths)
        for start, end in runs_of(found.usable):
            own = slice(int(ends[start] - lengths[start]), int(ends[end - 1]))
            if found.usable[start]:
                self.extend_kept(found.gap_ns[own], lengths[start:end])
                self._sums.append(found.sums_ns[start:end])
            else:
                each = np.split(numbers[own], ends[start : end - 1] - own.start)
                self.extend_odd([one.tolist() for one in each])

    def join(self, other: Self, holder: object = None) -> None:
        """Add all that another column of this kind holds; ``holder`` keeps its file, if any."""
        super().join(other, holder)
        self._sums += other._sums

    def put_into(self, path: Path) -> list[int]:
        """Put the gaps into a file; see ``Lists``."""
        merged = super().put_into(path)
        sums = iter(self._sums)
        self._sums = [np.concatenate(list(islice(sums, n))) for n in merged]
        return merged

    def lists(self) -> Iterator[_Lists | list[Any]]:
        """The lists in order, and what is none."""
        sums = iter(self._sums)
        for part in self.parts():
            if isinstance(part, list):
                yield part
            else:
                yield _Lists(*part, next(sums), np.ones(len(part[1]), bool), None)


def runs_of(flags: Flags) -> Iterator[tuple[int, int]]:
    """(start, end) of each run of equal flags."""
    if len(flags):
        yield from pairwise([0, *(np.flatnonzero(np.diff(flags)) + 1).tolist(), len(flags)])


@dataclass(frozen=True, eq=False)
class Group:
    """The gap lists of requests in a row: ``start`` is the first's place in the result."""

    start: int
    counts: Ints
    gap_ns: Lengths  # of usable lists; 0 in others
    sums_ns: Ints
    usable: Flags  # per list
    odd: Mapping[int, Any]  # by place in the result: what is no usual list of numbers
    seconds: Floats | None  # None where only ns were kept

    def __len__(self) -> int:
        return len(self.counts)

    def value(self, index: int) -> Any:
        """What the dump has in the slot ``index`` of the result, to the ns."""
        if index in self.odd:
            return self.odd[index]
        at = index - self.start
        end = int(self.counts[: at + 1].sum())
        own = slice(end - int(self.counts[at]), end)
        return (self.gap_ns[own] / 1e9 if self.seconds is None else self.seconds[own]).tolist()


def groups(itls: Column | list[Any] | None, n: int) -> Iterator[Group]:
    """The gap lists of a result of ``n`` slots, so many at once as take little memory."""
    start, at, size = 0, 0, 0
    parts: list[_Lists] = []
    odd: dict[int, Any] = {}
    for part in _parts(itls, n):
        if isinstance(part, list):
            odd |= {at + i: value for i, value in enumerate(part)}
            none = _lists(np.zeros(0), np.zeros(len(part), np.int64))
            parts.append(none._replace(usable=~none.usable))
        else:
            parts.append(part)
        at += len(part) if isinstance(part, list) else len(part.counts)
        size += len(parts[-1].gap_ns)
        if size >= _GROUP_GAPS or at - start >= _GROUP_REQUESTS:
            yield _group(start, parts, odd)
            start, size, parts, odd = at, 0, [], {}
    if parts:
        yield _group(start, parts, odd)


def _parts(itls: Column | list[Any] | None, n: int) -> Iterator[_Lists | list[Any]]:
    if isinstance(itls, GapLists):
        yield from itls.lists()
    elif itls is None:
        for start in range(0, n, _GROUP_REQUESTS):
            yield _lists(np.zeros(0), np.zeros(min(_GROUP_REQUESTS, n - start), np.int64))
    else:
        if not isinstance(itls, Lists):
            column = Lists()
            column.extend_values(list(itls))
            itls = column
        for part in itls.parts():
            yield part if isinstance(part, list) else _lists(*part)


def _group(start: int, parts: Sequence[_Lists], odd: dict[int, Any]) -> Group:
    seconds = [part.seconds for part in parts if part.seconds is not None]
    return Group(
        start,
        np.concatenate([part.counts for part in parts]),
        parts[0].gap_ns if len(parts) == 1 else np.concatenate([part.gap_ns for part in parts]),
        np.concatenate([part.sums_ns for part in parts]),
        np.concatenate([part.usable for part in parts]),
        odd,
        np.concatenate(seconds) if len(seconds) == len(parts) else None,
    )


class Slots:
    """The lists of a result beside those of gaps, as arrays with one place per slot.

    Token counts are -1 where there is none, spans 0; ``usable`` says where all are what they
    should be. ``kind`` is -1 where nothing went wrong; ``told`` is false where an error is no text.
    """

    def __init__(self, lists: Mapping[str, Column | list[Any]], n: int) -> None:
        self.n, self._lists = n, lists
        self._raw: dict[str, list[Any]] = {}
        self.osl, self.usable = _token_counts(lists.get("output_lens"), n)
        self.ttft_ns, good = _spans_ns(lists.get("ttfts"), n)
        self.usable &= good
        self.latency_ns, good = _spans_ns(lists.get("latencies"), n)
        self.usable &= good
        self.isl, good = _token_counts(lists.get("input_lens"), n)
        self.usable &= good
        self._names: list[str] = []
        self.told = np.ones(n, bool)
        self.kind = self._kinds(lists.get("errors"))

    def _kinds(self, errors: Column | list[Any] | None) -> npt.NDArray[np.int16]:
        """What went wrong with each, as a place in ``_names``; -1 for what did not."""
        found = np.full(self.n, -1, np.int16)
        if errors is not None:
            if not isinstance(errors, Values):
                column = Values()
                column.extend(list(errors))
                errors = column
            places, kept = errors.coded()
            kinds = [
                self._code(error_kind(None, one)) if isinstance(one, str) and one else -1
                for one in kept
            ]
            found = np.array(kinds, np.int16)[places]
            self.told = np.array([one is None or isinstance(one, str) for one in kept])[places]
        found[(found == self._code("other")) & (self.ttft_ns > 0)] = self._code("stream_broken")
        found[(found < 0) & (self.osl == 0)] = self._code("stream_error")
        return found

    def _code(self, kind: str) -> int:
        if kind not in self._names:
            self._names.append(kind)
        return self._names.index(kind)

    def values(self, index: int, group: Group) -> dict[str, Any]:
        """What the dump has in the slot ``index``, by the lists' names."""
        for name, column in self._lists.items():
            if name != "itls" and name not in self._raw:
                self._raw[name] = list(column)
        return {
            name: group.value(index) if name == "itls" else self._raw[name][index]
            for name in self._lists
        }

    def rows(self, group: Group) -> dict[str, pa.Array]:
        """The columns of a group's requests that follow from these lists alone."""
        part = slice(group.start, group.start + len(group))
        kind, osl, isl = self.kind[part], self.osl[part], self.isl[part]
        failed = kind >= 0
        codes = pa.array(kind.astype(np.int32), mask=~failed)
        status = pa.DictionaryArray.from_arrays(pa.array(failed.astype(np.int8)), ["ok", "failed"])
        return {
            "request_id": pc.cast(pa.array(np.arange(part.start, part.stop)), pa.string()),
            "phase": pa.repeat("profiling", len(group)),
            "status": status.cast(pa.string()),
            "error_kind": pa.DictionaryArray.from_arrays(codes, self._names).cast(pa.string()),
            "isl": optional(isl, isl >= 0),
            "osl": optional(osl, (osl >= 0) & ~failed),
        }


def flags_of(short: Flags) -> pa.Array:
    """Column ``flags``: ``short_output`` where it is so, else none."""
    ends = np.r_[0, np.cumsum(short)].astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.repeat("short_output", int(ends[-1])))


def add_group(
    out: Requests,
    group: Group,
    columns: Mapping[str, pa.Array],
    first_token_ns: Ints,
    usable: Flags,
    left: Callable[[int], None],
    tokens: Ints | None = None,
) -> None:
    """Adds the requests of a group in order; ``left`` adds one that is not usable, by its place.

    ``first_token_ns`` is -1 where it is not known; ``tokens`` are those in the chunk after a gap.
    """
    ends = np.cumsum(group.counts)
    for start, end in runs_of(usable):
        if not usable[start]:
            for index in range(group.start + start, group.start + end):
                left(index)
            continue
        own = slice(int(ends[start] - group.counts[start]), int(ends[end - 1]))
        out.add_many(
            {name: column.slice(start, end - start) for name, column in columns.items()},
            group.gap_ns[own],
            group.counts[start:end],
            first_token_ns[start:end],
            None if tokens is None else tokens[own],
        )
