"""Records read in pieces give what the careful way gives, whatever the lines and the cuts."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import signal
from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servebook.gap_table import InFile
from servebook.read import aiperf_join, aiperf_piece, aiperf_split, line_blocks
from servebook.read.aiperf_join import join
from servebook.read.aiperf_piece import read_piece
from servebook.read.aiperf_records import object_of, parse, request
from servebook.read.aiperf_split import read_lines
from servebook.read.aiperf_summary import Settings
from servebook.read.aiperf_usual import Parser
from servebook.read.records import Requests
from servebook.read.spool import write
from servebook.read.values import gaps
from tests.read.samples import FIXTURES, failed, record
from tests.read.ways import block_of

SETTINGS = Settings(ignore_eos=True)


def careful(lines: list[bytes]) -> tuple[Any, ...]:
    out = Requests("run")
    return out, parse(list(enumerate(lines, 1)), out, SETTINGS)


def in_pieces(
    lines: list[bytes], cuts: list[int], of: Callable[[list[bytes]], Any] = list
) -> tuple[Any, ...]:
    out = Requests("run")
    edges = [0, *sorted(cut % (len(lines) + 1) for cut in cuts), len(lines)]
    pieces = [read_piece(of(lines[a:b]), SETTINGS, with_sent=True) for a, b in pairwise(edges)]
    return out, join(pickle.loads(pickle.dumps(pieces)), out)


def told(out: Requests, found: Any) -> tuple[Any, ...]:
    facts = [getattr(found, field.name) for field in fields(found)]
    return out.requests(), out.gaps().table, out.counts(), *facts


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def with_gaps(text: str, n: int = 0) -> bytes:
    """A record whose list of gaps has this text."""
    value = record(n)
    value["metrics"]["inter_chunk_latency"]["value"] = "@"
    return compact(value).replace(b'"@"', b"[" + text.encode() + b"]")


def check(lines: list[bytes], *cuts: int) -> None:
    expected = told(*careful(lines))
    assert told(*in_pieces(lines, [])) == expected
    cut = list(cuts or (1,))
    assert told(*in_pieces(lines, cut)) == expected
    # Of blocks, by the compiled library where it is there (test_aiperf_lists.py needs it).
    assert told(*in_pieces(lines, cut, in_blocks)) == expected


def in_blocks(lines: list[bytes]) -> list[memoryview]:
    return [block_of(lines[at : at + 3]) for at in range(0, len(lines), 3)]


RUNS = sorted(FIXTURES.rglob("profile_export.jsonl"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.parent.name)
def test_fixtures(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    check(lines, 3, 5)
    parser = Parser()
    for line in lines:  # ok requests with gaps have the usual form
        if request(object_of(line), SETTINGS)[0]["status"] == "ok" and b'"value":[' in line:
            assert len(parser.of_lines([line]).rows) == 1


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
    line = with_gaps(",".join(numbers))
    taken = Parser().of_lines([line])
    assert taken.at.tolist() == [0]
    np.testing.assert_array_equal(taken.rows.gap_ns, expected)


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
    check([with_gaps("1.5,2.5", 1), changed, with_gaps("3.5", 2)])


values = st.sampled_from(
    [None, True, False, 0, 1, -1, 4.0, 2.5, 0.5, 1e300, -1.5, 2**31, 2**53 + 1, 10**17, 2**63,
     10**30, 10**18, 1_795_972_677_000_000_000, "", "warmup", "a b", "\u0007", "\u00e9", [], [1],
     {}, {"value": 1}]
)  # fmt: skip
names = st.sampled_from(
    ["session_num", "x_request_id", "turn_index", "phase_index", "credit_issued_ns", "phase_kind",
     "request_start_ns", "request_end_ns", "benchmark_phase", "was_cancelled", "conversation_id",
     "credit_phase", "timestamp_ns", "new"]
)  # fmt: skip
metrics = st.sampled_from(
    ["time_to_first_token", "ttft", "request_latency", "input_sequence_length", "new",
     "output_sequence_length", "usage_completion_tokens", "usage_prompt_cache_read_tokens",
     "osl_mismatch_diff_pct", "inter_chunk_latency"]
)  # fmt: skip
units = st.sampled_from(["ms", "ns", "us", "s", "tokens", "", None, 5, "years"])
metric = st.fixed_dictionaries({"value": values | st.floats(0, 60), "unit": units}) | values


@given(
    st.lists(
        st.tuples(
            st.dictionaries(names, values, max_size=3),
            st.dictionaries(metrics, metric, max_size=3),
            st.sampled_from([0, 1, 1, 1, 2]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.integers(0, 6), max_size=2),
)
def test_any_values(
    changes: list[tuple[dict[str, Any], dict[str, Any], int]], cuts: list[int]
) -> None:
    lines = [compact(record(9))]
    for n, (about, measured, kind) in enumerate(changes):
        one = record(n // 2 if kind == 2 else n, metadata=about)
        one["metrics"] |= measured
        if not kind:
            one["error"] = {"code": 500, "type": "x"}
        lines.append(compact(one))
    check(lines, *cuts)


def test_lines_of_all_kinds_keep_their_order_and_numbers() -> None:
    lines = []
    for n in range(700):
        lines += [with_gaps(f"{n}.5,1.5", n)]
        if n % 5 == 0:
            lines += [b"", b"torn {", compact(failed(n + 1000, 500, "x")), with_gaps("1.5", n)]
        if n % 7 == 0:
            lines += [compact(record(n + 2000, metadata={"x_request_id": None}))]
    check(lines, 3, 500, 501, 900)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"value":[1.5]', b'"value":[1.5],"value":[2.5]'),
        (b'"value":[1.5]', b'"value":[1.5],"value":"@gaps@"'),
        (b'"value":[1.5]', b'"value":[1.5],"value":null'),
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


@pytest.mark.parametrize("beside", [0, 2**70])
@pytest.mark.parametrize("name", ["request_start_ns", "credit_issued_ns", "request_end_ns"])
def test_the_number_that_stands_for_null_is_no_null(name: str, beside: int) -> None:
    about = {name: -(2**63)}
    lines = [compact(record(0)), compact(record(1, metadata=about)), compact(record(2))]
    lines += [compact(record(3, metadata={"turn_index": beside}))]
    check(lines, 1, 2)
    out, found = in_pieces(lines, [])
    assert [(line, "expected" in why) for line, _, why in found.set_aside] == [(2, True)]
    assert out.requests()["request_id"].null_count == 0


def test_a_number_beyond_64_bits_beside_a_line_without_one() -> None:
    """No warning of it, which pytest makes an error, and the lines beside it stay usual ones."""
    abouts = [{"credit_issued_ns": value} for value in (None, 2**70, None, 2**63, -(2**63) - 1)]
    lines = [compact(record(n, metadata=about)) for n, about in enumerate(abouts)]
    check(lines, 1, 2)
    assert Parser().of_lines(lines).at.tolist() == [0, 2]


def test_many_lines_in_one_batch_keep_their_gaps() -> None:
    lists = [[f"{n}.{i}" for i in range(n % 7)] for n in range(3000)]
    lines = [with_gaps(",".join(numbers), n) for n, numbers in enumerate(lists)]
    check(lines)


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [b"", b"{torn"])
@pytest.mark.usefixtures("way")
def test_a_file_cut_into_ranges_for_processes(
    ending: bytes, last: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    lines = [with_gaps(",".join(f"{n}.{i}" for i in range(n % 7 + 1)), n) for n in range(120)]
    lines[30] = b"x" * 5000
    lines[100] = lines[99]
    path = tmp_path / "profile_export.jsonl"
    path.write_bytes(ending.join(lines) + ending + last)
    expected = told(*careful([*lines, last] if last else lines))
    for large, sizes, part in (
        (0, (700, 7000), 1000),
        (0, (4096, 4096), 50),
        (1 << 30, (9, 99), 9),
    ):
        monkeypatch.setattr(aiperf_split, "_LARGE_BYTES", large)
        monkeypatch.setattr(line_blocks, "RANGE_BYTES", sizes)
        monkeypatch.setattr(line_blocks, "_BLOCK", 100)
        monkeypatch.setattr(aiperf_piece, "_PART", part)
        out = Requests("run")
        found = read_lines(path, out, SETTINGS, with_sent=True)
        assert told(out, found) == expected
        assert (not large) == any(isinstance(part.data, InFile) for part in out.gaps().parts)
        del out
        assert not list((tmp_path / "cache").glob("spool/*"))


@pytest.mark.parametrize("rooms", [0, 3])
def test_gaps_without_room_for_files_stay_in_memory(
    rooms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(aiperf_split, "_LARGE_BYTES", 0)
    monkeypatch.setattr(line_blocks, "RANGE_BYTES", (700, 7000))
    monkeypatch.setattr(aiperf_piece, "_PART", 20)
    lines = [with_gaps(",".join(f"{n}.{i}" for i in range(n % 7 + 1)), n) for n in range(90)]
    path = tmp_path / "profile_export.jsonl"
    path.write_bytes(b"\n".join(lines))
    left: list[Path] = []

    def full(file: Path, data: Any, holder: object = None) -> InFile:
        if len(list(file.parent.glob("*.parquet"))) >= rooms:
            file.write_bytes(b"PAR1")
            left.append(file)
            raise OSError(28, "No space left on device")
        return write(file, data, holder)

    monkeypatch.setattr(aiperf_piece, "write", full)
    monkeypatch.setattr(aiperf_split, "as_done", lambda jobs, core_is_free: iter(()))
    out = Requests("run")
    found = read_lines(path, out, SETTINGS, with_sent=True)
    assert left
    assert not any(file.exists() for file in left)
    assert told(out, found) == told(*careful(lines))
    assert sum(isinstance(part.data, InFile) for part in out.gaps().parts) == rooms


def test_a_killed_process_costs_time_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(aiperf_split, "_LARGE_BYTES", 0)
    monkeypatch.setattr(line_blocks, "RANGE_BYTES", (700, 7000))
    lines = [with_gaps("1.5,2.5", n) for n in range(90)]
    path = tmp_path / "profile_export.jsonl"
    path.write_bytes(b"\n".join(lines))
    here = os.getpid()

    def dies(*args: Any, **named: Any) -> Any:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return read_piece(*args, **named)

    monkeypatch.setattr(aiperf_split, "read_piece", dies)
    out = Requests("run")
    found = read_lines(path, out, SETTINGS, with_sent=True)
    assert told(out, found) == told(*careful(lines))


def test_requests_whose_names_hash_alike_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [with_gaps("1.5", n % 7) for n in range(9)]
    expected = told(*careful(lines))
    monkeypatch.setattr(aiperf_join, "hash", lambda _: 7, raising=False)
    assert told(*in_pieces(lines, [2, 5])) == expected
    assert len(expected[3]) == 2  # set aside: the second records of two


@pytest.mark.parametrize("most", [1, 3000, 1 << 20])
def test_a_compressed_file_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(aiperf_split, "_LARGE_BYTES", 0)
    monkeypatch.setattr(aiperf_split, "_PIECE_BYTES", most)
    lines = [with_gaps("1.5,2.5", n % 8) for n in range(9)]
    lines[4] = b"{torn"
    path = tmp_path / "profile_export.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    out = Requests("run")
    found = read_lines(path, out, SETTINGS, with_sent=True)
    assert told(out, found) == told(*careful(lines))


def test_a_cut_compressed_file_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiperf_split, "_PIECE_BYTES", 1)
    path = tmp_path / "profile_export.jsonl.gz"
    content = gzip.compress(b"\n".join(with_gaps("1.5", n) for n in range(3000)))
    path.write_bytes(content[: len(content) // 2])
    out = Requests("run")
    found = read_lines(path, out, SETTINGS)
    assert len(out) > 100
    assert [kind for _, kind, _ in found.set_aside].count("rest of the file") == 1
