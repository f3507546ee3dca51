"""Plain CSV: our names, other names, units and times."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import csvmap
from servebook.read.campaign import load
from servebook.read.files import survey
from tests.read import counter_samples
from tests.read.counter_samples import FIXTURES

RUN = FIXTURES.parent / "runs" / "vllm"
T = "1795972223"
read = functools.partial(counter_samples.read, csvmap.FORMAT)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a.csv"
    path.write_text(text)
    return path


def test_the_real_file_is_found_and_read() -> None:
    [source] = csvmap.find(survey(FIXTURES))
    assert source.main.name == "lo.csv"
    rows = csvmap.read(source).samples.to_pylist()
    assert len(rows) == 80 * 4
    assert (rows[0]["interface"], rows[0]["ts_ns"]) == ("unknown", 1795975980128359985)
    assert (rows[0]["count"], rows[0]["line"]) == (321593325, 2)
    named = read(source.main, interface="lo", device="host-by-sysfs").samples
    assert set(named["interface"].to_pylist()) == {"lo"}
    assert set(named["device"].to_pylist()) == {"host-by-sysfs"}


def test_the_long_form_with_device_and_interface(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        f"ts;device;interface;rx_bytes;tx_bytes\n{T}.5;leaf1;Ethernet1;1;2\n{T}.5;leaf1;Ethernet2;3;\n",
    )
    rows = read(path).samples.to_pylist()
    assert [(r["interface"], r["direction"], r["count"]) for r in rows] == [
        ("Ethernet1", "rx", 1),
        ("Ethernet1", "tx", 2),
        ("Ethernet2", "rx", 3),
    ]


def test_a_column_map_and_units(tmp_path: Path) -> None:
    path = write(tmp_path, f"when,Port In,Port Out\n{T},100,200\n")
    columns = {"ts": "when", "rx_bytes": "Port In", "tx_bytes": "Port Out"}
    by_unit = {
        unit: [r["count"] for r in read(path, columns=columns, unit=unit).samples.to_pylist()]
        for unit in ("bytes", "words", "bits")
    }
    assert by_unit == {"bytes": [100, 200], "words": [400, 800], "bits": [12, 25]}
    rates = read(path, columns=columns, kind="rate", unit="bits").samples.to_pylist()
    assert [(r["kind"], r["value"]) for r in rates] == [("rate", 12.5), ("rate", 25.0)]


def test_rate_columns_say_their_unit(tmp_path: Path) -> None:
    path = write(tmp_path, f"ts,rx_bits_per_s,tx_bytes_per_s\n{T},80,7.5\n")
    assert [r["value"] for r in read(path).samples.to_pylist()] == [10.0, 7.5]


@pytest.mark.parametrize(
    ("header", "time", "options", "ns"),
    [
        ("ts_ms", "1795972223055", {}, 1795972223_055_000_000),
        ("time", "2026-11-29T17:10:23Z", {}, 1795972223 * 10**9),
        ("timestamp", "1795972223055", {}, 1795972223_055_000_000),
        ("time", "2026-11-29 18:10:23", {"time_zone": "Europe/Berlin"}, 1795972223 * 10**9),
    ],
)
def test_times(tmp_path: Path, header: str, time: str, options: dict[str, str], ns: int) -> None:
    path = write(tmp_path, f"{header},rx_bytes\n{time},1\n")
    assert read(path, **options).samples["ts_ns"].to_pylist() == [ns]


def test_bad_rows_are_set_aside_with_their_line(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        f"ts,rx_bytes\n{T},1\nyesterday,2\n{T},x\n{T}\n\n{T},NaN\n2026-11-29T17:10:23,4\n1795972224,5\n",
    )
    tables = read(path)
    assert tables.samples["count"].to_pylist() == [1, 5]
    told = {row["line"]: row["reason"] for row in tables.set_aside.to_pylist()}
    assert set(told) == {3, 4, 5, 7, 8}
    assert told[5] == "expected 2 fields, found 1"
    assert "time_zone:" in told[8]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", {}, "an empty file"),
        ("rx_bytes\n1\n", {}, "a column with the time"),
        (f"ts,x\n{T},1\n", {}, "a column of bytes"),
        (
            f"ts,x\n{T},1\n",
            {"columns": {"rx_bytes": "y"}},
            r"a column y \(for rx_bytes\).*columns ts, x",
        ),
        (f"ts,x\n{T},1\n", {"columns": {"in": "x"}}, "one of our column names"),
        (f"ts,rx_bytes\n{T},1\n", {"unit": "furlongs"}, "`unit:` bytes, bits or words"),
        ("ts,rx_bytes\nlate,1\n", {}, "none that can be read"),
    ],
)
def test_files_that_cannot_be_used(
    tmp_path: Path, text: str, options: dict[str, object], words: str
) -> None:
    with pytest.raises(DumpError, match=words):
        read(write(tmp_path, text), **options)


@pytest.mark.parametrize("row", [f"{T}\r,1", f'{T},"{"9" * 200_000}"', f'{T},"1'])
def test_rows_that_are_no_csv_are_set_aside(tmp_path: Path, row: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"ts,rx_bytes\n{row}\n{T},5\n".encode())
    tables = read(path)
    assert 5 in tables.samples["count"].to_pylist()
    assert tables.samples.num_rows + tables.set_aside.num_rows == 2


def test_a_csv_of_something_else_is_not_claimed(tmp_path: Path) -> None:
    write(tmp_path, "metric,avg,min\nttft,1,2\n")
    assert csvmap.find(survey(tmp_path)) == []


def test_a_manifest_explains_columns_that_nobody_knows(tmp_path: Path) -> None:
    shutil.copytree(RUN, tmp_path / "raw" / "run")
    (tmp_path / "raw" / "leaf1_a.csv").write_text(f"Time,Port,In\n{T},Ethernet1,5\n")
    (tmp_path / "raw" / "other.csv").write_text("Time,Port,In\n1,2,3\n")
    (tmp_path / "campaign.yaml").write_text(
        "servebook: 1\nname: x\nconfigurations: {c: {}}\n"
        "runs: [{match: 'raw/run**', configuration: c}]\n"
        "counters: [{match: 'raw/{device}_*.csv', "
        "columns: {ts: Time, interface: Port, rx_bytes: In}, bits: 32}]\n"
    )
    campaign = load(tmp_path)
    [sample] = campaign.tables.samples.to_pylist()
    assert (sample["device"], sample["interface"], sample["count"]) == ("leaf1", "Ethernet1", 5)
    assert sample["bits"] == 32
    assert campaign.tables.refused["path"].to_pylist() == ["raw/other.csv"]


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=8))
def test_counts_are_exact(tmp_path_factory: pytest.TempPathFactory, counts: list[int]) -> None:
    lines = [f"{1795972223 + i},{count}" for i, count in enumerate(counts)]
    path = write(tmp_path_factory.mktemp("csv"), "\n".join(["ts,rx_bytes", *lines, ""]))
    assert read(path).samples["count"].to_pylist() == counts
