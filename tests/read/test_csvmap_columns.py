"""Columns of a plain CSV: units, several interfaces in a row, no header, odd delimiters."""

from __future__ import annotations

from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import csvmap
from servebook.read.files import survey
from servebook.tables import Tables
from tests.read import counter_samples
from tests.read.counter_samples import rows

T = "1795972223"


def read(tmp_path: Path, text: str, **options: object) -> Tables:
    path = tmp_path / "a.csv"
    path.write_text(text)
    return counter_samples.read(csvmap.FORMAT, path, **options)


def short(tables: Tables) -> list[tuple[object, ...]]:
    return rows(tables, "device", "interface", "direction", "kind", "count", "value")


def test_several_interfaces_in_a_row_by_their_names(tmp_path: Path) -> None:
    text = f"ts,eth0_rx_bytes,eth0_tx_bytes,Ethernet1/1 rx_bytes,eth0_rx_packets\n{T},1,2,3,4\n"
    tables = read(tmp_path, text)
    assert [source.main.name for source in csvmap.find(survey(tmp_path))] == ["a.csv"]
    assert short(tables) == [
        ("host", "eth0", "rx", "counter", 1, None),
        ("host", "eth0", "tx", "counter", 2, None),
        ("host", "Ethernet1/1", "rx", "counter", 3, None),
        ("host", "eth0", "rx", "counter", 4, None),
    ]


def test_several_interfaces_in_a_row_by_the_map(tmp_path: Path) -> None:
    columns = {
        "time": "Zeit",
        "rx_mbits_per_s of Ethernet1 on leaf1": "A ein",
        "tx_mbits_per_s of Ethernet1 on leaf2": "B aus",
    }
    tables = read(tmp_path, f"Zeit;A ein;B aus\n{T};8;16.5\n", columns=columns)
    assert short(tables) == [
        ("leaf1", "Ethernet1", "rx", "rate", None, 1e6),
        ("leaf2", "Ethernet1", "tx", "rate", None, 16.5e6 / 8),
    ]


@pytest.mark.parametrize(
    ("name", "cell", "kind", "number"),
    [
        ("rx_words", "3", "counter", 12),
        ("rx_bits", "16", "counter", 2),
        ("rx_octets", "16", "counter", 16),
        ("rx_gbps", "8", "rate", 1e9),
        ("rx_gbits_per_s", "0.4", "rate", 5e7),
        ("rx_bps", "80", "rate", 10.0),
        ("RX_BYTES", "18446744073709551615", "counter", 2**64 - 1),
    ],
)
def test_units_in_names(tmp_path: Path, name: str, cell: str, kind: str, number: float) -> None:
    [row] = read(tmp_path, f"ts,{name}\n{T},{cell}\n").samples.to_pylist()
    assert (row["kind"], row["count"] if kind == "counter" else row["value"]) == (kind, number)


@pytest.mark.parametrize("unit", ["kbit", "Mbit", "Gbit", "kB", "MB", "GB"])
def test_a_counter_in_a_rounded_unit_is_refused(tmp_path: Path, unit: str) -> None:
    with pytest.raises(DumpError, match="which is rounded"):
        read(tmp_path, f"ts,rx_bytes\n{T},1\n", unit=unit)
    expected = {"kbit": 125, "Mbit": 125e3, "Gbit": 125e6, "kB": 1e3, "MB": 1e6, "GB": 1e9}
    rate = read(tmp_path, f"ts,rx_bytes\n{T},1\n", unit=unit, kind="rate").samples
    assert rate["value"].to_pylist() == [expected[unit]]


def test_a_file_without_a_header_is_mapped_by_numbers(tmp_path: Path) -> None:
    text = f"{T}.5,eth0,7,9\n1795972224.5,eth0,8,10\n"
    columns = {"ts": "1", "interface": "2", "rx_bytes": "3", "tx_bytes": "4"}
    tables = read(tmp_path, text, columns=columns)
    assert [r["count"] for r in tables.samples.to_pylist()] == [7, 9, 8, 10]
    assert tables.samples["line"].to_pylist() == [1, 1, 2, 2]
    assert tables.samples["ts_ns"].to_pylist()[0] == 1795972223_500_000_000


@pytest.mark.parametrize(
    "text",
    [
        f"sep=|\nts|rx_bytes\n{T}|5\n",
        f"# a remark\n# ts rx\nts\trx_bytes\n{T}\t5\n",
        f"#ts,rx_bytes\n{T},5\n",
        f"\n\nts;rx_bytes\r\n{T};5\r\n",
    ],
)
def test_delimiters_and_remarks(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).samples["count"].to_pylist() == [5]
    assert len(csvmap.find(survey(tmp_path))) == 1


def test_a_plain_name_wins_over_names_with_a_prefix(tmp_path: Path) -> None:
    tables = read(tmp_path, f"ts,rx_bytes,rdma_rx_bytes\n{T},5,6\n", interface="eth0")
    assert short(tables) == [("host", "eth0", "rx", "counter", 5, None)]


@pytest.mark.parametrize(
    ("time", "ns"),
    [
        ("1795972223", 1795972223 * 10**9),
        ("1795972223055", 1795972223_055_000_000),
        ("1795972223055001", 1795972223_055_001_000),
        ("1795972223055001002", 1795972223_055_001_002),
        ("2026-11-29T17:10:23+01:00", 1795968623 * 10**9),
        ("2026-11-29 17:10:23.25Z", 1795972223_250_000_000),
    ],
)
def test_epochs_by_magnitude_and_iso(tmp_path: Path, time: str, ns: int) -> None:
    tables = read(tmp_path, f"time,rx_bytes\n{time},1\n")
    assert tables.samples["ts_ns"].to_pylist() == [ns]


def test_a_host_name_in_the_device_column_becomes_a_number(tmp_path: Path) -> None:
    tables = read(tmp_path, f"ts,device,rx_bytes\n{T},node7.example.com,1\n{T},10.0.0.7,2\n")
    assert tables.samples["device"].to_pylist() == ["device 1", "device 2"]


def test_the_width_of_counters_is_the_manifests_word(tmp_path: Path) -> None:
    tables = read(tmp_path, f"ts,rx_bytes,tx_words\n{T},1,1\n", bits=32)
    assert tables.samples["bits"].to_pylist() == [32, 64]


def test_a_rate_at_a_torn_end_is_set_aside(tmp_path: Path) -> None:
    text = f"ts,tx_bytes_per_s,rx_bytes_per_s\n{T},1,10\n1795972224,2,12345"
    for cut in range(1, 5):
        tables = read(tmp_path, text[:-cut])
        assert tables.samples["value"].to_pylist() == [1.0, 10.0, 2.0]
        assert "may lack digits" in tables.set_aside["reason"][0].as_py()
    assert read(tmp_path, text + "\n").samples["value"].to_pylist() == [1.0, 10.0, 2.0, 12345.0]
