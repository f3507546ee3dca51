"""sysfs and perfquery: words of 4 bytes, counters that stop, counters that wrap."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.measure.intervals import intervals
from servebook.read import csvmap, perfquery, sysfs
from servebook.read.counter_names import METRICS
from servebook.read.files import survey
from servebook.read.source import Format, Source
from servebook.read.sysfs_names import HARDWARE, NET, OTHERS, PERFQUERY, PORT, count_of
from servebook.tables import empty
from tests.read.counter_samples import FIXTURES, claim, licensed, licensed_folder, rows

T = 1795973865
S = 10**9


def write(tmp_path: Path, text: str, name: str = f"counters_{T}.txt") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_paths_with_values() -> None:
    tables = claim(sysfs.FORMAT, FIXTURES / "sysfs.log")
    first = [r for r in tables.samples.to_pylist() if r["ts_ns"] == T * S + S // 2]
    assert {
        (r["interface"], r["metric"], r["direction"]): r["count"] or r["value"] for r in first
    } == {
        ("eth0", "bytes", "rx"): 321593325,
        ("eth0", "drops", "tx"): None,
        ("eth0", "speed_bps", None): 4e11,
        ("mlx5_0/1", "bytes", "rx"): 4 * 18126345378,
        ("mlx5_0/1", "bytes", "tx"): 4 * 2880761508848,
        ("mlx5_0/1", "out_of_seq", "rx"): 4294967290,
        ("mlx5_0/1", "cnp_sent", "tx"): 7,
        ("mlx5_0/1", "speed_bps", None): 4e11,
    }
    assert {r["bits"] for r in first if r["metric"] == "out_of_seq"} == {32}
    found = intervals(tables.samples, empty("ports"))
    rdma = found[(found["interface"] == "mlx5_0/1") & (found["direction"] == "rx")]
    assert rdma["bytes"].tolist() == [1e9, 1e9]
    assert rdma["util_fraction"].tolist() == [0.01, 0.01]
    reasons = tables.set_aside["reason"].to_pylist()
    assert reasons.count("the counter stands at its highest value, where it stops counting") == 3
    assert "other files: no counters that Servebook uses (12 readings)" in reasons
    assert "counters: the device has no value (N/A) (3 readings)" in reasons
    # 42 lines with a path: 24 used, 18 set aside
    assert tables.samples.num_rows == 24


def test_devices_whose_bytes_are_hardware_counters(tmp_path: Path) -> None:
    efa = "/sys/class/infiniband/rdmap0s6/ports/1/hw_counters"
    bnxt = "/sys/class/infiniband/bnxt_re0/ports/1"
    text = (
        f"{efa}/tx_bytes:70\n{efa}/rx_drops:2\n{efa}/cmds_err:1\n"
        f"{bnxt}/hw_counters/rx_bytes:9\n{bnxt}/counters/port_rcv_data:5\n"
    )
    tables = claim(sysfs.FORMAT, write(tmp_path, text))
    assert rows(tables, "interface", "metric", "direction", "count") == [
        ("rdmap0s6/1", "bytes", "tx", 70),
        ("rdmap0s6/1", "drops", "rx", 2),
        ("bnxt_re0/1", "bytes", "rx", 20),
    ]
    assert tables.set_aside.num_rows == 2


def test_head_and_tail_name_their_files(tmp_path: Path) -> None:
    text = (
        "==> /sys/class/net/eth0/statistics/rx_bytes <==\n7\n\n"
        "==> /sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data <==\n5\n"
    )
    assert rows(claim(sysfs.FORMAT, write(tmp_path, text)), "interface", "count") == [
        ("eth0", 7),
        ("mlx5_0/1", 20),
    ]


@pytest.mark.parametrize("path", ["/sys/devices/pci0/0000:01:00.0/net/eth0", "net/eth0"])
@pytest.mark.parametrize("sign", [":", " ", " = "])
def test_paths_however_they_are_written(tmp_path: Path, path: str, sign: str) -> None:
    text = f"{path}/statistics/tx_bytes{sign}9\n"
    if sign == " = ":
        text = f"net/eth0/statistics/rx_bytes:1\n{text}"
    tables = claim(sysfs.FORMAT, write(tmp_path, text))
    assert ("eth0", "tx", 9) in rows(tables, "interface", "direction", "count")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("port_rcv_data", "4294967295", "stops counting"),
        ("port_xmit_discards", "65535", "stops counting"),
        ("link_downed", "255", "stops counting"),
        ("port_rcv_data", str(2**62), "above 64 bits"),
        ("port_rcv_data", "-1", "negative"),
    ],
)
def test_counts_that_say_nothing(name: str, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        count_of(PORT[name], text, stops=True)


def test_a_kernel_counter_may_stand_anywhere() -> None:
    assert count_of(NET["rx_errors"], "65535", stops=False) == 65535


def test_words_of_perfquery() -> None:
    tables = claim(perfquery.FORMAT, FIXTURES / "perfquery.log")
    first = [r for r in tables.samples.to_pylist() if r["ts_ns"] == T * S + S // 2]
    assert {(r["interface"], r["metric"], r["direction"]): r["count"] for r in first} == {
        ("lid 133/1", "bytes", "tx"): 4 * 37108676853855,
        ("lid 133/1", "bytes", "rx"): 4 * 37225401952885,
        ("lid 133/1", "packets", "tx"): 96917117320,
        ("lid 133/1", "drops", "tx"): 20046,
        ("lid 133/2", "bytes", "rx"): 400,
    }
    assert {r["device"] for r in first} == {"fabric"}
    assert any("stops counting" in r for r in tables.set_aside["reason"].to_pylist())


@pytest.mark.parametrize("form", [sysfs.FORMAT, perfquery.FORMAT])
def test_without_a_time_they_are_refused(tmp_path: Path, form: Format) -> None:
    content = (FIXTURES / f"{form.name}.log").read_text()
    bare = "".join(line for line in content.splitlines(True) if not line.startswith("###"))
    with pytest.raises(DumpError, match=r"no `### <epoch>` lines"):
        claim(form, write(tmp_path, bare, "counters.txt"))


def test_a_csv_of_sysfs_is_plain_csv(tmp_path: Path) -> None:
    text = "ts_ns,rx_bytes,tx_bytes\n1795975980128359985,321593325,321593326\n"
    path = write(tmp_path, text, "lo_0.5s.csv")
    assert not sysfs.find(survey(path))
    assert claim(csvmap.FORMAT, path).samples["count"].to_pylist() == [321593325, 321593326]


def test_metrics_are_those_that_are_described() -> None:
    for table in (NET, PORT, HARDWARE, OTHERS, PERFQUERY):
        assert {meaning.metric for meaning in table.values()} <= set(METRICS)


@given(st.text(max_size=40))
def test_any_value_is_no_traceback(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    line = "".join(c for c in value if c not in "\r\n")
    text = (
        f"/sys/class/net/eth0/statistics/rx_bytes:1\n/sys/class/net/e/statistics/tx_bytes:{line}\n"
    )
    path = tmp_path_factory.mktemp("sysfs") / f"a_{T}.txt"
    path.write_text(text, encoding="utf-8", newline="")
    tables = sysfs.read(Source("sysfs", path.parent, path, (path,)))
    assert tables.samples.num_rows + tables.set_aside.num_rows == 2


@licensed
def test_real_ports(tmp_path: Path) -> None:
    folder = licensed_folder("infiniband")
    [path] = folder.glob("*grep_sys_class_infiniband.txt")
    tables = claim(sysfs.FORMAT, write(tmp_path, path.read_text()))
    found = {row[:3]: row[3] for row in rows(tables, "interface", "metric", "direction", "count")}
    assert found["mlx5_0/1", "bytes", "tx"] == 4 * 2880761508848
    assert found["mlx5_0/1", "retrans", "tx"] == 99
    for path in folder.glob("*perfquery*"):
        copy = write(tmp_path, path.read_text(), f"{path.stem}_{T}.out")
        assert claim(perfquery.FORMAT, copy).samples.num_rows in (10, 20)
