"""Parquet: srt-slurm's long form, other long forms, our columns, and damage."""

from __future__ import annotations

import functools
import gzip
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import parquet_series
from servebook.read.campaign import load
from servebook.read.files import survey
from tests.read import counter_samples

RUN = Path(__file__).parents[1] / "fixtures" / "runs" / "vllm"
T0 = 1795972223
RX = "node_infiniband_port_data_received_bytes_total"
TX = "node_network_transmit_bytes_total"
read = functools.partial(counter_samples.read, parquet_series.FORMAT)


def write(tmp_path: Path, name: str = "final.parquet", **columns: Any) -> Path:
    path = tmp_path / name
    pq.write_table(pa.table(columns), path)
    return path


def tachometer(tmp_path: Path) -> Path:
    """The columns of srt-slurm's collector: two hosts, one of them twice, and a foreign metric."""
    return write(
        tmp_path,
        metric_name=[
            f'{RX}{{device="mlx5_0",port="1"}}',
            f'{RX}{{device="mlx5_0",port="1"}}',
            f'{TX}{{device="eth0"}}',
            'vllm:num_requests_running{engine="0"}',
            f"{RX}{{device=mlx5_1,port=1}}",
        ],
        metric_name_clean=[RX, RX, TX, "vllm:num_requests_running", RX],
        scraper_endpoint=["http://10.0.0.7:9100/metrics"] * 4 + ["http://10.0.0.8:9100/metrics"],
        metric_value=[1e16, 1e16 + 2, 7.0, 3.0, float("nan")],
        timestamp_ns=[T0 * 10**9, (T0 + 1) * 10**9, T0 * 10**9, T0 * 10**9, T0 * 10**9],
        time_since_start=[0.0, 1.0, 0.0, 0.0, 0.0],
        hostname=["node-a"] * 4 + ["node-b"],
    )


def test_the_collector_of_srt_slurm(tmp_path: Path) -> None:
    path = tachometer(tmp_path)
    [source] = parquet_series.find(survey(tmp_path))
    assert source.main == path
    tables = read(path)
    keys = ("device", "interface", "direction", "scope", "count", "ts_ns", "line")
    assert [tuple(r[k] for k in keys) for r in tables.samples.to_pylist()] == [
        ("device 1", "mlx5_0/1", "rx", "rdma", 10**16, T0 * 10**9, 1),
        ("device 1", "mlx5_0/1", "rx", "rdma", 10**16 + 2, (T0 + 1) * 10**9, 2),
        ("device 1", "eth0", "tx", "port", 7, T0 * 10**9, 3),
    ]
    assert set(tables.samples["ts_error_ns"].to_pylist()) == {10**9}
    told = " | ".join(tables.set_aside["reason"].to_pylist())
    assert "1 readings of other metrics" in told
    assert "NaN" in told
    assert "10.0.0" not in str(tables.samples.to_pylist()) + told


def test_parts_belong_to_the_file_that_holds_them_all(tmp_path: Path) -> None:
    whole = tachometer(tmp_path)
    for name in ("out-1.parquet", "out-2.parquet", "other.parquet"):
        (tmp_path / name).write_bytes(whole.read_bytes())
    sources = parquet_series.find(survey(tmp_path))
    assert [source.main.name for source in sources] == ["final.parquet", "other.parquet"]
    tables = parquet_series.read(sources[0])
    assert tables.samples.num_rows == 3
    assert tables.set_aside["path"].to_pylist()[:2] == ["out-1.parquet", "out-2.parquet"]
    whole.unlink()
    assert len(parquet_series.find(survey(tmp_path))) == 3


@pytest.mark.parametrize(
    "labels",
    [
        ['{"device":"eth0","instance":"leaf1"}'],
        ['{device="eth0",instance="leaf1"}'],
        ['device="eth0",instance="leaf1"'],
        pa.array([[("device", "eth0"), ("instance", "leaf1")]], pa.map_(pa.string(), pa.string())),
        [{"device": "eth0", "instance": "leaf1", "job": None}],
    ],
)
@pytest.mark.parametrize(
    "time",
    [
        pa.array([T0 * 10**6], pa.timestamp("us", "UTC")),
        pa.array([T0 * 10**9], pa.timestamp("ns", "Europe/Berlin")),
        [T0],
        [T0 * 1000],
        [float(T0)],
        ["2026-11-29T17:10:23Z"],
    ],
)
def test_labels_and_times_of_other_writers(tmp_path: Path, labels: Any, time: Any) -> None:
    path = write(tmp_path, metric=[TX], labels=labels, timestamp=time, value=[5])
    assert len(parquet_series.find(survey(tmp_path))) == 1
    [row] = read(path).samples.to_pylist()
    assert (row["device"], row["interface"], row["direction"]) == ("leaf1", "eth0", "tx")
    assert (row["count"], row["ts_ns"]) == (5, T0 * 10**9)


