"""Exporters beside node_exporter: what their series are, in pages and in replies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.measure.intervals import intervals
from servebook.read import node_text, prometheus_api
from servebook.read.counter_names import METRICS, NAMES, SAI_PORT, SAI_QUEUE
from servebook.read.ethtool_names import ethtool_meaning
from servebook.read.files import survey
from servebook.read.prometheus_names import known_name, reading_of, series_of, words_factor
from servebook.read.source import Source
from servebook.tables import Tables, empty
from tests.read.counter_samples import claim, licensed, licensed_folder, rows

MS = 1795973865157
AT = MS * 10**6


def page(tmp_path: Path, text: str, name: str = f"page_{MS}.prom", **options: Any) -> Tables:
    path = tmp_path / name
    path.write_text(text)
    return claim(node_text.FORMAT, path, **options)


def test_snmp_exporter_is_read_modulo_two_to_the_53(tmp_path: Path) -> None:
    labels = 'ifAlias="to spine 1, rack 7",ifDescr="Ethernet1/1",ifIndex="1",ifName="Et1/1"'
    text = (
        f"# HELP ifHCInOctets octets\n# TYPE ifHCInOctets counter\n"
        f"ifHCInOctets{{{labels}}} 9.007199254740991e+15\n"
        f"ifHighSpeed{{{labels}}} 400000\n"
        f"ifInDiscards{{{labels}}} 7\n"
    )
    found = page(tmp_path, text)
    assert rows(found, "interface", "metric", "direction", "count", "value", "bits") == [
        ("Et1/1", "bytes", "rx", 2**53 - 1, None, 53),
        ("Et1/1", "speed_bps", None, None, 4e11, None),
        ("Et1/1", "drops", "rx", 7, None, 32),
    ]
    assert "rack 7" not in str(found.samples.to_pylist())


def test_openmetrics_with_times_and_exemplars(tmp_path: Path) -> None:
    name = 'node_network_receive_bytes_total{device="eth0"}'
    text = (
        "# TYPE node_network_receive_bytes counter\n# UNIT node_network_receive_bytes bytes\n"
        f"{name} 5 1795973865.157\n"
        f'{name} 9 1.795973866157e+09 # {{trace_id="a}}b"}} 0.67 1.7e+09\n'
        f'{name} 11 # {{trace_id="c"}} 1\n'
        "# EOF\n"
    )
    found = page(tmp_path, text)
    assert rows(found, "count", "ts_ns", "ts_kind") == [
        (5, AT, "device"),
        (9, AT + 10**9, "device"),
        (11, AT, "filename"),
    ]
    assert found.set_aside.num_rows == 0


def test_a_dump_of_promtool_names_its_metric_among_the_labels(tmp_path: Path) -> None:
    text = (
        '{__name__="node_network_receive_bytes_total", device="lo", instance="h:9100"} 7 '
        '1795973865157\n{__name__="ifHighSpeed"} 400000 1795973865157\n'
        '{__name__="up", job="x"} 1 1795973865157\n'
    )
    found = page(tmp_path, text, "dump.txt")
    assert rows(found, "interface", "count", "value", "ts_ns") == [
        ("lo", 7, None, AT),
        ("unknown", None, 4e11, AT),
    ]
    assert found.set_aside.num_rows == 1


def test_hosts_of_one_page_stay_apart(tmp_path: Path) -> None:
    name = "node_network_receive_bytes_total"
    text = "".join(
        f'{name}{{device="eth0",instance="{host}:9100",job="{job}"}} {n}\n'
        for n, (host, job) in enumerate([("b", "node"), ("a", "node"), ("b", "node"), ("c", "x.y")])
    )
    assert rows(page(tmp_path, text), "device", "count") == [
        ("node", 0),
        ("node 2", 1),
        ("node", 2),
        ("instance", 3),
    ]


def test_snmp_exporters_wrap_is_no_reset(tmp_path: Path) -> None:
    pages = []
    for second, count in ((0, 2**53 - 1000), (2, 500), (4, 200)):
        path = tmp_path / f"page_{MS + second * 1000}.prom"
        path.write_text(f'ifHCInOctets{{ifIndex="7"}} {float(count)}\n')
        pages.append(path)
    [source] = node_text.find(survey(tmp_path))
    found = intervals(node_text.read(source).samples, empty("ports"))
    assert found["interface"].tolist() == ["ifIndex 7"] * 2
    assert found["bytes"].tolist()[0] == 1500
    assert found["flags"].tolist() == [["wrap"], ["reset"]]


def test_narrow_counters_are_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="ask for ifHCInOctets"):
        page(tmp_path, 'ifInOctets{ifName="a"} 5\n')


def test_opentelemetry_says_the_direction_in_a_label(tmp_path: Path) -> None:
    text = "".join(
        f'system_network_io_bytes_total{{device="eth0",direction="{way}"}} {n}\n'
        for n, way in enumerate(("receive", "transmit", "sideways"))
    )
    found = page(tmp_path, text)
    assert rows(found, "metric", "direction", "count") == [("bytes", "rx", 0), ("bytes", "tx", 1)]
    assert found.set_aside.num_rows == 1


def test_gnmic_names_the_switch_and_the_interface(tmp_path: Path) -> None:
    text = (
        'interfaces_interface_state_counters_in_octets{interface_name="Ethernet1",'
        'source="10.0.0.1:6030"} 100\n'
        'srl_nokia_interfaces_interface_statistics_out_octets{interface_name="ethernet-1/1",'
        'source="leaf2"} 200\n'
        'interfaces_interface_state_counters_in_fcs_errors{interface_name="Ethernet1"} 3\n'
    )
    found = page(tmp_path, text)
    assert rows(found, "device", "interface", "direction", "count") == [
        ("device 1", "Ethernet1", "rx", 100),
        ("leaf2", "ethernet-1/1", "tx", 200),
    ]
    [aside] = found.set_aside.to_pylist()
    assert aside["reason"] == "other metrics: no network counters (1 reading)"


def test_dcgm_gives_rates_of_buses_that_are_no_links(tmp_path: Path) -> None:
    labels = 'gpu="3",UUID="GPU-4cf0",device="nvidia3",Hostname="node7"'
    text = (
        f"# HELP DCGM_FI_PROF_PCIE_TX_BYTES b\nDCGM_FI_PROF_PCIE_TX_BYTES{{{labels}}} 12.5e+06\n"
        f"DCGM_FI_PROF_NVLINK_RX_BYTES{{{labels}}} 9223372036854775794\n"
    )
    found = page(tmp_path, text)
    assert rows(found, "interface", "scope", "kind", "value", "direction") == [
        ("gpu3", "pcie", "rate", 12.5e6, "tx")
    ]
    assert "the device has no value" in found.set_aside["reason"][0].as_py()
    assert not {"GPU-4cf0", "node7"} & set(map(str, found.samples.to_pylist()[0].values()))


FABRIC = (
    'infiniband_switch_port_transmit_data_bytes_total{guid="0x506b4b03005c2740",port="1",'
    'switch="spine1"} 100\n'
    'infiniband_switch_port_transmit_packets_total{guid="0x506b4b03005c2740",port="1",'
    'switch="spine1"} 3\n'
)


@pytest.mark.parametrize(
    ("version", "options", "count"),
    [
        ("0.11.1", {}, 100),
        ("0.10.0", {}, 100),
        ("0.9.0", {}, 400),
        (None, {"unit": "words"}, 400),
        (None, {"unit": "bytes"}, 100),
    ],
)
def test_infiniband_exporters_words_are_told_by_its_version(
    tmp_path: Path, version: str | None, options: dict[str, str], count: int
) -> None:
    build = f'infiniband_exporter_build_info{{version="{version}"}} 1\n' if version else ""
    found = page(tmp_path, build + FABRIC, **options)
    assert rows(found, "device", "interface", "metric", "count") == [
        ("spine1", "port 1", "bytes", count),
        ("spine1", "port 1", "packets", 3),
    ]


def test_bytes_that_may_be_words_are_not_guessed(tmp_path: Path) -> None:
    found = page(tmp_path, FABRIC)
    assert rows(found, "metric") == [("packets",)]
    assert "`unit: words`" in found.set_aside["reason"][0].as_py()


def test_the_ports_own_counter_replaces_the_kernels(tmp_path: Path) -> None:
    text = (
        'node_network_receive_bytes_total{device="eth0"} 10\n'
        'node_network_receive_bytes_total{device="eth1"} 20\n'
        'node_ethtool_received_bytes_phy{device="eth0"} 1000\n'
        'node_ethtool_received_bytes_total{device="eth0"} 11\n'
        'node_ethtool_received_vport_rdma_unicast_bytes{device="eth0"} 900\n'
        'node_ethtool_received_prio3_pause{device="eth0"} 4\n'
    )
    found = page(tmp_path, text)
    assert rows(found, "interface", "metric", "scope", "index", "count") == [
        ("eth1", "bytes", "port", None, 20),
        ("eth0", "bytes", "port", None, 1000),
        ("eth0", "bytes", "rdma", None, 900),
        ("eth0", "pfc_frames", "prio", 3, 4),
    ]
    reasons = found.set_aside["reason"].to_pylist()
    assert reasons == [
        "bytes of eth0: the same port has a counter that is nearer to the wire (2 readings)"
    ]


def test_a_reply_of_the_api_follows_the_same_names(tmp_path: Path) -> None:
    def series(value: str, **metric: str) -> dict[str, Any]:
        return {
            "metric": {"job": "fabric", "instance": "a:1", **metric},
            "values": [[MS / 1e3, value]],
        }

    result = [
        series("1", __name__="infiniband_exporter_build_info", version="0.9.1"),
        series(
            "7", __name__="infiniband_switch_port_receive_data_bytes_total", port="2", switch="s"
        ),
        series("5", __name__="node_ethtool_received_prio3_pause", device="eth0"),
    ]
    path = tmp_path / "reply.json"
    path.write_text(
        json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
    )
    found = prometheus_api.read(Source("prometheus", tmp_path, path, (path,)))
    assert rows(found, "device", "interface", "metric", "index", "count") == [
        ("s", "port 2", "bytes", None, 28),
        ("fabric", "eth0", "pfc_frames", 3, 5),
    ]
    assert found.set_aside.num_rows == 1


def test_a_page_of_names_without_comments_is_claimed_by_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / f"x_{MS}.txt").write_text('ifHCInOctets{ifName="a"} 1\n')
    (tmp_path / f"y_{MS}.txt").write_text("vllm_requests 1\n")
    assert [s.main.name for s in node_text.find(survey(tmp_path))] == [f"x_{MS}.txt"]


@given(begin=st.sampled_from(["ifHCInOctets{", "{", "}", "x "]), tail=st.text(max_size=60))
def test_any_line_is_a_reading_or_set_aside(
    tmp_path_factory: pytest.TempPathFactory, begin: str, tail: str
) -> None:
    path = tmp_path_factory.mktemp("page") / f"p_{MS}.prom"
    good = 'node_network_receive_bytes_total{device="eth0"} 1'
    line = begin + "".join(c for c in tail if c not in "\r\n")
    path.write_text(f"{good}\n{line}\n", encoding="utf-8", newline="")
    try:
        found = node_text.read(Source("node-text", path.parent, path, (path,)))
    except DumpError:
        return
    assert found.samples.num_rows + found.set_aside.num_rows == 2


def test_every_name_gives_a_metric_that_is_described() -> None:
    for table in (NAMES, SAI_PORT, SAI_QUEUE):
        assert {meaning.metric for meaning in table.values()} <= set(METRICS)
        assert all(m.index is None or m.scope not in ("port", "rdma") for m in table.values())


@pytest.mark.parametrize(
    ("name", "metric", "direction", "index", "rank"),
    [
        ("rx_bytes_phy", "bytes", "rx", None, 0),
        ("tx_bytes", "bytes", "tx", None, 1),
        ("rx_bytes.nic", "bytes", "rx", None, 0),
        ("port.rx_bytes", "bytes", "rx", None, 0),
        ("rx_prio5_pause_duration", "pfc_pause_us", "rx", 5, 0),
        ("pfc_pri3_tx_duration_us", "pfc_pause_us", "tx", 3, 0),
        ("rx_pfc_ena_frames_pri3", "pfc_frames", "rx", 3, 0),
        ("tx_priority_3_xoff.nic", "pfc_frames", "tx", 3, 0),
        ("link_xoff_rx.nic", "pause_frames", "rx", None, 0),
        ("HwIfInPfc3Pkts", "pfc_frames", "rx", 3, 0),
        ("a_octets_transmitted_ok", "bytes", "tx", None, 0),
        ("rx_packets", "packets", "rx", None, 2),
        ("rx_bytes_nic", "bytes", "rx", None, 0),
        ("tx_pkts_nic", "packets", "tx", None, 0),
        ("tx_octets_ok", "bytes", "tx", None, 0),
        ("rx_pb_4_pxoff", "pfc_frames", "rx", 4, 0),
    ],
)
def test_names_of_drivers(
    name: str, metric: str, direction: str, index: int | None, rank: int
) -> None:
    found = ethtool_meaning(name)
    assert found is not None
    meaning = found[0]
    assert (meaning.metric, meaning.direction, meaning.index, found[1]) == (
        metric,
        direction,
        index,
        rank,
    )


@pytest.mark.parametrize("name", ["rx_bytes_phy2", "rx0_bytes", "rx_prio33_bytes", "", "x_bytes"])
def test_other_names_of_drivers_are_not_guessed(name: str) -> None:
    assert ethtool_meaning(name) is None


@pytest.mark.parametrize("build", [None, "", "dev", "1"])
def test_a_version_that_tells_nothing(build: str | None) -> None:
    assert words_factor(build, None) is None


def test_counters_stay_exact_and_within_64_bits() -> None:
    meaning = NAMES["node_network_receive_bytes_total"]
    assert reading_of(meaning, str(2**62 + 1), 1) == 2**62 + 1
    with pytest.raises(ValueError, match="above 64 bits"):
        reading_of(meaning, str(2**62), 4)


@given(st.text(max_size=40), st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4))
def test_any_name_and_labels_are_a_series_or_none(name: str, labels: dict[str, str]) -> None:
    found = series_of(name, labels)
    assert found is None or known_name(name)


@licensed
def test_a_whole_page_of_node_exporter(tmp_path: Path) -> None:
    [path] = licensed_folder("prometheus_text").glob("*e2e-output.txt")
    found = page(tmp_path, path.read_text())
    count = {row[:3]: row[3] for row in rows(found, "interface", "metric", "direction", "count")}
    # 1.8527668e+07 in the page: 4 x 4631917 words, multiplied by node_exporter itself.
    assert count["mlx4_0/2", "bytes", "rx"] == 0
    assert count["mlx4_0/1", "bytes", "rx"] == 18527668
    assert count["mlx4_0/1", "bytes", "tx"] == 14933760
    lines = [x for x in path.read_text().split("\n") if x.strip() and x[0] != "#"]
    [aside] = found.set_aside["reason"].to_pylist()
    assert found.samples.num_rows + int(aside.rpartition("(")[2].split()[0]) == len(lines)
