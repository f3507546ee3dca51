"""A file read value by value gives what its whole text gives, however it is cut."""

from __future__ import annotations

import bz2
import gzip
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import files, json_columns, json_stream
from servebook.read.files import read_text
from servebook.read.json_columns import Column, Lists, Numbers, Unkept, Values
from servebook.read.json_objects import objects
from servebook.read.json_stream import objects_of

WANTED = ("itls", "ttfts", "errors", "a")


@pytest.fixture(scope="module")
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "values.json"


def plain(value: Any) -> Any:
    """A value with its columns as lists, and nothing of the lists that were not kept."""
    if isinstance(value, Unkept):
        return [None] * len(value)
    if isinstance(value, Column):
        return [one.tolist() if isinstance(one, np.ndarray) else one for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [plain(one) if isinstance(one, dict) else one for one in value]
    return value


def kept(value: Any) -> Any:
    """What the stream keeps of a value that was read as a whole."""
    if isinstance(value, list) and isinstance(next(iter(value), None), dict):
        return [kept(one) if isinstance(one, dict) else one for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: [None] * len(one) if isinstance(one, list) and name not in WANTED else one
        for name, one in value.items()
    }


def same(left: Any, right: Any) -> bool:
    """Equality in which NaN equals NaN, and 1 is 1.0 but not true."""
    if isinstance(left, dict) and isinstance(right, dict):
        # Order matters: the last of two equal names wins, in the place of the first.
        return list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float | int) and isinstance(right, float | int):
        if isinstance(left, bool) or isinstance(right, bool):
            return left is right
        both = float(left), float(right)
        return both[0] == both[1] or (math.isnan(both[0]) and math.isnan(both[1]))
    return type(left) is type(right) and bool(left == right)


def check(path: Path, content: bytes, window: int, *, unique: bool = False) -> None:
    path.write_bytes(content)
    expected = list(objects(read_text(path), unique=unique))
    found = list(objects_of(path, WANTED, unique=unique, window=window))
    assert [(line, reason) for line, _, reason in found] == [
        (line, reason) for line, _, reason in expected
    ]
    for (_, mine, _), (_, theirs, _) in zip(found, expected, strict=True):
        assert same(plain(mine), kept(theirs)), (mine, theirs)


