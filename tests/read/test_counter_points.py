"""Readings by series: the same rows as in file order, torn and replaced ones left out alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servebook.read import cache, counter_points
from servebook.read.cache import Cache
from servebook.read.counter_rows import Rows
from servebook.read.source import Source
from servebook.tables import Tables

_COUNTS = st.integers(0, 2**64 - 1)
_READING = st.tuples(
    st.integers(0, 5),  # series; the last one is a gauge
    st.integers(1, 10**18),
    _COUNTS,
    st.one_of(st.none(), st.integers(1, 9)),
    st.integers(0, 2),  # stamp
)
#: Such that many series are read at one time and on one line, for a while.
_ALIKE = st.tuples(
    st.integers(0, 5),
    st.integers(1, 2),
    _COUNTS,
    st.one_of(st.none(), st.just(1)),
    st.integers(0, 1),
)


def read(readings: list[tuple[int, int, int, int | None, int]], torn: int | None) -> Tables:
    rows = Rows(Source("csv", Path("/dumps"), Path("/dumps/a.csv")))
    numbers = [
        rows.series("host", f"eth{at % 2}", "bytes", ("rx", "tx")[at // 2 % 2], rank=at // 4)
        for at in range(5)
    ]
    numbers.append(rows.series("host", "eth0", "speed_bps", None, kind="gauge"))
    stamps = [
        rows.stamp("collector", None),
        rows.stamp("device", 1000),
        rows.stamp("collector", None, Path("/dumps/b.csv")),
    ]
    if torn is not None:
        rows.torn(torn)
    for series, ts_ns, count, line, stamp in readings:
        value = count / 7 if series == 5 else count
        rows.add(numbers[series], ts_ns, value, stamps[stamp], line)
    return rows.tables()


def by_series(samples: pa.Table) -> list[dict[str, Any]]:
    """Rows sorted by what a series says, in file order within each."""
    said = ("direction", "interface", "metric")
    return sorted(samples.to_pylist(), key=lambda row: tuple(str(row[name]) for name in said))


@settings(deadline=None, max_examples=120)
@given(
    st.lists(_READING, max_size=40) | st.lists(_ALIKE, max_size=40),
    st.one_of(st.none(), st.integers(1, 9)),
)
def test_rows_by_series_are_those_in_file_order(
    readings: list[tuple[int, int, int, int | None, int]], torn: int | None
) -> None:
    in_order = read(readings, torn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counter_points, "MOST_IN_ORDER", 0)
        grouped = read(readings, torn)
    assert in_order.samples.schema == grouped.samples.schema
    assert by_series(in_order.samples) == by_series(grouped.samples)
    rows = in_order.samples.num_rows
    lost = sum(
        int(row["reason"].rpartition("(")[2].split()[0]) if row["record"] == "series" else 1
        for row in grouped.set_aside.to_pylist()
    )
    assert rows + lost == len(readings)

    def told(one: Tables) -> list[tuple[str, str]]:
        return sorted((row["path"], row["reason"]) for row in one.set_aside.to_pylist())

    assert told(in_order) == told(grouped)


def test_what_a_series_says_is_held_once_also_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 20_000
    monkeypatch.setattr(counter_points, "MOST_IN_ORDER", 1000)
    monkeypatch.setattr(cache, "MOST_IN_ORDER", 1000)
    rows = Rows(Source("csv", Path("/dumps"), Path("/dumps/a.csv")))
    stamp = rows.stamp("collector", 1000)
    ports = [rows.series("leaf1", f"Ethernet1/{port}", "bytes", "rx") for port in range(4)]
    for at in range(n):
        for port in ports:
            rows.add(port, 10**9 * (at + 1), 2**60 + at, stamp, at + 1)
    tables = rows.tables()
    kept = Cache(tmp_path)
    kept.put("ab12", tables)
    found = kept.get("ab12")
    assert found is not None
    assert found.samples.equals(tables.samples)
    # Times, counts and lines are eight bytes each; all else is a few arrays for everything.
    for one in (tables, found):
        assert one.samples.get_total_buffer_size() < 26 * len(ports) * n + 18 * 60 * n


def test_series_of_few_readings_share_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_points, "MOST_IN_ORDER", 100)
    rows = Rows(Source("csv", Path("/dumps"), Path("/dumps/a.csv")))
    stamp = rows.stamp("collector", None)
    for port in range(300):
        number = rows.series("leaf1", f"Ethernet1/{port}", "bytes", "rx")
        for at in range(1000 if port == 150 else 2):
            rows.add(number, 1 + at, port, stamp)
    samples = rows.tables().samples
    assert [len(chunk) for chunk in samples["ts_ns"].chunks] == [300, 1000, 298]
    assert samples["count"].to_pylist() == sorted(samples["count"].to_pylist())


def test_columns_of_a_row_have_their_times_and_lines_once() -> None:
    points = counter_points.Points()
    for _ in range(4):
        points.series(counter=True)
    for second in range(100):
        for port in (0, 1):
            for number in (2 * port, 2 * port + 1):
                if (number, second) != (3, 50):  # one reading is missing
                    points.add(number, second, number * second, 2 * second + port, 0)
    ts = [points.of(number).ts_ns() for number in range(4)]
    lines = [points.of(number).lines()[0] for number in range(4)]
    assert np.shares_memory(ts[0], ts[1])
    assert np.shares_memory(lines[0], lines[1])
    assert not np.shares_memory(ts[1], ts[2])
    assert not np.shares_memory(ts[2], ts[3])
    assert ts[0].tolist() == ts[2].tolist() == list(range(100))
    assert ts[3].tolist() == [second for second in range(100) if second != 50]
    assert lines[2].tolist() == [2 * second + 1 for second in range(100)]
    assert lines[3].tolist() == [2 * second + 1 for second in range(100) if second != 50]
    assert points.of(3).values().tolist() == [3 * one for one in range(100) if one != 50]
