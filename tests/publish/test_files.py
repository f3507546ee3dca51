from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

from servebook.publish.files import csv_text
from servebook.publish.parquet import arrow
from servebook.publish.tabular import table


def test_csv_leaves_absent_fields_empty() -> None:
    data = table(pd.DataFrame({"a": [1.5, float("nan")], 'b "x", y': ["q,r", None]}))
    assert csv_text(data) == 'a,"b ""x"", y"\n1.5,"q,r"\n,\n'


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1 node", "'+1 node"),
        ("-", "'-"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("-1.5", "-1.5"),
        ("+2e3", "+2e3"),
        ("a=b", "a=b"),
        ("\u22125 %", "\u22125 %"),
    ],
)
def test_no_text_is_a_formula_of_a_spreadsheet(text: str, written: str) -> None:
    data = table(pd.DataFrame({text: [text], "n": [-3]}))
    assert csv_text(data) == f"{written},n\n{written},-3\n"


def test_a_formula_that_needs_quotes_is_guarded_inside_them() -> None:
    data = table(pd.DataFrame({"a": ['=HYPERLINK("//x", "y")']}))
    assert csv_text(data) == 'a\n"\'=HYPERLINK(""//x"", ""y"")"\n'


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, None, 2], pa.int64()),
        ([1.5, float("nan")], pa.float64()),
        ([True, False], pa.bool_()),
        (["a", None], pa.string()),
        ([2**64 - 1, 1], pa.string()),
    ],
)
def test_parquet_columns_are_typed(values: list[object], expected: pa.DataType) -> None:
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    assert arrow(table(frame)).schema.field("a").type == expected


def test_times_keep_their_zone() -> None:
    stamps = pd.Series(["2026-01-02T03:04:05+01:00", None], dtype="datetime64[ns, UTC]")
    column = arrow(table(pd.DataFrame({"t": stamps})))["t"]
    assert column.type == pa.timestamp("us", tz="UTC")
    assert column.to_pylist()[0].isoformat() == "2026-01-02T02:04:05+00:00"
    assert column.to_pylist()[1] is None


def test_an_empty_table_has_columns() -> None:
    assert arrow(table(pd.DataFrame({"a": [], "b": []}))).column_names == ["a", "b"]
