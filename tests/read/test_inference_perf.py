from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.measure.native import compare
from servebook.measure.runs import run_metrics
from servebook.read.discover import discover, read_tree
from servebook.tables import Tables
from tests.read.samples import JUNK_VALUES

FIXTURE = Path(__file__).parents[1] / "fixtures" / "clients" / "inference_perf"
RECORDS = "per_request_lifecycle_metrics.json"
MS = 1_000_000


def call(start: float = 100.0, times: Any = (0.02, 0.03, 0.03, 0.05), **changes: Any) -> Any:
    """Four tokens in three chunks: TTFT 20 ms, gaps of 10 and 20 ms, read to its end at 60 ms."""
    stamps = [start + t for t in times]
    record: dict[str, Any] = {
        "start_time": start,
        "end_time": start + 0.06,
        "request": '{"prompt": "SECRET"}',
        "response": "SECRET",
        "info": {
            "request_metrics": {"text": {"input_tokens": 16}},
            "response_metrics": {
                "output_tokens": len(stamps),
                "server_usage": {"completion_tokens": len(stamps)},
                "chunk_times": sorted(set(stamps)),
                "output_token_times": stamps,
            },
        },
        "error": None,
    }
    return record | changes


def report(calls: list[Any], **load: Any) -> dict[str, Any]:
    """What the client would report of these calls, all of them ok."""
    took = [c["end_time"] - c["start_time"] for c in calls]
    return {
        "load_summary": {"count": len(calls), **load},
        "successes": {
            "count": len(calls),
            "latency": {
                "request_latency": {
                    "mean": sum(took) / len(took),
                    "min": min(took),
                    "max": max(took),
                }
            },
        },
        "failures": {"count": 0, "request_latency": None},
    }


def read(folder: Path, calls: Any, **reports: Any) -> Tables:
    (folder / RECORDS).write_text(calls if isinstance(calls, str) else json.dumps(calls, indent=2))
    for name, content in reports.items():
        (folder / f"{name}_lifecycle_metrics.json").write_text(json.dumps(content))
    return read_tree(folder)


def test_tokens_of_a_chunk_have_one_time(tmp_path: Path) -> None:
    calls = [call(), call(101.0)]
    tables = read(tmp_path, calls, summary=report(calls))
    first, second = tables.requests.to_pylist()
    assert (first["start_ns"], first["first_token_ns"], first["end_ns"]) == (0, 20 * MS, 50 * MS)
    assert (second["start_ns"], second["end_ns"]) == (1000 * MS, 1050 * MS)
    assert (first["isl"], first["osl"], first["status"]) == (16, 4, "ok")
    gaps = tables.gaps["gap_ns"].to_pylist()
    assert np.allclose(gaps, [10 * MS, 20 * MS] * 2, atol=1)
    assert "SECRET" not in str(tables.requests.to_pylist()) + str(tables.runs.to_pylist())
    (run,) = tables.runs.to_pylist()
    assert (run["clock"], run["level"], run["n_lost"], run["n_gaps"]) == (
        "relative",
        "records",
        0,
        4,
    )


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (None, "ok", None),
        ({"error_type": "HTTP Error 503", "error_msg": "busy at 10.0.0.1"}, "failed", "http_503"),
        ({"error_type": "CancelledError", "error_msg": ""}, "cancelled", "cancelled"),
        ({"error_type": "TimeoutError", "error_msg": ""}, "failed", "timeout"),
        ({"error_type": "ClientPayloadError", "error_msg": ""}, "failed", "stream_broken"),
        ("odd", "failed", "other"),
    ],
)
def test_outcomes(tmp_path: Path, error: Any, status: str, kind: str | None) -> None:
    (row,) = read(tmp_path, [call(error=error)]).requests.to_pylist()
    assert (row["status"], row["error_kind"]) == (status, kind)
    assert (row["osl"] is None) == (status != "ok")


