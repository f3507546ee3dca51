from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servebook.read.discover import read_tree
from tests.read.samples import vllm_result


def aggregate(**changes: Any) -> dict[str, Any]:
    return {
        "hw": "h200",
        "conc": 64,
        "image": "registry.example/engine:1",
        "model": "deepseek-ai/DeepSeek-R1",
        "framework": "sglang",
        "precision": "fp8",
        "isl": 1024,
        "osl": 1024,
        "is_multinode": False,
        "tp": 8,
        "ep": 1,
        "dp_attention": "false",
        "tput_per_gpu": 450.0,
        "output_tput_per_gpu": 230.0,
        "input_tput_per_gpu": 220.0,
        "mean_ttft": 0.25,
        "median_ttft": 0.2,
        "p99_ttft": 1.5,
        "mean_tpot": 0.033,
        "mean_itl": 0.33,
        "mean_e2el": 0.0,
        "mean_intvty": 30.3,
        **changes,
    }


def read(folder: Path, value: Any) -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "agg_x.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return read_tree(folder)


def test_an_aggregate_is_a_summary_row(tmp_path: Path) -> None:
    [run] = read(tmp_path, aggregate()).runs.to_pylist()
    expected = {
        "client": "InferenceX aggregate",
        "level": "summary",
        "clock": "none",
        "model": "deepseek-ai/DeepSeek-R1",
        "concurrency": 64,
        "isl_requested": 1024,
        "osl_requested": 1024,
        "workload": "mixed",
        "n_requests": None,
        "start_ns": None,
    }
    assert {key: run[key] for key in expected} == expected
    native = json.loads(run["native"])
    assert native["ttft_mean_ms"] == 250.0  # seconds in the file
    assert native["ttft_p50_ms"] == 200.0
    assert native["tpot_mean_ms"] == pytest.approx(33.0)
    assert not [key for key in native if key.startswith("e2e") or "throughput" in key]
    assert "tp 8" in run["notes"][1]
    assert "registry.example" not in json.dumps(run)


def agentic(**changes: Any) -> dict[str, Any]:
    """The keys of an agentic scenario: made from AIPerf's records, with counts and totals."""
    kept = {k: v for k, v in aggregate().items() if k not in ("isl", "osl") and "median" not in k}
    return {
        **kept,
        "scenario_type": "agentic-coding",
        "num_requests_total": 90,
        "num_requests_successful": 87,
        "mean_qps": 0.05,
        "mean_itl": 0.176,
        "p90_itl": 0.295,
        "mean_tpot": 0.176,
        "p90_tpot": 0.295,
        "mean_input_tokens": 89017.5,
        "mean_output_tokens_actual": 820.4,
        "input_tput_tps": 4258.5,
        "output_tput_tps": 39.25,
        "total_tput_tps": 4297.75,
        "duration_seconds": 1818.5,
        **changes,
    }


def test_an_agentic_aggregate_tells_counts_duration_and_rates(tmp_path: Path) -> None:
    [run] = read(tmp_path, [agentic()]).runs.to_pylist()
    assert (run["n_requests"], run["n_ok"], run["n_failed"]) == (90, 87, 3)
    assert (run["isl_requested"], run["workload"]) == (None, "mixed")
    native = json.loads(run["native"])
    told = {key: value for key, value in native.items() if "throughput" in key or "dur" in key}
    assert told == {
        "duration_s": 1818.5,
        "input_throughput_tok_s": 4258.5,
        "output_throughput_tok_s": 39.25,
        "total_throughput_tok_s": 4297.75,
    }
    # Its "ITL" is its TPOT to the last digit: no gap was measured for it.
    assert [key for key in native if key.startswith("itl")] == []
    assert native["tpot_p90_ms"] == pytest.approx(295.0)
    assert "aiperf_artifacts" in run["notes"][0]
    assert "repeats its TPOT" in run["notes"][1]


def test_an_itl_of_its_own_is_kept(tmp_path: Path) -> None:
    [run] = read(tmp_path, agentic(p90_itl=0.3)).runs.to_pylist()
    assert json.loads(run["native"])["itl_mean_ms"] == pytest.approx(176.0)


@pytest.mark.parametrize("odd", [None, "x", float("nan"), -3, True, 91])
def test_odd_counts_are_unknown(tmp_path: Path, odd: Any) -> None:
    [run] = read(tmp_path, agentic(num_requests_successful=odd)).runs.to_pylist()
    assert (run["n_requests"], run["n_ok"], run["n_failed"]) == (90, None, None)


def test_a_list_of_aggregates(tmp_path: Path) -> None:
    tables = read(tmp_path, [aggregate(), aggregate(conc=4), 5])
    assert tables.runs["concurrency"].to_pylist() == [64, 4]
    assert tables.set_aside["reason"].to_pylist() == [
        "expected one aggregate, found another JSON value"
    ]


def test_beside_its_result_both_are_runs(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(vllm_result()))
    tables = read(tmp_path, aggregate())
    assert sorted(tables.runs["client"].to_pylist()) == ["InferenceX aggregate", "vLLM bench serve"]


@pytest.mark.parametrize("cut", [60, 300, -1])
def test_a_torn_one_is_refused(tmp_path: Path, cut: int) -> None:
    tables = read(tmp_path, json.dumps(aggregate())[:cut])
    assert (tables.runs.num_rows, tables.refused.num_rows) == (0, 1)


@pytest.mark.parametrize("odd", [None, "x", float("nan"), 1e400, -3, [], True])
def test_odd_values_are_unknown(tmp_path: Path, odd: Any) -> None:
    [run] = read(
        tmp_path, aggregate(conc=odd, isl=odd, mean_ttft=odd, hw=odd, tp=odd)
    ).runs.to_pylist()
    assert run["concurrency"] is None
    assert run["isl_requested"] is None
