from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servebook.cli import main
from servebook.errors import BuildError
from servebook.publish.export import export
from servebook.publish.export_llmd import reports
from servebook.read.campaign import load
from servebook.read.discover import read_tree
from servebook.read.documents import yaml

FIXTURES = Path(__file__).parents[1] / "fixtures"
MANIFEST = """
servebook: 1
name: mine
provenance: measured
model: {name: a/a-model}
configurations:
  one: {engine: vLLM, gpu: H100, gpus: 8, nodes: 1, gpus_per_node: 8, tp: 8, prefix_caching: false}
runs:
  - {match: "sweep/**", configuration: one}
"""


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """AIPerf records, inference-perf on a clock of its own, and a summary without records."""
    folder = tmp_path / "campaign"
    shutil.copytree(FIXTURES / "runs" / "aiperf_sweep", folder / "sweep")
    shutil.copytree(FIXTURES / "clients" / "inference_perf", folder / "lifecycle")
    (folder / "summary").mkdir()
    for path in (FIXTURES / "clients" / "inference_perf").glob("stage_0_lifecycle*"):
        shutil.copy(path, folder / "summary")
    (folder / "campaign.yaml").write_text(MANIFEST)
    return folder


def of_run(campaign: Path) -> dict[str, dict[str, Any]]:
    return dict(reports(load(campaign)))


def test_one_report_per_run_with_figures_from_the_records(campaign: Path) -> None:
    found = of_run(campaign)
    tables = load(campaign).tables
    assert list(found) == tables.runs["run_id"].to_pylist()
    name = next(name for name in found if name.endswith("stage_0"))
    aggregate = found[name]["results"]["request_performance"]["aggregate"]
    rows = [r for r in tables.requests.to_pylist() if r["run_id"] == name]
    ttft = np.array([r["first_token_ns"] - r["start_ns"] for r in rows]) / 1e6
    stated = aggregate["latency"]["time_to_first_token"]
    assert stated["units"] == "ms"
    assert stated["mean"] == pytest.approx(ttft.mean())
    assert stated["p99p9"] == pytest.approx(np.percentile(ttft, 99.9))
    assert stated["min"] == ttft.min()
    assert aggregate["requests"]["total"] == 30
    assert aggregate["requests"]["input_length"]["mean"] == 512
    assert "time_per_output_token" not in aggregate["latency"]  # one token a request
    assert set(found[name]["run"]["time"]) == {"duration"}  # no wall clock
    assert "scenario" in found[name]
    assert "stack" not in found[name]["scenario"]  # no configuration is stated


def test_what_the_manifest_states_is_the_stack(campaign: Path) -> None:
    name, report = next((n, r) for n, r in of_run(campaign).items() if n.startswith("sweep"))
    (engine,) = report["scenario"]["stack"]
    assert engine["standardized"] == {
        "kind": "inference_engine",
        "tool": "vLLM",
        "tool_version": "not stated",
        "role": "replica",
        "replicas": 1,
        "model": {"name": "a/a-model"},
        "accelerator": {"model": "H100", "count": 8, "parallelism": {"tp": 8}},
    }
    assert engine["native"] == {"config": {"prefix_caching": False}}
    assert report["run"]["time"]["start"].endswith("Z")
    assert f"run {name} of campaign mine, configuration one" in report["run"]["description"]


def test_a_summary_gives_the_clients_own_figures(campaign: Path) -> None:
    report = of_run(campaign)["summary"]
    latency = report["results"]["request_performance"]["aggregate"]["latency"]
    assert latency["request_latency"]["mean"] == pytest.approx(25.07761156664401)
    assert "stddev" not in latency["request_latency"]
    assert "as its own summary states them" in report["run"]["description"]


def test_what_is_exported_reads_back(campaign: Path, tmp_path: Path) -> None:
    assert main(["export", str(campaign), "--format", "llm-d", "-o", str(tmp_path / "b.yaml")]) == 0
    back = read_tree(tmp_path / "b.yaml")
    assert back.refused.num_rows == back.set_aside.num_rows == 0
    runs = load(campaign).tables.runs.to_pylist()
    assert [r["n_ok"] for r in back.runs.to_pylist()] == [r["n_ok"] for r in runs]
    for ours, theirs in zip(runs, back.runs.to_pylist(), strict=True):
        if ours["level"] == "records":  # a load without a length has no place in the schema
            assert theirs["concurrency"] == ours["concurrency"]
        if ours["clock"] == "epoch":
            assert theirs["start_ns"] == ours["start_ns"] // 1000 * 1000


@pytest.mark.parametrize("name", ["out.yml", "out.jsonl", "folder"])
def test_every_form_holds_the_same(campaign: Path, tmp_path: Path, name: str) -> None:
    expected = list(of_run(campaign).values())
    said = export(campaign, tmp_path / name)
    assert said.startswith(f"{len(expected)} llm-d Benchmark Reports of mine")
    target = tmp_path / name
    if target.is_dir():
        texts = [path.read_bytes() for path in sorted(target.iterdir())]
        found = [report for text in texts for report in yaml(text)]
        key = "uid"
        assert sorted(r["run"][key] for r in found) == sorted(r["run"][key] for r in expected)
        return
    data = target.read_bytes()
    found = yaml(data) if name.endswith("yml") else [json.loads(x) for x in data.splitlines()]
    assert found == expected
    export(campaign, target)
    assert target.read_bytes() == data


@pytest.mark.parametrize(
    ("name", "why"),
    [("campaign/out.yaml", "inside the campaign"), ("out.json", "holds one report")],
)
def test_refused(campaign: Path, tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(BuildError, match=why):
        export(campaign, tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.skipif(
    "SERVEBOOK_DUMPS" not in os.environ, reason="SERVEBOOK_DUMPS names no folder of dumps"
)
def test_reports_are_valid(campaign: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    beside = Path(os.environ["SERVEBOOK_DUMPS"]).parent / "third-party" / "benchmarks"
    schemas = sorted(beside.glob("llm-d-benchmark/*br_v0_2*schema.json"))
    if not schemas:
        pytest.skip("the schema of llm-d-benchmark does not lie beside the dumps")
    check = jsonschema.Draft202012Validator(json.loads(schemas[-1].read_text()))
    for folder in (campaign, Path(__file__).parents[2] / "data" / "loopback"):
        found = of_run(folder)
        assert found
        for name, report in found.items():
            assert not [e.message for e in check.iter_errors(report)], name
