from __future__ import annotations

import gc

import pandas as pd
import pyarrow as pa

from servebook.measure.once import once

calls: list[int] = []


@once
def doubled(table: pa.Table) -> pd.DataFrame:
    calls.append(table.num_rows)
    return pd.DataFrame({"a": [2 * v for v in table["a"].to_pylist()]})


def test_the_same_table_is_measured_once_and_each_caller_has_a_frame_of_its_own() -> None:
    calls.clear()
    table = pa.table({"a": [1, 2]})
    first = doubled(table)
    first["a"] = [0, 0]
    first.loc[0, "b"] = 1.0
    second = doubled(table)
    assert second["a"].tolist() == [2, 4]
    assert list(second) == ["a"]
    second.loc[0, "a"] = 7
    assert doubled(table)["a"].tolist() == [2, 4]
    assert calls == [2]


def test_an_equal_table_is_measured_anew() -> None:
    calls.clear()
    one, other = pa.table({"a": [1]}), pa.table({"a": [1]})
    doubled(one)
    doubled(other)
    assert calls == [1, 1]


def test_nothing_outlives_its_table() -> None:
    calls.clear()
    for rows in range(1, 6):  # ids of dead objects are used again
        doubled(pa.table({"a": list(range(rows))}))
        gc.collect()
    assert calls == [1, 2, 3, 4, 5]
