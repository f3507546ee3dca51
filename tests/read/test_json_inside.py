"""Long lists inside of objects give what is kept of each element, however the file is cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.read.files import read_text
from servebook.read.json_inside import objects_inside
from servebook.read.json_objects import objects
from tests.read.test_json_stream import ANY, SEPARATORS, TEXTS, WINDOWS, same


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inside") / "values.json"


def cut(value: Any) -> Any:
    return {"k": value.get("k")} if isinstance(value, dict) else "cut"


KEEP = {("b", "r", "ok"): cut, ("b", "r", "bad"): cut, ("top",): cut}


def kept(value: Any, place: tuple[str, ...] = ()) -> Any:
    if place in KEEP and isinstance(value, list):
        return [cut(one) for one in value]
    if isinstance(value, dict):
        return {name: kept(one, (*place, name)) for name, one in value.items()}
    if isinstance(value, list) and place == ("b",):
        return [kept(one, place) if isinstance(one, dict) else one for one in value]
    return value


def check(path: Path, content: bytes, window: int, *, unique: bool) -> None:
    path.write_bytes(content)
    expected = list(objects(read_text(path), unique=unique))
    found = list(objects_inside(path, KEEP, unique=unique, window=window))
    assert [(line, why) for line, _, why in found] == [(line, why) for line, _, why in expected]
    for (_, mine, _), (_, theirs, _) in zip(found, expected, strict=True):
        assert same(mine, kept(theirs)), (mine, theirs)


ENTRIES = st.lists(st.dictionaries(st.sampled_from(["k", "x"]), ANY, max_size=2) | ANY, max_size=5)
REQUESTS = st.dictionaries(st.sampled_from(["ok", "bad", "other"]), ENTRIES | ANY, max_size=3)
REPORTS = st.dictionaries(
    st.sampled_from(["b", "top", "m"]),
    st.lists(st.dictionaries(st.sampled_from(["r", "n"]), REQUESTS | ANY, max_size=2), max_size=3)
    | REQUESTS
    | ENTRIES
    | TEXTS,
    max_size=3,
)


@given(
    reports=st.lists(REPORTS, min_size=1, max_size=2),
    separators=SEPARATORS,
    window=WINDOWS,
    unique=st.booleans(),
    harm=st.none() | st.tuples(st.floats(0, 1), st.sampled_from(["", ",", "]", "}", "{", '"'])),
)
def test_any_report(
    path: Path,
    reports: list[Any],
    separators: tuple[str, str],
    window: int,
    unique: bool,
    harm: tuple[float, str] | None,
) -> None:
    text = "\n".join(json.dumps(one, separators=separators) for one in reports)
    if harm is not None:
        at = int(harm[0] * len(text))
        text = text[:at] + harm[1] + text[at + (not harm[1]) :]
    check(path, text.encode("utf-8", "surrogatepass"), window, unique=unique)


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("window", [1, 9, 1 << 19])
@pytest.mark.parametrize(
    "text",
    [
        '{"b": [{"r": {"ok": [{"k": 1, "x": 2}, {"k": 3}], "bad": []}}, {}, 5]}',
        '{"b": {"r": {"ok": [1, 2, [3]], "bad": {}}}, "top": [[], {"k": [1]}]}',
        '{"b": [], "top": []}',
        '{"b": [{}, ], "top": 1}',
        '{"b": [{} {}]}',
        '{"b": [{"r": {"ok": [{"k": 1},]}}]}',
        '{"b": [{"r": {"ok": [{"k": 1}}]}}]}',
        '{"b": [{"r": {"ok": [{"k": 1, "k": 2}]}, "r": 1}]}',
        '{"b": [{"r": {"ok": [{"k": NaN}, {"k": "]}"}]',
        '{"b": [{"r": {"ok": [',
        '{"b": [',
        '[{"b": []}] 5 "x"',
    ],
)
def test_reports_as_of_the_whole_text(path: Path, text: str, window: int, unique: bool) -> None:
    check(path, text.encode(), window, unique=unique)
