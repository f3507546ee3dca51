"""Collects the requests and gaps of one run, and counts what they add up to.

Readers hand over one request at a time; the tables are built once, column by column, with the
gaps as one array per request (never one Python object per gap).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servebook.tables import SCHEMAS, empty, table

__all__ = ["NO_STARTS", "SUMMARY_ONLY", "Aside", "Ints", "Requests", "set_aside", "workload"]

Ints = npt.NDArray[np.int64]
#: What is set aside: line, kind of record, reason.
Aside = list[tuple[int | None, str, str]]

#: Notes of runs that several clients leave alike.
SUMMARY_ONLY = "only the client's summary is there: nothing can be recomputed from records"
NO_STARTS = "no start times: each request's times count from its own start"

_COLUMNS = [name for name in SCHEMAS["requests"].names if name != "run_id"]


#: Gaps in one piece of the table ``gaps``.
_PIECE = 1 << 20


def _repeated(names: Sequence[str], counts: Ints) -> pa.Array:
    """Each text as many times in a row as ``counts`` says."""
    raw = [name.encode() for name in names]
    width = len(raw[0])
    n = int(counts.sum())
    if len({len(name) for name in raw}) > 1 or not 0 < width * n < 2**31:
        owner = np.repeat(np.arange(len(raw), dtype=np.int32), counts)
        return pa.DictionaryArray.from_arrays(pa.array(owner), pa.array(names)).cast(pa.string())
    # Texts of one length, as ids mostly are, are copied as blocks: a tenth of the time.
    text = np.repeat(np.frombuffer(b"".join(raw), f"V{width}"), counts)
    starts = np.arange(0, width * n + 1, width, dtype=np.int32)
    return pa.StringArray.from_buffers(n, pa.py_buffer(starts), pa.py_buffer(text))


class Requests:
    """The requests of one run in file order; ``add`` them, then take the tables and counts."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        self._gap_ns: list[Ints] = []
        self._gap_start: list[int] = []
        self._gap_owner: list[str] = []
        self._gap_tokens: list[Ints | None] = []
        self._gaps_profiling = 0

    def __len__(self) -> int:
        return len(self._columns["request_id"])

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
            self._gap_ns.append(gap_ns)
            self._gap_start.append(-1 if gap_start_ns is None else gap_start_ns)
            self._gap_owner.append(row["request_id"])
            self._gap_tokens.append(gap_tokens)
            self._gaps_profiling += len(gap_ns) if row.get("phase") == "profiling" else 0

    def late_chunks(self, index: int, ttft_ns: int, gap_ns: Ints) -> None:
        """Give a request of a failed stream the chunks that another file kept of it."""
        start = self._columns["start_ns"][index]
        first = self._columns["first_token_ns"][index] = start + ttft_ns
        if len(gap_ns):
            self._gap_ns.append(gap_ns)
            self._gap_start.append(first)
            self._gap_owner.append(self._columns["request_id"][index])
            self._gap_tokens.append(None)
            profiling = self._columns["phase"][index] == "profiling"
            self._gaps_profiling += len(gap_ns) if profiling else 0

    def column(self, name: str) -> list[Any]:
        """One column of the requests added so far, in file order."""
        return self._columns[name]

    def requests(self) -> pa.Table:
        """Table ``requests``."""
        return table("requests", {"run_id": [self.run_id] * len(self), **self._columns})

    def gaps(self) -> pa.Table:
        """Table ``gaps``: every gap of every request, failed and warm-up ones included."""
        if not self._gap_ns:
            return empty("gaps")
        tokens = any(tokens is not None for tokens in self._gap_tokens)
        ends = np.cumsum([len(gaps) for gaps in self._gap_ns])
        parts, first = [], 0
        while first < len(ends):  # a column of text holds 2 GiB in one piece, so in pieces
            done = ends[first - 1] if first else 0
            last = int(np.searchsorted(ends, done + _PIECE, "right"))
            last = max(last, first + 1)
            parts.append(self._gap_piece(slice(first, last), tokens))
            first = last
        return pa.concat_tables(parts)

    def _gap_piece(self, part: slice, with_tokens: bool) -> pa.Table:
        """The gaps of some of the requests that have any."""
        lengths = np.array([len(gaps) for gaps in self._gap_ns[part]])
        gap_ns = np.concatenate(self._gap_ns[part])
        first = np.cumsum(lengths) - lengths
        index = np.arange(len(gap_ns), dtype=np.int32)
        index -= np.repeat(first.astype(np.int32), lengths)
        # Whole numbers: the running sum is exact, so that end times never step back.
        end = np.cumsum(gap_ns)
        start = np.array(self._gap_start[part])
        end += np.repeat(start - (end[first] - gap_ns[first]), lengths)
        no_clock = np.repeat(start < 0, lengths) if (start < 0).any() else None
        columns = {
            "run_id": _repeated([self.run_id], np.array([len(gap_ns)])),
            "request_id": _repeated(self._gap_owner[part], lengths),
            "index": pa.array(index),
            "end_ns": pa.array(end, mask=no_clock),
            "gap_ns": pa.array(gap_ns),
        }
        if with_tokens:
            parts = [
                np.full(n, -1) if tokens is None else tokens
                for tokens, n in zip(self._gap_tokens[part], lengths, strict=True)
            ]
            tokens = np.concatenate(parts)
            columns["tokens"] = pa.array(tokens, pa.int32(), mask=tokens < 0)
        return table("gaps", columns)

    def counts(self) -> dict[str, int | None]:
        """Columns of ``runs`` that follow from the requests: counts, first start, last end.

        ``n_gaps`` counts the gaps of profiling requests, whatever their status.
        """
        phase, status = self._columns["phase"], self._columns["status"]
        profiling = [i for i, p in enumerate(phase) if p == "profiling"]
        by_status = Counter(status[i] for i in profiling)
        starts = [s for i in profiling if (s := self._columns["start_ns"][i]) is not None]
        ends = [e for i in profiling if (e := self._columns["end_ns"][i]) is not None]
        return {
            "n_requests": len(profiling),
            "n_ok": by_status["ok"],
            "n_failed": by_status["failed"],
            "n_cancelled": by_status["cancelled"],
            "n_warmup": len(phase) - len(profiling),
            "n_gaps": self._gaps_profiling,
            "start_ns": min(starts, default=None),
            "end_ns": max(ends, default=None),
        }

    def median(self, name: str) -> int | None:
        """Median of a column over ok profiling requests; None where none has a value."""
        values = [
            value
            for value, phase, status in zip(
                self._columns[name], self._columns["phase"], self._columns["status"], strict=True
            )
            if value is not None and phase == "profiling" and status == "ok"
        ]
        return round(float(np.median(values))) if values else None


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
