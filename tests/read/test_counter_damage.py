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
    gnmic,
    influx_csv,
    iproute,
    junos,
    node_text,
    nvue,
    nxos,
    perfquery,
    procnetdev,
    prometheus_api,
    snmpwalk,
    sonic,
    sonic_db,
    sysfs,
    telegraf,
)
from servebook.read.source import Format
from servebook.tables import Tables
from tests.read import counter_samples
from tests.read.counter_samples import FIXTURES, rows

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
    "written/gnmic_json.log": gnmic.FORMAT,
    "written/gnmic_protojson.log": gnmic.FORMAT,
    "written/gnmic_flat.log": gnmic.FORMAT,
    "written/junos.log": junos.FORMAT,
    "written/nvue.log": nvue.FORMAT,
    "written/nxos_json.log": nxos.FORMAT,
    "written/nxos_text.log": nxos.FORMAT,
    "written/telegraf.influx": telegraf.FORMAT,
    "written/telegraf.jsonl": telegraf.FORMAT,
    "written/influx.csv": influx_csv.FORMAT,
}
#: Here a later line counts nearer to the wire than an earlier one, which it replaces.
REPLACING = ("written/telegraf.influx",)
QUICK = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def read(form: Format, path: Path, content: bytes) -> Tables | None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    try:
        return counter_samples.read(form, path)
    except DumpError:
        return None


@pytest.mark.parametrize("name", [name for name in FILES if name not in REPLACING])
@QUICK
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
        assert set(rows(part, *keys)) <= set(rows(whole, *keys))


@pytest.mark.parametrize("name", list(FILES))
@settings(QUICK, max_examples=60)
@given(place=st.floats(0, 1), junk=st.binary(max_size=12), gone=st.integers(0, 40))
def test_junk_inside_a_file_is_no_traceback(
    tmp_path: Path, name: str, place: float, junk: bytes, gone: int
) -> None:
    content = (FIXTURES / name).read_bytes()
    at = int(place * len(content))
    tables = read(FILES[name], tmp_path / name, content[:at] + junk + content[at + gone :])
    assert tables is None or tables.samples.num_rows > 0


VALUES = [b"null", b"NaN", b'"x"', b"1e999", b"-1", b"9" * 30, b"", b"{}", b"\x00", b"1.5", b"0x1f"]
VALUES += ["\u0663".encode(), b"18446744073709551616", b'"', b"\xff\xfe", b"true", b"1_0", b"N/A"]


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
