"""Columns of one value share their memory, and keep their values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.read.shared_columns import SharedColumns
from servebook.tables import SCHEMAS


def buffers(array: pa.Array) -> list[int]:
    return [one.address for one in array.buffers() if one is not None and one.size]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([7] * 5, pa.int64()),
        ([None] * 5, pa.int64()),
        (["ok"] * 5, pa.string()),
        ([None] * 5, pa.string()),
        ([[]] * 5, pa.list_(pa.string())),
        ([None] * 5, pa.list_(pa.string())),
        ([True] * 5, pa.bool_()),
    ],
)
def test_one_value_lies_once_in_memory(values: list[Any], kind: pa.DataType) -> None:
    shared = SharedColumns()
    first, second = (shared.array(pa.array(values[:n], kind)) for n in (5, 3))
    assert first.to_pylist() == values
    assert second.to_pylist() == values[:3]
    assert first.type == second.type == kind
    assert buffers(first) == buffers(second)
    more = shared.array(pa.array(values * 10_000, kind))
    assert more.to_pylist() == values * 10_000
    assert first.to_pylist() == values


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, 2, 1]),
        pa.array([1, None, 1]),
        pa.array(["a", "a", "b"]),
        pa.array([[], ["short_output"]]),
        pa.array([[], None], pa.list_(pa.string())),
        pa.array([0.0, -0.0]),
        pa.array([], pa.string()),
    ],
)
def test_other_columns_stay_as_they_are(array: pa.Array) -> None:
    assert buffers(SharedColumns().array(array)) == buffers(array)


rows = st.lists(
    st.fixed_dictionaries(
        {
            "run_id": st.sampled_from(["a", "b"]),
            "status": st.sampled_from(["ok", "failed", None]),
            "isl": st.sampled_from([None, 0, 2**60]),
            "flags": st.sampled_from([None, [], ["short_output"]]),
        }
    ),
    max_size=4,
)


@given(st.lists(rows, max_size=4))
def test_a_table_keeps_its_rows(pieces: list[list[dict[str, Any]]]) -> None:
    schema = SCHEMAS["requests"]
    tables = [
        pa.Table.from_pylist([{n: r.get(n) for n in schema.names} for r in rows], schema)
        for rows in pieces
    ]
    whole = pa.concat_tables(tables) if tables else schema.empty_table()
    found = SharedColumns().table(whole)
    assert found.equals(whole)
    found.validate(full=True)
