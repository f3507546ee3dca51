from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.measure.runs import run_metrics
from servebook.read.discover import read_tree
from servebook.tables import Tables
from tests.read.samples import JUNK_VALUES

REPORT_0_1 = """
version: '0.1'
scenario:
  host:
    type: [replica]
    accelerator: [{model: H100, count: 8}]
  model: {name: a/a-model}
  load:
    name: vllm-benchmark
    args: {max_concurrency: 4}
metrics:
  time: {duration: 2.5, start: 1749570583.5, stop: 1749570586.0}
  requests:
    total: 32
    failures: 2
    input_length: {units: count, mean: 628.6}
    output_length: {units: count, mean: 32}
  latency:
    request_latency: {units: ms, mean: 300.0, p50: 290.0}
    time_to_first_token: {units: s, mean: 0.02}
    inter_token_latency: {units: furlongs, mean: 1.0}
  throughput: {output_tokens_per_sec: 384.0, requests_per_sec: 12.0}
"""
REPORT_0_2 = """
version: 0.2
run:
  uid: x
  user: SECRET
  time: {start: 2025-11-05T18:00:42Z, end: 2025-11-05T18:00:52.000001Z, duration: PT1M10.5S}
scenario:
  stack:
  - metadata: {label: a, cfg_id: b}
    standardized:
      kind: inference_engine
      tool: vllm
      tool_version: host.example/vllm:1
      role: decode
      replicas: 2
      model: {name: /models/a-model}
      accelerator: {model: H200, count: 8, parallelism: {tp: 8, dp: 1}}
    native: {envars: {HOST: 10.1.1.1}}
  load:
    metadata: {}
    standardized:
      tool: inference-perf
      tool_version: 0.3.0
      source: random
      input_seq_len: {distribution: fixed, value: 2148}
      output_seq_len: {distribution: gaussian, value: 1000, std_dev: 100}
      rate_qps: 10
      concurrency: .inf
results:
  request_performance:
    aggregate:
      requests: {total: 40, failures: 1, incomplete: 2}
      latency:
        time_to_first_token: {units: s, mean: 0.02, p50: 0.019, p99p9: 0.05, max: 0.06}
        time_per_output_token: {units: ms/token, mean: 7.0}
      throughput:
        total_token_rate: {units: tokens/s, mean: 100.0}
"""


def read(folder: Path, text: str, name: str = "report.yaml") -> Tables:
    (folder / name).write_text(text)
    return read_tree(folder)


def test_version_0_1(tmp_path: Path) -> None:
    (run,) = read(tmp_path, REPORT_0_1).runs.to_pylist()
    expected = {
        "client": "llm-d Benchmark Report (vllm-benchmark)",
        "schema_version": "0.1",
        "model": "a/a-model",
        "concurrency": 4,
        "level": "summary",
        "clock": "epoch",
        "start_ns": 1749570583_500_000_000,
        "n_requests": 32,
        "n_ok": 30,
        "n_failed": 2,
        "workload": "mixed",
    }
    assert {key: run[key] for key in expected} == expected
    assert json.loads(run["native"]) == {
        "duration_s": 2.5,
        "e2e_mean_ms": 300.0,
        "e2e_p50_ms": 290.0,
        "n_failed": 2,
        "n_ok": 30,
        "output_throughput_tok_s": 384.0,
        "request_throughput_req_s": 12.0,
        "ttft_mean_ms": 20.0,
    }
    assert "8 x H100" in run["notes"][1]


def test_version_0_2(tmp_path: Path) -> None:
    tables = read(tmp_path, REPORT_0_2)
    (run,) = tables.runs.to_pylist()
    expected = {
        "client_version": "0.3.0",
        "schema_version": "0.2",
        "model": "a-model",
        "concurrency": None,  # .inf
        "request_rate": 10.0,
        "isl_requested": 2148,
        "osl_requested": 1000,
        "start_ns": 1762365642 * 10**9,
        "end_ns": 1762365652 * 10**9 + 1000,
        "n_ok": 37,
        "n_cancelled": 2,
    }
    assert {key: run[key] for key in expected} == expected
    native = json.loads(run["native"])
    assert (native["duration_s"], native["ttft_p999_ms"], native["tpot_mean_ms"]) == (70.5, 50, 7)
    assert "2 x decode, vllm, 8 x H200, tp=8 dp=1" in run["notes"][1]
    for secret in ("SECRET", "10.1.1.1", "host.example", "/models"):
        assert secret not in str(run)
    assert np.isnan(run_metrics(tables)["ttft_mean_ms"]).all()


