"""The table ``gaps`` as long as it is not built: per request how many, since when, and how long.

A token-level dump has a thousand gaps a request, and what the table says of each follows from its
length: ``end_ns`` is the start of the request's first gap plus the running sum, ``index`` counts,
and the ids repeat. So only lengths are held, as 32-bit numbers where they fit, in pieces of bounded
size that lie in memory or in Parquet files; columns are built when somebody asks for them, and
measures that need one run, or the lengths alone, go through the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["NO_CLOCK", "SCHEMA", "GapPart", "GapTable", "InFile", "InMemory", "Lengths", "narrow"]

SCHEMA = pa.schema(
    [
        ("run_id", pa.string()),
        ("request_id", pa.string()),
        ("index", pa.int32()),  # 0 = gap after the first chunk
        ("end_ns", pa.int64()),
        ("gap_ns", pa.int64()),
        ("tokens", pa.int32()),  # in the chunk that ends the gap; null if unknown
    ]
)

Ints = npt.NDArray[np.int64]
#: Lengths of gaps in ns: 32 or 64 bits.
Lengths = npt.NDArray[Any]
_MOST_32 = 2**31 - 1
#: The start of gaps that have lengths, but no times.
NO_CLOCK = -(2**63)


def narrow(gap_ns: Lengths) -> Lengths:
    """The same lengths as 32-bit numbers, where all of them fit (2.1 s)."""
    fits = not gap_ns.size or int(gap_ns.max()) <= _MOST_32
    return gap_ns.astype(np.int32, copy=False) if fits else gap_ns.astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class InMemory:
    """Lengths of gaps, and where the dump tells, the tokens that ended them (negative: unknown)."""

    gap_ns: Lengths
    tokens: npt.NDArray[np.int32] | None = None

    def read(self) -> tuple[Lengths, npt.NDArray[np.int32] | None]:
        """Lengths and tokens."""
        return self.gap_ns, self.tokens


@dataclass(frozen=True, eq=False)
class InFile:
    """The same in a Parquet file; ``holder`` is what keeps the file from being removed."""

    path: Path
    crc32: int
    holder: object = field(default=None, repr=False)

    def read(self) -> tuple[Lengths, npt.NDArray[np.int32] | None]:
        """Lengths and tokens; raises OSError or ArrowException for a file that went or changed."""
        table = pq.ParquetFile(self.path).read(use_threads=False)
        columns = [column.combine_chunks().to_numpy() for column in table.columns]
        return columns[0], columns[1] if len(columns) > 1 else None


@dataclass(frozen=True, eq=False)
class GapPart:
    """Some gaps of one run, by request: those of one request are in one part, one after the other.

    Per request that has gaps: ``request_id``, ``first`` (where its gaps begin in ``data``),
    ``count``, ``start_ns`` (when the first of them began, or ``NO_CLOCK``).
    """

    run_id: str
    request_id: pa.Array
    first: Ints
    count: Ints
    start_ns: Ints
    data: InMemory | InFile

    @property
    def n(self) -> int:
        """How many gaps."""
        return int(self.count.sum())

    def only(self, wanted: npt.NDArray[np.bool_]) -> GapPart:
        """The part of these requests."""
        if wanted.all():
            return self
        return replace(
            self,
            request_id=self.request_id.filter(pa.array(wanted)),
            first=self.first[wanted],
            count=self.count[wanted],
            start_ns=self.start_ns[wanted],
        )

    def slice(self, begin: int, n: int) -> GapPart:
        """The part of ``n`` of its requests from the one at ``begin`` on."""
        own = slice(begin, begin + n)
        return replace(
            self,
            request_id=self.request_id.slice(begin, n),
            first=self.first[own],
            count=self.count[own],
            start_ns=self.start_ns[own],
        )

    def read(self) -> tuple[Lengths, npt.NDArray[np.int32] | None]:
        """Lengths in ns, 32 or 64 bits, and tokens, of these requests, in their order."""
        gap_ns, tokens = self.data.read()
        before = np.cumsum(self.count) - self.count
        shift = self.first - before
        if not len(shift) or (shift == shift[0]).all():
            at: Any = slice(int(self.first[0]), int(self.first[0]) + self.n) if len(shift) else ()
            at = at if len(shift) else slice(0, 0)
        else:
            at = np.arange(self.n) + np.repeat(shift, self.count)
        return gap_ns[at], None if tokens is None else tokens[at]

    def gap_ns(self) -> Lengths:
        """Lengths in ns, 32 or 64 bits, in the order of the requests."""
        return self.read()[0]

    def owner(self) -> Ints:
        """For each gap the position of its request in the part."""
        return np.repeat(np.arange(len(self.count)), self.count)

    def index(self) -> npt.NDArray[np.int32]:
        """For each gap its number within its request."""
        index = np.arange(self.n, dtype=np.int32)
        index -= np.repeat((np.cumsum(self.count) - self.count).astype(np.int32), self.count)
        return index

    def end_ns(self, gap_ns: Lengths | None = None) -> tuple[Ints, npt.NDArray[np.bool_] | None]:
        """When each gap ended, and where that is not known (None: it is everywhere).

        Whole numbers: the running sum is exact, so that end times never step back.
        """
        gap_ns = self.gap_ns() if gap_ns is None else gap_ns
        end = np.cumsum(gap_ns, dtype=np.int64)
        if len(end):
            begin = np.cumsum(self.count) - self.count
            end += np.repeat(self.start_ns - (end[begin] - gap_ns[begin]), self.count)
        unknown = self.start_ns == NO_CLOCK
        return end, np.repeat(unknown, self.count) if unknown.any() else None

    def column(self, name: str) -> pa.Array:
        """One column of the table ``gaps``."""
        if name == "run_id":
            return _repeated(pa.array([self.run_id], pa.string()), np.array([self.n]))
        if name == "request_id":
            return _repeated(self.request_id, self.count)
        if name == "index":
            return pa.array(self.index())
        if name == "gap_ns":
            return pa.array(self.gap_ns().astype(np.int64, copy=False))
        if name == "end_ns":
            end, unknown = self.end_ns()
            return pa.array(end, mask=unknown)
        tokens = self.read()[1]
        if tokens is None:
            return pa.nulls(self.n, pa.int32())
        return pa.array(tokens, pa.int32(), mask=tokens < 0)


class GapTable:
    """Stands for the Arrow table ``gaps``: rows part by part, request by request.

    ``self["gap_ns"]`` builds one column; whatever else an Arrow table has is that of ``table``,
    which builds all of them (73 bytes a gap).
    """

    def __init__(self, parts: Iterable[GapPart] = ()) -> None:
        self.parts = tuple(part for part in parts if len(part.count))

    @property
    def num_rows(self) -> int:
        """How many gaps."""
        return sum(part.n for part in self.parts)

    @property
    def schema(self) -> pa.Schema:
        """That of the table ``gaps``."""
        return SCHEMA

    @property
    def column_names(self) -> list[str]:
        """Those of the table ``gaps``."""
        return list(SCHEMA.names)

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return pa.chunked_array(
            [part.column(name) for part in self.parts], type=SCHEMA.field(name).type
        )

    @property
    def table(self) -> pa.Table:
        """All of it, built."""
        return pa.table([self[name] for name in SCHEMA.names], schema=SCHEMA)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "parts":
            raise AttributeError(name)
        return getattr(self.table, name)

    def equals(self, other: Any) -> bool:
        """Whether the other, built or not, has the same rows in the same order."""
        return bool(self.table.equals(other.table if isinstance(other, GapTable) else other))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GapTable | pa.Table) and self.equals(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[GapTable], tuple[tuple[GapPart, ...]]]:
        return GapTable, (self.parts,)

    def run_ids(self) -> list[str]:
        """Each run that has gaps, once, in the order of the rows."""
        return list(dict.fromkeys(part.run_id for part in self.parts))

    def of_run(self, run_id: str) -> GapTable:
        """The rows of one run."""
        return GapTable(part for part in self.parts if part.run_id == run_id)

    def changed(self, change: Callable[[GapPart], GapPart]) -> GapTable:
        """The table with each part changed."""
        return GapTable(map(change, self.parts))

    def spans(self) -> pa.Table:
        """One row per part and request: run_id, request_id; as many as all ``count`` together."""
        return pa.table(
            {
                "run_id": pa.chunked_array(
                    [
                        _repeated(pa.array([part.run_id], pa.string()), np.array([len(part.count)]))
                        for part in self.parts
                    ],
                    type=pa.string(),
                ),
                "request_id": pa.chunked_array(
                    [part.request_id for part in self.parts], type=pa.string()
                ),
            }
        )

    def with_spans(self, values: npt.NDArray[Any]) -> Iterator[tuple[GapPart, npt.NDArray[Any]]]:
        """Each part with its share of ``values``, which are one per row of ``spans``."""
        at = 0
        for part in self.parts:
            yield part, values[at : at + len(part.count)]
            at += len(part.count)


def _repeated(names: pa.Array, counts: Ints) -> pa.Array:
    """Each text as many times in a row as ``counts`` says."""
    owner = np.repeat(np.arange(len(names), dtype=np.int32), counts)
    return pa.DictionaryArray.from_arrays(pa.array(owner), names).cast(pa.string())
