"""A list read in ranges, by whichever process, gives what it gives when read in order."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servebook.read import json_split, vllm
from servebook.read.bench_columns import GapLists
from servebook.read.files import read_text
from servebook.read.json_columns import Lists
from servebook.read.json_objects import objects
from servebook.read.json_split import lists_at_once
from servebook.read.json_stream import Reader, objects_of
from servebook.read.source import Source
from tests.read.samples import vllm_result
from tests.read.test_json_stream import FLOATS, WANTED, kept, plain, same, texts

#: How many elements were read in ranges, by the calls of one test.
taken: list[int] = []


def here(jobs: Sequence[Callable[[], object]]) -> bool:
    """All jobs in this process."""
    for job in jobs:
        job()
    return True


def nowhere(_jobs: Sequence[Callable[[], object]]) -> bool:
    """No job: as if all processes had been killed."""
    return False


def counted(path: Path, reader: Reader, column: Lists) -> int:
    n = lists_at_once(path, reader, column)
    taken.append(n)
    return n


@pytest.fixture(autouse=True)
def _tiny_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_split, "_LEAST_BYTES", 1)
    monkeypatch.setattr(json_split, "_RANGE_BYTES", 48)
    monkeypatch.setattr(json_split, "_LOOK_BYTES", 160)
    monkeypatch.setattr(json_split, "cores", lambda: 2)
    monkeypatch.setattr(json_split, "at_once", here)
    taken.clear()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("split") / "values.json"


def check(path: Path, content: bytes, window: int, *, unique: bool = False) -> None:
    path.write_bytes(content)
    expected = list(objects(read_text(path), unique=unique))
    large = partial(counted, path)
    found = list(objects_of(path, WANTED, unique=unique, large=large, window=window))
    assert [(line, why) for line, _, why in found] == [(line, why) for line, _, why in expected]
    for (_, mine, _), (_, theirs, _) in zip(found, expected, strict=True):
        assert same(plain(mine), kept(theirs)), (mine, theirs)


LISTS = st.lists(st.lists(FLOATS, max_size=6), max_size=60)
ODD = st.sampled_from(
    ["null", "[[1]]", '"x"', '["[", 1]', "{}", "[1,]", "]", '{"a": 1, "a": 2}', "\n"]
)


@given(
    lists=LISTS,
    odd=st.lists(st.tuples(st.integers(0, 60), ODD), max_size=2),
    between=st.sampled_from([",", ", ", " ,\n ", ",\r\n\r\n"]),
    rest=st.sampled_from(
        ["", ', "a": [1, 2]', ', "b": [[1], [2]]', "}\n[[1]]{", ', "a": ["', "\n"]
    ),
    unique=st.booleans(),
    window=st.sampled_from([16, 1 << 19]),
)
@example([[0.5] * 6] * 40, [], ",", "", False, 1 << 19)
def test_any_list(
    path: Path,
    lists: list[list[float]],
    odd: list[tuple[int, str]],
    between: str,
    rest: str,
    unique: bool,
    window: int,
) -> None:
    parts = [json.dumps(one) for one in lists]
    for place, text in odd:
        parts.insert(place, text)
    text = '{"b": 1,\n"itls": [' + between.join(parts) + "]" + rest + '}\n{"a": 2}'
    check(path, text.encode(), window, unique=unique)


@given(text=texts(), unique=st.booleans())
def test_any_values(path: Path, text: str, unique: bool) -> None:
    check(path, text.encode("utf-8", "surrogatepass"), 1 << 19, unique=unique)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("where", [here, nowhere])
@pytest.mark.parametrize("indent", [None, 1])
def test_nearly_all_is_read_in_ranges(
    path: Path, mark: bytes, where: Any, indent: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_split, "at_once", where)
    rng = np.random.default_rng(0)
    value = {"itls": [rng.random(n).tolist() for n in rng.integers(0, 4, 200)], "a": ["x"]}
    check(path, mark + json.dumps(value, indent=indent).encode(), 1 << 19)
    assert taken[0] > 180


def test_packed_files_and_one_core_are_read_in_order(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps({"itls": [[0.5, 0.25]] * 100}).encode()
    check(path, gzip.compress(text), 1 << 19)
    monkeypatch.setattr(json_split, "cores", lambda: 1)
    check(path, text, 1 << 19)
    assert taken == [0, 0]


def test_without_room_for_files_it_is_read_in_order(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json_split, "Spool", full)
    check(path, json.dumps({"itls": [[0.5, 0.25]] * 100}).encode(), 1 << 19)
    assert taken == [0]


def test_a_result_by_processes_is_that_of_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    n = 300
    rng = np.random.default_rng(1)
    gaps = [rng.random(int(k)).tolist() for k in rng.integers(0, 9, n)]
    gaps[200] = [0.5, -1.0]
    gaps[250] = [1e4]
    result = vllm_result(
        num_prompts=n,
        input_lens=[16] * n,
        output_lens=[9] * n,
        ttfts=[0.01] * n,
        itls=gaps,
        start_times=[100.0 + i for i in range(n)],
        errors=[""] * n,
    )
    path.write_text(json.dumps(result))
    source = Source("vllm", path.parent, path, (path,))

    def rows() -> str:
        tables = vllm.read(source)
        parts = [tables.runs, tables.requests, tables.gaps.table, tables.set_aside]
        return repr([part.to_pylist() for part in parts])

    in_order = rows()
    monkeypatch.setattr(json_split, "_LEAST_BYTES", 1)
    monkeypatch.setattr(json_split, "_RANGE_BYTES", 2048)
    monkeypatch.setattr(json_split, "_LOOK_BYTES", 1024)
    monkeypatch.setattr(json_split, "cores", lambda: 2)
    forked = []

    def noted(jobs: Sequence[Callable[[], object]]) -> bool:
        forked.append(at_once(jobs))
        return forked[-1]

    at_once = json_split.at_once
    monkeypatch.setattr(json_split, "at_once", noted)
    assert rows() == in_order
    assert len(forked) == 1
    if len(os.sched_getaffinity(0)) == 1:  # then no process is forked, and all is done here
        assert forked == [False]


def test_columns_of_gaps_are_joined_with_their_sums() -> None:
    columns = []
    for lists in ([[0.5, 0.25], [-1.0]], [[1.0]]):
        column = GapLists()
        column.extend_values(lists)
        columns.append(column)
    columns[0].join(columns[1])
    found = [
        part if isinstance(part, list) else part.sums_ns.tolist() for part in columns[0].lists()
    ]
    assert found == [[750_000_000], [[-1.0]], [1_000_000_000]]


def test_a_column_in_a_file_holds_what_it_held(tmp_path: Path) -> None:
    column, joined = GapLists(), GapLists()
    for one in ([0.5, 0.25], [], [-1.0], [1.0], [2.0, 0.125], [1e9]):
        column.extend_values([one])
    joined.extend_values([[2.0]])
    assert column.put_into(tmp_path / "numbers") == [2, 2]
    joined.join(pickle.loads(pickle.dumps(column)))
    found = [
        one if isinstance(one, list) else (one.gap_ns.tolist(), one.sums_ns.tolist())
        for one in joined.lists()
    ]
    assert found == [
        ([2 * 10**9], [2 * 10**9]),
        ([5 * 10**8, 25 * 10**7], [75 * 10**7, 0]),
        [[-1.0]],
        ([10**9, 2 * 10**9, 125 * 10**6], [10**9, 2125 * 10**6]),
        [[1e9]],
    ]
    assert joined.sizes().tolist() == [1, 2, 0, 1, 1, 2, 1]
