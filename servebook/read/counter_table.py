"""The ``samples`` table from readings by series: in file order, or series after series.

Of up to a million readings rows stand as in the file. Of more they are ordered by series, in file
order within each, so that what a series says once (device, interface, metric, ...) lies in memory
once and times and counts are not copied: 24 bytes a reading, 200 as rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servebook.read.counter_points import Points, SeriesPoints
from servebook.read.shared_columns import SharedColumns
from servebook.tables import SCHEMAS, table

__all__ = ["Stamp", "samples"]

Stamp = tuple[str, str, int | None]  # source, ts_kind, ts_error_ns
Bools = npt.NDArray[np.bool_]

_SCHEMA = SCHEMAS["samples"]
#: A series with fewer readings is put beside others, up to so many: each batch has a price, too.
_SHORT, _TOGETHER = 256, 1 << 14
_STAMP = ("source", "ts_kind", "ts_error_ns")


def samples(
    points: Points,
    kept: Mapping[int, Bools | None],
    names: Mapping[str, Sequence[Any]],
    stamps: Sequence[Stamp],
) -> pa.Table:
    """The rows of the series in ``kept``, all of them or those of a mask.

    ``names`` has a value per series for each column that a series decides, ``stamps`` the columns
    source, ts_kind and ts_error_ns by the number of the stamp.
    """
    if points.in_order:
        return _in_order(points, kept, names, stamps)
    shared = SharedColumns()
    batches = []
    for number in sorted(kept):
        own = {name: values[number] for name, values in names.items()}
        batches.append(_of_series(points.of(number), kept[number], own, stamps, shared))
    return pa.Table.from_batches(list(_long(batches)), _SCHEMA)


def _long(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, with neighbours of few rows put together."""
    short: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows >= _SHORT or sum(one.num_rows for one in short) >= _TOGETHER:
            if short:
                yield pa.concat_batches(short)
            short = []
        if batch.num_rows >= _SHORT:
            yield batch
        else:
            short.append(batch)
    if short:
        yield pa.concat_batches(short)


def _in_order(
    points: Points,
    kept: Mapping[int, Bools | None],
    names: Mapping[str, Sequence[Any]],
    stamps: Sequence[Stamp],
) -> pa.Table:
    n = len(points)
    keep, counter, no_line = np.zeros(n, bool), np.zeros(n, bool), np.ones(n, bool)
    which, stamp, ts, line = (np.zeros(n, np.int64) for _ in range(4))
    count, value = np.zeros(n, np.uint64), np.zeros(n)
    for number, at in points.places():
        if number not in kept:
            continue
        own, mask = points.of(number), kept[number]
        keep[at] = True if mask is None else mask
        which[at], counter[at] = number, own.counter
        stamp[at], ts[at] = own.stamps(), own.ts_ns()
        line[at], no_line[at] = own.lines()
        (count if own.counter else value)[at] = own.values()
    which, stamp, counter = which[keep], stamp[keep], counter[keep]
    out: dict[str, Any] = {
        name: pa.array(values, from_pandas=True).take(pa.array(which))
        if any(value is not None for value in values)
        else pa.nulls(len(which))
        for name, values in names.items()
    }
    for place, name in enumerate(_STAMP):
        told = pa.array([one[place] for one in stamps], _SCHEMA.field(name).type)
        out[name] = told.take(pa.array(stamp))
    out |= {
        "line": pa.array(line[keep], mask=no_line[keep]),
        "ts_ns": pa.array(ts[keep]),
        "count": pa.array(count[keep], mask=~counter),
        "value": pa.array(value[keep], mask=counter),
    }
    return table("samples", out)


def _of_series(
    own: SeriesPoints,
    mask: Bools | None,
    names: Mapping[str, Any],
    stamps: Sequence[Stamp],
    shared: SharedColumns,
) -> pa.RecordBatch:
    n = len(own) if mask is None else int(mask.sum())

    def all_of(values: Any) -> pa.Array:
        array = pa.array(values)
        return array if mask is None else array.filter(pa.array(mask))

    def same(name: str, value: Any) -> pa.Array:
        return shared.repeat(pa.scalar(value, _SCHEMA.field(name).type), n)

    out = {name: same(name, value) for name, value in names.items()}
    stamp = own.one_stamp()
    for place, name in enumerate(_STAMP):
        if stamp is not None:
            out[name] = same(name, stamps[stamp][place])
        else:
            told = pa.array([one[place] for one in stamps], _SCHEMA.field(name).type)
            out[name] = shared.array(told.take(all_of(own.stamps())))
    out["ts_ns"] = all_of(own.ts_ns())
    full, empty = ("count", "value") if own.counter else ("value", "count")
    out[full], out[empty] = all_of(own.values()), same(empty, None)
    lines, none = own.lines()
    if none.all():
        out["line"] = same("line", None)
    else:
        out["line"] = all_of(pa.array(lines, mask=none) if none.any() else lines)
    return pa.record_batch([out[name] for name in _SCHEMA.names], schema=_SCHEMA)
