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

FIXTURE = Path(__file__).parents[1] / "fixtures" / "clients" / "genai_bench"
POINT = FIXTURE / "D256_64_text-to-text_num_concurrency_2_time_9s.json"
MS = 1_000_000


def record(**changes: Any) -> dict[str, Any]:
    """Five tokens in 100 ms, the first after 20 ms: TPOT 20 ms."""
    return {
        "ttft": 0.02,
        "tpot": 0.02,
        "e2e_latency": 0.1,
        "num_input_tokens": 16,
        "num_output_tokens": 5,
        "error_code": None,
        "error_message": None,
    } | changes


def point(records: list[Any], unit: str | None = "s", **changes: Any) -> dict[str, Any]:
    aggregated: dict[str, Any] = {
        "scenario": "D(16,5)",
        "num_concurrency": 2,
        "iteration_type": "num_concurrency",
        "run_duration": 2.0,
        "requests_per_second": len(records) / 2.0,
        "mean_output_throughput_tokens_per_s": 5 * len(records) / 2.0,
        "num_completed_requests": len(records),
        "num_error_requests": 0,
        "num_requests": len(records),
        "stats": {"ttft": {"mean": 0.02, "p50": 0.02}, "tpot": {"mean": 0.02}},
    }
    out: dict[str, Any] = {
        "aggregated_metrics": aggregated | changes,
        "individual_request_metrics": records,
    }
    return out if unit is None else out | {"_time_unit": unit}


def read(folder: Path, value: Any, command: str | None = None) -> Tables:
    (folder / "point.json").write_text(value if isinstance(value, str) else json.dumps(value))
    if command is not None:
        about = {
            "cmd": command,
            "benchmark_version": "0.0.5",
            "api_backend": "openai",
            "traffic_scenario": ["D(16,5)"],
            "api_model_name": "/models/a-model",
        }
        (folder / "experiment_metadata.json").write_text(json.dumps(about))
    return read_tree(folder)


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1e3), (None, 1)])
def test_times_are_in_the_unit_that_the_file_names(
    tmp_path: Path, unit: str | None, factor: float
) -> None:
    value = record(ttft=0.02 * factor, e2e_latency=0.1 * factor)
    tables = read(tmp_path, point([value], unit))
    (row,) = tables.requests.to_pylist()
    assert (row["start_ns"], row["first_token_ns"], row["end_ns"]) == (0, 20 * MS, 100 * MS)
    metrics = run_metrics(tables)
    assert metrics["tpot_mean_ms"][0] == pytest.approx(20.0)
    assert metrics["duration_s"][0] == 2.0
    native = json.loads(tables.runs["native"][0].as_py())
    assert native["ttft_mean_ms"] == pytest.approx(20.0 / factor)


def test_run(tmp_path: Path) -> None:
    (run,) = read(tmp_path, point([record()]), "genai-bench --api-key SECRET").runs.to_pylist()
    expected = {
        "client": "genai-bench",
        "client_version": "0.0.5",
        "model": "a-model",
        "concurrency": 2,
        "isl_requested": 16,
        "osl_requested": 5,
        "clock": "none",
        "n_ok": 1,
        "n_lost": 0,
        "level": "records",
    }
    assert {key: run[key] for key in expected} == expected
    assert "SECRET" not in str(run)


@pytest.mark.parametrize(
    ("changes", "status", "kind"),
    [
        ({}, "ok", None),
        ({"error_code": 500, "error_message": "at 10.0.0.1"}, "failed", "http_500"),
        ({"error_code": -1, "error_message": "Read timed out"}, "failed", "timeout"),
        ({"num_output_tokens": 0}, "failed", "stream_error"),
    ],
)
def test_outcomes(tmp_path: Path, changes: Any, status: str, kind: str | None) -> None:
    rows = read(tmp_path, point([record(), record(**changes)])).requests.to_pylist()
    assert (rows[1]["status"], rows[1]["error_kind"]) == (status, kind)


def test_what_the_client_trims_is_recomputed(tmp_path: Path) -> None:
    records = [record(ttft=0.08), *(record() for _ in range(9))]
    value = point(records, mean_output_throughput_tokens_per_s=5 * 8 / 2.0)
    command = "genai-bench --warmup-ratio 0.1 --cooldown-ratio 0.1"
    tables = read(tmp_path, value, command)
    found = compare(tables, run_metrics(tables)).set_index("metric")
    assert found.loc["ttft_mean_ms", "ours"] == pytest.approx(26.0)
    assert found.loc["ttft_mean_ms", "theirs_recomputed"] == pytest.approx(20.0)
    assert found.loc["output_throughput_tok_s", "ours"] == pytest.approx(25.0)
    assert found.loc["output_throughput_tok_s", "theirs_recomputed"] == pytest.approx(20.0)
    assert found.loc["request_throughput_req_s", "same_definition"]
    assert "the first 1 and the last 1 requests" in str(tables.runs["notes"].to_pylist())


