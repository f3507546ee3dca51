"""SONiC's tables and JSON, and the two snapshots of a techsupport."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import sonic
from servebook.read.counter_names import METRICS, Meaning
from servebook.read.discover import discover, read_source
from servebook.read.files import survey
from servebook.read.sonic_tables import DETAILED, PER_QUEUE, PORT, are_binary, cut, reading
from servebook.read.source import Source
from servebook.tables import Tables
from tests.read.counter_samples import FIXTURES, licensed, licensed_folder, read, rows

T = 1795973865
S = 10**9
PORTS = """\
    IFACE    STATE    RX_OK         RX_BPS    RX_UTIL    TX_DRP
---------  -------  -------  -------------  ---------  --------
Ethernet0        U    1,200  25000.00 MB/s     50.00%         3
Ethernet4        X      N/A            N/A        N/A       N/A
"""


def log(tmp_path: Path, text: str, **options: Any) -> Tables:
    path = tmp_path / "sonic.log"
    path.write_text(text)
    assert [source.main for source in sonic.find(survey(path))] == [path]
    return read(sonic.FORMAT, path, **options)


def test_ports_queues_and_priorities_of_a_log() -> None:
    found = read(sonic.FORMAT, FIXTURES / "sonic_cli.log")
    assert {row[0] for row in rows(found, "ts_ns")} == {
        T * S + k * 2 * S + S // 4 for k in range(3)
    }
    first = [row for row in found.samples.to_pylist() if row["ts_ns"] == T * S + S // 4]
    port = {
        (r["metric"], r["direction"], r["kind"]): r["count"] if r["value"] is None else r["value"]
        for r in first
        if r["interface"] == "Ethernet0" and r["scope"] == "port"
    }
    assert port["packets", "rx", "counter"] == 471729839997
    assert port["bytes", "rx", "rate"] == 25e9
    assert port["util", "tx", "util"] == 0.985
    assert port["drops", "rx", "counter"] == 18682
    rate = next(r for r in first if r["kind"] == "rate")
    assert (rate["window_s"], rate["smoothing"]) == (10.0, "ewma")
    parts = {
        (r["metric"], r["scope"], r["index"]): r["count"] for r in first if r["index"] is not None
    }
    assert parts["bytes", "queue", 3] == 4096000
    assert parts["pfc_frames", "prio", 3] == 20
    asides = found.set_aside["reason"].to_pylist()
    assert "Ethernet16: no value in its row (N/A) (3 readings)" in asides
    assert "leaf1" not in str(found.samples.to_pylist())


def test_every_row_is_used_or_set_aside(tmp_path: Path) -> None:
    found = log(tmp_path, f"### {T}\n{PORTS}Ethernet8  U  7\n\nsome words\n")
    assert {row[0] for row in rows(found, "interface")} == {"Ethernet0"}
    assert [(r["line"], r["reason"]) for r in found.set_aside.to_pylist()] == [
        (6, "not the 6 cells of the table's header"),
        (5, "Ethernet4: no value in its row (N/A) (1 reading)"),
        (8, "lines: no table of counters (1 reading)"),
    ]


@pytest.mark.parametrize(
    ("kind", "metric", "text", "value"),
    [
        ("rate", "bytes", "653.87 MB/s", 653.87e6),
        ("rate", "bytes", "9.85 B/s", 9.85),
        ("rate", "bytes", "1,350.00 KB/s", 1.35e6),
        ("rate", "bytes", "50.91 GB/s", 50.91e9),
        ("rate", "packets", "247000.00/s", 247000.0),
        ("util", "util", "12.77%", 0.1277),
        ("counter", "packets", "471,729,839,997", 471729839997),
        ("counter", "packets", "1.2e+18", 1200000000000000000),
        ("counter", "packets", "N/A", None),
    ],
)
def test_cells(kind: str, metric: str, text: str, value: float | None) -> None:
    got = reading(Meaning(metric, "rx", kind=kind), text)
    assert got == (value if value is None else pytest.approx(value, rel=1e-12))


@pytest.mark.parametrize(
    ("kind", "metric", "text"),
    [
        ("rate", "bytes", "653.87"),
        ("rate", "bytes", "653.87 Mb/s"),
        ("rate", "packets", "24.7"),
        ("util", "util", "12.7"),
        ("counter", "packets", "12 MB"),
        ("counter", "packets", "-4"),
    ],
)
def test_cells_without_their_unit_are_not_guessed(kind: str, metric: str, text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        reading(Meaning(metric, "rx", kind=kind), text)


@pytest.mark.parametrize(
    ("pairs", "binary"),
    [
        # 653.87 x 2^20 x 8 / (40 x 2^30) = 12.77 %, as images before December 2020 print
        ([("653.87 MB/s", "12.77%"), ("556.84 MB/s", "10.88%")], True),
        # 50905.16e6 x 8 / 400e9 = 101.81 %
        ([("50905.16 MB/s", "101.81%")], False),
        ([("13.83 MB/s", "0.27%")], False),
        ([("N/A", "N/A"), ("x", "y")], False),
        ([], False),
    ],
)
def test_whether_mega_is_two_to_the_20(pairs: list[tuple[str, str]], binary: bool) -> None:
    assert are_binary(pairs) is binary


def test_an_old_images_rates_are_powers_of_1024(tmp_path: Path) -> None:
    text = PORTS.replace("25000.00 MB/s     50.00%", "  653.87 MB/s     12.77%")
    found = log(tmp_path, f"### {T}\n{text}")
    [rate] = [row["value"] for row in found.samples.to_pylist() if row["kind"] == "rate"]
    assert rate == 653.87 * 2**20


def test_counts_of_a_period_are_rates_over_it(tmp_path: Path) -> None:
    preface = "The rates are calculated within 5 seconds period"
    found = log(tmp_path, f"### {T}\n{preface}\n{PORTS}")
    packets = next(r for r in found.samples.to_pylist() if r["metric"] == "packets")
    assert (packets["kind"], packets["value"]) == ("rate", 240.0)
    assert (packets["window_s"], packets["smoothing"]) == (5.0, "boxcar")
    rate = next(r for r in found.samples.to_pylist() if r["metric"] == "bytes")
    assert (rate["window_s"], rate["smoothing"]) == (10.0, "ewma")


def test_json_of_ports_and_queues(tmp_path: Path) -> None:
    ports = {"Ethernet0": {"STATE": "U", "RX_OK": "1,910,629,135", "RX_BPS": "50905.16 MB/s"}}
    queues = {
        "Ethernet8": {
            "UC3": {"totalpacket": "7", "totalbytes": "4,096", "droppacket": "N/A"},
            "time": "2026-11-29T17:37:45.000001",
        }
    }
    wred = {"Ethernet8": {"UC3": {"wreddroppacket": "1", "ecnmarkedpacket": "39"}}}
    text = "Last cached time was 2026-11-29 17:00:00.0\n" + "\n".join(
        json.dumps(part, indent=2) for part in (ports, queues, wred)
    )
    found = log(tmp_path, f"### {T}\n{text}\n")
    assert rows(found, "interface", "metric", "index", "count", "value") == [
        ("Ethernet0", "packets", None, 1910629135, None),
        ("Ethernet0", "bytes", None, None, 50905.16e6),
        ("Ethernet8", "packets", 3, 7, None),
        ("Ethernet8", "bytes", 3, 4096, None),
        ("Ethernet8", "wred_drops", 3, 1, None),
        ("Ethernet8", "ecn_marked", 3, 39, None),
    ]


def test_the_queues_own_time_needs_a_zone(tmp_path: Path) -> None:
    text = json.dumps({"Ethernet8": {"UC3": {"totalpacket": "9"}, "time": "2026-11-29T17:37:45"}})
    with pytest.raises(DumpError, match=r"times without a zone.*time_zone: UTC"):
        log(tmp_path, text)
    found = log(tmp_path, text, time_zone="UTC")
    assert rows(found, "ts_ns", "ts_kind", "count") == [(T * S, "device", 9)]


def test_a_table_without_a_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match=r"put `### \$\(date \+%s.%N\)` before each reading"):
        log(tmp_path, PORTS)


def test_other_tables_are_told_apart(tmp_path: Path) -> None:
    groups = "  Port    PG0    PG3\n------  -----  -----\n  Eth1      0     11\n"
    text = (
        f"### {T}\nIngress PG dropped packets:\n{groups}\nIngress headroom per PG:\n{groups}\n"
        "      Port    Priority    RX Pause Transitions    Total RX Pause Time US\n"
        "----------  ----------  ----------------------  ------------------------\n"
        "      Eth1        PFC3                      12                    12,000\n\n"
        "     IFACE    RX_OK      RX_BPS\n----------  -------  ----------\n"
        "  Vlan1000        4  107.81 B/s\n\n"
        "admin@leaf1:~$ show interfaces counters detailed Ethernet8\n"
        "Packets Received 64 Octets..................... 0\n"
        "Total Packets Received Without Errors.......... 17\n"
        "WRED Total Dropped Packets..................... 2\n"
        "Jabbers Received............................... N/A\n"
    )
    found = log(tmp_path, text)
    assert rows(found, "interface", "metric", "scope", "index", "count", "value") == [
        ("Eth1", "drops", "pg", 0, 0, None),
        ("Eth1", "drops", "pg", 3, 11, None),
        ("Eth1", "pfc_transitions", "prio", 3, 12, None),
        ("Eth1", "pfc_pause_us", "prio", 3, 12000, None),
        ("Vlan1000", "packets", "l3", None, 4, None),
        ("Vlan1000", "bytes", "l3", None, None, 107.81),
        ("Ethernet8", "packets", "port", None, 17, None),
        ("Ethernet8", "wred_drops", "port", None, 2, None),
    ]
    assert "rows: a table of something else than counters (1 reading)" in (
        found.set_aside["reason"].to_pylist()
    )


def support(folder: Path, zone_hours: int | None) -> Path:
    """A techsupport's dump folder; its database says that its clock is zone_hours off UTC."""
    dump = folder / "sonic_dump_leaf1_20261129_183745" / "dump"
    dump.mkdir(parents=True)
    for number, second in ((1, 45), (2, 50)):
        (dump / f"date.counter_{number}").write_text(f"29/11/2026 18:37:{second}:250000\n")
        (dump / f"interface.counters_{number}").write_text(PORTS.replace("1,200", f"1,20{number}"))
        table = (
            "     Port    TxQ    Counter/pkts    Counter/bytes\n"
            "---------  -----  --------------  ---------------\n"
            f"Ethernet0    UC0               1              {number}4\n"
        )
        (dump / f"queue.counters_{number}.gz").write_bytes(gzip.compress(table.encode()))
        if zone_hours is not None:
            at = T + (second - 45) + 3600 - zone_hours * 3600 + 2.5
            entry = {"expireat": at, "ttl": -0.001, "type": "hash", "value": {}}
            (dump / f"COUNTERS_DB_{number}.json").write_text(json.dumps({"RATES:oid:0x1": entry}))
    return dump