def test_a_time_without_a_zone_needs_the_manifest(tmp_path: Path) -> None:
    naive = pa.array([datetime(2026, 11, 29, 18, 10, 23, 250000)], pa.timestamp("us"))
    path = write(tmp_path, metric=[TX], device=["eth0"], timestamp=naive, value=[5.0])
    with pytest.raises(DumpError, match=r"no offset from UTC.*time_zone"):
        read(path)
    [row] = read(path, time_zone="Europe/Berlin").samples.to_pylist()
    assert (row["ts_ns"], row["interface"]) == (T0 * 10**9 + 250_000_000, "eth0")


def test_relative_times_alone_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, metric_name=[TX], metric_value=[5.0], timestamp_ns=[0])
    with pytest.raises(DumpError, match="a relative time"):
        read(path)


def test_our_columns_as_in_a_csv(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        ts=pa.array([datetime(2026, 11, 29, 17, 10, 23, tzinfo=UTC)], pa.timestamp("ms", "UTC")),
        interface=["Ethernet1"],
        rx_bytes=pa.array([2**64 - 1], pa.uint64()),
        tx_bytes=pa.array([None], pa.int64()),
        remark=["x"],
    )
    assert len(parquet_series.find(survey(tmp_path))) == 1
    [row] = read(path).samples.to_pylist()
    assert (row["interface"], row["direction"], row["count"]) == ("Ethernet1", "rx", 2**64 - 1)
    assert row["ts_ns"] == T0 * 10**9


def test_a_column_map_and_units(tmp_path: Path) -> None:
    path = write(tmp_path, when=[T0], word_in=[25], word_out=[40])
    assert parquet_series.find(survey(tmp_path)) == []
    columns = {"ts": "when", "rx_words of mlx5_0": "word_in", "tx_words of mlx5_0": "word_out"}
    rows = read(path, columns=columns).samples.to_pylist()
    assert [(r["interface"], r["direction"], r["count"]) for r in rows] == [
        ("mlx5_0", "rx", 100),
        ("mlx5_0", "tx", 160),
    ]


def test_a_manifest_maps_columns_that_nobody_knows(tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "raw" / "run")
    write(tmp_path / "raw", "leaf1_a.parquet", when=[T0], port=["Ethernet1"], octets=[5])
    (tmp_path / "campaign.yaml").write_text(
        "servebook: 1\nname: x\nconfigurations: {c: {}}\n"
        "runs: [{match: 'raw/run**', configuration: c}]\n"
        "counters: [{match: 'raw/{device}_*.parquet', "
        "columns: {ts: when, interface: port, rx_bytes: octets}}]\n"
    )
    [row] = load(tmp_path).tables.samples.to_pylist()
    assert (row["device"], row["interface"], row["count"]) == ("leaf1", "Ethernet1", 5)


def test_series_that_differ_in_unknown_labels_are_not_mixed(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        metric=[TX, TX],
        labels=['{device="eth0",netns="a"}', '{device="eth0",netns="b"}'],
        timestamp=[T0, T0],
        value=[5, 6],
    )
    tables = read(path)
    assert tables.samples["count"].to_pylist() == [5]
    assert tables.set_aside.num_rows == 1


def test_other_parquet_files_are_not_claimed(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", metric=["up"], timestamp=[T0], value=[1.0])
    write(tmp_path, "b.parquet", x=[1])
    assert parquet_series.find(survey(tmp_path)) == []


def test_a_packed_file(tmp_path: Path) -> None:
    path = tachometer(tmp_path)
    packed = tmp_path / "final.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(packed).samples.num_rows == 3


@pytest.mark.parametrize("cut", [4, 5, 12, 200, -1, -9])
def test_a_cut_file_is_refused(tmp_path: Path, cut: int) -> None:
    path = tachometer(tmp_path)
    path.write_bytes(path.read_bytes()[:cut])
    assert len(parquet_series.find(survey(tmp_path))) == 1
    with pytest.raises(DumpError, match="a whole Parquet file"):
        read(path)


@settings(max_examples=150)
@given(data=st.data())
def test_damage_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tachometer(tmp_path_factory.mktemp("p"))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content))
    try:
        tables = read(path, time_zone="UTC")
    except DumpError:
        return
    assert tables.samples.num_rows > 0
