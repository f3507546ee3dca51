"""Requests and gaps, handed over one by one, as columns or as parts, give the same tables."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.gap_table import GapTable, narrow
from servebook.read import cache as cache_module
from servebook.read import records
from servebook.read.cache import Cache
from servebook.read.campaign_clock import shifted
from servebook.read.records import Requests
from servebook.tables import SCHEMAS, Tables, table

KEY = "ab" + "0" * 62

lengths = st.lists(st.integers(0, 5 * 10**9), max_size=5)
requests = st.lists(
    st.tuples(lengths, st.none() | st.integers(0, 10**18), st.booleans()), max_size=8
)


def by_hand(found: list[tuple[list[int], int | None, bool]]) -> list[dict[str, Any]]:
    rows = []
    for n, (gaps, start, _) in enumerate(found):
        end = start
        for index, gap in enumerate(gaps):
            end = None if end is None else end + gap
            own = {"run_id": "run", "request_id": f"r{n}", "index": index, "tokens": None}
            rows.append(own | {"gap_ns": gap, "end_ns": end})
    return rows


def one_by_one(found: list[tuple[list[int], int | None, bool]]) -> Requests:
    out = Requests("run")
    for n, (gaps, start, warm) in enumerate(found):
        phase = "warmup" if warm else "profiling"
        out.add(np.array(gaps, np.int64), start, request_id=f"r{n}", phase=phase, status="ok")
    return out


def at_once(found: list[tuple[list[int], int | None, bool]]) -> Requests:
    out = Requests("run")
    for first in range(0, len(found), 3):
        some = found[first : first + 3]
        out.add_many(
            {
                "request_id": [f"r{first + n}" for n in range(len(some))],
                "phase": ["warmup" if warm else "profiling" for _, _, warm in some],
                "status": ["ok"] * len(some),
            },
            narrow(np.array([gap for gaps, _, _ in some for gap in gaps], np.int64)),
            np.array([len(gaps) for gaps, _, _ in some]),
            np.array([-1 if start is None else start for _, start, _ in some]),
        )
    return out


@given(requests, st.integers(1, 20), st.integers(0, 20))
def test_every_way_to_hand_over_gives_the_same(
    found: list[tuple[list[int], int | None, bool]], part: int, in_memory: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "_PART", part)
        patch.setattr(records, "_MOST_IN_MEMORY", in_memory)
        expected = table("gaps", by_hand(found))
        for way in (one_by_one, at_once):
            out = way(found)
            gaps = out.gaps()
            assert gaps.num_rows == expected.num_rows
            assert gaps.table.equals(expected)
            for name in SCHEMAS["gaps"].names:
                assert gaps[name].to_pylist() == expected[name].to_pylist()
            assert out.counts()["n_gaps"] == sum(len(g) for g, _, warm in found if not warm)
            assert out.requests()["request_id"].to_pylist() == [f"r{n}" for n in range(len(found))]
            assert sum(part.n for part in gaps.of_run("run").parts) == gaps.num_rows
            assert gaps.of_run("other").num_rows == 0


def test_a_part_of_some_requests() -> None:
    gaps = one_by_one([([5, 6], 10, False), ([7], None, False), ([8, 9], 30, False)]).gaps()
    (part,) = gaps.parts
    some = part.only(np.array([True, False, True]))
    assert some.gap_ns().tolist() == [5, 6, 8, 9]
    assert GapTable([some])["end_ns"].to_pylist() == [15, 21, 38, 47]
    last = part.only(np.array([False, False, True]))
    assert (last.gap_ns().tolist(), last.end_ns()[0].tolist()) == ([8, 9], [38, 47])
    nothing = part.only(np.zeros(3, bool))
    assert (nothing.n, nothing.gap_ns().tolist()) == (0, [])


def test_tokens_and_late_chunks() -> None:
    out = Requests("run")
    out.add(np.array([5, 6]), 10, np.array([1, 3]), request_id="a", phase="profiling")
    out.add_many(
        {"request_id": ["b", "c"], "phase": ["profiling"] * 2, "start_ns": [100, 200]},
        np.array([7, 8]),
        np.array([2, 0]),
        np.array([100, -1]),
        np.array([-1, 2]),
    )
    out.add(request_id="d", phase="warmup", start_ns=300)
    out.late_chunks(2, 20, np.array([9]))
    out.late_chunks(3, 30, np.array([1]))
    assert out.gaps()["tokens"].to_pylist() == [1, 3, None, 2, None, None]
    assert out.gaps()["end_ns"].to_pylist() == [15, 21, 107, 115, 229, 331]
    assert out.requests()["first_token_ns"].to_pylist() == [None, None, 220, 330]
    assert out.counts()["n_gaps"] == 5
    assert out.value("request_id", 1) == "b"


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
def test_gaps_come_back_from_the_cache(
    in_memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path))
    monkeypatch.setattr(records, "_PART", 3)
    for module in (records, cache_module):
        monkeypatch.setattr(module, "_MOST_IN_MEMORY", in_memory)
    out = one_by_one([([5, 6], 10, False), ([2**40, 4], None, False), ([8, 9], 30, True)])
    tables = Tables(requests=out.requests(), gaps=out.gaps())
    cache = Cache(tmp_path)
    cache.put(KEY, tables)
    found = cache.get(KEY)
    assert found is not None
    assert isinstance(found.gaps, GapTable)
    assert found.gaps.equals(tables.gaps)
    assert pickle.loads(pickle.dumps(found.gaps)).equals(tables.gaps)
    assert Tables.concat([found, tables]).gaps.num_rows == 12
    for path in (tmp_path / "ab" / KEY).iterdir():  # somebody clears the cache
        path.unlink()
    assert found.gaps.equals(tables.gaps)
    assert list((tmp_path / "spool").glob("*/*")) if in_memory == 0 else True
    del found, out, tables
    assert not list((tmp_path / "spool").glob("*/*"))


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
@pytest.mark.parametrize("harm", ["flip", "cut", "lose", "swap", "count"])
def test_harmed_gaps_are_noticed(
    harm: str, in_memory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path))
    monkeypatch.setattr(records, "_PART", 3)
    monkeypatch.setattr(cache_module, "_MOST_IN_MEMORY", in_memory)
    cache = Cache(tmp_path)
    tables = Tables(gaps=one_by_one([([5, 6], 10, False), ([7, 4, 8], 20, False)]).gaps())
    cache.put(KEY, tables)
    entry = tmp_path / "ab" / KEY
    one, other = entry / "gaps-00000.parquet", entry / "gaps.parquet"
    content = one.read_bytes()
    if harm == "flip":
        one.write_bytes(content[:9] + bytes([content[9] ^ 1]) + content[10:])
    elif harm == "cut":
        one.write_bytes(content[:-7])
    elif harm == "swap":
        one.write_bytes(other.read_bytes())
    elif harm == "lose":
        one.unlink()
    else:
        index = (entry / "entry.json").read_text()
        (entry / "entry.json").write_text(index.replace('"gap_crc32": [', '"gap_crc32": [1, '))
    assert cache.get(KEY) is None
    assert not entry.exists()
    cache.put(KEY, tables)
    found = cache.get(KEY)
    assert found is not None
    assert found.gaps.equals(tables.gaps)


def test_a_shift_moves_known_times_only() -> None:
    out = one_by_one([([5, 6], 10, False), ([7], None, False)])
    runs = table("runs", [{"run_id": "run"}])
    moved = shifted(Tables(runs=runs, requests=out.requests(), gaps=out.gaps()), {"run": -100})
    assert moved.gaps["end_ns"].to_pylist() == [-85, -79, None]
    assert isinstance(moved.gaps, GapTable)


def test_built_and_packed_tables_go_together() -> None:
    out = one_by_one([([5], 10, False)])
    both = Tables.concat([Tables(gaps=out.gaps()), Tables(gaps=out.gaps().table), Tables()])
    assert isinstance(both.gaps, pa.Table)
    assert both.gaps["gap_ns"].to_pylist() == [5, 5]


@given(requests, st.integers(1, 3), st.sets(st.integers(0, 7)))
def test_rows_that_became_columns_in_between(
    found: list[tuple[list[int], int | None, bool]], rows: int, flagged: set[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        expected = one_by_one(found)
        patch.setattr(records, "_ROWS", rows)
        out = one_by_one(found)
    for number in sorted(flagged & set(range(len(found)))):
        for one in (out, expected):
            one.change("flags", number, ["short_output"])
        assert out.value("flags", number) == ["short_output"]
    assert out.requests().equals(expected.requests())
    assert out.gaps().equals(expected.gaps())
    assert out.counts() == expected.counts()
    assert out.column("request_id") == tuple(f"r{n}" for n in range(len(found)))
    flags = [["short_output"] if n in flagged else None for n in range(len(found))]
    assert out.requests()["flags"].to_pylist() == flags


def test_a_column_of_one_value_lies_in_memory_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_ROWS", 1 << 12)

    def size(n: int) -> int:
        out = Requests("a")
        for index in range(n):
            out.add(request_id=str(index), phase="profiling", status="ok", start_ns=0, flags=[])
        rows = out.requests()
        assert rows["status"].to_pylist() == ["ok"] * n
        found: int = rows.drop_columns(["request_id"]).get_total_buffer_size()
        return found

    assert size(1 << 15) < 1.01 * size(1 << 13)