@pytest.mark.parametrize("hours", [0, 1, -8])
def test_two_snapshots_of_a_techsupport(tmp_path: Path, hours: int) -> None:
    dump = support(tmp_path, hours)
    [source] = sonic.find(survey(tmp_path))
    assert {path.name for path in source.files} == {
        f"{name}_{n}" for n in (1, 2) for name in ("date.counter", "interface.counters")
    } | {"queue.counters_1.gz", "queue.counters_2.gz"}
    found = sonic.read(source)
    packets = [r for r in found.samples.to_pylist() if r["metric"] == "packets" and not r["index"]]
    start = T * S + (1 - hours) * 3600 * S + S // 4
    assert [(r["ts_ns"], r["count"]) for r in packets if r["scope"] == "port"] == [
        (start, 1201),
        (start + 5 * S, 1202),
    ]
    assert {r["ts_kind"] for r in packets} == {"device"}
    queues = [
        r["count"] for r in found.samples.to_pylist() if r["metric"] == "bytes" and r["index"] == 0
    ]
    assert queues == [14, 24]
    assert dump.name == "dump"


def test_a_techsupport_in_its_archive(tmp_path: Path) -> None:
    dump = support(tmp_path / "x", 0)
    (dump / "ifconfig.counters_1").write_text("Ethernet0: flags=4163<UP,BROADCAST>\n")
    archive = tmp_path / f"{dump.parent.name}.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(dump.parent, arcname=dump.parent.name)
    shutil.rmtree(tmp_path / "x")
    found = discover(tmp_path)
    assert [source.format for source in found.sources] == ["sonic-db", "sonic-cli"]
    assert [path.rpartition("/")[2] for path in found.companions] == ["ifconfig.counters_1"]
    assert [path.rpartition("/")[2] for path, _ in found.refused] == []
    assert read_source(found.sources[1]).samples.num_rows > 0


