"""The fast way of reading record lines gives what the careful one gives, whatever the lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servebook.read import aiperf_records
from servebook.read.aiperf_records import parse
from servebook.read.aiperf_summary import Settings
from servebook.read.fast_lines import Decoded, decoded
from servebook.read.fast_numbers import ns_of_ms
from servebook.read.records import Requests
from servebook.read.values import gaps
from tests.read.samples import FIXTURES, record


def careful(lines: Iterable[tuple[int, bytes]]) -> Iterator[Decoded]:
    return ((at, line, None, None) for at, line in lines)


def parsed(lines: list[bytes], way: Any) -> tuple[Any, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aiperf_records, "decoded", way)
        out = Requests("run")
        found = parse(list(enumerate(lines, 1)), out, Settings())
    told = [getattr(found, field.name) for field in fields(found)]
    return out.requests(), out.gaps(), out.counts(), *told


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def with_gaps(text: str, n: int = 0) -> bytes:
    """A record whose list of gaps has this text."""
    value = record(n)
    value["metrics"]["inter_chunk_latency"]["value"] = "@"
    return compact(value).replace(b'"@"', b"[" + text.encode() + b"]")


def check(lines: list[bytes]) -> None:
    assert parsed(lines, decoded) == parsed(lines, careful)


RUNS = sorted(FIXTURES.rglob("profile_export.jsonl"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.parent.name)
def test_fixtures(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    check(lines)
    fast = [gaps for _, _, _, gaps in decoded(enumerate(lines)) if gaps is not None]
    long = [line for line in lines if b'"inter_chunk_latency":{"value":[' in line]
    assert len(fast) == len(long)  # the usual form is what clients write


usual = st.floats(0, 99_999, allow_nan=False).map(lambda x: repr(round(x, 6)))
noisy = st.integers(0, 10**11 - 1).map(lambda ns: repr(ns * 1e-9 * 1e3))
decimal = st.from_regex(r"(0|[1-9][0-9]{0,4})\.[0-9]{1,20}", fullmatch=True)
half = st.integers(0, 10**10).flatmap(
    lambda ns: st.sampled_from(
        ["5", "49999999999", "50000000001", "4900", "5100", "499", "5000"]
    ).map(lambda tail: f"{ns // 10**6}.{ns % 10**6:06d}{tail}")
)
odd = st.sampled_from(
    ["", " 1.5", "1", "0", "-1.5", "1e3", "1.5e0", "01.5", "00.1", "1.", ".5", "1.2.3", "1.5 ", "x",
     "null", "NaN", "1e999", "99999999.5", "123456.5", "[1.5]", '"1.5"', "true", "1:5", "1/5"]
)  # fmt: skip


@given(st.lists(usual | noisy | decimal | half, min_size=1, max_size=60))
def test_numbers_are_those_of_a_json_parser(numbers: list[str]) -> None:
    expected = gaps(json.loads(f"[{','.join(numbers)}]"), 1e6)
    found = ns_of_ms([",".join(numbers).encode()])
    if found is not None:
        np.testing.assert_array_equal(found[0], expected)
    assert (found is None) == any(len(n.partition(".")[0]) > 5 or "e" in n for n in numbers)


@given(st.lists(st.lists(usual | noisy | half | odd, max_size=6), min_size=1, max_size=5))
@example([["5.0"], ["1.5", "1"], ["2.25"]])
def test_any_list_of_gaps(lists: list[list[str]]) -> None:
    check([with_gaps(",".join(numbers), n) for n, numbers in enumerate(lists)])


@given(
    st.lists(usual, min_size=1, max_size=4),
    st.integers(0, 10**6),
    st.sampled_from([b"", b" ", b'"', b"\\", b",", b"]", b"}", b"{", b"[", b"\x00", b"\xff", b"9"]),
    st.booleans(),
)
def test_a_line_that_was_changed_anywhere(
    numbers: list[str], at: int, piece: bytes, cut: bool
) -> None:
    line = with_gaps(",".join(numbers))
    at %= len(line)
    changed = line[:at] + piece + line[at + (1 if cut else 0) :]
    check([changed, with_gaps("1.5,2.5", 1)])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"value":[1.5]', b'"value":[1.5],"value":[2.5]'),
        (b'"value":[1.5]', b'"value":[1.5],"value":"@gaps@"'),
        (b'"value":[1.5]', b'"value":[1.5],"unit":"s"'),
        (b'{"value":[1.5],"unit":"ms"}', b'{"value":[1.5],"unit":"us"}'),
        (b'{"value":[1.5],"unit":"ms"}', b'{"value":[1.5]}'),
        (b'"inter_chunk', b'"inter_chunk_latency":{"value":[9.5],"unit":"ms"},"inter_chunk'),
        (b'"metrics":{', b'"inter_chunk_latency":{"value":[9.5],"unit":"ms"},"metrics":{'),
        (b'"metrics":{', b'"metrics":{"\\u0069nter_chunk_latency":{"value":[9.5],"unit":"ms"},'),
        (b'"metrics":{', b'"other":{"a":{'),
        (b'"metrics":{', b'"metrics":[{'),
        (b'"value":[1.5]', b'"value":[]'),
        (b'"value":[1.5]', b'"value":[1.5'),
        (b'"metrics":{', b'"error":{"x":"\\"inter_chunk_latency\\":{\\"value\\":[1"},"metrics":{'),
    ],
)  # fmt: skip
def test_names_twice_and_forms_that_mislead(old: bytes, new: bytes) -> None:
    line = with_gaps("1.5")
    assert line.count(old) == 1
    check([line.replace(old, new), with_gaps("2.5", 1)])


def test_many_lines_in_one_batch_keep_their_gaps() -> None:
    lists = [[f"{n}.{i}" for i in range(n % 7)] for n in range(3000)]
    lines = [with_gaps(",".join(numbers), n) for n, numbers in enumerate(lists)]
    check(lines)
