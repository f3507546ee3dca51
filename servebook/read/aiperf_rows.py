"""Usual records of AIPerf as rows of whole numbers, on their way to tables.

``aiperf_rows.c`` writes them so, and ``aiperf_columns`` makes them of records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servebook.gap_table import Lengths
from servebook.read.values import LONGEST_NS, MAX_TOKENS

__all__ = [
    "AT", "EPOCH_NS", "EXACT", "LIMITS", "MISSING", "NONE", "NO_GAPS", "Rows",
    "joined", "merged", "of_strings", "table_columns", "wanted",
]  # fmt: skip

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: Stands for null in a column of whole numbers.
MISSING = -(2**63)
#: Whole numbers up to here are exact in a float.
EXACT = 2**53
#: Epoch times of the years 2001 to 2099.
EPOCH_NS = (10**18, 4_102_444_800 * 10**9)

_EPOCH = (MISSING, *EPOCH_NS)
_SPAN = (MISSING, 0, min(EXACT, LONGEST_NS))
_COUNT = (MISSING, 0, MAX_TOKENS)
_ANY = (0, 0, 2**63 - 1)
#: Of each column: what stands for none, the least, and what is more than the most. The order is
#: that of ``aiperf_rows.c`` (the first nine) and of nobody else (the others).
_COLUMNS = {
    "start_ns": _EPOCH,
    "end_ns": _EPOCH,
    "ttft_ns": _SPAN,
    "latency_ns": _SPAN,
    "percent": (int(np.array(np.nan).view(np.int64)), 0, 0),  # the bits of a float
    "gaps": _ANY,
    "name_end": _ANY,  # in the texts of its block
    "talk_end": _ANY,
    "warmup": _ANY,  # 1: it is; in C a number of its shape
    "scheduled_ns": _EPOCH,
    "session": (-1, 0, 10**8),  # none, or none that counts
    "turn": (0, 0, 2**53),
    "phase_index": (-1, 0, 2**53),
    "isl": _COUNT,
    "osl": _COUNT,
    "cached_tokens": _COUNT,
    "usage": _COUNT,
}
AT = {name: at for at, name in enumerate(_COLUMNS)}
NONE = np.array([none for none, _, _ in _COLUMNS.values()], np.int64)
LIMITS = np.array([own[1:] for own in _COLUMNS.values()], np.int64)


@dataclass(frozen=True)
class Rows:
    """Usual records that hold what they must.

    ``values``: one row each, with the columns of ``AT``; ``gap_ns``: the gaps of all of them.
    ``conversation``: "None" where there is none; null where nobody asked for it.
    """

    request_id: pa.Array
    conversation: pa.Array
    values: Ints
    gap_ns: Lengths

    def __len__(self) -> int:
        return len(self.values)

    def column(self, name: str) -> Ints:
        """One of the columns."""
        return self.values[:, AT[name]]

    def slice(self, first: int, last: int) -> Rows:
        """Some of them, with their gaps."""
        ends = np.concatenate([[0], np.cumsum(self.column("gaps"))])
        return Rows(
            self.request_id[first:last],
            self.conversation[first:last],
            self.values[first:last],
            self.gap_ns[ends[first] : ends[last]],
        )

    def each_gaps(self) -> list[Lengths]:
        """The gaps of each."""
        return np.split(self.gap_ns, np.cumsum(self.column("gaps"))[:-1]) if len(self) else []


NO_GAPS = np.empty(0, np.int32)


def of_strings(content: bytes, ends: Ints) -> pa.Array:
    """ASCII texts that lie one behind the other."""
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(content))


def joined(each: Sequence[Rows]) -> Rows:
    """All of them, at least one, in one; without their gaps."""
    if len(each) == 1:
        return replace(each[0], gap_ns=NO_GAPS)
    return Rows(
        pa.concat_arrays([one.request_id for one in each]),
        pa.concat_arrays([one.conversation for one in each]),
        np.concatenate([one.values for one in each]),
        NO_GAPS,
    )


def merged(first: Rows, second: Rows, order: Ints) -> Rows:
    """Those of both, by numbers that count on from the first to the second."""
    both = joined([first, second])
    gaps = [*first.each_gaps(), *second.each_gaps()]
    return Rows(
        both.request_id.take(pa.array(order)),
        both.conversation.take(pa.array(order)),
        both.values[order],
        np.concatenate([NO_GAPS, *(gaps[at] for at in order.tolist())]),
    )


def table_columns(rows: Rows) -> tuple[dict[str, Ints], Bools]:
    """Columns of ``requests``, ``MISSING`` where null; who produced less than was asked for."""
    of = {name: rows.column(name) for name in AT}
    start, ttft, latency, osl, usage = (
        of[name] for name in ("start_ns", "ttft_ns", "latency_ns", "osl", "usage")
    )
    percent = np.ascontiguousarray(of["percent"]).view(np.float64)
    asked = percent > -100  # NaN is not
    requested = np.rint(wanted(osl, percent)).astype(np.int64)
    produced = np.where(usage > 0, usage, osl)
    columns = {
        "scheduled_ns": of["scheduled_ns"],
        "start_ns": start,
        "first_token_ns": np.where(ttft == MISSING, MISSING, start + ttft),
        "end_ns": np.where(latency == MISSING, of["end_ns"], start + latency),
        "isl": of["isl"],
        "osl": osl,
        "osl_requested": np.where(asked, requested, MISSING),
        "cached_tokens": of["cached_tokens"],
    }
    return columns, asked & (requested > 0) & (produced > 0) & (produced < requested)


def wanted(osl: Any, percent: Floats) -> Floats:
    """The output lengths that were asked for, from AIPerf's mismatch in percent of them; else 0."""
    with np.errstate(all="ignore"):
        return np.where(percent > -100, osl / (1 + percent / 100), 0.0)