def test_a_techsupport_whose_zone_nobody_tells(tmp_path: Path) -> None:
    support(tmp_path, None)
    [source] = sonic.find(survey(tmp_path))
    with pytest.raises(DumpError, match=r"the zone of the switch's clock.*time_zone: UTC"):
        sonic.read(source)
    zoned = Source(source.format, source.root, source.main, source.files, {"time_zone": "UTC"})
    assert sonic.read(zoned).samples["ts_ns"][0].as_py() == T * S + 3600 * S + S // 4


@given(st.lists(st.text(alphabet=" -|Ethernet0123,.%/sNA", max_size=40), max_size=8))
def test_lines_are_neither_lost_nor_doubled(parts: list[str]) -> None:
    numbered = list(enumerate(parts, start=1))
    seen = []
    for part in cut(numbered):
        if isinstance(part, tuple):
            seen.append(part[0])
        else:
            seen += [part.line, part.line + 1, *(line for line, _ in part.rows)]
    assert seen == [n for n, text in numbered if text.strip() or n in seen]


def test_metrics_are_those_that_are_described() -> None:
    named = {m.metric for m in (*PORT.values(), *DETAILED.values())} | set(PER_QUEUE.values())
    assert named <= set(METRICS)


@licensed
def test_the_tables_of_the_manual(tmp_path: Path) -> None:
    folder = licensed_folder("sonic")
    [path] = folder.glob("*show_interfaces_counters.md")
    found = log(tmp_path, f"### {T}\n{path.read_text()}").samples.to_pylist()
    # The first table is one of an old image: 653.87 x 2^20 bytes/s at 12.77 % of 40 x 2^30 bit/s.
    first = [r["value"] for r in found if r["interface"] == "Ethernet0" and r["metric"] == "bytes"]
    assert first[:2] == [653.87 * 2**20, 556.84 * 2**20]
    assert next(r["count"] for r in found if r["metric"] == "packets") == 471729839997
    [path] = folder.glob("*show_queue_counters*.md")
    text = path.read_text().partition("  ```")[2]
    parts = log(tmp_path, f"### {T}\n{text}").samples.to_pylist()
    assert {r["scope"] for r in parts} >= {"queue", "queue_mc", "pg"}
    [path] = folder.glob("*show_pfc*.md")
    text = path.read_text().partition("admin@sonic")[2]
    parts = log(tmp_path, f"### {T}\n{text}").samples.to_pylist()
    paused = [r["count"] for r in parts if r["metric"] == "pfc_pause_us"]
    assert paused[:2] == [12000, 20001]


