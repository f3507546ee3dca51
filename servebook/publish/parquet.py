"""A figure's table as the bytes of a Parquet file, made in the kernel that measured it."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["arrow", "parquet"]

TYPES = {
    "number": pa.float64(),
    "integer": pa.int64(),
    "boolean": pa.bool_(),
    "time": pa.timestamp("ns", tz="UTC"),
    "text": pa.string(),
}
MOST_INT64 = 2**63


def _column(kind: str, values: list[Any]) -> pa.Array:
    if kind == "time":
        stamps = [None if v is None else dt.datetime.fromisoformat(v) for v in values]
        return (
            pa.array(stamps).cast(pa.timestamp("us", tz="UTC"))
            if any(stamps)
            else pa.nulls(len(values), pa.timestamp("us", tz="UTC"))
        )
    if kind == "integer" and any(v is not None and abs(v) >= MOST_INT64 for v in values):
        return pa.array([None if v is None else str(v) for v in values], pa.string())
    if kind == "text":
        return pa.array([None if v is None else str(v) for v in values], pa.string())
    return pa.array(values, TYPES[kind])


def arrow(table: dict[str, Any]) -> pa.Table:
    """The table typed: integers that 64 bits do not hold become text rather than lose digits."""
    columns = list(zip(*table["rows"], strict=True)) or [()] * len(table["columns"])
    return pa.table(
        {
            name: _column(kind, list(values))
            for name, kind, values in zip(table["columns"], table["kinds"], columns, strict=True)
        }
    )


def parquet(table: dict[str, Any]) -> bytes:
    """The table, typed, as a Parquet file."""
    out = io.BytesIO()
    pq.write_table(arrow(table), out)
    return out.getvalue()
