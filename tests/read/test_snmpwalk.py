"""net-snmp walks in the notations that people print."""

from __future__ import annotations

from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import snmpwalk
from servebook.read.files import survey
from servebook.read.source import Source
from servebook.tables import Tables

FIXTURES = Path(__file__).parents[1] / "fixtures" / "counters"


def read(path: Path) -> Tables:
    return snmpwalk.read(Source("snmpwalk", path.parent, path, (path,)))


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
    path = walk(tmp_path, "IF-MIB::ifInOctets.1 = Counter32: 5")
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
