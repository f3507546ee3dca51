"""Arista EOS: JSON with a time per port, and texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.measure.intervals import intervals
from servebook.read import eos, eos_text
from servebook.read.files import survey
from servebook.read.source import Source
from servebook.tables import empty
from tests.read.counter_samples import FIXTURES, claim, licensed, licensed_folder, rows

T = 1795973865
S = 10**9


def write(tmp_path: Path, content: Any, name: str = "eos.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_counters_stand_at_their_ports_own_times() -> None:
    tables = claim(eos.FORMAT, FIXTURES / "eos_counters.json")
    found = intervals(tables.samples, empty("ports"))
    first = found[(found["interface"] == "Ethernet1/1") & (found["direction"] == "rx")]
    assert first["bytes"].tolist() == [10**9, 10**9]
    assert first["packets"].tolist() == [1, 1]
    assert first["t0_ns"].tolist() == [T * S + S // 2, T * S + 5 * S // 2]
    second = found[found["interface"] == "Ethernet2/1"]
    assert second["t0_ns"].tolist()[0] == T * S + 5 * S // 4
    assert set(tables.samples["ts_kind"].to_pylist()) == {"device"}
    counts = tables.samples["count"].to_pylist()
    assert 2**53 + 1 in counts
    assert tables.set_aside["reason"].to_pylist() == [
        "Vlan10: no time and no counters, or no time of them (3 readings)"
    ]


RATES = {
    "description": "to rack 7",
    "interval": 30,
    "inBpsRate": 8e9,
    "inPktsRate": 2.5,
    "inPpsRate": 1000.0,
    "lastUpdateTimestamp": T + 0.25,
}


def test_names_of_rates_that_mean_something_else(tmp_path: Path) -> None:
    tables = claim(eos.FORMAT, write(tmp_path, {"interfaces": {"Et1": RATES}}))
    assert rows(tables, "metric", "kind", "value", "window_s") == [
        ("bytes", "rate", 1e9, 30.0),
        ("packets", "rate", 1000.0, 30.0),
        ("util", "util", 0.025, 30.0),
    ]
    assert "rack 7" not in str(tables.samples.to_pylist())


def test_the_whole_of_show_interfaces(tmp_path: Path) -> None:
    port = {
        "bandwidth": 400000000000,
        "physicalAddress": "aa:c1:ab:7e:76:36",
        "interfaceStatistics": {"updateInterval": 300.0, "inBitsRate": 8.0, "inPktsRate": 3.0},
        "interfaceCounters": {
            "inOctets": 10,
            "inTotalPkts": 3,
            "totalInErrors": 1,
            "inputErrorsDetail": {"rxPause": 4},
            "counterRefreshTime": T + 0.5,
        },
    }
    tables = claim(eos.FORMAT, write(tmp_path, {"interfaces": {"Et1": port}}))
    assert rows(tables, "metric", "direction", "count", "value") == [
        ("bytes", "rx", 10, None),
        ("packets", "rx", 3, None),
        ("errors", "rx", 1, None),
        ("pause_frames", "rx", 4, None),
        ("speed_bps", None, None, 4e11),
    ]
    assert "octets are here" in tables.set_aside["reason"][0].as_py()
    # A port without octets has its averages only; here inPktsRate is packets per second.
    del port["interfaceCounters"]["inOctets"]  # type: ignore[attr-defined]
    tables = claim(eos.FORMAT, write(tmp_path, {"interfaces": {"Et1": port}}))
    rates = [row for row in rows(tables, "kind", "metric", "value") if row[0] == "rate"]
    assert rates == [("rate", "bytes", 1.0), ("rate", "packets", 3.0)]


def test_envelopes_of_eapi_and_of_collectors(tmp_path: Path) -> None:
    reply = {"interfaces": {"Et1": {"inOctets": 5, "lastUpdateTimestamp": T + 0.5}}}
    eapi = {"jsonrpc": "2.0", "id": "1", "result": [{"modelName": "x"}, reply]}
    record = {"cmd": "show interfaces counters", "hostname": "leaf3", "data": reply}
    address = {**record, "hostname": "10.0.0.9"}
    other = {"cmd": "cat /proc/net/dev", "hostname": "host1", "data": "Inter-| Receive"}
    text = json.dumps(eapi) + json.dumps([record, address]) + json.dumps([other])
    tables = claim(eos.FORMAT, write(tmp_path, text))
    assert rows(tables, "device", "count") == [("switch", 5), ("leaf3", 5), ("device 1", 5)]
    assert tables.set_aside.num_rows == 2


def test_a_reply_without_times_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, {"interfaces": {"Et1": {"inOctets": 5, "lastUpdateTimestamp": 0.0}}})
    with pytest.raises(DumpError, match=r"put `### \$\(date \+%s.%N\)` before each reading"):
        claim(eos.FORMAT, path)
    tables = claim(eos.FORMAT, write(tmp_path, path.read_text(), f"eos_{T}.json"))
    assert rows(tables, "ts_ns", "ts_kind") == [(T * S, "filename")]


def test_the_text_of_show_interfaces() -> None:
    tables = claim(eos_text.FORMAT, FIXTURES / "eos_interfaces.log")
    first = [r for r in tables.samples.to_pylist() if r["ts_ns"] == T * S]
    assert {(r["metric"], r["direction"]): r["count"] or r["value"] for r in first} == {
        ("speed_bps", None): 4e11,
        ("packets", "rx"): 209559,
        ("bytes", "rx"): 26469103,
        ("errors", "rx"): 2,
        ("drops", "rx"): 5,
        ("pause_frames", "rx"): 7,
        ("packets", "tx"): 7809,
        ("bytes", "tx"): 1398036,
        ("errors", "tx"): None,
        ("drops", "tx"): 11,
        ("pause_frames", "tx"): None,
    }
    [aside] = tables.set_aside.to_pylist()
    assert (aside["line"], aside["reason"]) == (
        17,
        "Loopback0: an interface without counters (2 readings)",
    )


TABLE = (
    "Port      Name        Intvl   In Mbps      %  In Kpps  Out Mbps      % Out Kpps\n"
    "Et1/1     to spine 1   0:05  196000.0  98.9%    470.5       0.1   0.0%      0.0\n"
    "Et2/1                  5:00       8.0   0.0%      1.0       2.0      -      0.5\n"
    "Et3/1     torn         5:00\n"
)


def test_the_table_of_rates(tmp_path: Path) -> None:
    tables = claim(eos_text.FORMAT, write(tmp_path, f"### {T}\n{TABLE}", "rates.log"))
    found = rows(tables, "interface", "metric", "direction", "value", "window_s")
    assert ("Et1/1", "bytes", "rx", 24.5e9, 5.0) in found
    assert ("Et1/1", "packets", "rx", 470500.0, 5.0) in found
    [util] = [row[3] for row in found if row[:3] == ("Et1/1", "util", "rx")]
    assert util == pytest.approx(0.989, rel=1e-12)
    assert ("Et2/1", "bytes", "rx", 1e6, 300.0) in found
    assert not [row for row in found if row[:3] == ("Et2/1", "util", "tx")]
    assert tables.set_aside["reason"].to_pylist() == ["rows: no row of rates (1 reading)"]


def test_the_table_of_counters(tmp_path: Path) -> None:
    text = (
        f"### {T}\n"
        "Port            InOctets     InUcastPkts     InMcastPkts     InBcastPkts\n"
        "Et1/1     18446744073709551615            3               4               5\n\n"
        "Port           OutOctets    OutUcastPkts    OutMcastPkts    OutBcastPkts\n"
        "Et1/1                 20               1               0               0\n"
    )
    tables = claim(eos_text.FORMAT, write(tmp_path, text, "counters.log"))
    assert rows(tables, "metric", "direction", "count") == [
        ("bytes", "rx", 2**64 - 1),
        ("packets", "rx", 12),
        ("unicast_packets", "rx", 3),
        ("bytes", "tx", 20),
        ("packets", "tx", 1),
        ("unicast_packets", "tx", 1),
    ]


def test_tables_of_two_numbers(tmp_path: Path) -> None:
    text = (
        f"### {T}\n"
        "Port                 RxPfc         TxPfc\nEt1/1                   12             3\n\n"
        "Port            InDiscards     OutDiscards\nEt1/1                    4               5\n"
        "------         -----------     -----------\n"
    )
    tables = claim(eos_text.FORMAT, write(tmp_path, text, "pfc.log"))
    assert rows(tables, "metric", "direction", "count") == [
        ("pause_frames", "rx", 12),
        ("pause_frames", "tx", 3),
        ("drops", "rx", 4),
        ("drops", "tx", 5),
    ]
    assert tables.set_aside["reason"].to_pylist() == ["rows: no row of counters (1 reading)"]


def test_rates_without_names_are_refused(tmp_path: Path) -> None:
    line = "  5 minutes input rate 8 bps (0.0% with framing overhead), 0 packets/sec\n"
    path = write(tmp_path, line * 3, f"rates_{T}.txt")
    with pytest.raises(DumpError, match=r"without the names.*without `\| include`"):
        claim(eos_text.FORMAT, path)


JUNK = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "inOctets",
                    "interfaceCounters",
                    "lastUpdateTimestamp",
                    "inBpsRate",
                    "interval",
                    "bandwidth",
                    "interfaceStatistics",
                    "inputErrorsDetail",
                    "rxPause",
                    "inUcastPkts",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JUNK)
def test_any_port_is_read_or_set_aside(tmp_path_factory: pytest.TempPathFactory, junk: Any) -> None:
    good = {"inOctets": 5, "lastUpdateTimestamp": T + 0.5}
    path = write(tmp_path_factory.mktemp("eos"), {"interfaces": {"Et1": good, "Et2": junk}})
    tables = eos.FORMAT.read(Source("eos-json", path.parent, path, (path,)))
    assert tables.samples.num_rows >= 1
    mine = [r for r in tables.samples.to_pylist() if r["interface"] == "Et2"]
    assert mine or tables.set_aside.num_rows


@licensed
def test_rates_and_counters_of_one_device_agree(tmp_path: Path) -> None:
    [path] = licensed_folder("arista_eos").glob("*counters_rates.json")
    tables = claim(eos.FORMAT, write(tmp_path, path.read_text()))
    found = {row[:3]: row[3] for row in rows(tables, "interface", "metric", "direction", "value")}
    rate = found["Ethernet1/1", "bytes", "rx"]
    packets = found["Ethernet1/1", "packets", "rx"]
    util = found["Ethernet1/1", "util", "rx"]
    # 20 bytes of framing per packet on a link of 1 Gbit/s: what shows the meaning of the names
    assert (rate + 20 * packets) * 8 / 1e9 == pytest.approx(util, rel=1e-8)
    for text in path.parent.glob("*.raw"):
        copy = write(tmp_path, text.read_text(), f"{text.stem}_{T}.txt")
        if eos_text.FORMAT.find(survey(copy)):
            assert claim(eos_text.FORMAT, copy).samples.num_rows > 50