def test_what_is_trimmed_is_counted_among_the_records_that_are_used(tmp_path: Path) -> None:
    records = ["torn", record(ttft=0.08), *(record() for _ in range(18))]
    tables = read(tmp_path, point(records), "genai-bench --warmup-ratio 0.1")
    found = compare(tables, run_metrics(tables)).set_index("metric")
    assert found.loc["ttft_mean_ms", "theirs_recomputed"] == pytest.approx(20.0)
    assert tables.set_aside.num_rows == 1


def test_without_records_a_summary_row(tmp_path: Path) -> None:
    tables = read(tmp_path, point([]) | {"individual_request_metrics": None})
    (run,) = tables.runs.to_pylist()
    assert (run["level"], run["workload"]) == ("summary", "mixed")
    assert np.isnan(run_metrics(tables)["ttft_mean_ms"]).all()


def test_a_real_experiment_meets_its_own_statistics() -> None:
    found = discover(FIXTURE)
    assert len(found.sources) == 2
    assert not found.refused
    tables = read_tree(FIXTURE)
    assert tables.runs["concurrency"].to_pylist() == [8, 2]
    assert tables.runs["workload"].to_pylist() == ["decode", "mixed"]
    rows = compare(tables, run_metrics(tables))
    same, theirs = rows[rows["same_definition"]], rows[~rows["same_definition"]]
    assert same["deviation"].abs().max() < 1e-9
    assert len(theirs) == 2 * 21
    assert theirs["theirs_deviation"].abs().max() < 1e-9


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ttft": -1}, "ttft"),
        ({"ttft": 0.2}, "ttft within e2e_latency"),
        ({"e2e_latency": float("inf")}, "e2e_latency"),
        ({"e2e_latency": "0.1"}, "e2e_latency"),
        ({"num_output_tokens": 1e30}, "num_output_tokens"),
        ({"num_input_tokens": [1]}, "num_input_tokens"),
    ],
)
def test_a_bad_record_is_set_aside(tmp_path: Path, changes: Any, why: str) -> None:
    tables = read(tmp_path, point([record(), record(**changes)]))
    assert tables.requests.num_rows == 1
    (aside,) = tables.set_aside.to_pylist()
    assert (aside["record"], why in aside["reason"]) == ("request 1", True)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (json.dumps(point([record()]))[:-9], "no valid JSON"),
        (point([record()], unit="us"), "_time_unit of s or ms"),
        (point([record(num_output_tokens=0)]), "an embedding or rerank task"),
        (json.dumps(point([record()])).replace("2.0", "[" * 100_000, 1), "deeper"),
        (json.dumps(point([record()])).replace("2.0", "9" * 5_000, 1), "out of range"),
    ],
)
def test_refused(tmp_path: Path, value: Any, why: str) -> None:
    tables = read(tmp_path, value)
    assert tables.runs.num_rows == 0
    (refused,) = tables.refused.to_pylist()
    assert why in refused["reason"]


def test_damaged_metadata_is_set_aside(tmp_path: Path) -> None:
    shutil.copy(POINT, tmp_path)
    text = (FIXTURE / "experiment_metadata.json").read_text()
    (tmp_path / "experiment_metadata.json").write_text(text[:-20])
    tables = read_tree(tmp_path)
    assert tables.requests.num_rows == 44
    assert tables.set_aside["record"].to_pylist() == ["metadata"]


@given(st.lists(JUNK_VALUES, max_size=4), st.data())
def test_junk_among_records_is_counted(junk: list[Any], data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(sorted(record())))
    records = [record(), *junk, record() | {field: data.draw(JUNK_VALUES)}]
    value = point(records)
    name = data.draw(st.sampled_from(sorted(value["aggregated_metrics"])))
    value["aggregated_metrics"][name] = data.draw(JUNK_VALUES)
    with tempfile.TemporaryDirectory() as folder:
        tables = read(Path(folder), value)
    assert tables.requests.num_rows + tables.set_aside.num_rows == len(records)