def test_a_reply_of_one_token_has_a_ttft_here_and_none_there(tmp_path: Path) -> None:
    calls = [call(times=[0.02]), call(101.0)]
    told = report(calls)
    told["successes"]["latency"]["time_to_first_token"] = {"mean": 0.02, "max": 0.02}
    calls[0]["info"]["response_metrics"] |= {
        "chunk_times": [100.03],
        "output_token_times": [100.03],
    }
    tables = read(tmp_path, calls, summary=told)
    found = compare(tables, run_metrics(tables)).set_index("metric").loc["ttft_mean_ms"]
    assert found["ours"] == pytest.approx(25.0)
    assert not found["same_definition"]
    assert found["theirs_recomputed"] == pytest.approx(20.0)
    assert "two tokens" in found["reason"]


def test_gaps_of_zero_inside_a_chunk_are_the_clients_alone(tmp_path: Path) -> None:
    calls = [call()]
    told = report(calls)
    told["successes"]["latency"]["inter_token_latency"] = {
        "mean": 0.01,
        "median": 0.01,
        "max": 0.02,
    }
    tables = read(tmp_path, calls, summary=told)
    found = compare(tables, run_metrics(tables)).set_index("metric")
    assert found.loc["itl_mean_ms", "ours"] == pytest.approx(15.0)
    assert found.loc["itl_mean_ms", "theirs_recomputed"] == pytest.approx(10.0)  # (10 + 0 + 20) / 3
    assert found.loc["itl_p50_ms", "theirs_deviation"] == pytest.approx(0.0, abs=1e-6)
    assert found.loc["e2e_mean_ms", "ours"] == pytest.approx(50.0)
    assert found.loc["e2e_mean_ms", "theirs_recomputed"] == pytest.approx(60.0)


def test_of_older_records_the_counts_stand_in_info(tmp_path: Path) -> None:
    old = call(info={"input_tokens": 7, "output_tokens": 2, "output_token_times": [100.01, 100.02]})
    (row,) = read(tmp_path, [old]).requests.to_pylist()
    assert (row["isl"], row["osl"], row["first_token_ns"]) == (7, 2, 10 * MS)
    assert row["end_ns"] == pytest.approx(20 * MS, abs=1)


def test_without_info_the_computed_metrics_serve(tmp_path: Path) -> None:
    computed = {
        "time_to_first_token": 0.02,
        "inter_token_latencies": [0.01, 0.0, 0.02],
        "input_tokens": 16,
        "output_tokens": 4,
    }
    tables = read(tmp_path, [call(info=None, computed_metrics=computed)])
    (row,) = tables.requests.to_pylist()
    assert (row["isl"], row["osl"], row["end_ns"]) == (16, 4, 50 * MS)
    assert tables.gaps["gap_ns"].to_pylist() == [10 * MS, 20 * MS]


def stages(tmp_path: Path, calls: list[Any], kept: slice = slice(None)) -> Tables:
    return read(
        tmp_path,
        calls[kept],
        stage_0=report(calls[:3], concurrency=2),
        stage_10=report(calls[3:], requested_rate=5.0, achieved_rate=2.0),
    )


def two_stages() -> list[Any]:
    # The second stage is slower, so that a request of the other stage cannot be mistaken for its.
    slow = [call(200.0 + i / 5) for i in range(4)]
    for record in slow:
        record["end_time"] += 0.04
    return [*(call(100.0 + i) for i in range(3)), *slow]


def test_stages_are_told_by_their_reports(tmp_path: Path) -> None:
    runs = stages(tmp_path, two_stages()).runs.to_pylist()
    found = [
        (r["run_id"].rpartition("/")[2], r["n_requests"], r["concurrency"], r["request_rate"])
        for r in runs
    ]
    assert found == [("stage_0", 3, 2, None), ("stage_10", 4, None, 5.0)]
    assert runs[1]["start_ns"] == 0
    assert "2 requests/s where 5 were asked for" in runs[1]["notes"][0]


