"""Names and private texts of a campaign reach neither its page nor a file beside it."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from servebook.publish.build import build
from servebook.publish.pack import charts_text

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
CANARY = "kanarienvogel"
NOTEBOOKS = ("01-setup", "06-fabric", "99-appendix")
MANIFEST = f"""\
servebook: 1
name: masked
provenance: measured
configurations:
  a: {{label: label of its author}}
runs:
  - {{match: raw/{CANARY}-srv9/mixed_c8, configuration: a, workload: mixed, concurrency: 8}}
counters:
  - {{match: raw/{CANARY}-leaf7_0.5s.csv, device: {CANARY}-leaf7, interface: to-{CANARY},
      kind: counter, unit: bytes}}
ports:
  - {{device: {CANARY}-leaf7, interface: to-{CANARY}, speed_gbps: 0.01, role: uplink,
      node: {CANARY}-srv9}}
"""


def test_a_page_calls_machines_by_their_aliases(tmp_path: Path) -> None:
    source = PROJECT / "data" / "loopback" / "raw"
    root = tmp_path / "masked"
    run = root / "raw" / f"{CANARY}-srv9" / "mixed_c8"
    shutil.copytree(source / "aiperf" / "spread" / "mixed_c8", run)
    shutil.copy(
        source / "counters" / "sysfs" / "lo_0.5s.csv", root / "raw" / f"{CANARY}-leaf7_0.5s.csv"
    )
    (root / "campaign.yaml").write_text(MANIFEST)
    for path in run.glob("profile_export_aiperf.json"):
        summary = json.loads(path.read_text())
        summary["prompt"] = summary["hostname"] = CANARY
        summary.setdefault("input_config", {})["user"] = CANARY
        path.write_text(json.dumps(summary))
    for path in run.glob("profile_export.jsonl*"):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as stream:
            records = [json.loads(line) for line in stream]
        for record in records:
            record["prompt"] = record["metadata"]["worker_id"] = CANARY
        with opened(path, "wt", encoding="utf-8") as stream:
            stream.writelines(json.dumps(record) + "\n" for record in records)
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    for name in NOTEBOOKS:
        shutil.copy(PROJECT / "notebooks" / f"{name}.ipynb", notebooks)
    assert build([root], tmp_path / "report", notebooks=notebooks) == 0
    told = [
        path.name
        for path in sorted((tmp_path / "report").rglob("*"))
        if path.is_file() and CANARY.encode() in path.read_bytes().lower()
    ]
    assert told == []
    page = (tmp_path / "report" / "masked.html").read_text(encoding="utf-8")
    assert "label of its author" in charts_text(page)
    assert CANARY not in charts_text(page).lower()
    assert "the names of 1 node, 1 port, 1 switch" in page
    assert "switch-1" in page
    assert "label of its author" in page
    claims = json.loads((tmp_path / "report" / "masked" / "claims.json").read_text())
    assert "1 switch" in claims["masked"]
