"""Runs in time: on one clock where the manifest allows it, and repeats numbered by start."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from servebook.gap_table import NO_CLOCK, GapPart, GapTable
from servebook.read.manifest import RunEntry
from servebook.tables import Tables

__all__ = ["number_repeats", "shift_of", "shifted"]

Row = dict[str, Any]

_TIMES = {
    "requests": ("scheduled_ns", "start_ns", "first_token_ns", "end_ns"),
    "gaps": ("end_ns",),
}
#: Runs that agree in all of these are repeats of one condition.
_CONDITION = (
    "configuration",
    "client",
    "workload",
    "isl_requested",
    "osl_requested",
    "concurrency",
    "request_rate",
    "cache_reuse",
)


def shift_of(row: Row, entry: RunEntry | None, findings: list[str]) -> int:
    """Ns to add to the run's times; brings ``row`` itself onto the campaign's clock."""
    if entry is None:
        return 0
    shift = round((entry.clock_offset_s or 0.0) * 1e9)
    if entry.start is not None:
        if row["clock"] == "relative" and row["start_ns"] is not None:
            shift += entry.start - row["start_ns"]
            row["clock"] = "epoch"
            row["notes"] = [
                *(row["notes"] or []),
                "the dump has no wall clock; the manifest gives the start",
            ]
        elif row["clock"] == "epoch":
            findings.append(
                f"{row['run_id']}: the manifest gives a start, but the dump has a wall clock of "
                "its own, which is used"
            )
    for column in ("start_ns", "end_ns"):
        if shift and row[column] is not None:
            row[column] += shift
    return shift


def number_repeats(rows: Sequence[Row]) -> None:
    """Number runs of one condition by start, then by id; numbers of the manifest stay."""
    taken: dict[tuple[Any, ...], set[int]] = {}
    for row in rows:
        taken.setdefault(tuple(row[key] for key in _CONDITION), set()).add(row["repeat"])
    counts: Counter[tuple[Any, ...]] = Counter()
    far = 1 << 63
    for row in sorted(
        rows, key=lambda r: (far if r["start_ns"] is None else r["start_ns"], r["run_id"])
    ):
        condition = tuple(row[key] for key in _CONDITION)
        if row["repeat"] is None:
            counts[condition] += 1
            while counts[condition] in taken[condition]:
                counts[condition] += 1
            row["repeat"] = counts[condition]


def shifted(part: Tables, shifts: Mapping[str, int]) -> Tables:
    """The tables with the times of requests and gaps moved by their run's shift."""
    ids = set(part.runs["run_id"].to_pylist()) & set(shifts)
    if not ids:
        return part
    order = sorted(ids)
    by = pa.array([shifts[run_id] for run_id in order], pa.int64())
    moved = {}
    for name, columns in _TIMES.items():
        this = getattr(part, name)
        if isinstance(this, GapTable):
            moved[name] = this.changed(partial(_later, shifts=shifts))
            continue
        index = pc.index_in(this["run_id"], value_set=pa.array(order, pa.string()))
        shift = pc.fill_null(pc.take(by, index), 0)
        for column in columns:
            at = this.schema.get_field_index(column)
            this = this.set_column(at, this.schema.field(at), pc.add(this[column], shift))
        moved[name] = this
    return dataclasses.replace(part, **moved)


def _later(part: GapPart, shifts: Mapping[str, int]) -> GapPart:
    shift = shifts.get(part.run_id, 0)
    known = part.start_ns != NO_CLOCK
    return dataclasses.replace(part, start_ns=part.start_ns + np.where(known, shift, 0))
