"""Some usual records of AIPerf, column by column, on their way to tables."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.gap_table import Lengths

__all__ = ["MISSING", "NOTHING", "Batch", "joined", "part_of"]

#: Stands for null in a column of whole numbers.
MISSING = -(2**63)

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Batch:
    """Usual records that hold what they must, column by column; ``MISSING`` where null."""

    request_id: list[str]
    conversation: list[str | None]
    warmup: Bools
    columns: dict[str, Ints]  # of ``requests``
    session: Ints  # -1: none, or none that counts
    turn: Ints
    phase_index: Ints
    usage: Ints
    short_output: Bools
    counts: Ints  # gaps per record
    gap_ns: Lengths


_NONE, _NO = np.empty(0, np.int64), np.empty(0, bool)
_COLUMNS = (
    *("scheduled_ns", "start_ns", "first_token_ns", "end_ns"),
    *("isl", "osl", "osl_requested", "cached_tokens"),
)
NOTHING = Batch(
    [], [], _NO, dict.fromkeys(_COLUMNS, _NONE), _NONE, _NONE, _NONE, _NONE, _NO, _NONE, _NONE
)
#: The fields that hold one value a record.
_EACH = [one.name for one in dataclasses.fields(Batch) if one.name not in ("columns", "gap_ns")]


def joined(batches: Sequence[Batch]) -> Batch:
    """The records of all batches, at least one, in one; without their gaps."""

    def all_of(each: list[Any]) -> Any:
        if isinstance(each[0], list):
            return list(itertools.chain.from_iterable(each))
        return np.concatenate(each)

    columns = {name: all_of([one.columns[name] for one in batches]) for name in _COLUMNS}
    own = {name: all_of([getattr(one, name) for one in batches]) for name in _EACH}
    return Batch(columns=columns, gap_ns=np.empty(0, np.int32), **own)


def part_of(batch: Batch, first: int, last: int) -> Batch:
    """Some records of a batch, with their gaps."""
    ends = np.concatenate([[0], np.cumsum(batch.counts)])
    own = {name: getattr(batch, name)[first:last] for name in _EACH}
    columns = {name: values[first:last] for name, values in batch.columns.items()}
    return Batch(columns=columns, gap_ns=batch.gap_ns[ends[first] : ends[last]], **own)
