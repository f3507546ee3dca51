from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from servebook.read.discover import read_tree
from servebook.tables import Tables
from tests.read.samples import (
    START,
    failed,
    record,
    summary,
    write_json,
    write_lines,
)

MS = 1_000_000

pytestmark = pytest.mark.usefixtures("way")


def run_of(tables: Tables) -> dict[str, Any]:
    (run,) = tables.runs.to_pylist()
    return run


def read_records(tmp_path: Path, *records: Any, beside: Any = None) -> Tables:
    write_lines(tmp_path / "run" / "profile_export.jsonl", *records)
    if beside is not None:
        write_json(tmp_path / "run" / "profile_export_aiperf.json", beside)
    return read_tree(tmp_path)


def test_times_of_a_request_follow_from_its_start(tmp_path: Path) -> None:
    tables = read_records(tmp_path, record(0), record(1), beside=summary())
    first, second = tables.requests.to_pylist()
    assert first | {"flags": None} == {
        "run_id": "run",
        "request_id": "request-0",
        "phase": "profiling",
        "status": "ok",
        "scheduled_ns": START - MS,
        "start_ns": START,
        "first_token_ns": START + 20 * MS,
        "end_ns": START + 32 * MS,  # the last chunk, not the later end of the stream
        "isl": 16,
        "osl": 4,
        "osl_requested": None,
        "cached_tokens": None,
        "error_kind": None,
        "flags": None,
    }
    assert second["start_ns"] == START + 10**9
    gaps = tables.gaps.to_pydict()
    assert gaps["gap_ns"] == [5 * MS, 7 * MS, 0] * 2
    assert gaps["index"] == [0, 1, 2] * 2
    assert gaps["end_ns"][:3] == [START + 25 * MS, START + 32 * MS, START + 32 * MS]
    assert gaps["request_id"] == ["request-0"] * 3 + ["request-1"] * 3


