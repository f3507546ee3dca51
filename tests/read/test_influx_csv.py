"""InfluxDB's CSV: annotated tables, the console's rows, and what was computed before."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import influx_csv
from servebook.read.files import survey
from servebook.read.registry import FORMATS
from tests.read import counter_samples
from tests.read.counter_samples import WRITTEN, rows

FILE = WRITTEN / "influx.csv"
T0 = 1795972223
LONG = ",result,table,_time,_value,_field,_measurement,host,interface\n"
read = functools.partial(counter_samples.read, influx_csv.FORMAT)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "data.csv"
    path.write_text(text)
    return path


def test_annotated_tables() -> None:
    assert [source.main for source in influx_csv.find(survey(FILE.parent))] == [FILE]
    keys = ("device", "interface", "direction", "scope", "count", "ts_ns", "line")
    assert rows(read(FILE), *keys) == [
        ("node1", "eth0", "rx", "port", 9007199254740993, T0 * 10**9, 5),
        ("node1", "eth0", "rx", "port", 9007199254741993, T0 * 10**9 + 1_500_000_000, 6),
        ("device 1", "mlx5_0/1", "tx", "rdma", 100, T0 * 10**9, 10),
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"name,time,bytes_recv,bytes_sent,host,interface\nnet,{T0}000000000,7,,node1,eth0\n",
        f'name,tags,time,bytes_recv\nnet,"host=node1,interface=eth0",{T0}000000000,7\n',
        f"{LONG},_result,0,2026-11-29T17:10:23Z,7,bytes_recv,net,node1,eth0\r\n",
    ],
)
def test_other_forms(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    assert [form.name for form in FORMATS if form.find(survey(tmp_path))] == ["influx-csv"]
    [row] = [r for r in read(path).samples.to_pylist() if r["direction"] == "rx"]
    assert (row["device"], row["interface"], row["count"]) == ("node1", "eth0", 7)
    assert row["ts_ns"] == T0 * 10**9


def test_rows_are_used_or_set_aside(tmp_path: Path) -> None:
    rows = (
        "2026-11-29T17:10:23Z,7,bytes_recv,net,node1,eth0",
        "2026-11-29T17:10:24Z,7.5,bytes_recv,net,node1,eth0",
        "2026-11-29 17:10:24,7,bytes_recv,net,node1,eth0",
        "2026-11-29T17:10:24Z,7,usage_idle,cpu,node1,",
        "2026-11-29T17:10:24Z,7,bytes_recv,net,node1,",
        "2026-11-29T17:10:24Z,7,bytes_recv",
    )
    tables = read(write(tmp_path, LONG + "".join(f",,0,{row}\n" for row in rows)))
    assert tables.samples.num_rows == 1
    assert tables.set_aside.num_rows == 5
    told = " | ".join(tables.set_aside["reason"].to_pylist())
    for words in ("a fraction", "no time", "no counter of", "names an interface", "expected 9"):
        assert words in told


def test_a_computed_export_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, LONG + ",,0,2026-11-29T17:10:23Z,7.25,bytes_recv,net,node1,eth0\n")
    with pytest.raises(DumpError, match=r"a fraction.*without derivative"):
        read(path)
