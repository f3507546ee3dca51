"""Panels of Grafana as CSV: layouts, units, times, legends, and what cannot be told."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import csvmap, grafana
from servebook.read.files import survey
from servebook.read.grafana_cells import Clock, amount
from servebook.read.grafana_legend import legend_of
from servebook.read.registry import FORMATS
from servebook.tables import Tables
from tests.read import counter_samples
from tests.read.counter_samples import FIXTURES, rows

T0 = 1795972223  # 2026-11-29 17:10:23 UTC
read = functools.partial(counter_samples.read, grafana.FORMAT)


def write(tmp_path: Path, text: str, encoding: str = "utf-8") -> Path:
    path = tmp_path / "panel.csv"
    path.write_bytes(text.encode(encoding))
    return path


def short(tables: Tables) -> list[tuple[object, ...]]:
    return rows(tables, "interface", "direction", "metric", "kind", "count", "value", "ts_ns")


def test_the_fixture_is_found_and_read() -> None:
    [source] = grafana.find(survey(FIXTURES))
    assert source.main.name == "grafana_panel.csv"
    tables = read(source.main, time_zone="Europe/Berlin")
    # 18:10:23 in Berlin is 17:10:23 UTC; 1.2 Gb/s is 150 MB/s.
    assert short(tables) == [
        ("eth0", "rx", "bytes", "rate", None, 150e6, T0 * 10**9),
        ("eth0", "rx", "bytes", "rate", None, 1000 / 8, (T0 + 1) * 10**9),
        ("eth0", "tx", "bytes", "rate", None, 98.5e6 / 8, T0 * 10**9),
        ("eth0", "tx", "bytes", "rate", None, 0.0, (T0 + 2) * 10**9),
    ]
    assert {r["ts_kind"] for r in tables.samples.to_pylist()} == {"grid"}
    assert tables.set_aside.num_rows == 0
    with pytest.raises(DumpError, match=r"line 2: .*without a zone.*time_zone"):
        read(source.main)


def test_raw_values_with_the_manifests_word(tmp_path: Path) -> None:
    path = write(tmp_path, f'"Time","eth0 in","eth0 out"\r\n{T0}000,800,16.5\r\n')
    assert len(grafana.find(survey(tmp_path))) == 1
    with pytest.raises(DumpError, match="a value without a unit"):
        read(path)
    tables = read(path, kind="rate", unit="bits")
    assert short(tables) == [
        ("eth0", "rx", "bytes", "rate", None, 100.0, T0 * 10**9),
        ("eth0", "tx", "bytes", "rate", None, 2.0625, T0 * 10**9),
    ]


def test_a_series_with_its_counters_name_is_a_counter(tmp_path: Path) -> None:
    labels = 'device=""eth0"", instance=""10.0.0.7:9100"", job=""node""'
    legend = f"node_network_receive_bytes_total{{{labels}}}"
    text = f'"Time";"{legend}"\n{T0}000;18446744073709551615\n{T0 + 1}000;7\n'
    tables = read(write(tmp_path, text))
    [one, two] = tables.samples.to_pylist()
    assert (one["count"], one["kind"], one["direction"], one["interface"]) == (
        2**64 - 1,
        "counter",
        "rx",
        "eth0",
    )
    assert (two["count"], one["device"]) == (7, "device 1")
    assert "10.0.0.7" not in str(tables)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ('sep=;\r\n"Time";"eth0 rx"\r\n2026-11-29T17:10:23Z;1,5 kB/s\r\n', "utf-8"),
        ('"Time"\t"eth0 rx"\r\n2026-11-29T17:10:23Z\t1.5 kB/s\r\n', "utf-16"),
        ('"Series";"Time";"Value"\n"eth0 rx";"2026-11-29T17:10:23+00:00";1,5 kB/s\n', "utf-8-sig"),
        ('"Time","device","ifDescr","Value"\n1795972223000,leaf1,eth0,1.5 kB/s\n', "utf-8"),
        (
            '"Time","eth0 rx"\n1795972223000,1.5 kB/s\n\n"Time","eth1 tx"\n1795972223000,\n',
            "utf-8",
        ),
    ],
)
def test_layouts_and_encodings(tmp_path: Path, text: str, encoding: str) -> None:
    path = write(tmp_path, text, encoding)
    [source] = grafana.find(survey(tmp_path))
    tables = read(source.main, direction="rx")
    assert path == source.main
    assert short(tables) == [("eth0", "rx", "bytes", "rate", None, 1500.0, T0 * 10**9)]


@pytest.mark.parametrize(
    ("cell", "value", "unit"),
    [
        ("1.2 Gb/s", 1.2e9, "bits/s"),
        ("1.2 GB/s", 1.2e9, "bytes/s"),
        ("2 KiB/s", 2048.0, "bytes/s"),
        ("2 Mib/s", 2.0 * 1024**2, "bits/s"),
        ("98.2%", 98.2, "percent"),
        ("0 b/s", 0.0, "bits/s"),
        ("12.3 Mbps", 12.3e6, "bits/s"),
        ("12.3 MBps", 12.3e6, "bytes/s"),
        ("12.3 KBs", 12.3e3, "bytes/s"),
        ("7 kp/s", 7000.0, "packets/s"),
        ("1.53 TB", 1.53e12, "bytes"),
        ("1.8527668e+07", 18527668.0, ""),
        ("5 K", None, ""),
        ("1,234 b/s", None, ""),
        ("fast", None, ""),
        ("1 furlong", None, ""),
        ("1e999", None, ""),
        ("1.2.3 b/s", None, ""),
        ("\u0663 b/s", None, ""),
    ],
)
def test_cells(cell: str, value: float | None, unit: str) -> None:
    if value is None:
        with pytest.raises(ValueError, match=r"[a-z]"):
            amount(cell)
    else:
        assert amount(cell) == (pytest.approx(value), unit)


@pytest.mark.parametrize(
    ("texts", "zone", "seconds"),
    [
        (["2026-11-29 17:10:23"], "UTC", [T0]),
        (["2026-11-29 18:10:23.000"], "Europe/Berlin", [T0]),
        (["11/29/2026, 5:10:23\u202fPM"], "UTC", [T0]),
        (["29/11/2026, 17:10:23"], "UTC", [T0]),
        (["29.11.2026, 17:10:23"], "UTC", [T0]),
        (["2026/11/29 17:10:23"], "UTC", [T0]),
        (["11/29/2026, 12:00:00 AM", "11/12/2026, 12:00:00 PM"], "UTC", [1795910400, 1794484800]),
        (["11/12/2026, 12:00:00"], "UTC", [None]),
        (["2026-11-29 17:10:23"], None, [None]),
        (["2026-10-25 02:30:00"], "Europe/Berlin", [None]),
        (["0001-01-01 00:00:00", "99/99/2026 10:00", "13/13/2026 1:00"], "UTC", [None, None, None]),
    ],
)
def test_times(texts: list[str], zone: str | None, seconds: list[int | None]) -> None:
    clock = Clock(texts, zone)
    for text, second in zip(texts, seconds, strict=True):
        if second is None:
            with pytest.raises(ValueError, match=r"time|date|hour"):
                raise ValueError(f"a time before 1970: {clock.ns(text)}")
        else:
            assert clock.ns(text) == second * 10**9


@pytest.mark.parametrize(
    ("legend", "interface", "direction", "metric", "device"),
    [
        ("eth0 - Receive", "eth0", "rx", "bytes", None),
        ("Trans eth0", "eth0", "tx", "bytes", None),
        ("leaf1 Ethernet1/1 out", "leaf1 Ethernet1/1", "tx", "bytes", None),
        ("inbound traffic on Eth1/33", "Eth1/33", "rx", "bytes", None),
        ("10.0.0.7:9100 eth0 sent", "eth0", "tx", "bytes", "10.0.0.7:9100"),
        ("node7.example.com: eth0 rx errors", "eth0", "rx", "errors", "node7.example.com"),
        ("de:ad:be:ef:00:01 swp1-in", "swp1", "rx", "bytes", None),
        ("Ethernet1/1 received packets dropped", "Ethernet1/1", "rx", "drops", None),
        ("rx", None, "rx", "bytes", None),
        ("eth0_rx_bytes", "eth0", "rx", "bytes", None),
        ("et-0/0/1-out", "et-0/0/1", "tx", "bytes", None),
        ("rx_drops eth0", "eth0", "rx", "drops", None),
        (
            'rate(node_network_transmit_bytes_total{device="eth1"}[1m])*8',
            "eth1",
            "tx",
            "bytes",
            None,
        ),
        (
            'node_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"}',
            "mlx5_0/1",
            "rx",
            "bytes",
            None,
        ),
    ],
)
def test_legends(
    legend: str, interface: str | None, direction: str, metric: str, device: str | None
) -> None:
    found = legend_of(legend)
    assert (found.interface, found.direction, found.metric) == (interface, direction, metric)
    assert found.device == device


@pytest.mark.parametrize(
    ("legend", "words"),
    [
        ("eth0", "does not say one direction"),
        ("eth0 rx tx", "does not say one direction"),
        ("eth0 rx utilization", "no traffic"),
        ('{device="eth0"}', "without a direction"),
        ("increase(node_network_receive_bytes_total[1m])", "an increase over a window"),
        ("node_network_speed_bytes", "not a counter"),
    ],
)
def test_legends_that_do_not_say_enough(legend: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        legend_of(legend)


def test_a_map_names_the_legends(tmp_path: Path) -> None:
    path = write(tmp_path, f'"Time","A","B"\n{T0}000,80,160 b/s\n')
    columns = {"rx_bits_per_s of Ethernet1 on leaf1": "A", "tx_bytes of Ethernet1 on leaf1": "B"}
    tables = read(path, columns=columns)
    assert [row[:6] for row in short(tables)] == [
        ("Ethernet1", "rx", "bytes", "rate", None, 10.0),
        ("Ethernet1", "tx", "bytes", "rate", None, 20.0),
    ]
    assert set(tables.samples["device"].to_pylist()) == {"leaf1"}
    with pytest.raises(DumpError, match="a legend C"):
        read(path, columns={"rx_bytes": "C"})


def test_totals_percentages_and_negative_values(tmp_path: Path) -> None:
    text = (
        '"Time","eth0 rx","eth0 tx","eth1 rx","eth2 rx"\n'
        f"{T0}000,1.53 TB,-8 b/s,8 b/s,90%\n{T0 + 1}000,1.54 TB,-16 b/s,-8 b/s,91%\n"
    )
    tables = read(write(tmp_path, text))
    # What is drawn below the axis throughout is a rate; one value below it is none.
    assert [(row[0], row[5]) for row in short(tables)] == [("eth0", 1), ("eth0", 2), ("eth1", 1)]
    told = " | ".join(tables.set_aside["reason"].to_pylist())
    assert "column 2: a rounded total" in told
    assert "(2 readings)" in told
    assert "column 4: a rate cannot be negative" in told
    assert "column 5: a percentage" in told


def test_rounded_totals_alone_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, f'"Time","eth0 rx"\n{T0}000,1.53 TB\n')
    with pytest.raises(DumpError, match=r"rounded total.*without formatting"):
        read(path)


def test_no_value_is_not_zero(tmp_path: Path) -> None:
    text = f'"Time","eth0 rx"\n{T0}000,null\n{T0 + 1}000,undefined\n{T0 + 2}000,8 b/s\n'
    tables = read(write(tmp_path, text))
    assert (tables.samples.num_rows, tables.set_aside.num_rows) == (1, 0)


def test_rows_and_times_that_cannot_be_read(tmp_path: Path) -> None:
    text = f'"Time","eth0 rx"\nsoon,8 b/s\n{T0}000\n{T0}000,8 b/s\n{T0}000,NaN\n'
    tables = read(write(tmp_path, text))
    assert tables.samples.num_rows == 1
    assert tables.set_aside.num_rows == 3


@pytest.mark.parametrize(
    ("end", "kept"), [("2 b/s", 2), ("2345", 1), ("2 b/", 1), ("2 M", 1), ("", 1)]
)
def test_a_file_that_ends_in_a_line(tmp_path: Path, end: str, kept: int) -> None:
    text = f'"Time","eth0 rx"\n{T0}000,1 b/s\n{T0 + 1}000,{end}'
    tables = read(write(tmp_path, text), kind="rate", unit="bits")
    assert tables.samples.num_rows == kept


def test_hostile_legends_stay_text(tmp_path: Path) -> None:
    legends = ["<script>alert(1)</script> rx", "=cmd|calc!A1 tx", "a\x07\x1b[31m rx", "{{7*7}} rx"]
    header = ",".join(f'"{legend}"' for legend in ["Time", *legends])
    tables = read(write(tmp_path, f"{header}\n{T0}000,{','.join(['8 b/s'] * 4)}\n"))
    names = tables.samples["interface"].to_pylist()
    assert len(names) == 4
    assert all(name.isprintable() for name in names)


def test_our_own_names_stay_with_the_plain_csv(tmp_path: Path) -> None:
    write(tmp_path, f'"time","rx_bytes"\n{T0},5\n')
    assert grafana.find(survey(tmp_path)) == []
    assert len(csvmap.find(survey(tmp_path))) == 1
    names = [form.name for form in FORMATS]
    assert names.index("grafana-csv") < names.index("csv")


def test_two_columns_of_one_legend_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, f'"Time","eth0 rx","eth0 rx"\n{T0}000,1 b/s,2 b/s\n')
    with pytest.raises(DumpError, match="one column per legend"):
        read(path)


def test_legends_that_differ_in_nothing_known_are_not_mixed(tmp_path: Path) -> None:
    header = '"Time","00:11:22:33:44:55 eth0 rx","00:11:22:33:44:66 eth0 rx"'
    tables = read(write(tmp_path, f"{header}\n{T0}000,8 b/s,16 b/s\n"))
    assert tables.samples["value"].to_pylist() == [1.0]
    assert "says no more than another" in tables.set_aside["reason"][0].as_py()
    assert "00:11" not in str(tables.samples.to_pylist())


@settings(max_examples=40)
@given(data=st.data())
def test_damage_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = (FIXTURES / "grafana_panel.csv").read_bytes()
    at = data.draw(st.integers(0, len(content)))
    junk = data.draw(st.one_of(st.binary(max_size=8), st.sampled_from([b'"', b",", b"\n", b"1e9"])))
    gone = data.draw(st.integers(0, 20))
    path = tmp_path_factory.mktemp("g") / "panel.csv"
    path.write_bytes(content[:at] + junk + content[at + gone :])
    try:
        tables = read(path, time_zone="UTC", kind="rate", unit="bits", direction="rx")
    except DumpError:
        return
    assert tables.samples.num_rows + tables.set_aside.num_rows > 0
