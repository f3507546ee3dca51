from __future__ import annotations

import json
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

MS = 1_000_000
RECORDS = "a-model_16_5_individual_responses.json"
SUMMARY = "a-model_16_5_summary.json"


def record(**changes: Any) -> dict[str, Any]:
    """Five tokens in 100 ms, the first after 20 ms: TPOT 20 ms, and "ITL" 100 / 5 = 20 ms."""
    return {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": 0.02,
        "ttft_s": 0.02,
        "end_to_end_latency_s": 0.1,
        "request_output_throughput_token_per_s": 50.0,
        "number_total_tokens": 21,
        "number_output_tokens": 5,
        "number_input_tokens": 16,
    } | changes


def summary(n: int = 2, **changes: Any) -> dict[str, Any]:
    """The summary of n replies like ``record`` in 0.5 s."""
    return {
        "version": "2023-08-31",
        "name": "a-model_16_5_summary",
        "model": "a/a-model",
        "mean_input_tokens": 16,
        "mean_output_tokens": 5,
        "num_concurrent_requests": 2,
        "results_inter_token_latency_s_mean": 0.02,
        "results_ttft_s_mean": 0.02,
        "results_ttft_s_quantiles_p50": 0.02,
        "results_end_to_end_latency_s_max": 0.1,
        "results_num_requests_started": n,
        "results_number_errors": 0,
        "results_mean_output_throughput_token_per_s": 5 * n / 0.5,
        "results_num_completed_requests": n,
        "results_num_completed_requests_per_min": n / 0.5 * 60,
        "timestamp": 1718208656,
    } | changes


def read(folder: Path, records: Any = None, told: Any = None) -> Tables:
    for name, value in ((RECORDS, records), (SUMMARY, told)):
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value, indent=4)
            (folder / name).write_text(text)
    return read_tree(folder)


def test_run_and_requests(tmp_path: Path) -> None:
    tables = read(tmp_path, [record(), record(GEN_TEXT="SECRET")], summary())
    assert len(discover(tmp_path).sources) == 1
    (run,) = tables.runs.to_pylist()
    expected = {
        "client": "llmperf",
        "schema_version": "2023-08-31",
        "model": "a/a-model",
        "concurrency": 2,
        "isl_requested": 16,
        "osl_requested": 5,
        "clock": "none",
        "n_ok": 2,
        "n_lost": 0,
        "tokens_counted_by": "client",
    }
    assert {key: run[key] for key in expected} == expected
    assert "SECRET" not in str(run) + str(tables.requests.to_pylist())
    first = tables.requests.to_pylist()[0]
    assert (first["start_ns"], first["first_token_ns"], first["end_ns"]) == (0, 20 * MS, 100 * MS)
    metrics = run_metrics(tables)
    assert metrics["tpot_mean_ms"][0] == pytest.approx(20.0)
    assert metrics["duration_s"][0] == pytest.approx(0.5)
    assert metrics["output_throughput_tok_s"][0] == pytest.approx(20.0)


def test_its_token_latency_has_the_ttft_inside(tmp_path: Path) -> None:
    records = [record(ttft_s=0.06), record(ttft_s=0.02, inter_token_latency_s=0.018)]
    told = summary(results_inter_token_latency_s_mean=0.019, results_ttft_s_mean=0.04)
    tables = read(tmp_path, records, told)
    found = compare(tables, run_metrics(tables)).set_index("metric")
    row = found.loc["tpot_mean_ms"]
    assert row["ours"] == pytest.approx(15.0)  # (40 / 4 + 80 / 4) / 2
    assert (row["native"], row["same_definition"]) == (pytest.approx(19.0), False)
    assert row["theirs_recomputed"] == pytest.approx(19.0)
    assert "TTFT is inside" in row["reason"]
    assert found.loc["ttft_mean_ms", "same_definition"]
    assert found.loc["ttft_mean_ms", "deviation"] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("changes", "status", "kind"),
    [
        ({}, "ok", None),
        ({"error_code": 429, "error_msg": "key sk-1 at 10.0.0.1"}, "failed", "http_429"),
        ({"error_code": -1, "error_msg": "Read timed out."}, "failed", "timeout"),
        ({"error_code": -100, "error_msg": "Output too few tokens 5"}, "failed", "other"),
        ({"number_output_tokens": 0}, "failed", "stream_error"),
        ({"ttft_s": 0}, "ok", None),
    ],
)
def test_outcomes(tmp_path: Path, changes: Any, status: str, kind: str | None) -> None:
    (row,) = read(tmp_path, [record(**changes)]).requests.to_pylist()
    assert (row["status"], row["error_kind"]) == (status, kind)
    assert row["first_token_ns"] == (None if changes.get("ttft_s") == 0 else 20 * MS)


