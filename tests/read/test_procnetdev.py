"""Copies of /proc/net/dev."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from servebook.errors import DumpError
from servebook.read import procnetdev
from servebook.read.files import survey
from tests.read import counter_samples
from tests.read.counter_samples import FIXTURES

read = functools.partial(counter_samples.read, procnetdev.FORMAT)

HEAD = "### 1795972223.5\nInter-|   Receive | Transmit\n face |bytes packets|bytes packets\n"


def test_the_real_log_is_found_and_read() -> None:
    [source] = procnetdev.find(survey(FIXTURES))
    assert source.main.name == "proc_net_dev.log"
    samples = procnetdev.read(source).samples
    assert samples.num_rows == source.main.read_text().count("###") * 4 * 8
    row = next(r for r in samples.to_pylist() if r["interface"] == "lo")
    text = next(line for line in source.main.read_text().splitlines() if " lo:" in line)
    assert row["count"] == int(text.split()[1])


def test_columns_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(HEAD + "eth0.5:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 18446744073709551615\n")
    rows = {(r["metric"], r["direction"]): r["count"] for r in read(path).samples.to_pylist()}
    assert rows == {
        ("bytes", "rx"): 1,
        ("packets", "rx"): 2,
        ("errors", "rx"): 3,
        ("drops", "rx"): 4,
        ("bytes", "tx"): 9,
        ("packets", "tx"): 10,
        ("errors", "tx"): 11,
        ("drops", "tx"): 12,
    }


def test_short_lines_are_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "a"
    good = "eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n"
    path.write_text(HEAD + good + "eth1: 1 2 3\n")
    tables = read(path)
    assert tables.samples.num_rows == 8
    [row] = tables.set_aside.to_pylist()
    assert (row["line"], row["reason"]) == (5, "expected an interface and 16 numbers, found 3")


def test_no_time_or_no_interface_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(HEAD.partition("\n")[2] + "eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n")
    with pytest.raises(DumpError, match="no time"):
        read(path)
    path.write_text(HEAD)
    with pytest.raises(DumpError, match="a line per interface"):
        read(path)
