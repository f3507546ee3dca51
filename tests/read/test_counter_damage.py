"""Damaged counter files: tables or one clear error, and never a number that was not written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import (
    csvmap,
    eos,
    eos_text,
    ethtool,
    iproute,
    node_text,
    perfquery,
    procnetdev,
    prometheus_api,
    snmpwalk,
    sonic,
    sonic_db,
    sysfs,
)
from servebook.read.source import Format, Source
from servebook.tables import Tables

FIXTURES = Path(__file__).parents[1] / "fixtures" / "counters"
FILES = {
    "prometheus_raw.json": prometheus_api.FORMAT,
    "metrics_1795973865157.prom": node_text.FORMAT,
    "node_network.log": node_text.FORMAT,
    "ip_link.jsonl": iproute.FORMAT,
    "proc_net_dev.log": procnetdev.FORMAT,
    "ifxtable.log": snmpwalk.FORMAT,
    "lo.csv": csvmap.FORMAT,
    "sonic_cli.log": sonic.FORMAT,
    "COUNTERS_DB_1.json": sonic_db.FORMAT,
    "ethtool.log": ethtool.FORMAT,
    "sysfs.log": sysfs.FORMAT,
    "perfquery.log": perfquery.FORMAT,
    "eos_counters.json": eos.FORMAT,
    "eos_interfaces.log": eos_text.FORMAT,
}


def read(form: Format, path: Path, content: bytes) -> Tables | None:
    path.write_bytes(content)
    try:
        return form.read(Source(form.name, path.parent, path, (path,)))
    except DumpError:
        return None


@pytest.mark.parametrize("name", list(FILES))
@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_file_cut_anywhere_gives_a_part_of_its_readings(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    content = (FIXTURES / name).read_bytes()
    whole = read(FILES[name], tmp_path / name, content)
    assert whole is not None
    cut = data.draw(st.integers(0, len(content) - 1))
    part = read(FILES[name], tmp_path / name, content[:cut])
    if part is not None:
        keys = ("ts_ns", "line", "interface", "metric", "direction", "count", "value")
        written = {tuple(row[key] for key in keys) for row in _named(whole)}
        assert {tuple(row[key] for key in keys) for row in _named(part)} <= written


def _named(tables: Tables) -> list[dict[str, object]]:
    return tables.samples.to_pylist()


@pytest.mark.parametrize("name", list(FILES))
@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.floats(0, 1), junk=st.binary(max_size=12), gone=st.integers(0, 40))
def test_junk_inside_a_file_is_no_traceback(
    tmp_path: Path, name: str, place: float, junk: bytes, gone: int
) -> None:
    content = (FIXTURES / name).read_bytes()
    at = int(place * len(content))
    tables = read(FILES[name], tmp_path / name, content[:at] + junk + content[at + gone :])
    assert tables is None or tables.samples.num_rows + tables.set_aside.num_rows > 0


VALUES = [b"null", b"NaN", b'"x"', b"1e999", b"-1", b"9" * 30, b"", b"{}", b"\x00", b"1.5", b"0x1f"]
VALUES += ["\u0663".encode(), b"18446744073709551616", b'"', b"\xff\xfe", b"true", b"1_0", b"N/A"]
QUICK = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("name", list(FILES))
@QUICK
@given(data=st.data())
def test_values_of_another_kind_are_no_traceback(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    content = (FIXTURES / name).read_bytes()
    numbers = [match.span() for match in re.finditer(rb"\d[\d.,]*", content)]
    start, end = data.draw(st.sampled_from(numbers))
    value = data.draw(st.sampled_from(VALUES))
    tables = read(FILES[name], tmp_path / name, content[:start] + value + content[end:])
    assert tables is None or tables.samples.num_rows > 0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-32"])
@pytest.mark.parametrize("name", list(FILES))
def test_other_encodings_give_the_same_readings(tmp_path: Path, name: str, encoding: str) -> None:
    content = (FIXTURES / name).read_bytes()
    plain = read(FILES[name], tmp_path / name, content)
    other = read(FILES[name], tmp_path / name, content.decode().encode(encoding))
    assert plain is not None
    assert other is not None
    assert other.samples.equals(plain.samples)
    assert other.set_aside.equals(plain.set_aside)


#: Formats of one counter a line, and what of their lines is no record.
LINES = {
    "ethtool.log": re.compile(r"### .*|NIC statistics:|\s*"),
    "sysfs.log": re.compile(r"### .*|\s*"),
    "perfquery.log": re.compile(r"### .*|# Port .*|\s*"),
    "node_network.log": re.compile(r"### .*|#.*|\s*"),
    "proc_net_dev.log": re.compile(r"### .*|.*\|.*|\s*"),
}


@pytest.mark.parametrize("name", list(LINES))
@QUICK
@given(data=st.data())
def test_every_line_is_used_or_set_aside(tmp_path: Path, name: str, data: st.DataObject) -> None:
    lines = (FIXTURES / name).read_text().splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(1, len(lines) - 1))
        if lines[at].startswith("#"):
            continue
        change = data.draw(st.sampled_from(["drop", "double", "cut", "junk"]))
        if change == "drop":
            del lines[at]
        elif change == "double":
            lines.insert(at, lines[at])
        elif change == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
        else:
            lines[at] = lines[at][:-3] + data.draw(
                st.sampled_from(["x", "-4", "1.5", " 7", ":", ""])
            )
    path = tmp_path / name
    tables = read(FILES[name], path, "".join(f"{line}\n" for line in lines).encode())
    assert tables is not None
    used = set(tables.samples["line"].to_pylist())
    aside = [
        int(found[1]) if (found := re.search(r"\((\d+) readings?\)$", reason)) else 1
        for reason in tables.set_aside["reason"].to_pylist()
    ]
    records = [line for line in lines if not LINES[name].fullmatch(line)]
    assert len(used) + sum(aside) == len(records)
