from __future__ import annotations

import gzip
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.read import json_array
from servebook.read.json_array import elements
from tests.read.samples import JUNK_VALUES

OPENING = re.compile(r'\{\s*"a"')


def found(text: str | bytes) -> list[tuple[int, Any, str | None]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "array.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return list(elements(path, OPENING))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", []),
        ("\ufeff [ 1 , 2 ]\n", [(1, 1, None), (1, 2, None)]),
        ('[\n{"a": NaN},\n{"a": 1}]', 2),
        ("{}", [(1, None, "no JSON array")]),
        ("", [(1, None, "no JSON array")]),
        ("[1", [(1, 1, None), (1, None, "an array without an end; the file is torn there")]),
        ('[{"a": 1', [(1, None, "no valid JSON; the file is torn there")]),
        ("[1]\n[2]", [(1, 1, None), (2, None, "text after the end of the array")]),
        (
            '[{"a": 1},\n{"a" 2},\n{"a": 3}]',
            [(1, {"a": 1}, None), (2, None, "no valid JSON"), (3, {"a": 3}, None)],
        ),
        ("[1,,2]", [(1, 1, None), (1, None, "no valid JSON; the file is torn there")]),
    ],
)
def test_elements(text: str, expected: Any) -> None:
    result = found(text)
    assert len(result) == expected if isinstance(expected, int) else result == expected


def test_a_gzip_stream_that_is_cut_short() -> None:
    packed = gzip.compress(json.dumps([{"a": i} for i in range(5000)], indent=2).encode())
    result = found(packed[: len(packed) // 2])
    assert len(result) > 100
    assert result[-1][2] is not None
    assert "compressed stream is cut short" in result[-1][2]
    assert [value for _, value, wrong in result if wrong is None] == [
        {"a": i} for i in range(len(result) - 1)
    ]


def test_too_deep_costs_itself_alone() -> None:
    result = found('[{"a": ' + "[" * 100_000 + "]" * 100_000 + '}, {"a": 1}]')
    assert [(value, wrong) for _, value, wrong in result] == [
        (None, "JSON nested deeper than any client writes"),
        ({"a": 1}, None),
    ]


def test_an_element_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "MAX_ELEMENT_CHARS", 1000)
    monkeypatch.setattr(json_array, "_READ", 100)
    result = found('[{"a": "' + "x" * 5000 + '"}, {"a": 1}]')
    assert result[0][2] is not None
    assert "an element of more than" in result[0][2]
    assert result[-1][1] == {"a": 1}


@given(st.lists(JUNK_VALUES, max_size=5), st.integers(1, 40), st.sampled_from([None, 1]))
def test_however_little_is_read_at_once(values: list[Any], size: int, indent: int | None) -> None:
    text = json.dumps(values, indent=indent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_array, "_READ", size)
        result = found(text)
    assert all(wrong is None for _, _, wrong in result)
    assert json.dumps([value for _, value, _ in result]) == json.dumps(json.loads(text))


@given(st.lists(st.integers(), min_size=1, max_size=8), st.data())
def test_cut_anywhere(values: list[int], data: st.DataObject) -> None:
    text = json.dumps([{"a": value} for value in values])
    short = text[: data.draw(st.integers(1, len(text) - 1))]
    result = found(short)
    whole = [value for _, value, wrong in result if wrong is None]
    assert whole == [{"a": value} for value in values[: short.count("}")]]
    assert result[-1][2] is not None


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    ((line, _, wrong),) = elements(tmp_path / "none.json", OPENING)
    assert (line, wrong) == (1, "a file that cannot be read (No such file or directory)")


@pytest.mark.parametrize("before", range(0, 60, 7))
def test_a_broken_element_at_the_edge_of_what_was_read_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    monkeypatch.setattr(json_array, "_READ", 64)
    monkeypatch.setattr(json_array, "_PIECE", 64)
    texts = ['{"a": "' + "x" * before + '"}', '{"a": tru}', '{"a": 1}', '{"a": 2}']
    path = tmp_path / "a.json"
    path.write_text("[" + ",\n".join(texts) + "]")
    found = list(json_array.elements(path, re.compile(r'\{"a"')))
    expected = [(1, True), (2, False), (3, True), (4, True)]
    assert [(line, reason is None) for line, _, reason in found] == expected