def test_several_documents_are_several_runs(tmp_path: Path) -> None:
    tables = read(tmp_path, "---".join([REPORT_0_2, "\nversion: 7\n", REPORT_0_1]))
    assert [run["schema_version"] for run in tables.runs.to_pylist()] == ["0.2", "0.1"]
    assert tables.runs["run_id"][1].as_py().endswith("#2")
    assert tables.set_aside["record"].to_pylist() == ["report 1"]


def test_json_is_read_as_well(tmp_path: Path) -> None:
    value = {
        "version": "0.2.1",
        "run": {"uid": "x"},
        "results": {
            "request_performance": {"aggregate": {"requests": {"total": 3, "failures": 0}}}
        },
    }
    (run,) = read(tmp_path, json.dumps(value), "report.json").runs.to_pylist()
    assert (run["n_ok"], run["clock"]) == (3, "none")


def test_an_end_before_the_start_is_told(tmp_path: Path) -> None:
    (run,) = read(tmp_path, REPORT_0_1.replace("stop: 17495705", "stop: 17495704")).runs.to_pylist()
    assert (run["clock"], run["start_ns"]) == ("none", None)
    assert "the report's end lies before its start: neither is used" in run["notes"]


def test_local_times_are_not_used(tmp_path: Path) -> None:
    (run,) = read(tmp_path, REPORT_0_2.replace("42Z", "42")).runs.to_pylist()
    assert (run["clock"], run["start_ns"]) == ("none", None)


BOMB = "version: '0.2'\na: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 8)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (REPORT_0_2.replace("mean: 0.02, p50", "mean: [0.02, p50"), "no valid YAML (line"),
        (REPORT_0_2.replace("SECRET", "[" * 3000), "deeper"),
        (REPORT_0_2.replace("version: 0.2", "version: 0.25"), "neither 0.1 nor 0.2"),
        ("version: '0.2'\nresults: {}\n", "without results"),
        (REPORT_0_2.replace("SECRET", "!!python/object/apply:os.system [id]"), "no valid YAML"),
        (BOMB + "results: *i\n", "without results"),
        (REPORT_0_2 + "\n# " + "x" * (5 << 20), "4 MiB of YAML"),
    ],
)
def test_refused(tmp_path: Path, text: str, why: str) -> None:
    tables = read(tmp_path, text)
    assert tables.runs.num_rows == 0
    (refused,) = tables.refused.to_pylist()
    assert why in refused["reason"]


KEYS = ("total", "failures", "mean", "p50", "start", "duration", "model", "rate_qps", "requests")


@given(st.sampled_from(KEYS), JUNK_VALUES)
def test_any_value_in_place_of_another(key: str, value: Any) -> None:
    def swapped(node: Any) -> Any:
        if isinstance(node, dict):
            return {k: value if k == key else swapped(v) for k, v in node.items()}
        return [swapped(v) for v in node] if isinstance(node, list) else node

    from servebook.read.documents import yaml

    (report,) = yaml(REPORT_0_1.encode())
    with tempfile.TemporaryDirectory() as folder:
        tables = read(Path(folder), json.dumps(swapped(report)), "report.json")
    assert tables.runs.num_rows + tables.refused.num_rows == 1


@given(st.integers(0, len(REPORT_0_2)))
def test_cut_anywhere(cut: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = read(Path(folder), REPORT_0_2[:cut])
    companion = cut > 0 and not (tables.runs.num_rows + tables.refused.num_rows)
    assert tables.runs.num_rows + tables.refused.num_rows + companion == 1


@pytest.mark.skipif(
    "SERVEBOOK_DUMPS" not in os.environ, reason="SERVEBOOK_DUMPS names no folder of dumps"
)
def test_the_partial_reports_of_real_runs(tmp_path: Path) -> None:
    found = sorted(
        Path(os.environ["SERVEBOOK_DUMPS"]).glob("inference-perf-*/*/reports/*.partial*")
    )
    assert found
    for index, path in enumerate(found):
        (tmp_path / f"{index}.yaml").write_bytes(path.read_bytes())
    tables = read_tree(tmp_path)
    assert tables.runs.num_rows == len(found)
    assert tables.refused.num_rows == 0