def test_run_says_what_was_asked_for(tmp_path: Path) -> None:
    run = run_of(read_records(tmp_path, record(0), record(1), beside=summary()))
    expected = {
        "run_id": "run",
        "client": "AIPerf",
        "client_version": "0.13.0",
        "schema_version": "1.4",
        "path": "run/profile_export.jsonl",
        "model": "a-model",
        "concurrency": 8,
        "request_rate": None,
        "isl_requested": 16,
        "osl_requested": 4,
        "streaming": True,
        "tokens_counted_by": "server",
        "start_ns": START,
        "end_ns": START + 10**9 + 32 * MS,
        "clock": "epoch",
        "n_requests": 2,
        "n_ok": 2,
        "n_failed": 0,
        "n_cancelled": 0,
        "n_lost": 0,
        "n_warmup": 0,
        "n_gaps": 6,
        "complete": True,
        "level": "records",
        "workload": "mixed",
        "notes": [],
    }
    assert {key: run[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("bad", "status", "kind"),
    [
        (failed(0, 500, "Internal Server Error"), "failed", "http_500"),
        (failed(0, 503, "Service Unavailable"), "failed", "http_503"),
        (failed(0, None, "ClientPayloadError", "not completed: 400"), "failed", "stream_broken"),
        (failed(0, None, "TimeoutError"), "failed", "timeout"),
        (failed(0, None, "ClientConnectorError", "10.0.0.1:8000"), "failed", "connection"),
        (failed(0, None, "KeyError", "choices"), "failed", "other"),
        (failed(0, 502, "SSEResponseError", "engine died"), "failed", "stream_error"),
        (failed(0, 499, "RequestCancellationError"), "cancelled", "cancelled"),
        (failed(0, None, "X", was_cancelled=True), "cancelled", "cancelled"),
    ],
)
def test_error_kinds(tmp_path: Path, bad: Any, status: str, kind: str) -> None:
    tables = read_records(tmp_path, bad, record(1))
    first = tables.requests.to_pylist()[0]
    assert (first["status"], first["error_kind"]) == (status, kind)
    assert first["end_ns"] == START + 40 * MS
    assert run_of(tables)["n_" + status] == 1


def test_success_without_a_token_count_is_a_stream_error(tmp_path: Path) -> None:
    cut = record(0)
    del cut["metrics"]["output_sequence_length"]
    tables = read_records(tmp_path, cut, record(1))
    assert tables.requests["status"].to_pylist() == ["failed", "ok"]
    assert tables.requests["error_kind"].to_pylist() == ["stream_error", None]
    assert run_of(tables)["n_gaps"] == 6  # its gaps are kept


def test_warm_up_is_kept_apart(tmp_path: Path) -> None:
    warm = record(0, metadata={"benchmark_phase": "warmup", "x_request_id": "w"})
    tables = read_records(tmp_path, warm, record(5))
    run = run_of(tables)
    assert (run["n_warmup"], run["n_requests"], run["n_gaps"]) == (1, 1, 3)
    assert run["start_ns"] == START + 5 * 10**9
    assert tables.gaps.num_rows == 6


def test_old_layout_with_nulls_and_old_tags(tmp_path: Path) -> None:
    old = {
        "metadata": {
            "x_request_id": "a",
            "timestamp_ns": START,
            "credit_phase": "profiling",
            "cancellation_time_ns": None,
        },
        "metrics": {
            "ttft": {"value": 20.0, "unit": "ms"},
            "request_latency": {"value": 32.0, "unit": "ms"},
            "inter_chunk_latency": None,
            "output_sequence_length": {"value": 4, "unit": "tokens"},
        },
        "error": None,
    }
    tables = read_records(tmp_path, old)
    (row,) = tables.requests.to_pylist()
    assert (row["status"], row["first_token_ns"]) == ("ok", START + 20 * MS)
    assert run_of(tables)["n_gaps"] == 0


def test_short_output_is_flagged_only_under_ignore_eos(tmp_path: Path) -> None:
    short = record(0)
    short["metrics"]["osl_mismatch_diff_pct"] = {"value": -50.0, "unit": "%"}
    for ignore, flags in ((True, ["short_output"]), (False, [])):
        asked = summary()
        asked["input_config"]["endpoint"]["extra"] = {"ignore_eos": ignore}
        tables = read_records(tmp_path, short, beside=asked)
        (row,) = tables.requests.to_pylist()
        assert (row["status"], row["osl_requested"], row["flags"]) == ("ok", 8, flags)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"metadata": {"request_sta', "torn"),
        (b"not json", "no valid JSON"),
        (b"[1, 2]", "found a list"),
        (b"{}", "'metadata'"),
        (b'{"metadata": {}, "metrics": {}}', "'request_start_ns'"),
        (b'{"metadata": {"request_start_ns": 12}, "metrics": {}}', "'request_start_ns'"),
        (b'{"metadata": {"request_start_ns": NaN}}', "NaN"),
        (b"\xff\xfe\x00", "no valid JSON"),
        (b"[" * 3000, "no valid JSON"),
        (json.dumps(record(0)).encode(), "a second record of the request of line 1"),
        (json.dumps(record(9)).replace("20.0", '"x"').encode(), "'time_to_first_token'"),
        (json.dumps(record(9)).replace("20.0", "99.0").encode(), "before the end"),
        (json.dumps(record(9)).replace("5.0", "-5.0").encode(), "'inter_chunk_latency'"),
        (json.dumps(record(9)).replace("5.0", "null").encode(), "'inter_chunk_latency'"),
        (json.dumps(record(9)).replace("32.0", "Infinity").encode(), "Infinity"),
    ],
)
def test_bad_lines_are_set_aside(tmp_path: Path, line: bytes, reason: str) -> None:
    tables = read_records(tmp_path, record(0), line, record(2))
    (aside,) = tables.set_aside.to_pylist()
    assert (aside["path"], aside["line"]) == ("run/profile_export.jsonl", 2)
    assert reason in aside["reason"]
    assert tables.requests.num_rows == 2


def test_nothing_usable_is_one_refusal_that_names_the_first_line(tmp_path: Path) -> None:
    tables = read_records(tmp_path, b"", b'{"metadata": {}}', b"x")
    (refused,) = tables.refused.to_pylist()
    assert refused["path"] == "run/profile_export.jsonl"
    assert "line 2" in refused["reason"]
    assert "2 lines" in refused["reason"]
    assert tables.runs.num_rows == 0


def test_missing_session_numbers_are_lost_requests(tmp_path: Path) -> None:
    run = run_of(read_records(tmp_path, record(0), record(4), beside=summary()))
    assert run["n_lost"] == 3
    assert "at least 3" in run["notes"][0]
    run = run_of(read_records(tmp_path, record(0), b"torn", record(2), beside=summary()))
    assert run["n_lost"] == 0  # the torn line explains the missing number


def test_killed_run_is_incomplete_and_cannot_tell_its_lost_requests(tmp_path: Path) -> None:
    run = run_of(read_records(tmp_path, record(0), record(1)))
    assert (run["complete"], run["n_lost"], run["level"]) == (False, None, "records")
    assert "no summary" in run["notes"][0]


def test_requests_that_a_deadline_kept_back_are_not_lost(tmp_path: Path) -> None:
    asked = summary()
    asked["input_config"]["phases"][1] |= {"requests": 1000, "duration": 2.0}
    assert run_of(read_records(tmp_path, record(0), record(1), beside=asked))["n_lost"] is None
    asked["input_config"]["phases"][1] = {"kind": "profiling", "requests": 3}
    assert run_of(read_records(tmp_path, record(0), record(1), beside=asked))["n_lost"] == 1


