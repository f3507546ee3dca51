"""``make bench`` runs, finds the same gaps in every way, and writes what it says it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_the_bench_runs_at_a_small_size(project_root: Path, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    command = [sys.executable, "benchmarks/bench.py", "--mb", "0.3", "--json", str(out)]
    done = subprocess.run(command, cwd=project_root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert [row["file"].rpartition(".")[2] for row in found["reading"]] == ["jsonl", "json"]
    for reading in found["reading"]:
        assert reading["n_gaps"] > 5000
        ways = reading["ways"]
        assert {"servebook", "json", "orjson", "pandas", "polars", "pysimdjson"} == set(ways)
        for way in ("servebook", "json", "orjson"):
            row = ways[way]
            assert row["n_gaps"] == reading["n_gaps"]
            assert row["peak_rss_bytes"] > 10_000_000
            assert row["servebook_times_wall"] > 0
            assert way in done.stdout
        for row in ways.values():
            assert "cpu_s" in row or "skipped" in row
