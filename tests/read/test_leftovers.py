from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from servebook.read.discover import discover, read_tree
from tests.read.samples import record, summary, vllm_result, write_json, write_lines

CSV = (
    "Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std\n"
    "Request Latency (ms),32,30,40,128,30,30,30,30.5,31,33,39,39.5,39.9,1\n"
    "\nMetric,Value\nRequest Count (requests),4.00\n"
)
LATENCY = {"request_latency": {"unit": "ms", "mean": 32.0, "p50": 32.0, "count": 4}}
POOL = {
    "schema_version": "1.0.0",
    "combined": {"request_latency": {"mean": 32.0, "p50": 32.0, "unit": "ms"}},
    "per_run": [LATENCY, LATENCY],
}
AGGREGATE = {
    "schema_version": "1.0",
    "metadata": {"aggregation_type": "confidence"},
    "metrics": {"request_latency_p99": {"mean": 1.0, "unit": "ms"}},
}
SLICES = {"timeslices": [{"start_ns": 1, "end_ns": 2, **LATENCY}]}


def leave(path: Path, content: str | dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))


LEFT = [
    ("profile_export_aiperf.csv", CSV, "table of rounded values"),
    ("profile_export_aiperf_collated.json", POOL, "pool of several runs"),
    ("profile_export_aiperf_aggregate.json", AGGREGATE, "statistics over several runs"),
    ("aggregate/profile_export_aiperf_aggregate.json", AGGREGATE, "statistics over several runs"),
    ("aggregate/c_10/profile_export_aiperf_aggregate.csv", CSV, "table of rounded values"),
    ("profile_export_aiperf_timeslices.json", SLICES, "statistics per time slice"),
    ("summary.csv", ",run_number,mean_ttft_ms,p99_itl_ms\n0,0,1.5,2.5\n", "run=<n>.json"),
    ("notes.txt", "============ Serving Benchmark Result ============\n", "--save-result"),
]


@pytest.mark.parametrize(("name", "content", "reason"), LEFT)
def test_alone_it_is_refused_with_what_to_give(
    tmp_path: Path, name: str, content: str | dict[str, object], reason: str
) -> None:
    leave(tmp_path / "c8" / name, content)
    found = discover(tmp_path)
    assert found.sources == ()
    [(path, why)] = found.refused
    assert (path, reason in why) == (f"c8/{name}", True)
    [(_, why)] = discover(tmp_path / "c8" / name).refused
    assert reason in why


@pytest.mark.parametrize(("name", "content", "_reason"), LEFT[:-1])
def test_beside_its_run_it_is_let_be(
    tmp_path: Path, name: str, content: str | dict[str, object], _reason: str
) -> None:
    leave(tmp_path / "c8" / name, content)
    if name == "summary.csv":
        write_json(tmp_path / "c8" / "BENCH--a=1" / "run=0.json", vllm_result())
    elif "aggregate" in name or "collated" in name:
        write_lines(
            tmp_path / "c8" / "profile_runs" / "run_0001" / "profile_export.jsonl", record()
        )
    else:
        write_lines(tmp_path / "c8" / "profile_export.jsonl", record())
    found = discover(tmp_path)
    assert (len(found.sources), found.refused) == (1, ())
    assert found.companions == (f"c8/{name}",)


def test_a_run_elsewhere_does_not_excuse_it(tmp_path: Path) -> None:
    leave(tmp_path / "c8" / "profile_export_aiperf.csv", CSV)
    write_lines(tmp_path / "c4" / "profile_export.jsonl", record())
    [(path, _)] = discover(tmp_path).refused
    assert path == "c8/profile_export_aiperf.csv"


def test_every_copy_and_sum_of_a_sweep_is_no_run(tmp_path: Path) -> None:
    """Two concurrencies with three trials each, as AIPerf lays them out, and all that lies near."""
    for c in (2, 4):
        for trial in (1, 2, 3):
            run = tmp_path / f"concurrency_{c}" / "profile_runs" / f"trial_{trial:04}"
            write_lines(run / "profile_export.jsonl", record(trial), record(10 * c + trial))
            write_json(run / "profile_export_aiperf.json", summary(benchmark_id=f"{c}{trial}"))
            write_json(run / "phases" / "profiling" / "profile_export_aiperf.json", summary())
            leave(run / "profile_export_aiperf.csv", CSV)
            leave(run / "profile_export_aiperf_timeslices.json", SLICES)
        leave(tmp_path / "aggregate" / f"concurrency_{c}" / "x_aggregate.json", AGGREGATE)
    leave(tmp_path / "profile_export_aiperf_collated.json", POOL)
    leave(tmp_path / "sweep_aggregate" / "profile_export_aiperf_sweep.csv", "a,b\n1,2\n")
    tables = read_tree(tmp_path)
    assert tables.runs["run_id"].to_pylist() == [
        f"concurrency_{c}/profile_runs/trial_{t:04}" for c in (2, 4) for t in (1, 2, 3)
    ]
    assert tables.runs["level"].to_pylist() == ["records"] * 6
    assert tables.refused.num_rows == 0
    shutil.rmtree(tmp_path / "concurrency_2")
    assert read_tree(tmp_path).runs.num_rows == 3


@pytest.mark.parametrize("stamp", ["### 1795973865", "### 1795973865.123 eth0", "###1795973865123"])
def test_a_log_of_readings_that_nobody_knows_is_no_companion(tmp_path: Path, stamp: str) -> None:
    write_lines(tmp_path / "c8" / "profile_export.jsonl", record(0))
    leave(tmp_path / "leaf1.log", f"{stamp}\nport 1 sent 5 octets\n")
    leave(tmp_path / "c8" / "logs" / "switch.out", f"hello\n{stamp}\nport 1 sent 5 octets\n")
    leave(tmp_path / "aiperf.log", "### Heading\n### 12 workers\n")
    found = discover(tmp_path)
    assert [path for path, _ in found.refused] == ["c8/logs/switch.out", "leaf1.log"]
    assert all("nothing that Servebook knows" in why for _, why in found.refused)
    assert found.companions == ("aiperf.log",)
