"""VictoriaMetrics' export: one series per line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import prometheus_api, prometheus_export
from servebook.read.files import survey
from servebook.read.source import Source
from servebook.tables import Tables

MS = 1795973865157


def series(value: Any = None, **labels: str) -> dict[str, Any]:
    metric = {"__name__": "node_network_receive_bytes_total", "device": "eth0", "job": "node"}
    values = [1, 2**53 + 1, 1.2e19] if value is None else value
    return {"metric": {**metric, **labels}, "values": values, "timestamps": [MS, MS + 5, MS + 9]}


def read(tmp_path: Path, *entries: Any) -> Tables:
    path = tmp_path / "export.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert [source.main for source in prometheus_export.find(survey(path))] == [path]
    assert not prometheus_api.find(survey(path))
    return prometheus_export.read(Source("prometheus-export", tmp_path, path, (path,)))


def test_series_of_two_hosts(tmp_path: Path) -> None:
    tables = read(
        tmp_path,
        series(instance="b:1"),
        series([5, None, 7], instance="a:1", device="eth1"),
        series(__name__="up"),
    )
    found = [
        (r["device"], r["interface"], r["ts_ns"], r["count"]) for r in tables.samples.to_pylist()
    ]
    assert found == [
        ("node 3", "eth0", MS * 10**6, 1),
        ("node 3", "eth0", (MS + 5) * 10**6, 2**53 + 1),
        ("node 3", "eth0", (MS + 9) * 10**6, 12 * 10**18),
        ("node 2", "eth1", MS * 10**6, 5),
        ("node 2", "eth1", (MS + 9) * 10**6, 7),
    ]
    assert set(tables.samples["ts_kind"].to_pylist()) == {"collector"}
    assert sorted(r["line"] or 0 for r in tables.set_aside.to_pylist()) == [0, 2]


def test_a_file_without_a_network_counter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match=r"not a network counter \(up\).*match\[\]="):
        read(tmp_path, series(__name__="up"))


JUNK = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["metric", "values", "timestamps", "x"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(JUNK)
def test_any_line_is_a_series_or_set_aside(
    tmp_path_factory: pytest.TempPathFactory, junk: Any
) -> None:
    tables = read(tmp_path_factory.mktemp("export"), series(), junk)
    assert tables.samples.num_rows >= 3
    assert tables.samples.num_rows > 3 or tables.set_aside.num_rows
