"""Engine metrics on the campaign's clock: moved with their run, or by the manifest's offset."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from servebook.tables import Tables

__all__ = ["engine_moved", "run_shifts"]


def run_shifts(before: pa.Table, after: pa.Table) -> dict[str, int]:
    """By how many ns the manifest moved each run; ``before`` and ``after`` are tables of runs."""
    old = dict(zip(before["run_id"].to_pylist(), before["start_ns"].to_pylist(), strict=True))
    return {
        run_id: start - old[run_id]
        for run_id, start in zip(
            after["run_id"].to_pylist(), after["start_ns"].to_pylist(), strict=True
        )
        if start is not None and old.get(run_id) is not None and start != old[run_id]
    }


def engine_moved(part: Tables, offset_s: float | None, shifts: Mapping[str, int]) -> Tables:
    """The part with its engine metrics moved: by ``offset_s``, or with the run they belong to."""
    engine = part.engine
    if not engine.num_rows or not (offset_s or shifts):
        return part
    default = round((offset_s or 0.0) * 1e9)
    owners = engine["run_id"].to_pylist()
    shift = pa.array([default or shifts.get(owner or "", 0) for owner in owners], pa.int64())
    for column in ("start_ns", "end_ns"):
        at = engine.schema.get_field_index(column)
        engine = engine.set_column(at, engine.schema.field(at), pc.add(engine[column], shift))
    return dataclasses.replace(part, engine=engine)
