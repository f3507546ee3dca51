"""A document of many records is the same, cut down while it is read or afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read.documents import main_document, slim_document
from servebook.read.json_inside import Place

PLACES: dict[Place, Callable[[Any], Any]] = {
    ("a",): lambda one: ["cut", one],
    ("b", "c"): lambda one: {"cut": one},
}
values = st.recursive(
    st.none() | st.integers(-3, 3) | st.just(float("nan")) | st.text('x"{}[],', max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def cut(value: Any) -> Any:
    """By hand: lists at a, and at c of the objects of b, which may be a list itself."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            if isinstance(one.get("a"), list):
                one["a"] = [["cut", x] for x in one["a"]]
            b = one.get("b")
            for inner in b if isinstance(b, list) else [b]:
                if isinstance(inner, dict) and isinstance(inner.get("c"), list):
                    inner["c"] = [{"cut": x} for x in inner["c"]]
    return value


@given(values, st.sampled_from([None, 1]))
def test_as_if_cut_afterwards(
    tmp_path_factory: pytest.TempPathFactory, value: Any, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("slim") / "a.json"
    path.write_text(json.dumps(value, indent=indent))
    expected = json.dumps(cut(json.loads(path.read_text())))
    assert json.dumps(slim_document(path, "a.json", "a value", PLACES)) == expected


def test_a_key_twice_is_the_last_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [1], "a": [2, 3]}')
    assert slim_document(path, "a.json", "a value", PLACES) == {"a": [["cut", 2], ["cut", 3]]}


@pytest.mark.parametrize("text", ['{"a": [1, 2', '{"a": [1]} {"a": [2]}', "", '{"a": [1,]}'])
def test_damage_is_told_as_of_any_document(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DumpError) as slim:
        slim_document(path, "a.json", "a value", PLACES)
    with pytest.raises(DumpError) as whole:
        main_document(path, "a.json", "a value")
    assert str(slim.value) == str(whole.value)
