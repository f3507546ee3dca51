"""Telegraf's line protocol and JSON: inputs, precisions, escapes, damage."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import telegraf
from servebook.read.files import survey
from servebook.tables import Tables
from tests.read import counter_samples
from tests.read.counter_samples import WRITTEN, rows

T0 = 1795972223
read = functools.partial(counter_samples.read, telegraf.FORMAT)


def write(tmp_path: Path, *lines: str, end: str = "\n") -> Path:
    path = tmp_path / "metrics.out"
    path.write_text("\n".join(lines) + end)
    return path


def short(tables: Tables) -> list[tuple[object, ...]]:
    return rows(tables, "device", "interface", "direction", "metric", "scope", "index", "count")


def test_the_inputs_of_the_fixture() -> None:
    names = [source.main.name for source in telegraf.find(survey(WRITTEN))]
    assert names == ["telegraf.influx", "telegraf.jsonl"]
    tables = read(WRITTEN / "telegraf.influx")
    found = short(tables)
    # net, as the host sees it, but for what the port itself counts
    assert ("node1", "eth0", "rx", "bytes", "port", None, 5000) not in found
    assert ("node1", "eth0", "tx", "bytes", "port", None, 1000) in found
    assert ("node1", "eth0", "rx", "drops", "port", None, 2) in found
    # 25 and 40 words of 4 bytes
    assert ("node1", "mlx5_0/1", "tx", "bytes", "rdma", None, 100) in found
    assert ("node1", "mlx5_0/1", "rx", "bytes", "rdma", None, 160) in found
    assert ("node1", "mlx5_0/1", "tx", "cnp_sent", "rdma", None, 3) in found
    # the port's own bytes, not the kernel's
    assert ("node1", "eth0", "rx", "bytes", "port", None, 99) in found
    assert ("node1", "eth0", "rx", "bytes", "port", None, 77) not in found
    assert ("node1", "eth0", "rx", "pfc_frames", "prio", 3, 4) in found
    assert ("node1", "eth0", "rx", "pfc_pause_us", "prio", 3, 12) in found
    # snmp: exact to 64 bits
    assert ("device 1", "Ethernet1/1", "tx", "bytes", "port", None, 2**64 - 1) in found
    assert ("device 2", "Ethernet 1=2", "rx", "bytes", "port", None, 11) in found
    assert ("device 2", "Ethernet 1=2", "tx", "bytes", "port", None, 12) in found
    everything = tables.samples.to_pylist()
    assert [r["value"] for r in everything if r["metric"] == "speed_bps"] == [4e11]
    assert {r["ts_kind"] for r in everything} == {"collector", "device"}
    assert {r["bits"] for r in everything if r["count"] == 2**64 - 1} == {64}
    for secret in ("192.0.2", "example.org", "secret"):
        assert secret not in str(everything) + str(tables.set_aside.to_pylist())
    told = " | ".join(tables.set_aside["reason"].to_pylist())
    assert "ifInOctets: a 32-bit counter" in told
    assert "net: no counter of an interface (1 reading)" in told


def test_json_lines_and_batches() -> None:
    tables = read(WRITTEN / "telegraf.jsonl")
    assert [row[-1] for row in short(tables)] == [5000, 1000, 2, 5500]
    assert tables.samples["ts_ns"].to_pylist()[-1] == (T0 + 1) * 10**9
    assert tables.samples["line"].to_pylist() == [1, 1, 1, 2]
    assert tables.set_aside["reason"].to_pylist() == ["cpu: no counter of an interface (1 reading)"]


@pytest.mark.parametrize(
    ("time", "ns", "error"),
    [
        (f"{T0}", T0 * 10**9, 10**9),
        (f"{T0}055", T0 * 10**9 + 55 * 10**6, 10**6),
        (f"{T0}055001", T0 * 10**9 + 55_001_000, 10**3),
        (f"{T0}055001002", T0 * 10**9 + 55_001_002, 1),
        (f"{T0}000000000", T0 * 10**9, 10**9),  # rounded by Telegraf to its interval
        (f"{T0}500000000", T0 * 10**9 + 5 * 10**8, 10**8),
    ],
)
def test_precisions(tmp_path: Path, time: str, ns: int, error: int) -> None:
    path = write(tmp_path, f"> net,host=h,interface=lo bytes_recv=7i {time}")
    assert len(telegraf.find(survey(tmp_path))) == 1
    [row] = read(path).samples.to_pylist()
    assert (row["ts_ns"], row["ts_error_ns"], row["count"]) == (ns, error, 7)


def test_exporters_names_by_the_prometheus_input(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        f"prometheus,device=eth0,host=h node_network_receive_bytes_total=2.5e+06 {T0}000000000",
        f"node_network_transmit_bytes_total,device=eth0,host=h counter=17 {T0}000000000",
    )
    assert [row[1:] for row in short(read(path))] == [
        ("eth0", "rx", "bytes", "port", None, 2_500_000),
        ("eth0", "tx", "bytes", "port", None, 17),
    ]


def test_lines_in_are_used_or_set_aside(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        f"net,host=h,interface=eth0 bytes_recv=7i {T0}",
        "net,host=h,interface=eth0 bytes_recv=8i",
        f"net,host=h,interface=eth0 bytes_recv=-9i {T0}",
        f"net,host=h,interface=eth0 bytes_recv=1.5 {T0}",
        f'net,host=h,interface=eth0 bytes_recv="ten" {T0}',
        f"net,host=h bytes_recv=7i {T0}",
        f"net,host=h,interface=eth0 bytes_recv=7i,bytes_recv {T0}",
        "net,host=h,interface=eth0 bytes_recv=7i 12",
        "what is this",
        '{"fields":{},"tags":{}}',
        "{broken",
    )
    tables = read(path)
    assert tables.samples.num_rows == 1
    assert tables.set_aside.num_rows == 10
    assert sorted(tables.set_aside["line"].to_pylist()) == list(range(2, 12))


@pytest.mark.parametrize(("cut", "kept"), [(0, 2), (9, 1), (13, 1), (21, 1), (30, 1)])
def test_a_torn_last_line_never_gives_a_wrong_time(tmp_path: Path, cut: int, kept: int) -> None:
    text = "\n".join(
        f"net,host=h,interface=eth0 bytes_recv={7 + i}i {T0 + i}000000000" for i in range(2)
    )
    path = tmp_path / "metrics.out"
    path.write_text(text[: len(text) - cut])
    tables = read(path)
    assert tables.samples.num_rows == kept
    assert tables.set_aside.num_rows == 2 - kept


def test_a_reset_and_a_wrap_stay_as_they_are_written(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        *(
            f"net,host=h,interface=eth0 bytes_recv={count}i {T0 + i}"
            for i, count in enumerate((900, 1000, 5))
        ),
    )
    assert read(path).samples["count"].to_pylist() == [900, 1000, 5]


@pytest.mark.parametrize(
    "text",
    ["cpu,host=h usage_idle=9.5 1795972223\n", f"net,host=h,interface=all tcp_insegs=1i {T0}\n"],
)
def test_metrics_without_counters_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "metrics.out"
    path.write_text(text)
    with pytest.raises(DumpError, match=r"no counter of an interface.*data_format"):
        read(path)


def test_hostile_tags_stay_text(tmp_path: Path) -> None:
    path = write(tmp_path, f"net,host=h,interface=<script>\\ \\=1\x1b[31m bytes_recv=7i {T0}")
    [row] = read(path).samples.to_pylist()
    assert row["interface"].isprintable()
