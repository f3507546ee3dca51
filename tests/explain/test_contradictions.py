from __future__ import annotations

import math
import shutil
from pathlib import Path

import printed_campaign
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.explain.contradictions import CONTRADICTIONS, contradictions, evaluate, read_sums
from servebook.explain.ledger import ledger
from servebook.read.campaign import load

HEADER = "point,statement,quantity,arithmetic,unit,says\n"
SUMS = (
    HEADER
    + """\
one,said,double,2 * [p4],tok/s,so
one,said,longest,[raw/stress:itl_max_ms] / 1000,s,so
two,said,nothing,[raw/none:itl_max_ms] + [p2],s,so
two,said,gone,[gone],x,so
"""
)


@pytest.mark.parametrize(
    ("arithmetic", "expected"),
    [
        ("2 + 3 * 4", 14),
        ("(2 + 3) * -4", -20),
        ("[a.b-c] * [a.b-c] / 2", 18),
        ("1 - [x] / 0.5", 1 - 5 / 0.5),
        ("[x]-[a.b-c]", -1),
    ],
)
def test_sums(arithmetic: str, expected: float) -> None:
    assert evaluate(arithmetic, {"a.b-c": 6.0, "x": 5.0}.__getitem__) == pytest.approx(expected)


def test_a_division_by_zero_is_undefined() -> None:
    assert math.isnan(evaluate("1 / [x]", lambda _: 0.0))


@pytest.mark.parametrize(
    "arithmetic",
    [
        "",
        "2 **  9",
        "2 // 3",
        "x",
        "_0",
        "[x] _1",
        "__import__('os')",
        "(1).real",
        "[1, 2][0]",
        "True",
        "'a'",
        "1 if 2 else 3",
        "lambda: 1",
        "1j",
        "(" * 300 + "1" + ")" * 300,
        "1 + " * 200 + "1",
    ],
)
def test_nothing_else_is_a_sum(arithmetic: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        evaluate(arithmetic, lambda _: 1.0)


@given(st.text(max_size=60))
def test_any_text_is_a_number_or_an_error(arithmetic: str) -> None:
    try:
        value = evaluate(arithmetic, lambda _: 1.0)
    except ValueError:
        return
    assert isinstance(value, float)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_references_are_exact(one: float, two: float) -> None:
    assert evaluate("[1] - [2]", {"1": one, "2": two}.__getitem__) == one - two


def test_no_file_no_sums(tmp_path: Path) -> None:
    assert read_sums(tmp_path) == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("point,statement\n", ":1: expected the columns point, statement, quantity"),
        (HEADER + "a,b,c,import os,x,d\n", ":2: expected a sum, found 'import os'"),
        (HEADER + "a,b,c,[p4] ** 2,x,d\n", ":2: expected a sum, found '_0 ** 2'"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / CONTRADICTIONS).write_text(content)
    with pytest.raises(DumpError) as error:
        read_sums(tmp_path)
    assert words in str(error.value)


def test_print_and_dumps_stand_side_by_side(tmp_path: Path) -> None:
    campaign = printed_campaign.build(tmp_path / "c")
    text = (campaign / "published.csv").read_text().replace(",1950,tok/s", ",1900,tok/s")
    gone = "gone,X,s,derived,a,mixed,,,,,wonder,,7,x,1,\n"
    (campaign / "published.csv").write_text(text + gone)
    (campaign / CONTRADICTIONS).write_text(SUMS)
    book = load(campaign)
    assert book.tables.refused.num_rows == 0
    table = contradictions(book, ledger(book)).set_index("quantity")
    assert table["from_print"]["double"] == 3800
    assert table["computed"]["double"] == pytest.approx(3900)
    assert table["runs"]["double"] == ("raw/aiperf/prefill_c4",)
    # a batch of two prompts of 512 tokens at 2,000 tokens/s beside a decode step
    assert math.isnan(table["from_print"]["longest"])
    assert table["computed"]["longest"] == pytest.approx(2 * 512 / 2000 + 0.08)
    assert math.isnan(table["computed"]["nothing"])
    assert table["why"]["nothing"] == "the campaign has no raw/none:itl_max_ms"
    assert (table["from_print"]["gone"], math.isnan(table["computed"]["gone"])) == (7, True)
    assert "no definition of the metric 'wonder'" in table["why"]["gone"]
    (campaign / CONTRADICTIONS).write_text(SUMS.replace("[p4]", "[p5]"))
    with pytest.raises(
        DumpError, match=r"contradictions.csv:2: expected a printed figure, found p5"
    ):
        contradictions(book, ledger(book))
    shutil.rmtree(campaign)
