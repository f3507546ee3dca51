"""``make bench`` runs, finds the same gaps in every way, and writes what it says it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def test_the_bench_runs_at_a_small_size(project_root: Path, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    command = [sys.executable, "benchmarks/bench.py", "--mb", "0.3", "--rounds", "2"]
    done = subprocess.run(
        [*command, "--json", str(out)],
        cwd=project_root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert [row["file"].rpartition(".")[2] for row in found["reading"]] == ["jsonl", "json"]
    for reading in found["reading"]:
        assert reading["n_gaps"] > 5000
        ways = reading["ways"]
        assert {
            "servebook", "json", "orjson", "pandas", "polars", "pysimdjson", "AIPerf's loader",
        } == set(ways)  # fmt: skip
        for way in ("servebook", "json", "orjson"):
            row = ways[way]
            assert row["n_gaps"] == reading["n_gaps"]
            assert row["peak_rss_bytes"] > 10_000_000
            assert row["servebook_times_wall"] > 0
            assert row["wall_s"] == max(row["all_wall_s"])
            assert len(row["all_wall_s"]) == 2
            assert way in done.stdout
        for row in ways.values():
            assert "cpu_s" in row or "skipped" in row


def test_growth_is_told_beside_the_first_size(project_root: Path, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    command = [sys.executable, "benchmarks/bench.py", "--no-reading", "--memory", "0.3", "0.9"]
    done = subprocess.run(
        [*command, "--json", str(out)], cwd=project_root, capture_output=True, text=True, check=True
    )
    small, large = json.loads(out.read_text())["memory"]
    assert (small["of_mb"], small["of_wall"]) == (1, 1)
    assert 2.9 < large["of_mb"] < 3.1
    assert large["n_gaps"] > 2 * small["n_gaps"] > 0
    assert "aiperf plot: skipped, no --aiperf or no --runs" in done.stdout


@pytest.mark.usefixtures("bench_folder")
def test_the_run_of_median_time_counts() -> None:
    import bench

    runs = [
        {"wall_s": wall_s, "cpu_s": cpu_s} for wall_s, cpu_s in ((3.0, 4.0), (9.0, 1.0), (2.0, 8.0))
    ]
    assert bench.median(runs) == {"wall_s": 3.0, "cpu_s": 4.0, "all_wall_s": [3.0, 9.0, 2.0]}
    assert bench.median([{"skipped": "no such module"}]) == {"skipped": "no such module"}


@pytest.mark.usefixtures("bench_folder")
def test_a_step_is_told_as_a_part_of_another() -> None:
    import building
    import timing

    cold, edited = {"wall_s": 20.0, "cpu_s": 40.0}, {"wall_s": 5.0, "cpu_s": 8.0}
    assert timing.times(edited, cold) == {"of_wall": 0.25, "of_cpu": 0.2}
    assert building.rows({"cold": cold, "edited": edited}, "cold")[2].split() == [
        "edited", "5.00", "8.00", "0.250", "0.200",
    ]  # fmt: skip


@pytest.mark.usefixtures("bench_folder")
def test_a_command_is_timed_with_what_it_starts(tmp_path: Path) -> None:
    import timing

    inner = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    assert timing.run([sys.executable, "-c", outer], tmp_path)["cpu_s"] >= 0.2
    with pytest.raises(SystemExit, match="no such thing"):
        timing.run([sys.executable, "-c", "raise SystemExit('no such thing')"], tmp_path)


@pytest.fixture
def bench_folder(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(project_root / "benchmarks")