def test_damaged_summary_does_not_cost_the_records(tmp_path: Path) -> None:
    write_lines(tmp_path / "profile_export.jsonl", record(0))
    text = json.dumps(summary(), indent=2)
    (tmp_path / "profile_export_aiperf.json").write_text(text[: len(text) // 2])
    tables = read_tree(tmp_path)
    assert run_of(tables)["n_ok"] == 1
    (aside,) = tables.set_aside.to_pylist()
    assert aside["path"] == "profile_export_aiperf.json"


def test_summary_alone_is_a_run_without_records(tmp_path: Path) -> None:
    write_json(tmp_path / "r" / "profile_export_aiperf.json", summary())
    tables = read_tree(tmp_path)
    run = run_of(tables)
    assert (run["level"], run["n_requests"], run["n_ok"]) == ("summary", 2, 2)
    assert (run["n_gaps"], run["start_ns"], run["clock"]) == (None, None, "none")
    assert tables.requests.num_rows == 0
    assert json.loads(run["native"])["e2e_mean_ms"] == 32.0


def test_renamed_prefix(tmp_path: Path) -> None:
    write_lines(tmp_path / "foo.jsonl", record(0))
    write_json(tmp_path / "foo.json", summary())
    write_lines(tmp_path / "bar.jsonl", record(1))
    for twin in ("foo.csv", "foo_timeslices.csv", "foo_gpu_telemetry.jsonl"):
        (tmp_path / twin).write_text("x")
    tables = read_tree(tmp_path)
    assert tables.refused.num_rows == 0
    runs = {run["run_id"]: run["client_version"] for run in tables.runs.to_pylist()}
    assert runs == {"foo": "0.13.0", "bar": None}


def test_compressed_records(tmp_path: Path) -> None:
    data = b"".join(json.dumps(record(n)).encode() + b"\n" for n in range(20))
    (tmp_path / "profile_export.jsonl.gz").write_bytes(gzip.compress(data, mtime=0))
    assert run_of(read_tree(tmp_path))["n_ok"] == 20


FIRST, LAST = 1.780507374197372e18, 1.7805092011363612e18


@pytest.mark.parametrize(
    ("first", "last", "clock"),
    [
        ({"unit": "ns", "avg": FIRST}, {"unit": "ns", "avg": LAST}, "epoch"),
        ({"unit": "ns", "avg": LAST}, {"unit": "ns", "avg": FIRST}, "none"),
        ({"unit": "ms", "avg": FIRST}, {"unit": "ns", "avg": LAST}, "none"),
        ({"unit": "ns", "avg": FIRST / 1e6}, {"unit": "ns", "avg": LAST}, "none"),
        ({"unit": "ns", "avg": 1e300}, {"unit": "ns", "avg": LAST}, "none"),
        (FIRST, LAST, "none"),
        ({"unit": "ns", "avg": FIRST}, None, "none"),
    ],
)
def test_a_summary_that_tells_first_start_and_last_end_has_a_place(
    tmp_path: Path, first: Any, last: Any, clock: str
) -> None:
    told = summary(min_request_timestamp=first, max_response_timestamp=last)
    (tmp_path / "profile_export_aiperf.json").write_text(json.dumps(told))
    run = run_of(read_tree(tmp_path))
    assert (run["level"], run["clock"]) == ("summary", clock)
    if clock == "epoch":
        assert (run["start_ns"], run["end_ns"]) == (int(FIRST), int(LAST))
    else:
        assert run["start_ns"] is run["end_ns"] is None


def test_a_summary_cut_short_in_its_compression_names_the_way_out_once(tmp_path: Path) -> None:
    write_lines(tmp_path / "profile_export.jsonl", record(0))
    packed = gzip.compress(json.dumps(summary()).encode(), mtime=0)
    (tmp_path / "profile_export_aiperf.json.gz").write_bytes(packed[: len(packed) // 2])
    tables = read_tree(tmp_path)
    [reason] = tables.set_aside["reason"].to_pylist()
    assert reason.count("copy the file again") == reason.count("expected") == 1
    (tmp_path / "profile_export.jsonl").unlink()
    for row in read_tree(tmp_path).refused.to_pylist():
        assert row["reason"].count("copy the file again") <= 1


def test_compressed_stream_cut_short_is_set_aside(tmp_path: Path) -> None:
    data = b"".join(json.dumps(record(n)).encode() + b"\n" for n in range(300))
    packed = gzip.compress(data, mtime=0)
    (tmp_path / "profile_export.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    tables = read_tree(tmp_path)
    assert 0 < run_of(tables)["n_ok"] < 300
    assert "cut short" in tables.set_aside.to_pylist()[-1]["reason"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_byte_order_marks(tmp_path: Path, encoding: str) -> None:
    text = json.dumps(record(0)) + "\n"
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    (tmp_path / "profile_export.jsonl").write_bytes((mark + text).encode(encoding))
    tables = read_tree(tmp_path)
    assert run_of(tables)["n_ok"] == 1
    assert tables.set_aside.num_rows == 0
