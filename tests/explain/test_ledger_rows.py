from __future__ import annotations

from pathlib import Path

import pytest
from printed_campaign import HEADER, PUBLISHED

from servebook.errors import DumpError
from servebook.explain.ledger_rows import read_published

GOOD = "one,X,s,measured,a/b,prefill,512,1,8,raw/r,ttft,mean,-7.5,s,0.1,a note"


def test_a_row_is_read_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "published.csv").write_text(f"{HEADER}{GOOD}\n")
    (row,) = read_published(tmp_path)
    assert (row.line, row.id, row.kind, row.sides) == (2, "one", "measured", ("a", "b"))
    assert (row.isl, row.osl, row.concurrency, row.value, row.step) == (512, 1, 8, -7.5, 0.1)


def test_open_fields_are_none_not_zero(tmp_path: Path) -> None:
    (tmp_path / "published.csv").write_text(PUBLISHED)
    rows = {row.id: row for row in read_published(tmp_path)}
    assert (rows["gaps"].isl, rows["gaps"].concurrency, rows["gaps"].run) == (None, None, "")
    assert rows["over"].sides == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (HEADER.replace("printed_step,", ""), ":1: expected the columns of a ledger, found no pri"),
        ("", ":1: expected the columns of a ledger, found no id"),
        (HEADER + GOOD.replace("-7.5", "7,5"), ":2: expected a number as printed_step"),
        (HEADER + GOOD.replace("-7.5", "about 7"), ":2: expected a number as value, found 'about"),
        (HEADER + GOOD.replace("-7.5", "nan"), ":2: expected a number as value, found 'nan'"),
        (HEADER + GOOD.replace("0.1", "-0.1"), ":2: expected a printed_step of at least 0"),
        (HEADER + GOOD.replace("512", "5e2"), ":2: expected a whole number as isl, found '5e2'"),
        (HEADER + GOOD.replace("measured", "guess"), ":2: expected a kind: measured, derived, mo"),
        (HEADER + GOOD.replace("one,", ",", 1), ":2: expected an id, found none"),
        (f"{HEADER}{GOOD}\n{GOOD}\n", ":3: expected each id once, found one again (first in line"),
        (HEADER + "one,X", ":2: expected a kind: measured, derived, model, input, found ''"),
    ],
)
def test_a_wrong_row_names_its_line(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "published.csv").write_text(content)
    with pytest.raises(DumpError) as error:
        read_published(tmp_path)
    assert words in str(error.value)


def test_bytes_that_are_no_text_are_one_error(tmp_path: Path) -> None:
    (tmp_path / "published.csv").write_bytes(HEADER.encode() + b"\xff\xfe\n")
    with pytest.raises(DumpError, match="expected a CSV file in UTF-8"):
        read_published(tmp_path)