NAMES = st.sampled_from(["itls", "ttfts", "errors", "a", "b", "generated_texts", "", 'q"]', "\\"])
TEXTS = st.text(
    st.sampled_from('"\\[]{},: \n\tabé\u2028\U0001f600\ufeff01.e-') | st.characters(), max_size=12
)
FLOATS = st.floats(width=64) | st.sampled_from([0.0, 1e-7, 0.006, 1e300, 5e-324])
WHOLE = st.integers(-(2**70), 2**70) | st.integers(0, 300)
PLAIN = st.none() | st.booleans() | WHOLE | FLOATS | TEXTS
ANY = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
NUMBERS = st.lists(FLOATS | WHOLE, max_size=20)
LISTS = (
    st.lists(NUMBERS, max_size=20)
    | st.lists(NUMBERS | ANY, max_size=8)
    | st.lists(TEXTS, max_size=20)
    | NUMBERS
)
OBJECTS = st.dictionaries(NAMES, LISTS | ANY, max_size=6)
SEPARATORS = st.sampled_from([(", ", ": "), (",", ":"), (" ,\n", " :\t"), (",\r\n\r\n ", ":")])
BETWEEN = st.sampled_from(["", "\n", " \n\n", "\ufeff", "\n\ufeff{", "\nx", "1", '\n{"a": ', "]"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Values one after another, written in several ways, with something between them."""
    out = [draw(BETWEEN)]
    for value in draw(st.lists(OBJECTS | ANY, min_size=1, max_size=4)):
        separators = draw(SEPARATORS)
        indent = draw(st.sampled_from([None, None, 0, 2]))
        ascii_only = draw(st.booleans())
        out.append(json.dumps(value, separators=separators, indent=indent, ensure_ascii=ascii_only))
        out.append(draw(BETWEEN))
    return "".join(out)


WINDOWS = st.integers(1, 40) | st.just(1 << 19)


@given(text=texts(), window=WINDOWS, unique=st.booleans())
def test_any_values_at_any_cut(path: Path, text: str, window: int, unique: bool) -> None:
    check(path, text.encode("utf-8", "surrogatepass"), window, unique=unique)


@given(text=texts(), window=WINDOWS, data=st.data(), unique=st.booleans())
def test_any_damage_is_told_alike(
    path: Path, text: str, window: int, data: st.DataObject, unique: bool
) -> None:
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        cut = data.draw(st.integers(0, 3))
        content[at : at + cut] = data.draw(
            st.sampled_from([b"", b'"', b"]", b"[", b"}", b"{", b",", b"\\", b"\xff", b"N", b"\n{"])
        )
    check(path, bytes(content[: data.draw(st.integers(0, len(content)))]), window, unique=unique)


@pytest.mark.parametrize("window", [1, 7, 64, 1 << 19])
@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n ",
        "\ufeff",
        "null",
        "[{}, {}]",
        "{}",
        '{"a": [',
        '{"itls": [[1, 2.5], [], [0.25]], "a": 1}',
        '{"itls": [[1, 2.5], [], [0.25]]}',
        '{"itls": [[1, [2]], [3]]}',
        '{"itls": [[[1], [2]]], "a": []}',
        '{"itls": [[1, "x"], [2]], "a": 1}',
        '{"itls": [[1], null, [NaN], [true, 1.5], [], {}], "a": 1}',
        '{"itls": [[1], "x", [3]], "a": [1, 2, "3", [4], {}, 5]}',
        '{"itls": [[1],], "a": 1}',
        '{"itls": [[1] [2]], "a": 1}',
        '{"itls": [,[1]], "a": 1}',
        '{"itls": [[1]}, "a": 1}',
        '{"itls": [[1]',
        '{"ttfts": [1, 2,], "a": 1}',
        '{"ttfts": [1, 2}, "a": 1}',
        '{"ttfts": [0.1, 1e-05, -0, 12345678901234567890123, 1E400, null, NaN, -Infinity]}',
        '{"ttfts": [01]}',
        '{"errors": ["", "a", "a", "\\"]", "\\\\", "]", "[", "{", "\\\\\\"", "x\\ud800"]}',
        '{"errors": ["" ""]}',
        '{"errors": ["\t"]}',
        '{"errors": ["", {"a": 1, "a": 2}]}',
        '{"b": [{"k": [1, 2], "l": "]"}, {}, []], "c": {"d": [{}]}}',
        '{"b": {"k": 1, "k": 2}, "b": 3}',
        '{"a": 1, "a": 2}',
        '{"a": 1, "a": 2',
        '{"a": 1,}',
        '{"a" 1}',
        '{"a": 1} x',
        '{"a": 1}{"a": 2}\n[3] "four" 5 true\n{"a": 6}',
        '{"a" 1}\n{"a": 2}\n{"a": 3',
        '1x\n{"a": 1}',
        "1.\n2.5e",
        '{"a": 1\f}',
        "9" * 5000,
        '{"a": ' + "9" * 5000 + "}",
        "[" * 3000,
        '{"a": ' + "[" * 3000 + "]" * 3000 + "}",
    ],
)
def test_values_as_of_the_whole_text(path: Path, text: str, window: int, unique: bool) -> None:
    check(path, text.encode(), window, unique=unique)


def test_bytes_that_are_no_text_are_replaced(path: Path) -> None:
    check(path, b'{"errors": ["\xff", "\xe2\x82"], "\xffb": "\xf0"}', 4)
    check(path, b'{"errors": ["a"\xff]}\n{"a": 1}', 4)


def test_so_are_those_of_objects_in_an_array(path: Path) -> None:
    one = {"ttfts": [0.5, 1.5], "others": [1, 2, 3], "deep": {"a": [1]}}
    path.write_text(json.dumps([one, one, 7, [one]]))
    ((_, value, reason),) = objects_of(path, WANTED)
    assert reason is None
    assert isinstance(value, list)
    for found in value[:2]:
        assert isinstance(found["ttfts"], Numbers)
        assert isinstance(found["others"], Unkept)
        assert found["deep"] == {"a": [1]}
    assert value[2:] == [7, [one]]


def test_long_lists_are_columns(path: Path) -> None:
    path.write_text('{"itls": [[1, 2], []], "ttfts": [1], "errors": ["", ""], "b": [1, 2, 3]}')
    ((_, value, _),) = objects_of(path, WANTED)
    kinds = {name: type(column) for name, column in value.items()}
    assert kinds == {"itls": Lists, "ttfts": Numbers, "errors": Values, "b": Unkept}
    ((numbers, lengths),) = value["itls"].parts()
    assert (numbers.tolist(), lengths.tolist()) == ([1.0, 2.0], [2, 0])
    assert list(value["itls"].sizes()) == [2, 0]
    first, second = value["errors"]
    assert first is second
    assert list(value["b"]) == [None, None, None]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lambda raw: b"\xef\xbb\xbf" + raw])
def test_packed_and_after_a_mark(path: Path, pack: Any) -> None:
    """A broken value makes the reader go back, which packed streams do by unpacking again."""
    broken = '{"a": [' + "1, " * 50 + "\n{}"
    text = "\n".join(['{"a": [1, 2]}', broken, '{"a": 3}'])
    check(path, pack(text.encode()), 16)
    path.write_bytes(pack(text.encode()))
    assert [line for line, _, _ in objects_of(path, WANTED, window=16)] == [1, 2, 3, 4]


def test_a_packed_stream_that_is_cut_short_is_refused(path: Path) -> None:
    path.write_bytes(gzip.compress(b'{"a": 1}' * 1000)[:-20])
    with pytest.raises(DumpError, match="cut short"):
        list(objects_of(path, WANTED))


def test_a_packed_stream_of_little_but_air_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_TEXT_BYTES", 1 << 20)
    path.write_bytes(gzip.compress(b'{"a": 1}' + b" " * (4 << 20)))
    with pytest.raises(DumpError, match="1 MiB, the limit"):
        list(objects_of(path, WANTED))
    path.write_bytes(b'{"a": 1}' + b" " * (4 << 20))  # a plain file may be of any length
    assert [value for _, value, _ in objects_of(path, WANTED)] == [{"a": 1}]
    path.write_bytes(b'{"a": "' + b"x" * (4 << 20) + b'"}')
    with pytest.raises(DumpError, match="1 MiB, the limit"):
        list(objects_of(path, WANTED))


@given(lists=st.lists(st.lists(FLOATS, max_size=9), max_size=30), room=st.integers(0, 200))
@example(lists=[[1.5], [], [2.5, 3.5]], room=0)
def test_numbers_come_back_from_disk(lists: list[list[float]], room: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_columns, "_IN_MEMORY_BYTES", room)
        patch.setattr(json_columns, "_AT_ONCE_BYTES", room // 3)
        column = Lists()
        for one in lists:
            column.extend(np.array(one, np.float64), np.array([len(one)]))
        for _ in range(2):
            assert same([one.tolist() for one in column], lists)
        assert (len(column), list(column.sizes())) == (len(lists), [len(one) for one in lists])


def test_without_room_on_disk_numbers_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json_columns, "_IN_MEMORY_BYTES", 8)
    monkeypatch.setattr(json_columns.tempfile, "TemporaryFile", full)
    column = Lists()
    for n in range(4):
        column.extend(np.full(3, float(n)), np.array([3]))
    assert [one.tolist() for one in column] == [[float(n)] * 3 for n in range(4)]


def test_large_windows_give_what_small_ones_give(path: Path) -> None:
    rng = np.random.default_rng(0)
    value = {
        "itls": [rng.random(n).tolist() for n in rng.integers(0, 300, 2000)],
        "errors": ['a "text"\n' * int(n) for n in rng.integers(0, 9, 2000)],
    }
    for indent in (None, 1):
        check(path, json.dumps(value, indent=indent).encode(), json_stream.WINDOW_BYTES)
