"""Layouts of AIPerf's folders, and real runs of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read.discover import discover, read_tree
from tests.read.samples import FIXTURES, record, summary, write_json, write_lines
from tests.read.test_aiperf import run_of


@pytest.mark.parametrize(
    "layout",
    [
        "concurrency_10",
        "profile_runs/run_0001",
        "profile_runs/trial_0001/concurrency_10",
        "concurrency_10/profile_runs/trial_0001",
        "search_iter_0001/profile_runs/run_0001",
    ],
)
def test_sweep_layouts(tmp_path: Path, layout: str) -> None:
    folder = tmp_path / layout
    write_lines(folder / "profile_export.jsonl", record(0))
    write_json(folder / "profile_export_aiperf.json", summary())
    for copy in ("phases/profiling", "phases/warmup"):
        write_json(folder / copy / "profile_export_aiperf.json", summary())
    write_json(tmp_path / "aggregate" / layout / "profile_export_aiperf.json", summary())
    write_json(tmp_path / "sweep_aggregate" / "profile_export_aiperf_sweep.json", summary())
    tables = read_tree(tmp_path)
    run = run_of(tables)
    assert (run["run_id"], run["concurrency"]) == (layout, 8)
    assert tables.refused.num_rows == 0


@pytest.mark.parametrize("below", [".", "profile_runs/trial_0001"])
def test_concurrency_from_the_folder_when_nothing_else_says_it(tmp_path: Path, below: str) -> None:
    write_lines(tmp_path / "concurrency_32" / below / "profile_export.jsonl", record(0))
    run = run_of(read_tree(tmp_path))
    assert run["concurrency"] == 32
    assert "name of the folder" in " ".join(run["notes"])


def test_real_sweep(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "aiperf_sweep", tmp_path / "sweep")
    tables = read_tree(tmp_path)
    runs = tables.runs.to_pylist()
    # The client's own counts: 25 and 26 valid, 5 and 4 errors, 4 requests of warm-up each.
    assert [r["run_id"] for r in runs] == ["sweep/concurrency_2", "sweep/concurrency_4"]
    assert [r["concurrency"] for r in runs] == [2, 4]
    assert [(r["n_ok"], r["n_failed"], r["n_warmup"]) for r in runs] == [(25, 5, 4), (26, 4, 4)]
    assert {r["tokens_counted_by"] for r in runs} == {"client"}
    assert "825 output tokens where the server counted 400" in runs[0]["notes"][0]
    assert tables.refused.num_rows == tables.set_aside.num_rows == 0


def test_real_failures_are_told_apart() -> None:
    tables = read_tree(FIXTURES / "aiperf_failures")
    run = run_of(tables)
    rows = tables.requests.to_pylist()
    kinds = [row["error_kind"] for row in rows if row["phase"] == "profiling"]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        None: 43,
        "http_500": 9,
        "stream_broken": 4,
        "stream_error": 4,
    }
    native = json.loads(run["native"])
    assert native["n_ok"] == run["n_ok"] + 4  # the client counts stream errors as successes
    assert native["n_failed"] == run["n_failed"] - 4


def test_real_raw_export_gives_back_lost_chunks() -> None:
    tables = read_tree(FIXTURES / "aiperf_failures")
    broken = [
        r
        for r in tables.requests.to_pylist()
        if r["error_kind"] == "stream_broken" and r["first_token_ns"] is not None
    ]
    (request,) = broken  # the one whose raw line is in the fixture
    gaps = [g for g in tables.gaps.to_pylist() if g["request_id"] == request["request_id"]]
    assert len(gaps) == 31  # broken after half of 64 tokens
    assert request["start_ns"] < request["first_token_ns"] < gaps[-1]["end_ns"]
    assert gaps[-1]["end_ns"] <= request["end_ns"]


def test_raw_alone_reads_like_the_records(tmp_path: Path) -> None:
    name = "profile_export_raw.jsonl"
    shutil.copy(FIXTURES / "aiperf_cancel" / name, tmp_path / name)
    raw = {r["request_id"]: r for r in read_tree(tmp_path).requests.to_pylist()}
    records = {
        r["request_id"]: r for r in read_tree(FIXTURES / "aiperf_cancel").requests.to_pylist()
    }
    assert len(raw) > 10
    same = ("status", "error_kind", "start_ns", "first_token_ns", "end_ns", "osl")
    for request_id, row in raw.items():
        if row["status"] == "ok":
            assert [row[k] for k in same] == [records[request_id][k] for k in same]
        assert row["status"] == records[request_id]["status"]


def test_real_prefill_has_no_gaps() -> None:
    tables = read_tree(FIXTURES / "aiperf_osl1")
    run = run_of(tables)
    assert (run["workload"], run["n_gaps"], run["n_ok"]) == ("prefill", 0, 17)
    assert not [name for name in json.loads(run["native"]) if name.startswith(("tpot", "itl"))]


def test_read_raises_only_for_a_dump_that_is_useless(tmp_path: Path) -> None:
    from servebook.read.aiperf import read

    write_lines(tmp_path / "profile_export.jsonl", b"x")
    (source,) = discover(tmp_path).sources
    with pytest.raises(DumpError, match=r"profile_export.jsonl:1: expected AIPerf records"):
        read(source)
