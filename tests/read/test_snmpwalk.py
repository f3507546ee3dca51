"""net-snmp walks in the notations that people print."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import snmpwalk
from servebook.read.files import survey
from tests.read import counter_samples
from tests.read.counter_samples import FIXTURES

read = functools.partial(counter_samples.read, snmpwalk.FORMAT)


def walk(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "walk.log"
    path.write_text("### 1795972223.5\n" + "".join(f"{line}\n" for line in lines))
    return path


def test_the_real_log_is_found_and_read() -> None:
    [source] = snmpwalk.find(survey(FIXTURES))
    assert source.main.name == "ifxtable.log"
    tables = snmpwalk.read(source)
    text = source.main.read_text()
    assert tables.samples.num_rows == text.count("Counter64") + text.count("Timeticks")
    assert tables.set_aside.num_rows == 0
    rows = tables.samples.to_pylist()
    assert (rows[0]["interface"], rows[0]["direction"], rows[0]["count"]) == ("lo", "rx", 2817594)
    assert rows[0]["line"] == 6
    uptime = next(r for r in rows if r["metric"] == "uptime_s")
    assert (uptime["value"], uptime["interface"]) == (47.89, None)


@pytest.mark.parametrize(
    "octets",
    [
        "IF-MIB::ifHCInOctets.1000001 = Counter64: 37305426522",
        ".1.3.6.1.2.1.31.1.1.1.6.1000001 = Counter64: 37305426522",
        "iso.3.6.1.2.1.31.1.1.1.6.1000001 = Counter64: 37305426522",
        "1.3.6.1.2.1.31.1.1.1.6.1000001 37305426522",
        "IF-MIB::ifHCInOctets.1000001 37305426522",
        "IF-MIB::ifHCInOctets.1000001 = 37305426522",
        "IF-MIB::ifHCInOctets[1000001] = Counter64: 37305426522",
        "ifHCInOctets.1000001 = Counter64: 37305426522",
        "ifHCInOctets[1000001] 37305426522",
        "SNMPv2-SMI::mib-2.31.1.1.1.6.1000001 = Counter64: 37305426522",
        "mib-2.31.1.1.1.6.1000001 37305426522",
        ".iso.org.dod.internet.mgmt.mib-2.ifMIB.ifXTable.ifHCInOctets.1000001 = 37305426522",
        "1.3.6.1.2.1.31.1.1.1.6.1000001|70|37305426522",
    ],
)
def test_notations_of_net_snmp(tmp_path: Path, octets: str) -> None:
    path = walk(tmp_path, octets, "IF-MIB::ifName.1000001 = STRING: Ethernet1")
    assert len(snmpwalk.find(survey(tmp_path))) == 1
    [row] = read(path).samples.to_pylist()
    assert (row["interface"], row["count"], row["bits"]) == ("Ethernet1", 37305426522, 64)
    assert (row["metric"], row["direction"]) == ("bytes", "rx")


def test_names_uptime_and_speed(tmp_path: Path) -> None:
    path = walk(
        tmp_path,
        "IF-MIB::ifHCOutOctets.7 = Counter64: 5",
        "IF-MIB::ifHighSpeed.7 = Gauge32: 400000",
        "IF-MIB::ifHighSpeed.8 = Gauge32: 0",
        "IF-MIB::ifDescr.7 = STRING: Port 7",
        "IF-MIB::ifAlias.7 = STRING: to secret-host",
        "DISMAN-EVENT-MIB::sysUpTimeInstance = Timeticks: (4789) 0:00:47.89",
    )
    tables = read(path)
    octets, speed, uptime = tables.samples.to_pylist()
    assert (octets["interface"], octets["direction"]) == ("Port 7", "tx")
    assert (speed["metric"], speed["value"]) == ("speed_bps", 4e11)
    assert (uptime["metric"], uptime["value"]) == ("uptime_s", 47.89)
    assert "secret" not in str(tables.samples.to_pylist())
    assert "does not know its speed" in tables.set_aside["reason"][0].as_py()


def test_32_bit_octets_are_set_aside_beside_64_bit_ones(tmp_path: Path) -> None:
    path = walk(
        tmp_path,
        "IF-MIB::ifHCInOctets.1 = Counter64: 5",
        "IF-MIB::ifInOctets.1 = Counter32: 5",
        "IF-MIB::ifInOctets.2 = Counter32: 5",
    )
    tables = read(path)
    assert tables.samples.num_rows == 1
    assert "(2 readings)" in tables.set_aside["reason"][0].as_py()


def test_32_bit_octets_alone_are_refused(tmp_path: Path) -> None:
    path = walk(
        tmp_path,
        "IF-MIB::ifInOctets.1 = Counter32: 5",
        "DISMAN-EVENT-MIB::sysUpTimeInstance = Timeticks: (4789) 0:00:47.89",
        "IF-MIB::ifHighSpeed.1 = Gauge32: 100000",
    )
    with pytest.raises(DumpError, match=r"32-bit counters only.*walk IF-MIB::ifXTable"):
        read(path)


def test_lines_that_are_no_answer_are_set_aside(tmp_path: Path) -> None:
    path = walk(
        tmp_path,
        "IF-MIB::ifHCInOctets.1 = Counter64: 5",
        "IF-MIB::ifHCInOctets.2 = No Such Instance currently exists at this OID",
        "Timeout: No Response from udp:10.0.0.1",
    )
    tables = read(path)
    assert [row["line"] for row in tables.set_aside.to_pylist()] == [3, 4]
    assert "10.0.0.1" not in str(tables.set_aside.to_pylist())


def test_a_walk_without_a_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "walk.txt"
    path.write_text("IF-MIB::ifHCInOctets.1 = Counter64: 5\n")
    with pytest.raises(DumpError, match="no time"):
        read(path)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("DISMAN-EVENT-MIB::sysUpTimeInstance = Timeticks: (4789) 0:00:47.89", 47.89),
        ("DISMAN-EVENT-MIB::sysUpTimeInstance 0:0:00:47.89", 47.89),
        ("DISMAN-EVENT-MIB::sysUpTimeInstance = 3:2:01:00.50", 3 * 86400 + 2 * 3600 + 60.5),
        ("SNMPv2-MIB::sysUpTime.0 = Timeticks: (26107000) 3 days, 0:31:10.00", 261070.0),
        ("SNMPv2-MIB::sysUpTime.0 = 3 days, 0:31:10.00", 261070.0),
        (".1.3.6.1.2.1.1.3.0 = 4789", 47.89),
        ("1.3.6.1.2.1.1.3.0|67|4789", 47.89),
    ],
)
def test_uptimes(tmp_path: Path, line: str, seconds: float) -> None:
    path = walk(tmp_path, line, "IF-MIB::ifHCInOctets.1 = Counter64: 5")
    [uptime] = [r for r in read(path).samples.to_pylist() if r["metric"] == "uptime_s"]
    assert uptime["value"] == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("IF-MIB::ifName.1 = Hex-STRING: 65 74 68 30 ", "eth0"),
        ('IF-MIB::ifName.1 "65 74 68 30 "', "eth0"),
        ("IF-MIB::ifName.1 = STRING: 10 20", "10 20"),
        ("IF-MIB::ifName.1 eth0", "eth0"),
        ("1.3.6.1.2.1.31.1.1.1.1.1|4x|65746830", "eth0"),
        ("1.3.6.1.2.1.31.1.1.1.1.1|4|eth0", "eth0"),
        ("IF-MIB::ifName.1 = STRING: <script>\x1b[31m", "<script>\ufffd[31m"),
    ],
)
def test_names_as_text_and_in_hexadecimal(tmp_path: Path, name: str, shown: str) -> None:
    path = walk(tmp_path, name, "IF-MIB::ifHCInOctets.1 = Counter64: 5")
    assert read(path).samples["interface"].to_pylist() == [shown]


@pytest.mark.parametrize(
    ("lines", "asides"),
    [
        (
            (
                "SNMP table: IF-MIB::ifXTable",
                "",
                "index,ifName,ifHCInOctets,ifHCOutOctets,ifHighSpeed,ifAlias",
                "1,eth0,18446744073709551615,7,100000,to node1, rack 2",
                "2,eth1,5,6,100000,",
            ),
            1,
        ),
        (
            (
                "SNMP table: IF-MIB::ifXTable",
                "",
                "  ifName ifHCInOctets ifHCOutOctets ifHighSpeed ifAlias",
                "    eth1            5             6      100000       ?",
                "    eth2            7             8      100000 up to 9",
            ),
            1,
        ),
    ],
)
def test_snmptable(tmp_path: Path, lines: tuple[str, ...], asides: int) -> None:
    path = walk(tmp_path, *lines)
    assert len(snmpwalk.find(survey(tmp_path))) == 1
    tables = read(path)
    found = [(r["interface"], r["count"], r["value"]) for r in tables.samples.to_pylist()]
    assert found == [("eth1", 5, None), ("eth1", 6, None), ("eth1", None, 1e11)]
    assert tables.set_aside.num_rows == asides


def test_pause_frames_of_etherlike_mib(tmp_path: Path) -> None:
    path = walk(
        tmp_path,
        "EtherLike-MIB::dot3HCInPauseFrames.1 = Counter64: 5",
        ".1.3.6.1.2.1.10.7.10.1.4.1 = Counter32: 6",
    )
    rows = read(path).samples.to_pylist()
    assert [(r["metric"], r["direction"], r["bits"], r["count"]) for r in rows] == [
        ("pause_frames", "rx", 64, 5),
        ("pause_frames", "tx", 32, 6),
    ]


def test_objects_that_are_not_used_are_counted(tmp_path: Path) -> None:
    path = walk(
        tmp_path,
        "IF-MIB::ifHCInOctets.1 = Counter64: 5",
        "IF-MIB::ifAlias.1 = STRING: secret",
        "IF-MIB::ifPhysAddress.1 = STRING: de:ad:be:ef:0:1",
        "TCP-MIB::tcpConnState.192.0.2.1.80 = INTEGER: established(5)",
        "IF-MIB::ifHCOutOctets.1 = Wrong Type (should be Counter64): Counter32: 9",
    )
    tables = read(path)
    assert tables.samples["count"].to_pylist() == [5, 9]
    [row] = tables.set_aside.to_pylist()
    assert row["reason"] == "other objects: no counters of interfaces (3 readings)"
