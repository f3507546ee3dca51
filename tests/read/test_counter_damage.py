"""Damaged counter files: tables or one clear error, and never a number that was not written."""

from __future__ import annotations

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
