"""gnmic events: arrays one after another, strings for numbers, what is no counter."""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import gnmic
from servebook.read.files import survey
from servebook.tables import Tables
from tests.read import counter_samples
from tests.read.counter_samples import WRITTEN, rows

AT = 1_767_225_600_000_000_000
COUNTERS = "/interfaces/interface/state/counters/"
read = functools.partial(counter_samples.read, gnmic.FORMAT)


def event(at: int = AT, port: str = "Ethernet1/1", **values: Any) -> dict[str, Any]:
    return {
        "name": "counters",
        "timestamp": at,
        "tags": {"interface_name": port, "source": "10.0.0.7:6030", "subscription-name": "c"},
        "values": {COUNTERS + name.replace("_", "-"): value for name, value in values.items()},
    }


def test_concatenated_arrays_with_numbers_as_strings(tmp_path: Path) -> None:
    path = tmp_path / "leaf.json"
    first = [event(in_octets="18446744073709551615", out_octets=7)]
    second = [event(AT + 10**9, port="Ethernet1/2", in_octets=8), event(AT + 10**9, in_octets=9)]
    path.write_text(json.dumps(first, indent=2) + "\n" + json.dumps(second) + "\n")
    [source] = gnmic.find(survey(path))
    rows = gnmic.read(source).samples.to_pylist()
    assert [(r["interface"], r["direction"], r["count"]) for r in rows] == [
        ("Ethernet1/1", "rx", 2**64 - 1),
        ("Ethernet1/1", "tx", 7),
        ("Ethernet1/2", "rx", 8),
        ("Ethernet1/1", "rx", 9),
    ]
    assert {(r["ts_kind"], r["bits"], r["device"]) for r in rows} == {("device", 64, "device 1")}
    assert rows[2]["ts_ns"] == AT + 10**9
    assert "10.0.0.7" not in str(rows)


def test_one_event_per_line_and_gz(tmp_path: Path) -> None:
    path = tmp_path / "leaf.json.gz"
    lines = [json.dumps(event(AT + i, in_octets=i)) for i in range(3)]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    [source] = gnmic.find(survey(path))
    assert [r["count"] for r in gnmic.read(source).samples.to_pylist()] == [0, 1, 2]


def test_what_is_not_used_is_set_aside_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "leaf.json"
    nameless = event(in_octets=1)
    del nameless["tags"]["interface_name"]
    timeless = event(in_octets=1)
    timeless["timestamp"] = "soon"
    good = event(in_octets=1, oper_status="UP", in_pkts=-4)
    path.write_text(json.dumps([nameless, timeless, good, "text"]) + '\n[{"timestamp": 1')
    tables = read(path)
    assert tables.samples.num_rows == 1
    reasons = " | ".join(tables.set_aside.column("reason").to_pylist())
    for words in ("no tag names", "no `timestamp`", "not a counter", "negative", "no `values`"):
        assert words in reasons
    assert "the file is torn there" in reasons


def test_events_without_counters_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "leaf.json"
    path.write_text(json.dumps([event(oper_status="UP")]))
    reason = r"none that can be used \(line 1: not a counter that Servebook uses\); subscribe to"
    with pytest.raises(DumpError, match=reason):
        read(path)


def test_files_of_one_folder_that_carry_their_times_are_all_read(tmp_path: Path) -> None:
    for i in range(2):
        (tmp_path / f"events_{1_767_225_600 + i}.json").write_text(
            json.dumps([event(AT + i * 10**9, in_octets=i)])
        )
    found = [gnmic.read(source).samples.num_rows for source in gnmic.find(survey(tmp_path))]
    assert sum(found) == 2