def test_what_helps_to_state_a_start_is_noted(tmp_path: Path) -> None:
    text = (
        "run:\n  uid: inference-perf-stage-10-ab\n  time: {start: '2026-11-29T18:30:05.5+01:00'}\n"
    )
    (tmp_path / "inference-perf.partial.stage_10.yaml").write_text(text)
    first, second = stages(tmp_path, two_stages()).runs.to_pylist()
    assert not any("after the first" in note for note in first["notes"])
    assert "its first request was sent 100.000 s after the first of the dump" in second["notes"]
    assert any("began with this stage at 2026-11-29T17:30:05.500Z" in n for n in second["notes"])
    assert second["clock"] == "relative"


def test_stages_of_a_torn_list_are_told_by_the_pause(tmp_path: Path) -> None:
    runs = stages(tmp_path, two_stages(), slice(1, 6)).runs.to_pylist()
    assert [(r["n_requests"], r["n_lost"]) for r in runs] == [(2, 1), (3, 1)]


def test_stages_that_do_not_match_are_taken_together(tmp_path: Path) -> None:
    calls = two_stages()
    calls[0]["end_time"] += 0.02  # slower than any request that the first report saw
    tables = read(
        tmp_path, calls, stage_0=report(two_stages()[:3]), stage_1=report(two_stages()[3:])
    )
    (run,) = tables.runs.to_pylist()
    assert run["n_requests"] == 7
    assert "all 2 stages are taken together" in run["notes"][0]


def test_reports_alone_give_summary_rows(tmp_path: Path) -> None:
    for path in FIXTURE.glob("*"):
        if path.name != RECORDS:
            shutil.copy(path, tmp_path)
    tables = read_tree(tmp_path)
    assert tables.requests.num_rows == 0
    runs = tables.runs.to_pylist()
    assert [(r["level"], r["n_ok"], r["concurrency"], r["workload"]) for r in runs] == [
        ("summary", 30, 2, "prefill"),
        ("summary", 40, 4, "prefill"),
    ]
    assert "only the client's summary" in runs[0]["notes"][0]
    assert np.isnan(run_metrics(tables)["e2e_mean_ms"]).all()


def test_a_real_run_meets_its_own_reports() -> None:
    found = discover(FIXTURE)
    assert len(found.sources) == 1
    assert not found.refused
    tables = read_tree(FIXTURE)
    runs = tables.runs.to_pylist()
    assert [(r["n_ok"], r["concurrency"], r["n_lost"]) for r in runs] == [(30, 2, 0), (40, 4, 0)]
    assert {r["model"] for r in runs} == {"mock-model"}
    assert "0.5 running" in runs[0]["notes"][0]
    rows = compare(tables, run_metrics(tables))
    same = rows[rows["same_definition"]]
    assert len(same) >= 4
    assert same["deviation"].abs().max() < 1e-9
    theirs = rows[~rows["same_definition"]]
    assert theirs["theirs_deviation"].abs().max() < 1e-9
    # One token a request: the dump has a first token's time although the report has no TTFT.
    assert run_metrics(tables)["ttft_mean_ms"].notna().all()