def test_short_replies_that_count_as_errors_are_told(tmp_path: Path) -> None:
    tables = read(tmp_path, [record(), record(error_code=-100)], summary(1))
    assert "1 of 2 requests are whole replies" in tables.runs["notes"][0].as_py()[1]


def test_records_alone_have_no_duration(tmp_path: Path) -> None:
    tables = read(tmp_path, [record()])
    (run,) = tables.runs.to_pylist()
    assert run["complete"] is False
    assert np.isnan(run_metrics(tables)["duration_s"][0])
    assert run_metrics(tables)["ttft_mean_ms"][0] == pytest.approx(20.0)


def test_a_summary_alone_is_a_summary_row(tmp_path: Path) -> None:
    (run,) = read(tmp_path, None, summary()).runs.to_pylist()
    assert (run["level"], run["n_ok"], run["n_requests"]) == ("summary", 2, 2)
    assert json.loads(run["native"])["duration_s"] == pytest.approx(0.5)


def test_several_runs_of_one_folder_stay_apart(tmp_path: Path) -> None:
    for c in (1, 8):
        (tmp_path / f"m_{c}_summary.json").write_text(
            json.dumps(summary(num_concurrent_requests=c))
        )
        (tmp_path / f"m_{c}_individual_responses.json").write_text(
            json.dumps([record(ttft_s=0.01 * c)])
        )
    runs = read_tree(tmp_path).runs.to_pylist()
    assert sorted(run["concurrency"] for run in runs) == [1, 8]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ttft_s": -1}, "ttft_s"),
        ({"ttft_s": 0.2}, "ttft_s within end_to_end_latency_s"),
        ({"end_to_end_latency_s": float("nan")}, "end_to_end_latency_s"),
        ({"number_output_tokens": "5"}, "number_output_tokens"),
    ],
)
def test_a_bad_record_is_set_aside(tmp_path: Path, changes: Any, why: str) -> None:
    tables = read(tmp_path, [record(), record(**changes)])
    assert tables.requests.num_rows == 1
    (aside,) = tables.set_aside.to_pylist()
    assert why in aside["reason"]
    assert aside["line"] == 13


@pytest.mark.parametrize("part", ["records", "summary"])
def test_torn_alone_is_refused(tmp_path: Path, part: str) -> None:
    text = json.dumps([record()])[:-2] if part == "records" else json.dumps(summary())[:-1]
    tables = read(tmp_path, *((text, None) if part == "records" else (None, text)))
    (refused,) = tables.refused.to_pylist()
    assert "torn" in refused["reason"]


def test_a_torn_summary_beside_records_is_set_aside(tmp_path: Path) -> None:
    tables = read(tmp_path, [record()], json.dumps(summary())[:-1])
    assert tables.requests.num_rows == 1
    assert tables.set_aside["record"].to_pylist() == ["summary"]


@given(st.lists(JUNK_VALUES, max_size=4), st.data())
def test_junk_among_records_is_counted(junk: list[Any], data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(sorted(record())))
    records = [record(), *junk, record() | {field: data.draw(JUNK_VALUES)}]
    told = summary() | {data.draw(st.sampled_from(sorted(summary()))): data.draw(JUNK_VALUES)}
    with tempfile.TemporaryDirectory() as folder:
        tables = read(Path(folder), records, told)
    assert tables.requests.num_rows + tables.set_aside.num_rows == len(records)


TEXT = json.dumps([record(n=i) for i in range(6)], indent=4)


@given(st.integers(330, len(TEXT) - 1))
def test_cut_anywhere(cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = read(Path(folder), TEXT[:cut])
    if tables.runs.num_rows:
        assert tables.requests.num_rows == TEXT[:cut].count("}")
        assert tables.set_aside.num_rows == 1
    else:
        assert tables.refused.num_rows == 1
