"""Slots worked on many at once give what each of them gives by itself."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.read import bench_columns, sglang, vllm
from servebook.read.bench_columns import Group
from servebook.read.source import Source
from servebook.tables import Tables
from tests.read.samples import vllm_result
from tests.read.sglang_samples import sglang_result


@pytest.fixture(scope="module")
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "result.json"


ODD = st.sampled_from(
    [None, True, -1, -0.5, 1e308, 10**400, 2**64, 2**53 + 1, "x", [], {}, [1], float("nan"), 9.5e3]
)
SECONDS = st.sampled_from([0.0, 0, 1e-10, 5e-10, 0.0145, 0.25, 1, 3.5, 2.5e3, 9.1e7, 1e8])
COUNTS = st.sampled_from([0, 1, 1.0, 2, 16, 999_999_999, 10**9, 1.5])
GAPS = st.lists(st.floats(0, 3) | SECONDS, max_size=5)
TEXTS = st.sampled_from(["", "", "Internal Server Error", "ClientPayloadError", "what?", "Timeout"])


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(lambda n: usual if n else ODD)


@st.composite
def lists(draw: st.DrawFn, *more: str) -> dict[str, Any]:
    n = draw(st.integers(1, 8))
    kinds = {
        "input_lens": mostly(COUNTS),
        "output_lens": mostly(COUNTS),
        "ttfts": mostly(SECONDS),
        "itls": mostly(GAPS | st.lists(ODD | SECONDS, max_size=3)),
        "errors": mostly(TEXTS),
    }
    kinds |= {name: mostly(SECONDS) for name in more}
    names = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, unique=True))
    return {
        name: draw(st.lists(kinds[name], min_size=n, max_size=n)) if name in names else None
        for name in kinds
    }


def read(path: Path, result: dict[str, Any], reader: Callable[[Source], Tables]) -> str:
    path.write_text(json.dumps(result))
    tables = reader(Source("x", path.parent, path, (path,)))
    gaps = {name: tables.gaps[name].to_pylist() for name in ("request_id", "gap_ns", "end_ns")}
    gaps["tokens"] = tables.gaps["tokens"].to_pylist()
    return repr(
        [tables.runs.to_pylist(), tables.requests.to_pylist(), gaps, tables.set_aside.to_pylist()]
    )


def one_by_one(path: Path, result: dict[str, Any], reader: Callable[[Source], Tables]) -> str:
    """As ``read``, by the way for slots that hold anything unusual."""
    made = bench_columns._group

    def unusable(*args: Any) -> Group:
        group = made(*args)
        group.usable[:] = False
        return group

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench_columns, "_group", unusable)
        return read(path, result, reader)


@given(given=lists("latencies", "start_times"))
def test_vllm(path: Path, given: dict[str, Any]) -> None:
    result = vllm_result(**given)
    assert read(path, result, vllm.read) == one_by_one(path, result, vllm.read)


@given(
    given=lists(), backend=st.sampled_from(["sglang", "vllm"]), ratio=st.sampled_from([1.0, 0.5])
)
def test_sglang(path: Path, given: dict[str, Any], backend: str, ratio: float) -> None:
    result = sglang_result(backend=backend, random_range_ratio=ratio, **given)
    assert read(path, result, sglang.read) == one_by_one(path, result, sglang.read)


@pytest.mark.parametrize("most", [1, 3, 1 << 20])
def test_groups_are_the_lists_in_order(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_columns, "_GROUP_GAPS", most)
    monkeypatch.setattr(bench_columns, "_GROUP_REQUESTS", most)
    given = [[0.001, 0.002], [], None, [0.5], ["x"], [3.0], [-1.0], [1e4]]
    groups = list(bench_columns.groups(given, len(given)))
    assert [g.value(g.start + i) for g in groups for i in range(len(g))] == given
    usable = np.concatenate([group.usable for group in groups]).tolist()
    assert usable == [True, True, False, True, False, True, False, False]
    sums = np.concatenate([group.sums_ns for group in groups])[usable].tolist()
    assert sums == [3_000_000, 0, 500_000_000, 3_000_000_000]


def test_without_gaps_there_are_groups_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_columns, "_GROUP_REQUESTS", 3)
    found = [(g.start, len(g), g.value(g.start)) for g in bench_columns.groups(None, 7)]
    assert found == [(0, 3, []), (3, 3, []), (6, 1, [])]
