"""Columns that hold one value throughout, as slices of one array that all pieces share.

Of a dump of short requests the requests are what memory holds, and of their columns a good half
says the same of each: the run, the phase, the status, that there was no error, no flag and nothing
from a cache. Batch by batch such a column costs nothing here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["SharedColumns"]

_LEAST = 1 << 14
_NOT_ONE = object()


class SharedColumns:
    """Arrays of one value, each as long as the longest that was asked for."""

    def __init__(self) -> None:
        self._known: dict[Any, pa.Array] = {}

    def repeat(self, value: pa.Scalar, n: int) -> pa.Array:
        """The value ``n`` times; a list must be empty."""
        key = (value.type, value.as_py() if not pa.types.is_list(value.type) else value.is_valid)
        known = self._known.get(key)
        if known is None or len(known) < n:
            room = max(n + n // 2, _LEAST)
            known = _repeated(value, room) if value.is_valid else pa.nulls(room, value.type)
            self._known[key] = known
        return known.slice(0, n)

    def array(self, values: pa.Array) -> pa.Array:
        """The same values, shared where all of them are one."""
        one = _one_value(values)
        return values if one is _NOT_ONE else self.repeat(one, len(values))

    def table(self, table: pa.Table) -> pa.Table:
        """The same rows, with columns shared where they hold one value."""
        columns = [
            pa.chunked_array([self.array(chunk) for chunk in column.chunks], type=column.type)
            for column in table.columns
        ]
        return pa.table(columns, schema=table.schema)


def _repeated(value: pa.Scalar, n: int) -> pa.Array:
    """As ``pa.repeat``, which takes 5 ms to put 16,384 empty lists one after the other."""
    if not pa.types.is_list(value.type):
        return pa.repeat(value, n)
    starts = pa.array(np.zeros(n + 1, np.int32))
    return pa.ListArray.from_arrays(starts, pa.array([], value.type.value_type), type=value.type)


def _one_value(values: pa.Array) -> Any:
    """The only value of an array as a scalar; ``_NOT_ONE`` where there are others, or none."""
    if not len(values):
        return _NOT_ONE
    if values.null_count:
        return pa.scalar(None, values.type) if values.null_count == len(values) else _NOT_ONE
    if pa.types.is_list(values.type):
        same = pc.max(pc.list_value_length(values)).as_py() == 0
    elif pa.types.is_floating(values.type) or pa.types.is_dictionary(values.type):
        return _NOT_ONE  # NaN is not equal to itself, -0.0 equal to 0.0
    elif len(values) > 1 and values[0] != values[-1]:
        return _NOT_ONE
    else:
        same = pc.all(pc.equal(values, values[0])).as_py()
    return values[0] if same else _NOT_ONE
