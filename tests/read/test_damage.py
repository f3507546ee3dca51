"""Whatever happens to a file, the records in it are used or set aside, and nothing else raises."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from servebook.read.discover import read_tree
from servebook.read.errorkind import error_kind
from servebook.read.json_objects import objects
from servebook.tables import Tables
from tests.read.samples import FIXTURES, record, vllm_result

RECORDS = (FIXTURES / "aiperf_cancel" / "profile_export.jsonl").read_bytes()
RAW = (FIXTURES / "aiperf_cancel" / "profile_export_raw.jsonl").read_bytes()[:9000]
SUMMARY = (FIXTURES / "aiperf_cancel" / "profile_export_aiperf.json").read_bytes()
APPENDED = b"\n".join(
    json.dumps(vllm_result(max_concurrency=c), indent=indent).encode()
    for c, indent in ((2, None), (4, 2))
)

JUNK = st.one_of(
    st.binary(max_size=60).map(lambda b: b.replace(b"\n", b" ").replace(b"\r", b" ")),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["metadata", "metrics", "error", "request_start_ns", "x_request_id"]
                ),
                inner,
                max_size=3,
            )
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)


def read_bytes(**files: bytes) -> Tables:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name.replace("__", ".")).write_bytes(content)
        return read_tree(Path(folder))


def lines_in(content: bytes) -> int:
    return sum(1 for line in content.split(b"\n") if line.strip())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(RECORDS)))
def test_records_cut_anywhere(cut: int) -> None:
    tables = read_bytes(profile_export__jsonl=RECORDS[:cut], profile_export_aiperf__json=SUMMARY)
    used = tables.requests.num_rows + tables.set_aside.num_rows
    assert used == lines_in(RECORDS[:cut])
    assert tables.runs.num_rows == 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(SUMMARY)))
def test_summary_cut_anywhere(cut: int) -> None:
    tables = read_bytes(profile_export__jsonl=RECORDS, profile_export_aiperf__json=SUMMARY[:cut])
    assert tables.runs["n_ok"].to_pylist() == [17]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, len(RAW)))
def test_raw_cut_anywhere(cut: int) -> None:
    tables = read_bytes(profile_export_raw__jsonl=RAW[:cut])
    if tables.runs.num_rows:
        used = tables.requests.num_rows + tables.set_aside.num_rows
        assert used == lines_in(RAW[:cut])
    else:
        assert tables.refused.num_rows + tables.set_aside.num_rows >= 1 or cut < 30


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(APPENDED)))
def test_appended_results_cut_anywhere(cut: int) -> None:
    tables = read_bytes(result__json=APPENDED[:cut])
    whole = sum(1 for _, value, _ in objects(APPENDED[:cut].decode()) if value is not None)
    assert tables.runs.num_rows == whole
    assert tables.requests.num_rows == 3 * whole


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(JUNK, st.integers(0, 3)), max_size=12))
def test_junk_between_records(parts: list[bytes | int]) -> None:
    good = [json.dumps(record(n)).encode() for n in range(4)]
    lines = [good[0], *(good[part] if isinstance(part, int) else part for part in parts)]
    content = b"\n".join(lines)
    tables = read_bytes(profile_export__jsonl=content)
    assert tables.requests.num_rows + tables.set_aside.num_rows == lines_in(content)
    assert len(set(tables.requests["request_id"].to_pylist())) == tables.requests.num_rows


#: The lists whose slots are requests.
LISTS = ["ttfts", "itls", "output_lens", "input_lens", "errors", "start_times", "latencies"]
SLOTS = st.sampled_from([None, "", "x", -1, 0, 1, 1e300, float("nan"), True, [], [1, "a"], {}])


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(LISTS),
        st.one_of(SLOTS, st.lists(SLOTS, min_size=3, max_size=3)),
    ),
    st.dictionaries(
        st.sampled_from(["num_prompts", "completed", "failed", "duration", "mean_ttft_ms"]), SLOTS
    ),
)
def test_odd_values_in_a_result(lists: dict[str, object], scalars: dict[str, object]) -> None:
    result = {**vllm_result(), **lists, **scalars}
    tables = read_bytes(result__json=json.dumps(result).encode())
    slots = max((len(v) for k in LISTS if isinstance(v := result.get(k), list)), default=0)
    for run in tables.runs.to_pylist():
        if run["level"] == "records":
            assert tables.requests.num_rows + tables.set_aside.num_rows == slots


@settings(max_examples=60, deadline=None)
@given(st.text(), st.none() | st.integers(0, 600))
def test_error_kinds_are_words_of_ours(text: str, code: int | None) -> None:
    kind = error_kind(code, text)
    known = {"cancelled", "timeout", "stream_broken", "connection", "stream_error", "other"}
    assert kind in known or (kind.startswith("http_") and kind[5:].isdigit())
