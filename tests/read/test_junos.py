"""Junos' XML and JSON: layers, rates alone, hostile XML, and the refused text."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import junos
from servebook.read.files import survey
from servebook.read.junos_xml import from_json, from_xml
from tests.read import counter_samples
from tests.read.counter_samples import WRITTEN, leaf_log

LOG = WRITTEN / "junos.log"
AT = 1795972223_500_000_000
ONE = (
    "<interface-information><physical-interface><name>{name}</name><traffic-statistics>"
    "<input-bytes>{count}</input-bytes></traffic-statistics></physical-interface>"
    "</interface-information>"
)


read = functools.partial(counter_samples.read, junos.FORMAT)


def test_the_log_is_found_and_read() -> None:
    assert [source.main for source in junos.find(survey(LOG.parent))] == [LOG]
    tables = read(LOG)
    keys = ("interface", "direction", "metric", "scope", "index", "count", "value")
    rows = [
        tuple(row[key] for key in keys) for row in tables.samples.to_pylist() if row["ts_ns"] == AT
    ]
    assert rows == [
        # the MAC's bytes, not those of the traffic statistics
        ("et-0/0/1", "rx", "bytes", "port", None, 2230, None),
        ("et-0/0/1", "tx", "bytes", "port", None, 2**64 - 1, None),
        ("et-0/0/1", "rx", "packets", "port", None, 12, None),
        ("et-0/0/1", "rx", "errors", "port", None, 1, None),
        ("et-0/0/1", "rx", "drops", "port", None, 2, None),
        ("et-0/0/1", "tx", "drops", "port", None, 3, None),
        ("et-0/0/1", "rx", "pause_frames", "port", None, 5, None),
        ("et-0/0/1", "tx", "packets", "queue", 3, 7, None),
        ("et-0/0/1", "tx", "drops", "queue", 3, 4, None),
        ("et-0/0/1", None, "speed_bps", "port", None, None, 4e11),
        ("et-0/0/2", "rx", "bytes", "port", None, None, 89.0),
        ("et-0/0/2", "tx", "bytes", "port", None, None, 0.0),
    ]
    later = [row for row in tables.samples.to_pylist() if row["ts_ns"] != AT]
    assert [(row["interface"], row["direction"], row["count"]) for row in later] == [
        ("et-0/0/1", "rx", 5),
        ("et-0/0/1", "tx", 6),
    ]
    assert tables.set_aside.num_rows == 0
    assert "de:ad" not in str(tables.samples.to_pylist())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>' + ONE.format(name="e", count=1),
            "a document type or entities",
        ),
        (
            '<?xml version="1.0"?><!DOCTYPE x SYSTEM "file:///etc/passwd">'
            + ONE.format(name="e", count=1),
            "a document type or entities",
        ),
        (ONE.format(name="&e;", count=1), "no valid XML"),
        (ONE.format(name="e", count=1)[:-9], "no valid XML"),
        ("<physical-interface>" * 3000, "no valid XML"),
        (ONE.format(name="", count=1), "no name"),
        (ONE.format(name="e", count="-1"), "cannot be negative"),
        (ONE.format(name="e", count="1e99"), "above 64 bits"),
        ('{"physical-interface": [{"name": 3}', "no valid JSON"),
        ("<physical-interface/>", "physical interfaces with counters"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, words: str) -> None:
    path = leaf_log(tmp_path, text)
    assert len(junos.find(survey(tmp_path))) == 1
    with pytest.raises(DumpError, match=words):
        read(path)


def test_the_text_is_refused_with_the_better_command(tmp_path: Path) -> None:
    path = leaf_log(
        tmp_path,
        "Physical interface: et-0/0/1, Enabled, Physical link is Up\n"
        "  Input rate     : 712 bps (1 pps)\n  Output rate    : 0 bps (0 pps)",
    )
    assert len(junos.find(survey(tmp_path))) == 1
    with pytest.raises(DumpError, match=r"Junos' text.*display xml"):
        read(path)


def test_a_reading_without_a_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "leaf1.xml"
    path.write_text(ONE.format(name="e", count=1))
    with pytest.raises(DumpError, match="no time"):
        read(path)


def test_declarations_prompts_and_hostile_names(tmp_path: Path) -> None:
    text = ONE.format(name="&lt;script&gt;\x07=1", count=7).replace("\x07", "")
    path = leaf_log(tmp_path, f"u@h> show\n<?xml version='1.0' encoding='UTF-8'?>{text}\nu@h>")
    [row] = read(path).samples.to_pylist()
    assert (row["interface"], row["count"]) == ("<script>=1", 7)


def test_trees_of_both_notations_are_alike() -> None:
    assert from_xml("<a><b>1</b><b>2</b></a>") == {"a": [{"b": ["1", "2"]}]}
    assert from_json({"a": [{"b": [{"data": "1"}, {"data": 2}]}]}) == {"a": [{"b": ["1", "2"]}]}
    assert from_json([]) == {}