def test_all_files_of_a_run_are_its_own(tmp_path: Path) -> None:
    shutil.copytree(FIXTURE, tmp_path / "reports")
    for stage in (0, 1):
        text = f"version: 0.2.1\nrun:\n  uid: inference-perf-stage-{stage}-ab\nresults: {{}}\n"
        (tmp_path / "reports" / f"inference-perf.partial.stage_{stage}.yaml").write_text(text)
    shutil.copy(
        tmp_path / "reports" / "stage_0_lifecycle_metrics.json",
        tmp_path / "reports" / "adapter_sql_stage_0_lifecycle_metrics.json",
    )
    session = {"num_sessions": 3, "session_duration_sec": {"mean": 1.0}}
    (tmp_path / "reports" / "summary_session_lifecycle_metrics.json").write_text(
        json.dumps(session)
    )
    found = discover(tmp_path)
    (source,) = found.sources
    assert len(source.files) == len(list((tmp_path / "reports").iterdir()))
    assert not found.companions
    assert read_tree(tmp_path).runs.num_rows == 2


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"start_time": "100"}, "start_time and end_time"),
        ({"end_time": 99.0}, "start_time and end_time"),
        ({"start_time": 10**400}, "start_time and end_time"),
        ({"end_time": float("nan")}, "start_time and end_time"),
        ({"info": {"output_tokens": -1}}, "output_tokens"),
        ({"info": {"output_token_times": [101.0, 99.0]}}, "output_token_times"),
        ({"info": {"output_token_times": [[1], 2]}}, "output_token_times"),
        ({"info": {"output_token_times": "x"}}, "output_token_times"),
        ({"info": {"input_tokens": 1.5}}, "input_tokens"),
    ],
)
def test_a_bad_record_is_set_aside(tmp_path: Path, changes: Any, why: str) -> None:
    tables = read(tmp_path, [call(), call(101.0, **changes)])
    assert tables.requests.num_rows == 1
    (aside,) = tables.set_aside.to_pylist()
    assert why in aside["reason"]
    assert aside["line"] > 1


@pytest.mark.parametrize("text", ["[", "[{", '[{"start_time": 1, "end_time": 2, "request": "x'])
def test_a_list_without_a_request_is_refused(tmp_path: Path, text: str) -> None:
    tables = read(tmp_path, text)
    assert tables.runs.num_rows == 0
    (refused,) = tables.refused.to_pylist()
    assert refused["reason"]


def test_a_report_cut_before_its_failures_is_refused_as_torn(tmp_path: Path) -> None:
    text = (FIXTURE / "stage_0_lifecycle_metrics.json").read_text()
    name = "stage_0_lifecycle_metrics.json"
    (tmp_path / name).write_text(text[: text.index('"successes"')])
    (refused,) = read_tree(tmp_path).refused.to_pylist()
    assert "torn" in refused["reason"]


def test_damage_costs_one_record(tmp_path: Path) -> None:
    text = json.dumps([call(100.0 + i) for i in range(5)], indent=2)
    at = text.index('"start_time": 102')
    tables = read(tmp_path, text[:at] + "\x00" + text[at:])
    assert tables.requests.num_rows == 4
    assert tables.set_aside.num_rows == 1


def test_a_damaged_report_beside_the_records_is_set_aside(tmp_path: Path) -> None:
    text = json.dumps(report([call()]))[:-3]
    (tmp_path / "summary_lifecycle_metrics.json").write_text(text)
    tables = read(tmp_path, [call()])
    (run,) = tables.runs.to_pylist()
    assert run["complete"] is False
    assert tables.set_aside.to_pylist()[0]["record"] == "report"


TEXT = (FIXTURE / RECORDS).read_bytes()


@given(st.integers(200, len(TEXT) - 1))
def test_cut_anywhere_used_and_set_aside_are_the_records(cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / RECORDS).write_bytes(TEXT[:cut])
        tables = read_tree(Path(folder))
    if tables.runs.num_rows:
        whole = TEXT[:cut].count(b'"error": null}')
        assert tables.requests.num_rows == whole
        assert tables.set_aside.num_rows == 1
    else:
        assert tables.refused.num_rows == 1


@given(st.lists(JUNK_VALUES, max_size=4), st.data())
def test_junk_among_records_is_counted(junk: list[Any], data: st.DataObject) -> None:
    records: list[Any] = [call(), *junk]
    field = data.draw(st.sampled_from(sorted(call())))
    records.append(call(101.0) | {field: data.draw(JUNK_VALUES)})
    with tempfile.TemporaryDirectory() as folder:
        tables = read(Path(folder), records)
    assert tables.requests.num_rows + tables.set_aside.num_rows == len(records)
