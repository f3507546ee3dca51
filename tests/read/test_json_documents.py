"""Values of a file read in pieces are those of its whole text, however it is cut and damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import files
from servebook.read.files import read_text
from servebook.read.json_documents import documents
from servebook.read.json_objects import objects
from tests.read.test_json_stream import ANY, same


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("documents") / "values.json"


@given(
    values=st.lists(ANY, max_size=4),
    indent=st.none() | st.just(1),
    between=st.sampled_from(["\n", " ", "\r\n\n", ""]),
    opening=st.sampled_from("{["),
    size=st.integers(1, 40),
    harm=st.none() | st.tuples(st.floats(0, 1), st.sampled_from(["", ",", "]", "}", "{", '"'])),
)
def test_any_file(
    path: Path,
    values: list[object],
    indent: int | None,
    between: str,
    opening: str,
    size: int,
    harm: tuple[float, str] | None,
) -> None:
    text = between.join(json.dumps(value, indent=indent) for value in values)
    if harm is not None:
        at = int(harm[0] * len(text))
        text = text[:at] + harm[1] + text[at + 1 :]
    path.write_text(text)
    expected = list(objects(read_text(path), opening))
    found = list(documents(path, opening, size=size))
    assert [(line, why) for line, _, why in found] == [(line, why) for line, _, why in expected]
    for (_, mine, _), (_, theirs, _) in zip(found, expected, strict=True):
        assert same(mine, theirs), (mine, theirs)


def test_every_cut_of_a_log(path: Path) -> None:
    text = '\ufeff{"a": -1.5e3, "t": "ü\\u00e9\\\\"}\n{"b": [true, null]}\n[{"c": NaN}] 12 "x"\n'
    for end in range(len(text) + 1):
        path.write_text(text[:end])
        expected = [repr(one) for one in objects(read_text(path))]
        for size in (1, 7, 1000):
            assert [repr(one) for one in documents(path, size=size)] == expected


def test_a_value_that_is_too_large_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_TEXT_BYTES", 1000)
    path.write_text("[" + "1," * 5000)
    with pytest.raises(DumpError, match="limit for a file that is read as a whole"):
        list(documents(path, size=100))
