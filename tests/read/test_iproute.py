"""`ip -s -j link` with times, and without."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from servebook.errors import DumpError
from servebook.read import iproute
from servebook.read.files import survey
from tests.read import counter_samples
from tests.read.counter_samples import FIXTURES

read = functools.partial(counter_samples.read, iproute.FORMAT)


def link(name: str = "eth0", rx: Any = 5, tx: Any = 6, key: str = "stats64") -> dict[str, Any]:
    return {
        "ifname": name,
        "address": "00:11:22:33:44:55",
        key: {"rx": {"bytes": rx}, "tx": {"bytes": tx}},
    }


def test_real_lines() -> None:
    path = FIXTURES / "ip_link.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    samples = read(path).samples
    assert samples.num_rows == 8 * len(lines)
    rows = samples.to_pylist()
    got = [r["count"] for r in rows if (r["metric"], r["direction"]) == ("bytes", "tx")]
    assert got == [line["link"][0]["stats64"]["tx"]["bytes"] for line in lines]
    assert abs(rows[0]["ts_ns"] - lines[0]["ts"] * 1e9) < 1000
    assert (rows[0]["line"], rows[-1]["line"]) == (1, len(lines))
    assert "00:00:00" not in str(rows)


def test_arrays_below_separators(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    pretty = json.dumps([link(rx=9)], indent=2)
    path.write_text(f"### 1795972223\n{json.dumps([link()])}\n### 1795972224\n{pretty}\n")
    rows = read(path).samples.to_pylist()
    assert [r["count"] for r in rows] == [5, 6, 9, 6]
    assert rows[0]["ts_error_ns"] == 10**9


def test_an_array_without_a_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "links.json"
    path.write_text(json.dumps([link()]))
    [source] = iproute.find(survey(tmp_path))
    with pytest.raises(DumpError, match="no time"):
        iproute.read(source)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"ts": 1795972224, "link": [', "no valid JSON"),
        ("[1]", "no `link`"),
        (json.dumps({"link": [link()]}), "without a time"),
        (json.dumps({"ts": 1795972224, "link": [{"ifname": 3}]}), "no interface name"),
        (json.dumps({"ts": 1795972224, "link": [{"ifname": "eth9"}]}), "call ip with -s"),
        (json.dumps({"ts": 1795972224, "link": [link(rx=-1)]}), "negative"),
    ],
)
def test_broken_lines_are_set_aside(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"ts": 1795972223, "link": [link()]}) + f"\n{line}\n")
    tables = read(path)
    assert tables.samples.num_rows >= 2
    [row] = tables.set_aside.to_pylist()
    assert words in row["reason"]
    assert row["line"] == 2


def test_a_torn_last_line_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    text = (FIXTURES / "ip_link.jsonl").read_text()
    path.write_text(text[:-40])
    tables = read(path)
    assert tables.samples.num_rows == 8 * (text.count("\n") - 1)
    assert "cut short" in tables.set_aside["reason"][0].as_py()


def test_iso_times_and_32_bit_statistics(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"iso": "2026-11-29T17:10:23Z", "link": [link(key="stats")]}) + "\n")
    rows = read(path).samples.to_pylist()
    assert rows[0]["ts_ns"] == 1795972223 * 10**9
    assert rows[0]["bits"] == 32


def test_no_usable_reading_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"ts": 1795972223, "link": []}\n')
    with pytest.raises(DumpError, match="no reading that can be used"):
        read(path)
