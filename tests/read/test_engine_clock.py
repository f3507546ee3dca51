from __future__ import annotations

import json
from pathlib import Path

from servebook.read.campaign import load
from tests.read.samples import START, record, write_lines
from tests.read.test_engine_aiperf import REAL, scrape

MANIFEST = """\
servebook: 1
name: some-campaign
title: A campaign
provenance: measured
configurations:
  one:
    label: One
runs:
  - match: "*"
    configuration: one
"""


def campaign(folder: Path, more: str = "") -> Path:
    (folder / "campaign.yaml").write_text(MANIFEST + more)
    write_lines(folder / "c4" / "profile_export.jsonl", record(0), record(1))
    (folder / "c4" / "server_metrics_export.json").write_bytes(REAL.read_bytes())
    line = json.dumps(scrape(0, 4.0, timestamp_ns=START)) + "\n"
    (folder / "c4" / "extra_server_metrics.jsonl").write_text(line)
    return folder


def test_engine_metrics_need_no_entry(tmp_path: Path) -> None:
    book = load(campaign(tmp_path))
    engine = book.tables.engine
    assert set(engine["run_id"].to_pylist()) == {"c4"}
    assert set(engine["source"].to_pylist()) == {
        "c4/server_metrics_export.json",
        "c4/extra_server_metrics.jsonl",
    }
    paths = [row["path"] for row in book.inputs.to_pylist()]
    assert "c4/server_metrics_export.json" in paths
    assert not [finding for finding in book.findings if "counter" in finding]


def test_an_entry_moves_their_clock(tmp_path: Path) -> None:
    more = 'counters:\n  - match: "c4/extra*"\n    clock_offset_s: 2.5\n'
    engine = load(campaign(tmp_path, more)).tables.engine.to_pylist()
    moved = [row for row in engine if row["source"] == "c4/extra_server_metrics.jsonl"]
    assert {row["start_ns"] for row in moved} == {START + 2_500_000_000}
    others = {row["start_ns"] for row in engine} - {START + 2_500_000_000}
    assert others == {1_795_976_078_189_183_140}


def test_they_move_with_their_run(tmp_path: Path) -> None:
    campaign(tmp_path)
    manifest = MANIFEST + "    clock_offset_s: 10\n"
    (tmp_path / "campaign.yaml").write_text(manifest)
    book = load(tmp_path)
    assert book.tables.runs["start_ns"].to_pylist() == [START + 10 * 10**9]
    moved = [row["start_ns"] for row in book.tables.engine.to_pylist()]
    assert START + 10 * 10**9 in moved
