"""ethtool -S: which counter stands for a port, and which interface it was."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.measure.intervals import intervals
from servebook.read import ethtool
from servebook.read.files import survey
from servebook.read.source import Source
from servebook.tables import empty
from tests.read import counter_samples
from tests.read.counter_samples import FIXTURES, licensed, licensed_folder, rows

T = 1795973865
S = 10**9
read = functools.partial(counter_samples.claim, ethtool.FORMAT)


def write(tmp_path: Path, text: str, name: str = f"ethtool_eth0_{T}.txt") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_log_of_two_interfaces() -> None:
    tables = read(FIXTURES / "ethtool.log")
    first = [r for r in tables.samples.to_pylist() if r["ts_ns"] == T * S]
    assert {r["interface"] for r in first} == {"ens1f0np0"}
    assert {(r["metric"], r["scope"], r["index"], r["direction"]): r["count"] for r in first} == {
        ("bytes", "rdma", None, "rx"): 60000050000,
        ("bytes", "port", None, "rx"): 60000060000,
        ("bytes", "port", None, "tx"): 60000070000,
        ("packets", "port", None, "rx"): 1000500,
        ("drops", "port", None, "rx"): 0,
        ("bytes", "prio", 3, "rx"): 60000055000,
        ("pfc_frames", "prio", 3, "rx"): 7,
        ("pfc_pause_us", "prio", 3, "rx"): 10900,
        ("pfc_frames", "prio", 3, "tx"): 2,
        ("no_buffer_drops", "port", None, "rx"): 1,
    }
    found = intervals(tables.samples, empty("ports"))
    port = found[(found["interface"] == "ens1f0np0") & (found["scope"] == "port")]
    assert port[port["direction"] == "rx"]["bytes"].tolist() == [1e9, 1e9]
    assert port[port["direction"] == "rx"]["packets"].tolist() == [1000, 1000]
    # 72 lines of counters: 60 used, 12 set aside
    assert tables.samples.num_rows == 60
    counted = sum(
        int(r.rpartition("(")[2].split()[0]) for r in tables.set_aside["reason"].to_pylist()
    )
    assert counted == 12


def test_the_ports_counter_replaces_the_kernels(tmp_path: Path) -> None:
    text = "NIC statistics:\n rx_bytes: 5\n rx_bytes_phy: 70\n tx_bytes: 6\n rx0_bytes: 5\n"
    tables = read(write(tmp_path, text))
    assert rows(tables, "direction", "count") == [("rx", 70), ("tx", 6)]
    assert tables.set_aside["reason"].to_pylist() == [
        "rings of the host: none that Servebook uses (1 reading)",
        "bytes of eth0: the same port has a counter that is nearer to the wire (1 reading)",
    ]


@pytest.mark.parametrize(
    ("name", "interface"),
    [
        (f"ethtool_ens1f0np0_{T}.txt", "ens1f0np0"),
        (f"ethtool-S-eth0.{T}.log", "eth0"),
        (f"node7_enp1s0_{T}.txt", "enp1s0"),
        (f"{T}.txt", "unknown"),
        (f"a1_b2_{T}.txt", "unknown"),
    ],
)
def test_the_interface_of_a_files_name(tmp_path: Path, name: str, interface: str) -> None:
    path = write(tmp_path, "NIC statistics:\n     rx_bytes: 5\n", name)
    assert rows(read(path), "interface") == [(interface,)]
    assert rows(read(path, interface="swp1"), "interface") == [("swp1",)]


def test_names_inside_the_text(tmp_path: Path) -> None:
    text = (
        f"### {T}\n$ ethtool -S eth4\nNIC statistics:\n     rx_bytes: 1\n"
        "=== eth5 ===\nNIC statistics:\n     rx_bytes: 2\n"
    )
    assert rows(read(write(tmp_path, text, "x.log")), "interface", "count") == [
        ("eth4", 1),
        ("eth5", 2),
    ]


def test_a_second_device_without_a_name_is_not_taken_for_the_first(tmp_path: Path) -> None:
    text = f"### {T} eth0\n" + "NIC statistics:\n     rx_bytes: 1\n" * 2
    tables = read(write(tmp_path, text, "x.log"))
    assert rows(tables, "interface", "count") == [("eth0", 1)]
    assert "a second device" in tables.set_aside["reason"][0].as_py()


def test_part_of_the_output_is_known_by_its_counters(tmp_path: Path) -> None:
    text = "     rx_prio3_pause: 4\n     rx_prio3_pause_duration: 9\n     xyz: 1\n\n"
    assert rows(read(write(tmp_path, text)), "metric", "index") == [
        ("pfc_frames", 3),
        ("pfc_pause_us", 3),
    ]
    other = write(tmp_path, "rows: 4\ncolumns: 5\n", f"a_{T}.txt")
    assert not ethtool.find(survey(other))


def test_without_a_time_it_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "NIC statistics:\n     rx_bytes: 5\n", "ethtool_eth0.txt")
    with pytest.raises(DumpError, match=r"no `### <epoch>` lines"):
        read(path)


def test_damaged_values_are_set_aside_with_their_line(tmp_path: Path) -> None:
    text = "NIC statistics:\n rx_bytes: -1\n tx_bytes: 5\n rx_bytes_phy: 1.5\n rx_bytes_ph\n"
    tables = read(write(tmp_path, text + " rx_packets:\n"))
    assert rows(tables, "direction", "count") == [("tx", 5)]
    assert [(r["line"], r["record"]) for r in tables.set_aside.to_pylist()] == [
        (2, "counter"),
        (4, "counter"),
        (5, "series"),
    ]


@given(st.lists(st.text(alphabet="rtx_bytes:0123456789 -[]phyNIC\x00é", max_size=30), max_size=6))
def test_any_lines_are_no_traceback(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str]
) -> None:
    text = "NIC statistics:\n     rx_bytes: 5\n" + "\n".join(lines) + "\n"
    path = write(tmp_path_factory.mktemp("ethtool"), text)
    assert ethtool.read(Source("ethtool", path.parent, path, (path,))).samples.num_rows >= 1


@licensed
@pytest.mark.parametrize(
    ("driver", "lines", "used"), [("mlx5_core", 751, 50), ("bnxt_en", 499, 143), ("ice", 602, 25)]
)
def test_whole_readings_of_real_drivers(tmp_path: Path, driver: str, lines: int, used: int) -> None:
    [path] = licensed_folder("ethtool").glob(f"*_{driver}")
    tables = read(write(tmp_path, path.read_text()))
    assert tables.samples.num_rows == used
    counted = sum(
        int(r.rpartition("(")[2].split()[0]) for r in tables.set_aside["reason"].to_pylist()
    )
    assert used + counted == lines


@pytest.mark.parametrize(
    "lines",
    [
        "     bw_in_allowance_exceeded: 0\n     queue_0_tx_bytes: 5\n     queue_0_rx_bytes: 7\n",
        "     rx_queue_0_bytes: 5\n     rx_queue_0_drops: 0\n     tx_queue_0_bytes: 6\n",
    ],
)
def test_a_driver_that_counts_by_queue_alone_is_refused_with_another_source(
    tmp_path: Path, lines: str
) -> None:
    path = tmp_path / "eth0.log"
    path.write_text(f"### 1795973865 eth0\nNIC statistics:\n{lines}")
    with pytest.raises(DumpError, match=r"counts by queue alone .* `ip -s -j link`"):
        ethtool.read(Source("ethtool", tmp_path, path, (path,)))
