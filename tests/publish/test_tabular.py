from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.publish.tabular import ABSENT, plain, round_float, table


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
        (pd.NA, None),
        (pd.NaT, None),
        (np.int64(2**62 + 1), 2**62 + 1),
        (np.float64(1234567.8), 1234570.0),
        (True, True),
        (np.True_, True),
        (0, 0),
        ("</script>", "</script>"),
        (("a", "b"), "a, b"),
        (dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2026-01-02T03:04:05+00:00"),
    ],
)
def test_a_cell_is_a_json_value(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    assert type(plain(value)) is type(expected)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_keeps_six_digits_and_is_stable(value: float) -> None:
    rounded = round_float(value)
    assert rounded is not None
    assert rounded == pytest.approx(value, rel=5.1e-6)
    assert round_float(rounded) == rounded


def test_what_is_absent_is_never_zero() -> None:
    data = table(pd.DataFrame({"a": [1.5, float("nan"), 0.0], "b": ["x", None, "0"]}))
    assert data["rows"] == [[1.5, "x"], [None, None], [0.0, "0"]]
    assert data["text"] == [["1.500", "x"], [ABSENT, ABSENT], ["0", "0"]]


def test_kinds_follow_the_values() -> None:
    frame = pd.DataFrame(
        {
            "n": [1, 2],
            "x": [1.0, 2.5],
            "ok": [True, False],
            "t": pd.to_datetime([0, 1], unit="s", utc=True),
            "s": ["a", "b"],
            "nothing": [None, None],
        }
    )
    assert table(frame)["kinds"] == ["integer", "number", "boolean", "time", "text", "text"]


def test_two_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match="twice there: a"):
        table(frame)


def test_an_empty_table_keeps_its_columns() -> None:
    assert table(pd.DataFrame({"a": [], "b": []}))["columns"] == ["a", "b"]
