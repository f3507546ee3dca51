"""Objects of an array come one by one; a broken one costs itself alone and says its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servebook.read.discover import read_tree
from servebook.read.json_each import each_object
from servebook.read.json_stream import objects_of
from servebook.tables import Tables
from tests.read.samples import vllm_result

WRONG = "no valid JSON"
TORN = "no valid JSON; the file is torn there"


def found(tmp_path: Path, text: str, window: int = 1 << 19) -> list[tuple[int, Any, str | None]]:
    path = tmp_path / "a.json"
    path.write_text(text)
    return list(each_object(path, ("x",), window=window))


@pytest.mark.parametrize("window", [1, 7, 1 << 19])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"a":1},{"a":2}]', [(1, {"a": 1}, None), (1, {"a": 2}, None)]),
        (
            '[\n{"a":1},\n{"a":}\n,{"a":3}\n]',
            [(2, {"a": 1}, None), (3, None, WRONG), (4, {"a": 3}, None)],
        ),
        (
            '[{"a":1},{"a":"x},{"a":3}]',
            [(1, {"a": 1}, None), (1, None, WRONG), (1, {"a": 3}, None)],
        ),
        ('[{"a":},{"a":2}]', [(1, None, WRONG), (1, {"a": 2}, None)]),
        ('[{"a":1},{"a":', [(1, {"a": 1}, None), (1, None, TORN)]),
        ('[{"a":1}', [(1, {"a": 1}, None), (1, None, TORN)]),
        ('[{"a":1},', [(1, {"a": 1}, None), (1, None, TORN)]),
        ('[{"a":1} {"a":2}]', [(1, {"a": 1}, None), (1, None, WRONG), (1, {"a": 2}, None)]),
        ('[{"a":1},5]\n{"b":2}', [(1, {"a": 1}, None), (1, 5, None), (2, {"b": 2}, None)]),
        ('[{"a":1}]\n[{"b":}]', [(1, {"a": 1}, None), (2, None, TORN)]),
        ('[[{"a":1}]]', [(1, [[{"a": 1}]], None)]),
        ("[]", [(1, [], None)]),
        ("[{}]", [(1, {}, None)]),
    ],
)  # fmt: skip
def test_elements(tmp_path: Path, text: str, expected: list[Any], window: int) -> None:
    assert found(tmp_path, text, window) == expected


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab{}[],"\\\n', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("yz", min_size=1), inner),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.text("yz", min_size=1), values), min_size=1, max_size=5))
def test_a_whole_array_is_what_it_is(
    tmp_path_factory: pytest.TempPathFactory, inner: list[dict[str, Any]]
) -> None:
    objects = [{"x y": one, "y": n} for n, one in enumerate(inner)]
    path = tmp_path_factory.mktemp("each") / "a.json"
    for indent in (None, 2):
        path.write_text(json.dumps(objects, indent=indent))
        (whole,) = objects_of(path, ())
        each = list(each_object(path, ()))
        assert [value for _, value, _ in each] == whole[1]
        assert not any(reason for _, _, reason in each)


@given(st.integers(0, 2), st.integers(1, 400), st.sampled_from([None, 1]))
@example(0, 2, None)  # torn in its first name
@example(0, 4, None)
@example(0, 8, 1)  # torn behind it
def test_results_around_a_broken_one(
    tmp_path_factory: pytest.TempPathFactory, which: int, cut: int, indent: int | None
) -> None:
    texts = [json.dumps(vllm_result(max_concurrency=n + 1), indent=indent) for n in range(3)]
    begin = [1 + sum(text.count("\n") + 1 for text in texts[:n]) for n in range(3)]
    at = min(cut, len(texts[which]) - 1)
    begin = [b - (texts[which][at:].count("\n") if n > which else 0) for n, b in enumerate(begin)]
    texts[which] = texts[which][:at]
    folder = tmp_path_factory.mktemp("each") / "a"
    folder.mkdir()
    (folder / "result.json").write_text("[" + ",\n".join(texts) + "]")
    tables: Tables = read_tree(folder.parent)
    left = [run["concurrency"] for run in tables.runs.to_pylist()]
    (aside,) = tables.set_aside.to_pylist()
    assert left == [n + 1 for n in range(3) if n != which]
    assert aside["line"] == begin[which]
    assert aside["record"] == "result"
