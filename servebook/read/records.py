"""Collects the requests and gaps of one run, and counts what they add up to.

Readers hand over one request at a time or whole columns; gaps come as arrays (never one Python
object per gap), and what follows from their lengths is not built (``servebook.gap_table``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from servebook.gap_table import NO_CLOCK, GapPart, GapTable, InFile, InMemory, Lengths, narrow
from servebook.read.shared_columns import SharedColumns
from servebook.read.spool import Spool, write
from servebook.tables import SCHEMAS, table

__all__ = ["NO_STARTS", "SUMMARY_ONLY", "Aside", "Ints", "Requests", "set_aside", "workload"]

Ints = npt.NDArray[np.int64]
#: What is set aside: line, kind of record, reason.
Aside = list[tuple[int | None, str, str]]

#: Notes of runs that several clients leave alike.
SUMMARY_ONLY = "only the client's summary is there: nothing can be recomputed from records"
NO_STARTS = "no start times: each request's times count from its own start"

_COLUMNS = [name for name in SCHEMAS["requests"].names if name != "run_id"]


#: Requests that are held as Python's objects before they become columns.
_ROWS = 1 << 15
#: Gaps of one part of the table ``gaps``.
_PART = 1 << 22
#: From so many gaps of one run on its parts go to files.
_MOST_IN_MEMORY = 1 << 20


@dataclass(frozen=True, eq=False)
class _Open:
    """Gaps on their way into a part: of some requests, as they were handed over."""

    request_id: pa.Array
    count: Ints
    start_ns: Ints
    gap_ns: Lengths
    tokens: Ints | None


class Requests:
    """The requests of one run in file order; ``add`` them, then take the tables and counts.

    One by one (``add``) or as columns (``add_many``). Of large runs the gaps go to files of
    ``servebook.read.spool``, so that memory holds the requests and the gaps of one part.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        self._batches: list[pa.RecordBatch] = []
        self._shared = SharedColumns()
        self._n_batched = 0
        self._changes: dict[str, dict[int, Any]] = {}
        self._one: list[tuple[str, int, int, Ints, Ints | None]] = []
        self._open: list[_Open] = []
        self._n_open = 0
        self._parts: list[GapPart] = []
        self._n_parts = 0
        self._spool: Spool | None = None
        self._gaps_profiling = 0

    def __len__(self) -> int:
        return self._n_batched + len(self._columns["request_id"])

    def add(
        self,
        gap_ns: Ints | None = None,
        gap_start_ns: int | None = None,
        gap_tokens: Ints | None = None,
        **row: Any,
    ) -> None:
        """Add one request: columns of ``requests`` by name; its gaps begin at ``gap_start_ns``.

        Without ``gap_start_ns`` the gaps keep their lengths and have no end times; ``gap_tokens``
        are the tokens in the chunks that end them, where the dump tells.
        """
        for name, values in self._columns.items():
            values.append(row.get(name))
        if gap_ns is not None and len(gap_ns):
            self._take(row["request_id"], row.get("phase"), gap_ns, gap_start_ns, gap_tokens)
        if len(self._columns["request_id"]) >= _ROWS:
            self._close_rows()

    def add_many(
        self,
        columns: Mapping[str, Any],
        gap_ns: Lengths,
        counts: Ints,
        gap_start_ns: Ints,
        gap_tokens: Ints | None = None,
    ) -> None:
        """Add n requests: columns of ``requests`` of n values each, those left out are null.

        ``gap_ns`` and ``gap_tokens`` (negative: unknown) hold the gaps of all of them, one request
        after the other; ``counts`` says how many each has, ``gap_start_ns`` when the first began
        (negative: no clock).
        """
        batch = table("requests", columns).select(_COLUMNS).combine_chunks()
        self._close_rows()
        self._batched(batch)
        if len(gap_ns):
            has = counts > 0
            ids = batch["request_id"].combine_chunks().filter(pa.array(has))
            self._one_to_open()
            starts = np.where(gap_start_ns < 0, NO_CLOCK, gap_start_ns)[has]
            one = _Open(ids, counts[has], starts, gap_ns, gap_tokens)
            self._open.append(one)
            profiling = pc.equal(batch["phase"], "profiling").to_numpy()
            self._gaps_profiling += int(counts[profiling].sum())
            self._grown(len(gap_ns))

    def add_parts(
        self, columns: Mapping[str, Any], parts: Sequence[GapPart], n_profiling: int
    ) -> None:
        """Add requests whose gaps are parts already; ``columns`` as in ``add_many``.

        ``n_profiling`` of their gaps are those of profiling requests.
        """
        none = np.empty(0, np.int64)
        self.add_many(columns, none, none, none)
        self._close()
        self._gaps_profiling += n_profiling
        self._parts += [replace(part, run_id=self.run_id) for part in parts]
        self._n_parts += sum(part.n for part in parts)

    def late_chunks(self, index: int, ttft_ns: int, gap_ns: Ints) -> None:
        """Give a request of a failed stream the chunks that another file kept of it."""
        first = self.value("start_ns", index) + ttft_ns
        self.change("first_token_ns", index, first)
        if len(gap_ns):
            name, phase = self.value("request_id", index), self.value("phase", index)
            self._take(name, phase, gap_ns, first, None)

    def _take(
        self, name: str, phase: Any, gap_ns: Ints, start_ns: int | None, tokens: Ints | None
    ) -> None:
        start = NO_CLOCK if start_ns is None or start_ns < 0 else start_ns
        self._one.append((name, len(gap_ns), start, gap_ns, tokens))
        self._gaps_profiling += len(gap_ns) if phase == "profiling" else 0
        self._grown(len(gap_ns))

    def _grown(self, n: int) -> None:
        self._n_open += n
        if self._n_open >= _PART:
            self._close()

    def _one_to_open(self) -> None:
        if self._one:
            names, counts, starts, lengths, tokens = zip(*self._one, strict=True)
            told = None
            if any(one is not None for one in tokens):
                told = np.concatenate(
                    [
                        np.full(n, -1) if one is None else one
                        for n, one in zip(counts, tokens, strict=True)
                    ]
                )
            ids = pa.array(names, pa.string())
            self._open.append(
                _Open(ids, np.array(counts), np.array(starts), np.concatenate(lengths), told)
            )
            self._one = []

    def _close(self) -> None:
        """Make a part of what is open; in a file where the run has many gaps."""
        self._one_to_open()
        if not self._open:
            return
        told = None
        if any(one.tokens is not None for one in self._open):
            told = np.concatenate(
                [
                    np.full(len(one.gap_ns), -1) if one.tokens is None else one.tokens
                    for one in self._open
                ]
            ).astype(np.int32)
        data: InMemory | InFile
        data = InMemory(narrow(np.concatenate([one.gap_ns for one in self._open])), told)
        count = np.concatenate([one.count for one in self._open])
        part = GapPart(
            self.run_id,
            pa.concat_arrays([one.request_id for one in self._open]),
            np.cumsum(count) - count,
            count,
            np.concatenate([one.start_ns for one in self._open]),
            data,
        )
        self._open, self._n_open = [], 0
        self._parts.append(part)
        self._n_parts += part.n
        if self._n_parts > _MOST_IN_MEMORY:
            self._to_files()

    def _to_files(self) -> None:
        try:
            self._spool = self._spool or Spool()
            for at, part in enumerate(self._parts):
                if isinstance(part.data, InMemory):
                    file = write(self._spool.next(), part.data, self._spool)
                    self._parts[at] = replace(part, data=file)
        except OSError:  # nowhere to write: they stay in memory
            return

    def _close_rows(self) -> None:
        n = len(self._columns["request_id"])
        if n:
            self._batched(table("requests", self._columns).select(_COLUMNS))
            self._one_to_open()  # where a request has few gaps, an array for each takes most
            self._columns = {name: [] for name in _COLUMNS}

    def _batched(self, rows: pa.Table) -> None:
        self._batches += self._shared.table(rows).to_batches()
        self._n_batched += rows.num_rows

    def column(self, name: str) -> Sequence[Any]:
        """One column of the requests added so far, in file order, as Python has it."""
        return tuple(self.values(name).to_pylist())

    def values(self, name: str) -> pa.ChunkedArray:
        """One column of the requests added so far, in file order, as Arrow has it."""
        kind = SCHEMAS["requests"].field(name).type
        rows = pa.array(self._columns[name], type=kind, from_pandas=True)
        found = [*(batch[name] for batch in self._batches), rows]
        changes = self._changes.get(name, {})
        begin = 0
        for at, chunk in enumerate(found if changes else ()):
            own = {i - begin: v for i, v in changes.items() if begin <= i < begin + len(chunk)}
            if own:
                new = chunk.to_pylist()
                for index, value in own.items():
                    new[index] = value
                found[at] = pa.array(new, kind)
            begin += len(chunk)
        return pa.chunked_array(found, type=kind)

    def value(self, name: str, index: int) -> Any:
        """One value of a column."""
        if index in self._changes.get(name, {}):
            return self._changes[name][index]
        if index >= self._n_batched:
            return self._columns[name][index - self._n_batched]
        return self.values(name)[index].as_py()

    def change(self, name: str, index: int, value: Any) -> None:
        """Set one value of a column."""
        if index >= self._n_batched:
            self._columns[name][index - self._n_batched] = value
        else:
            self._changes.setdefault(name, {})[index] = value

    def requests(self) -> pa.Table:
        """Table ``requests``."""
        columns = {name: self.values(name) for name in _COLUMNS}
        own = pa.scalar(self.run_id, pa.string())
        run_id = pa.chunked_array(
            [self._shared.repeat(own, len(chunk)) for chunk in columns["request_id"].chunks],
            type=pa.string(),
        )
        return table("requests", {"run_id": run_id, **columns})

    def gaps(self) -> GapTable:
        """Table ``gaps``: every gap of every request, failed and warm-up ones included."""
        self._close()
        return GapTable(self._parts)

    def counts(self) -> dict[str, int | None]:
        """Columns of ``runs`` that follow from the requests: counts, first start, last end.

        ``n_gaps`` counts the gaps of profiling requests, whatever their status.
        """
        profiling = pc.fill_null(pc.equal(self.values("phase"), "profiling"), False)
        found = pc.value_counts(self.values("status").filter(profiling))
        by_status = Counter({one["values"]: one["counts"] for one in found.to_pylist()})
        n = sum(by_status.values())
        return {
            "n_requests": n,
            "n_ok": by_status["ok"],
            "n_failed": by_status["failed"],
            "n_cancelled": by_status["cancelled"],
            "n_warmup": len(self) - n,
            "n_gaps": self._gaps_profiling,
            "start_ns": pc.min(self.values("start_ns").filter(profiling)).as_py(),
            "end_ns": pc.max(self.values("end_ns").filter(profiling)).as_py(),
        }

    def median(self, name: str) -> int | None:
        """Median of a column over ok profiling requests; None where none has a value."""
        ok = pc.and_(
            pc.equal(self.values("phase"), "profiling"), pc.equal(self.values("status"), "ok")
        )
        values = self.values(name).filter(ok).drop_null().to_numpy()
        return round(float(np.median(values))) if len(values) else None


def workload(isl: int | None, osl: int | None) -> str | None:
    """Workload by lengths alone: prefill (one output token), decode (output dominates), mixed.

    An output of one or two tokens leaves nothing to decode; an output at least four times the
    input leaves hardly anything to prefill. None where a length is unknown.
    """
    if isl is None or osl is None:
        return None
    if osl <= 2:
        return "prefill"
    return "decode" if osl >= 4 * isl else "mixed"


def set_aside(path: str, rows: Sequence[tuple[int | None, str, str]]) -> pa.Table:
    """Table ``set_aside`` from (line, kind of record, reason)."""
    return table(
        "set_aside",
        [{"path": path, "line": line, "record": kind, "reason": why} for line, kind, why in rows],
    )