DESCRIBED = """\
     IFACE     DESC    STATE    RX_OK        RX_BPS    RX_UTIL    TX_OK
----------  -------  -------  -------  ------------  ---------  -------
 Ethernet1                 U  692,947  2734.32 MB/s     85.45%        7
 Ethernet2  to leaf        U        5      0.00 B/s      0.00%        9
 Ethernet3                 U        5      0.00 B/s      0.00%
 Ethernet4                 U 5
"""


def test_a_port_may_have_no_description_and_a_torn_row_none_of_its_cells(tmp_path: Path) -> None:
    tables = log(tmp_path, f"### {T}\n{DESCRIBED}")
    found = [row[:3] for row in rows(tables, "interface", "direction", "count", "metric")]
    assert [row for row in found if row[2] is not None] == [
        ("Ethernet1", "rx", 692_947),
        ("Ethernet1", "tx", 7),
        ("Ethernet2", "rx", 5),
        ("Ethernet2", "tx", 9),
    ]
    # 2^20: 2734.32 of them a second are 85.45 % of 25 x 2^30 bit/s.
    rates = [row for row in rows(tables, "metric", "kind", "value") if row[:2] == ("bytes", "rate")]
    assert rates == [("bytes", "rate", 2734.32 * 2**20), ("bytes", "rate", 0.0)]
    assert tables.set_aside["line"].to_pylist() == [6, 7]
