"""Lines of a known shape become rows by compiled code: the same as those that msgspec reads."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servebook.read import aiperf_lists, aiperf_shapes
from servebook.read.aiperf_columns import checked
from servebook.read.aiperf_rows import AT, LIMITS, MISSING
from servebook.read.aiperf_shapes import Shapes
from servebook.read.aiperf_usual import Parser
from tests.read.samples import FIXTURES, START, record
from tests.read.ways import block_of, needs_library

#: A shipped line of each file, and how many others have its shape.
RUNS = sorted(FIXTURES.rglob("profile_export.jsonl"))


def parser(*, with_sent: bool = False) -> Parser:
    """One that knows no shapes yet."""
    needs_library()
    aiperf_shapes._left.clear()
    return Parser(with_sent=with_sent)


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def changed(path: str, text: str, n: int = 1, **about: Any) -> bytes:
    """A record with a value of this text."""
    one = record(n, metadata=about)
    one["metrics"]["osl_mismatch_diff_pct"] = {"value": 0.5, "unit": "%"}
    one["metrics"]["other"] = {"value": 3.5, "unit": "%"}
    place = one
    *way, last = path.split(".")
    for name in way:
        place = place[name]
    assert last in place
    place[last] = "@"
    return compact(one).replace(b'"@"', text.encode("utf-8", "surrogatepass"))


def are_rows(lines: Sequence[bytes], *, with_sent: bool = False) -> list[bool]:
    """Which lines are rows; each of them is what msgspec makes of it."""
    known = parser(with_sent=with_sent)
    assert known.lists is not None
    block = block_of(lines)
    found = known.lists.take(block)
    is_row: list[bool] = found.is_row.tolist()
    own = [line for line, is_one in zip(lines, is_row, strict=True) if is_one]
    others = [known._usual(line) for line in own]
    assert None not in others, "a row that is no usual record"
    records, gaps = zip(*others, strict=True) if others else ((), ())  # type: ignore[arg-type]
    expected, good = checked(records, gaps, with_sent=with_sent)
    assert good.all(), "a row out of bounds"
    assert found.rows.request_id.equals(expected.request_id)
    assert found.rows.conversation.equals(expected.conversation)
    for name, at in AT.items():
        if name not in ("name_end", "talk_end"):
            np.testing.assert_array_equal(found.rows.values[:, at], expected.values[:, at], name)
    each = found.gaps()
    ns = [each[at] for at in np.flatnonzero(is_row).tolist()]
    np.testing.assert_array_equal(np.concatenate([found.gap_ns[:0], *ns]), expected.gap_ns)
    return is_row


MODEL = changed("metrics.other.value", "2.5", 0)


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("with_sent", [False, True])
def test_ok_requests_of_shipped_runs_are_rows(path: Any, with_sent: bool) -> None:
    lines = path.read_bytes().splitlines()
    usual = [parser().of_lines([line]).at.tolist() == [0] for line in lines]
    if with_sent:  # where a conversation is told
        usual = [
            one and b'"conversation_id":"' in line for one, line in zip(usual, lines, strict=True)
        ]
    assert are_rows(lines, with_sent=with_sent) == usual


METADATA = [f"metadata.{name}" for name in record()["metadata"]]
METRICS = [f"metrics.{name}.value" for name in [*record()["metrics"], "other"]]
PERCENT = "metrics.osl_mismatch_diff_pct.value"


@pytest.mark.parametrize(
    ("path", "text", "is_row"),
    [
        ("metadata.session_num", "0", True),
        ("metadata.session_num", "99999999", True),
        *(("metadata.session_num", text, False) for text in
          ("-1", "-0", "00", "01", "1.0", "1e3", "100000000", "18446744073709551617", "null",
           "true", '"1"', "", " 1", "1 ", "[1]", "{}", "1,2", "99999999999999999999")),
        ("metadata.request_start_ns", f"{START}", True),
        ("metadata.request_start_ns", "1000000000000000000", True),
        ("metadata.request_start_ns", "999999999999999999", False),
        ("metadata.request_start_ns", "4102444800000000000", False),
        ("metadata.request_end_ns", "1000000000000000000", True),  # the latency decides
        ("metadata.credit_issued_ns", "4102444799999999999", True),
        ("metadata.x_request_id", '"a b~"', True),
        *(("metadata.x_request_id", text, False) for text in
          ('""', '"a\x7f"', '"a\t"', '"a\x00"', '"a\\u0062"', '"é"', '"a', "5", "null")),
        ("metadata.benchmark_phase", '"profiling"', True),
        ("metadata.benchmark_phase", '"other"', False),
        ("metadata.was_cancelled", "true", False),
        ("metrics.request_latency.value", "32", True),
        ("metrics.request_latency.value", "32.000000499", False),  # too near to a half for a float
        ("metrics.request_latency.value", "32.000000498", True),
        ("metrics.request_latency.value", "32.00000050200000000000000", True),
        ("metrics.request_latency.value", "2199023.2555", True),
        ("metrics.request_latency.value", "2199023.3", False),
        ("metrics.request_latency.value", "20", True),
        ("metrics.request_latency.value", "19.9999996", True),  # 20 ms as whole ns
        ("metrics.request_latency.value", "19.9999994", False),  # before the first token
        *(("metrics.request_latency.value", text, False) for text in
          ("-1.5", "1e2", "032.5", "32.", ".5", "32.5e0", "NaN", '"32"', "null", "12345678.5")),
        ("metrics.output_sequence_length.value", "999999999", True),
        ("metrics.output_sequence_length.value", "4.00", True),
        *(("metrics.output_sequence_length.value", text, False) for text in
          ("1000000000", "4.5", "4.", "4.0e0", "-4", "4.00000000000000000000001")),
        (PERCENT, "-12.5", True),
        (PERCENT, "-99.99", True),
        (PERCENT, "-99.999", False),
        (PERCENT, "-100", True),  # nothing is known of what was asked for then
        (PERCENT, "-250.75", True),
        (PERCENT, "33.33333333333333570180911920033395290374755859375", True),
        (PERCENT, "1e2", False),
        (PERCENT, "-0.0", True),
        (PERCENT, "-0", False),
        ("metrics.other.value", "-1.5e-07", True),
        ("metrics.other.value", "1E+99", True),
        ("metrics.other.value", "-0", True),
        ("metrics.other.value", "123456789012345678901234567890.123456789012345678901234", True),
        *(("metrics.other.value", text, False) for text in
          ("1e999", "1e", "1e+", "-", "--1", "01", "-01", "1.", "1.e5", "+1", ".5", "1_0", "0x10",
           "inf", "-inf", '"x"', "null", "[]", "1 ", " 1", "1.5.5")),
        ("metrics.inter_chunk_latency.value", "[1.5,2.5]", True),
        ("metrics.inter_chunk_latency.value", "[1.5]", True),
        *(("metrics.inter_chunk_latency.value", text, False) for text in
          ("[]", "[1.5", "1.5", "[1e-05]", "[1]", "[2500.5]", "null", "[1.5]]", "[1.5,]")),
    ],
)  # fmt: skip
def test_which_values_make_a_row(
    path: str, text: str, is_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiperf_shapes, "_MOST", 1)
    assert are_rows([MODEL, changed(path, text), MODEL]) == [True, is_row, True]


numbers = st.one_of(
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,25})?([eE][-+]?[0-9]{1,3})?\Z"),
    st.integers(0, 10**15).map(lambda ns: repr(ns * 1e-9 * 1e3)),
    st.integers(0, 10**19).map(str),
    st.floats(-120, 10**7).map(repr),
    st.text("0123456789.-+eE ", max_size=12),
    st.integers(0, 2**42).flatmap(
        lambda ns: st.sampled_from(["4", "5", "499", "501", "4989", "5011", "4999999999999"]).map(
            lambda end: f"{ns // 10**6}.{ns % 10**6:06d}{end}"
        )
    ),
)
strings = st.text(st.characters(max_codepoint=0x100), max_size=40).map(lambda text: f'"{text}"')
texts = numbers | strings | st.sampled_from(["null", "true", "false", "{}", "[]", "[1.5]", ""])


@given(st.sampled_from([*METADATA, *METRICS, PERCENT]), st.lists(texts, min_size=1, max_size=6))
@example(PERCENT, ["-3.3000000000000003", "0.1", "8.4999999999999999999999"])
def test_any_value_makes_the_row_that_msgspec_makes(path: str, texts: list[str]) -> None:
    lines = [changed(path, text.replace("\n", "")) for text in texts]
    are_rows([MODEL, *lines, MODEL])
    are_rows([*lines, MODEL])


@given(st.lists(numbers, min_size=1, max_size=10))
def test_percents_are_the_very_floats(numbers: list[str]) -> None:
    known = parser()
    assert known.lists is not None
    found = known.lists.take(block_of([MODEL, *(changed(PERCENT, one) for one in numbers)]))
    bits = iter(found.rows.column("percent").tolist())
    next(bits)
    for text, is_row in zip(numbers, found.is_row.tolist()[1:], strict=True):
        if is_row:
            assert next(bits) == struct.unpack("<q", struct.pack("<d", float(text)))[0]


@given(
    st.integers(0, len(MODEL)),
    st.integers(0, 40),
    st.binary(max_size=12).map(lambda piece: piece.replace(b"\n", b"")),
)
def test_a_line_changed_anywhere_is_no_row_unless_msgspec_reads_it(
    at: int, n: int, piece: bytes
) -> None:
    line = MODEL[:at] + piece + MODEL[at + n :]
    assert are_rows([MODEL, line, MODEL])[::2] == [True, True]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"metadata":{', b'"metadata":{"session_num":7,'),  # twice
        (b'"other":{"value":2.5', b'"other":{"value":2.5,"value":3.5'),
        (b'"other":{"value":2.5', b'"other":{"value":[2.5]'),
        (b'"time_to_first_token":{"value":20.0,"unit":"ms"}',
         b'"time_to_first_token":{"value":0.02,"unit":"s"}'),
        (b'"time_to_first_token":', b'"ttft":{"value":9.0,"unit":"ms"},"time_to_first_token":'),
        (b'"x_request_id":"request-0"', b'"x_request_id":"request-0","more":["a"]'),
    ],
)  # fmt: skip
def test_lines_of_other_shapes_are_read_as_before(old: bytes, new: bytes) -> None:
    assert MODEL.count(old) == 1
    assert are_rows([MODEL.replace(old, new)] * 2) == [False, False]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"credit_issued_ns":', b'"credit_issued_ns":null,"more":'),
        (b'"request_latency":{', b'"latency":{'),  # the end is told
        (b'"unit":"%"', b'"unit":"%","more":{"x":{"y":"z","n":null}}'),
        (b'{"value":4,', b'{ "value" : 4 , '),
        (b',"was_cancelled":false', b""),
    ],
)
def test_lines_of_new_shapes_are_rows_from_the_first_on(old: bytes, new: bytes) -> None:
    line = MODEL.replace(old, new)
    assert are_rows([line] * 3) == [True] * 3
    assert are_rows([MODEL, line, MODEL, line]) == [True] * 4


def test_an_end_before_the_start_is_no_row_where_there_is_no_latency() -> None:
    lines = [
        changed("metrics.other.value", "1", request_end_ns=START + 10**9 + ns).replace(
            b'"request_latency":{', b'"latency":{'
        )
        for ns in (5, 0, -1)
    ]
    assert are_rows(lines) == [True, True, False]


def test_warmup_and_conversations_of_rows() -> None:
    phases: list[dict[str, Any]] = [
        {"benchmark_phase": "warmup", "conversation_id": "a"},
        {"phase_kind": "warmup", "conversation_id": "b"},
        {"phase_kind": "profiling", "benchmark_phase": "warmup", "conversation_id": ""},
        {"phase_kind": None, "benchmark_phase": "warmup", "conversation_id": "c"},
        {"phase_kind": "", "benchmark_phase": "", "credit_phase": "warmup", "conversation_id": "d"},
        {"phase_kind": "warmup"},
        {"phase_kind": "warmup", "conversation_id": None},
    ]
    lines = [compact(record(n, metadata=about)) for n, about in enumerate(phases * 2)]
    assert are_rows(lines) == [True] * 14
    assert are_rows(lines, with_sent=True) == [*[True] * 5, False, False] * 2
    taken = parser(with_sent=True).of_block(block_of(lines))
    assert taken.rows.column("warmup").tolist() == [1, 1, 0, 1, 1, 1, 1] * 2
    talks = ["a", "b", "", "c", "d", "None", "None"] * 2
    assert taken.rows.conversation.to_pylist() == talks


def test_columns_of_a_row() -> None:
    needs_library()
    line = changed("metrics.other.value", "1", turn_index=3, phase_index=1)
    rows = parser().of_block(block_of([line])).rows
    found = {name: int(rows.column(name)[0]) for name in AT}
    start = START + 10**9
    assert found | {"name_end": 0, "talk_end": 0} == {
        "start_ns": start, "end_ns": start + 40_000_000, "ttft_ns": 20_000_000,
        "latency_ns": 32_000_000, "percent": 0x3FE0000000000000, "gaps": 3, "name_end": 0,
        "talk_end": 0, "warmup": 0, "scheduled_ns": start - 1_000_000, "session": 1, "turn": 3,
        "phase_index": 1, "isl": 16, "osl": 4, "cached_tokens": MISSING, "usage": MISSING,
    }  # fmt: skip
    assert rows.gap_ns.tolist() == [5_000_000, 7_000_000, 0]
    assert len(LIMITS) == len(AT)


def test_shapes_are_few_and_lines_of_others_are_read_nevertheless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aiperf_shapes, "_MOST", 3)
    lines = [
        MODEL.replace(b'"other":', b'"other%d":' % (n % 5)).replace(b"t-0", b"t-%d" % n)
        for n in range(20)
    ]
    assert are_rows(lines) == [True, True, True, False, False] * 4
    taken = parser().of_block(block_of(lines))
    assert taken.rows.request_id.to_pylist() == [f"request-{n}" for n in range(20)]
    assert taken.at.tolist() == list(range(20))


def test_after_many_lines_that_have_no_shape_only_some_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aiperf_shapes, "_TRIES", 2)
    monkeypatch.setattr(aiperf_shapes, "_COST", 1)
    without = MODEL.replace(b'"other":{"value":2.5', b'"other":{"value":[2.5]')
    assert are_rows([without, MODEL, MODEL]) == [False, True, True]
    assert are_rows([without, without, MODEL, MODEL]) == [False] * 4
    known = parser()
    for _ in range(2):
        assert known.of_block(block_of([*[without] * 20, MODEL])).at.tolist() == [*range(21)]
    assert known.lists is not None
    assert known.lists.take(block_of([MODEL])).is_row.tolist() == [True]


@pytest.mark.parametrize(
    "values",
    [
        ["1.5", "2.5", "3.5"],
        ["1.5", "-2.5", "3.5"],  # of these the second is no usual one
        ["1.5", "1e5", "3.5"],
        ["1.5", '"x"', "3.5"],
        ["-1.5"],
    ],
)
@pytest.mark.parametrize("with_sent", [False, True])
def test_lines_without_a_shape_are_what_they_are_one_by_one(
    values: list[str], with_sent: bool
) -> None:
    lines = [
        changed("metrics.request_latency.value", text, n, conversation_id=f"c{n}").replace(
            b'"other":{"value":3.5', b'"other":{"value":[3.5]'
        )
        for n, text in enumerate(["32.5", *values])
    ]
    for n in range(len(lines) + 1):
        known = parser(with_sent=with_sent)
        taken = known.of_block(block_of(lines[:n])) if n else known.of_lines([])
        expected = parser(with_sent=with_sent).of_lines(lines[:n])
        assert taken.at.tolist() == expected.at.tolist()
        np.testing.assert_array_equal(taken.rows.values, expected.rows.values)
        assert taken.rows.gap_ns.tolist() == expected.rows.gap_ns.tolist()
        assert taken.rows.request_id.equals(expected.rows.request_id)
        assert taken.rows.conversation.equals(expected.rows.conversation)


def test_a_process_keeps_shapes_for_the_next_piece_unless_they_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = parser()
    assert first.lists is not None
    first.of_block(block_of([MODEL]))
    first.done()
    shapes = first.lists._shapes
    second, third = Parser(), Parser()
    assert second.lists is not None
    assert third.lists is not None
    assert second.lists._shapes is shapes
    assert third.lists._shapes is not shapes
    monkeypatch.setattr(aiperf_shapes, "_MOST", 1)
    second.done()
    assert aiperf_shapes.again(with_sent=False) is not shapes
    second.done()
    assert aiperf_shapes.again(with_sent=True) is not shapes


def test_a_known_shape_is_not_added_again() -> None:
    shapes = Shapes()
    rest = MODEL.replace(b"[5.0,7.0,0.0]", b"null")
    assert shapes.add(rest, True)
    n = len(shapes.nodes)
    assert not shapes.add(rest.replace(b"2.5", b"-3"), True)
    assert len(shapes.nodes) == n
    assert shapes.add(rest.replace(b'"other"', b'"another"'), True)
    assert n < len(shapes.nodes) < 2 * n
    assert not shapes.add(rest.replace(b'"other"', b'"%b"' % (b"x" * 20_000)), True)


@pytest.mark.parametrize("n_rows", [1, 2, 7])
def test_more_rows_than_fit_at_once(n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aiperf_lists, "_SOME_LINES", n_rows)
    lines = [compact(record(n)) for n in range(20)]
    lines[9] = b""
    taken = parser(with_sent=True).of_block(block_of(lines))
    names = [f"request-{n}" for n in range(20) if n != 9]
    assert taken.rows.request_id.to_pylist() == names
    assert taken.at.tolist() == [n for n in range(20) if n != 9]
    assert taken.rows.gap_ns.tolist() == [5_000_000, 7_000_000, 0] * 19
