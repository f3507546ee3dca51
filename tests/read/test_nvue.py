"""NVUE's JSON: the forms of the tree, QoS, and its rounded text."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import nvue
from servebook.read.files import survey
from servebook.tables import Tables
from tests.read import counter_samples
from tests.read.counter_samples import WRITTEN, rows

LOG = WRITTEN / "nvue.log"
AT = 1795972223_500_000_000
STATS = {"in-bytes": 7, "out-bytes": 8}
read = functools.partial(counter_samples.read, nvue.FORMAT)


def short(tables: Tables) -> list[tuple[object, ...]]:
    return rows(tables, "interface", "direction", "metric", "scope", "index", "count")


def test_the_log_is_found_and_read() -> None:
    assert LOG in {source.main for source in nvue.find(survey(LOG.parent))}
    tables = read(LOG)
    rows = short(tables)
    assert ("swp1", "rx", "bytes", "port", None, 184151) in rows
    assert ("swp1", "tx", "bytes", "port", None, 2**64 - 1) in rows
    assert ("swp1", "rx", "drops", "port", None, 3) in rows
    assert ("swp1", "tx", "packets", "port", None, 762) in rows
    assert ("swp1", "tx", "bytes", "port", None, 5) in rows  # cleared: it stays as it is written
    assert ("swp1", "rx", "pfc_frames", "prio", 3, 200) in rows
    assert ("swp1", "tx", "ecn_marked", "queue", 3, 100) in rows
    assert ("swp1", "tx", "bytes", "queue", 3, 64000) in rows
    everything = tables.samples.to_pylist()
    assert [r["value"] for r in everything if r["metric"] == "speed_bps"] == [4e11]
    assert {r["ts_ns"] for r in everything} == {AT, AT + 2 * 10**9}
    assert tables.set_aside.num_rows == 0
    for secret in ("192.0.2", "de:ad"):
        assert secret not in str(everything)


@pytest.mark.parametrize(
    ("document", "separator", "options"),
    [
        ({"swp1": {"link": {"stats": STATS}}}, "", {}),
        ({"interface": {"swp1": {"link": {"stats": STATS}}}}, "", {}),
        ({"operational": {"interface": {"swp1": {"counters": STATS}}}}, "", {}),
        ({"link": {"stats": STATS}}, " swp1", {}),
        ({"stats": STATS}, " swp1 2026-11-29T17:10:23Z", {}),
        (STATS, "\ncumulus@leaf01:~$ nv show interface swp1 link stats -o json", {}),
        (STATS, "", {"interface": "swp1"}),
        ({"swp1": {"link": {"stats": {"in-bytes": "7", "out-bytes": "8"}}}}, "", {}),
    ],
)
def test_forms_of_the_tree(
    tmp_path: Path, document: object, separator: str, options: dict[str, object]
) -> None:
    path = tmp_path / "nv.log"
    path.write_text(f"### 1795972223.5{separator}\n{json.dumps(document, indent=1)}\n")
    assert len(nvue.find(survey(tmp_path))) == 1
    assert short(read(path, **options)) == [
        ("swp1", "rx", "bytes", "port", None, 7),
        ("swp1", "tx", "bytes", "port", None, 8),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "                 operational  applied\n---\n  stats\n    in-bytes     39.21 MB\n",
        "Counter   Receive   Transmit\n-----\nTotal Octets   12   34\n",
    ],
)
def test_rounded_text_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nv.log"
    path.write_text(f"### 1795972223.5\n{text}")
    assert len(nvue.find(survey(tmp_path))) == 1
    with pytest.raises(DumpError, match=r"rounded.*-o json"):
        read(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps({"swp1": STATS}) + "\n", "no time"),
        (f"### 1795972223\n{json.dumps(STATS)}\n", "no interface is named"),
        ('### 1795972223\n{"swp1": {"in-bytes": "39.21 MB"}}\n', "a rounded total"),
        ('### 1795972223\n{"swp1": {"in-bytes": 39.21\n', "no valid JSON"),
        ('### 1795972223\n{"swp1": {"in-bytes": null, "out-bytes": NaN}}\n', "not a number"),
        ("### 1795972223\n" + '{"link":' * 3000, "no valid JSON"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "nv.log"
    path.write_text(text)
    with pytest.raises(DumpError, match=words):
        read(path)


def test_a_torn_reading_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "nv.log"
    path.write_text(LOG.read_text()[:-30])
    tables = read(path)
    assert {row["ts_ns"] for row in tables.samples.to_pylist()} == {AT}
    assert "torn there" in tables.set_aside["reason"][0].as_py()
