"""NX-OS: JSON in all its wrappings, the texts, and rates without names."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import nxos
from servebook.read.files import survey
from servebook.tables import Tables
from tests.read import counter_samples
from tests.read.counter_samples import WRITTEN, leaf_log, rows

NAMES = ("nxos_json.log", "nxos_text.log")
read = functools.partial(counter_samples.read, nxos.FORMAT)


def short(tables: Tables, second: int = 0) -> list[tuple[object, ...]]:
    at = 1795972223_500_000_000 + second * 10**9
    found = rows(tables, "ts_ns", "interface", "direction", "metric", "count")
    return [row[1:] for row in found if row[0] == at]


def test_the_logs_are_found() -> None:
    assert [source.main.name for source in nxos.find(survey(WRITTEN))] == list(NAMES)


def test_json_of_show_interface_and_of_its_counters() -> None:
    tables = read(WRITTEN / "nxos_json.log")
    rows = short(tables)
    assert ("mgmt0", "rx", "bytes", 3592332845) in rows
    assert ("Ethernet1/1", "rx", "bytes", 2**64 - 1) in rows
    assert ("Ethernet1/1", "rx", "unicast_packets", 10) in rows
    assert ("Ethernet1/1", "rx", "packets", 12) in rows
    assert ("Ethernet1/1", "rx", "errors", 1) in rows
    assert ("Ethernet1/1", "rx", "drops", 2) in rows
    assert ("Ethernet1/1", "rx", "pause_frames", 3) in rows
    assert ("Ethernet1/1", "tx", "pause_frames", 4) in rows
    assert not [row for row in rows if row[0] == "Ethernet1/2"]  # absent is not 0
    assert short(tables, 2) == [
        ("Ethernet1/1", "rx", "bytes", 7),
        ("Ethernet1/1", "rx", "unicast_packets", 1),
        ("Ethernet1/1", "tx", "bytes", 56),
        ("Ethernet1/1", "tx", "unicast_packets", 2),
    ]
    everything = tables.samples.to_pylist()
    assert {r["kind"] for r in everything} == {"counter", "gauge"}  # bytes make rates needless
    assert {r["scope"] for r in everything if r["interface"] == "Vlan7"} == {"l3"}
    speeds = {r["interface"]: r["value"] for r in everything if r["metric"] == "speed_bps"}
    assert speeds == {"mgmt0": 1e9, "Ethernet1/1": 4e11}
    for secret in ("192.0.2", "dead.beef", "secret"):
        assert secret not in str(everything)


def test_rates_where_there_are_no_bytes(tmp_path: Path) -> None:
    text = (
        '{"TABLE_interface": {"ROW_interface": {"interface": "Ethernet1/1", '
        '"eth_inrate1_bits": "800", "eth_load_interval1_rx": "30", '
        '"eth_outrate1_bits": "1,6", "eth_load_interval1_tx": "30"}}}'
    )
    tables = read(leaf_log(tmp_path, text))
    [row] = tables.samples.to_pylist()
    assert (row["kind"], row["value"], row["window_s"], row["smoothing"]) == (
        "rate",
        100.0,
        30.0,
        "ewma",
    )
    assert tables.set_aside["reason"].to_pylist() == ["the value is not a number"]


def test_the_texts() -> None:
    tables = read(WRITTEN / "nxos_text.log")
    assert short(tables) == [
        ("mgmt0", "rx", "bytes", 100),
        ("Eth1/1", "rx", "bytes", 1162614),
        ("Eth1/1", "rx", "unicast_packets", 14178),
        ("Eth1/1", "tx", "bytes", 12199396),
        ("Eth1/1", "tx", "unicast_packets", 23366),
    ]
    rows = [row for row in short(tables, 1) if row[2] != "speed_bps"]
    assert rows == [
        ("Ethernet1/2", "rx", "unicast_packets", 5432519),
        ("Ethernet1/2", "rx", "packets", 6392635),
        ("Ethernet1/2", "rx", "bytes", 1909306429752104),
        ("Ethernet1/2", "rx", "errors", 10),
        ("Ethernet1/2", "rx", "drops", 111),
        ("Ethernet1/2", "rx", "pause_frames", 122),
        ("Ethernet1/2", "tx", "unicast_packets", 4257792),
        ("Ethernet1/2", "tx", "packets", 138299756),
        ("Ethernet1/2", "tx", "bytes", 16581146467),
        ("Ethernet1/2", "tx", "errors", 555),
        ("Ethernet1/2", "tx", "drops", 33),
        ("Ethernet1/2", "tx", "pause_frames", 69),
    ]


def test_the_table_of_rates(tmp_path: Path) -> None:
    text = (
        "Port                      Description  Intvl  Rx Mbps   Rx %%  Tx Mbps   Tx %%\n"
        "--------------------------------------------------------------------------------\n"
        "Ethernet1/1               to node 1    30/30  8.0       0.0%   0.1       0.0%\n"
        "Ethernet1/2               N/A          30/30  fast\n"
    )
    tables = read(leaf_log(tmp_path, text))
    rows = tables.samples.to_pylist()
    assert [(r["interface"], r["direction"], r["value"], r["window_s"]) for r in rows] == [
        ("Ethernet1/1", "rx", 1e6, 30.0),
        ("Ethernet1/1", "tx", 12500.0, 30.0),
    ]
    assert tables.set_aside["line"].to_pylist() == [5]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("    30 seconds input rate 32346224 bits/sec, 8793 packets/sec", r"\| include rate.*json"),
        ('{"TABLE_interface": {"ROW_interface": []}}', "interfaces with counters"),
        (
            '{"TABLE_interface": {"ROW_interface": {"interface": "E1", "eth_bw": "9"}}}',
            "none",
        ),
        ('{"TABLE_interface": {"ROW_interface": [{"interface": ', "no valid JSON"),
        (
            '{"TABLE_interface": {"ROW_interface": {"interface": "E1", "eth_inbytes": "-7"}}}',
            "cannot be negative",
        ),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, words: str) -> None:
    path = leaf_log(tmp_path, text)
    assert len(nxos.find(survey(tmp_path))) == 1
    with pytest.raises(DumpError, match=words):
        read(path)


def test_a_reading_without_a_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "leaf1.txt"
    path.write_text((WRITTEN / "nxos_json.log").read_text().split("\n", 1)[1].split("###")[0])
    with pytest.raises(DumpError, match="no time"):
        read(path)


def test_deep_nesting_ends(tmp_path: Path) -> None:
    path = leaf_log(tmp_path, '{"TABLE_interface":' * 5000 + "1" + "}" * 5000)
    with pytest.raises(DumpError, match="interfaces with counters"):
        read(path)
