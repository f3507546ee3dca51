"""Text exposition: pages named by their time, and logs of readings."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import node_text
from servebook.read.files import survey
from tests.read import counter_samples
from tests.read.counter_samples import FIXTURES

read = functools.partial(counter_samples.read, node_text.FORMAT)


def write(tmp_path: Path, text: str, name: str = "page_1795973865157.prom") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_log_of_readings() -> None:
    path = FIXTURES / "node_network.log"
    samples = read(path).samples.to_pylist()
    assert len(samples) == 4 * path.read_text().count("###")
    first = samples[0]
    assert (first["interface"], first["metric"], first["direction"]) == ("lo", "bytes", "rx")
    assert (first["ts_kind"], first["line"], first["device"]) == ("collector", 2, "host")
    assert first["count"] == int(float(path.read_text().splitlines()[1].split()[1]))


def test_pages_of_one_folder_are_one_series() -> None:
    names = [source.files for source in node_text.find(survey(FIXTURES))]
    pages = next(files for files in names if len(files) > 1)
    assert [p.name for p in pages] == ["metrics_1795973865157.prom", "metrics_1795973895152.prom"]
    samples = read(*pages, interfaces=("lo",)).samples
    times = sorted(set(samples["ts_ns"].to_pylist()))
    assert times == [1795973865157 * 10**6, 1795973895152 * 10**6]
    assert set(samples["ts_kind"].to_pylist()) == {"filename"}
    rx = [
        row["count"]
        for row in samples.to_pylist()
        if (row["metric"], row["direction"]) == ("bytes", "rx")
    ]
    assert rx[0] == 265647819


def test_pages_of_two_hosts_in_one_folder_stay_apart(tmp_path: Path) -> None:
    text = (FIXTURES / "metrics_1795973865157.prom").read_text()
    for name in ("a_1795973865157", "b_1795973865158", "a_1795973895152"):
        write(tmp_path, text, f"{name}.prom")
    sources = [[p.stem for p in source.files] for source in node_text.find(survey(tmp_path))]
    assert sources == [["a_1795973865157", "a_1795973895152"], ["b_1795973865158"]]


def test_a_page_without_a_time_is_refused() -> None:
    with pytest.raises(DumpError, match=r"no `### <epoch>` lines.*name the file after its time"):
        read(FIXTURES / "metrics_DEFAULT_excludes_lo.prom")


def test_a_page_without_lo_is_refused_where_lo_is_wanted(tmp_path: Path) -> None:
    text = (FIXTURES / "metrics_DEFAULT_excludes_lo.prom").read_text()
    with pytest.raises(DumpError, match=r"readings of lo.*eth0, ifb0, ifb1.*device-include=lo"):
        read(write(tmp_path, text), interface="lo")


def test_a_page_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="netdev collector"):
        read(write(tmp_path, "# HELP vllm:x y\n# TYPE vllm:x counter\nvllm:x 5\n"))


def test_broken_lines_are_set_aside_with_their_number(tmp_path: Path) -> None:
    name = "node_network_receive_bytes_total"
    tails = ['{device="eth0"} 5', '{device="eth0} 6', '{device="eth1"} NaN']
    tails += ['{device="eth2"} 1 2 3', '{device="a}b"} 7']
    text = "".join(f"{name}{tail}\n" for tail in tails)
    tables = read(write(tmp_path, text))
    assert tables.samples["interface"].to_pylist() == ["eth0", "a}b"]
    assert [row["line"] for row in tables.set_aside.to_pylist()] == [2, 3, 4]


def test_a_sample_with_its_own_time_uses_it(tmp_path: Path) -> None:
    text = 'node_network_receive_bytes_total{device="eth0"} 5 1795973000123\n'
    [sample] = read(write(tmp_path, text)).samples.to_pylist()
    assert (sample["ts_ns"], sample["ts_kind"]) == (1795973000123 * 10**6, "device")


def test_a_torn_last_line_is_set_aside(tmp_path: Path) -> None:
    whole = (FIXTURES / "node_network.log").read_text()
    full = read(write(tmp_path, whole, "a.log")).samples.num_rows
    torn = read(write(tmp_path, whole[:-3], "a.log"))
    assert torn.samples.num_rows == full - 1
    assert torn.set_aside.num_rows == 1