@given(cut=st.integers(1, 400))
def test_a_file_cut_anywhere_is_read_or_refused(cut: int, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("cut") / "leaf.json"
    whole = "\n".join(json.dumps([event(AT + i, in_octets=i)]) for i in range(3))
    path.write_text(whole[:cut])
    try:
        assert read(path).samples.num_rows <= 3
    except DumpError:
        assert cut < len(whole)


def short(tables: Tables) -> list[tuple[object, ...]]:
    return rows(tables, "device", "interface", "direction", "metric", "count", "ts_ns")


def test_the_other_formats_are_found() -> None:
    found = [source.main.name for source in gnmic.find(survey(WRITTEN))]
    assert found == ["gnmic_flat.log", "gnmic_json.log", "gnmic_protojson.log"]


def test_json_notifications() -> None:
    tables = read(WRITTEN / "gnmic_json.log")
    first, second = 1795972223_055_001_002, 1795972224_055_001_002
    assert short(tables) == [
        ("device 1", "Ethernet1/1", "rx", "bytes", 2**64 - 1, first),
        ("device 1", "Ethernet1/1", "tx", "bytes", 7, first),
        ("device 1", "Ethernet1/1", "rx", "bytes", 5, second),
        ("device 1", "Ethernet1/1", "rx", "drops", 1, second),
        ("device 1", "Ethernet1/2", "tx", "bytes", 9, second),
    ]
    assert "192.0.2" not in str(tables.samples.to_pylist())
    told = tables.set_aside["reason"].to_pylist()
    assert "notifications: no values (1 reading)" in told
    assert any(reason.startswith("last-clear:") for reason in told)


def test_the_answer_of_get_is_one_array(tmp_path: Path) -> None:
    texts = (WRITTEN / "gnmic_json.log").read_text().split("\n}\n")[:1]
    path = tmp_path / "get.json"
    path.write_text(f"[{texts[0]}}}]\n")
    assert len(gnmic.find(survey(tmp_path))) == 1
    assert len(short(read(path))) == 2


def test_protojson_notifications() -> None:
    at = 1795972223_055_001_002
    assert short(read(WRITTEN / "gnmic_protojson.log")) == [
        ("leaf1", "Ethernet1/1", "rx", "bytes", 2**64 - 1, at),
        ("leaf1", "Ethernet1/1", "tx", "bytes", 7, at),
        ("leaf1", "Ethernet1/1", "tx", "drops", 2, at),
    ]


@pytest.mark.parametrize("wrapped", [True, False])
def test_replies_of_pygnmi(tmp_path: Path, wrapped: bool) -> None:
    counters = {"openconfig-interfaces:counters": {"in-octets": "11932114", "in-discards": "0"}}
    update = {
        "timestamp": AT,
        "prefix": None,
        "update": [{"path": "interfaces/interface[name=Ethernet2]/state", "val": counters}],
    }
    path = tmp_path / "reply.json"
    path.write_text(json.dumps({"notification": [update]} if wrapped else {"update": update}))
    assert len(gnmic.find(survey(tmp_path))) == 1
    assert short(read(path)) == [
        ("device", "Ethernet2", "rx", "bytes", 11932114, AT),
        ("device", "Ethernet2", "rx", "drops", 0, AT),
    ]


def test_flat_paths_have_the_time_of_their_block(tmp_path: Path) -> None:
    at = 1795972223_500_000_000
    tables = read(WRITTEN / "gnmic_flat.log")
    assert short(tables) == [
        ("device", "Ethernet1/1", "rx", "bytes", 2**64 - 1, at),
        ("device", "Ethernet1/1", "tx", "bytes", 7, at),
        ("device", "ethernet-1/1", "rx", "bytes", 8, at + 10**9),
    ]
    assert tables.set_aside["reason"].to_pylist() == [
        "oper-status: not a counter that Servebook uses (1 reading)"
    ]
    path = tmp_path / "flat.txt"
    path.write_text((WRITTEN / "gnmic_flat.log").read_text().split("\n", 1)[1].split("###")[0])
    with pytest.raises(DumpError, match="no time"):
        read(path)


def test_prototext_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_text(
        "update: {\n  timestamp: 1595491704850352047\n  prefix: {\n    elem: {\n"
        '      name: "counters"\n    }\n  }\n  update: {\n'
        '    path: { elem: { name: "in-octets" } }\n'
    )
    assert len(gnmic.find(survey(tmp_path))) == 1
    with pytest.raises(DumpError, match=r"prototext.*--format event"):
        read(path)


def test_the_speed_of_a_port(tmp_path: Path) -> None:
    path = tmp_path / "leaf.json"
    speed = event(in_octets=1)
    speed["values"]["/interfaces/interface/ethernet/state/port-speed"] = "SPEED_400GB"
    path.write_text(json.dumps([speed]))
    rows = read(path).samples.to_pylist()
    assert [(row["metric"], row["value"]) for row in rows] == [
        ("bytes", None),
        ("speed_bps", 4e11),
    ]
