from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servebook.errors import DumpError
from servebook.measure.each_run import _loads, each_run, try_there
from servebook.measure.runs import run_metrics
from servebook.measure.stall_report import stalls
from servebook.measure.stalled_gaps import gap_stalls
from servebook.measure.steps import timelines
from servebook.read.cluster import ClusterFaultError
from servebook.read.discover import read_tree
from servebook.read.source import printable
from servebook.read.spool import crc32_of
from servebook.tables import Tables
from tests.read.clusters import Cluster, started

LOOPBACK = Path(__file__).parents[2] / "data" / "loopback" / "raw" / "aiperf"


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_here_jobs_are_drawn_on_lazily(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "")
    drawn: list[int] = []

    def jobs() -> Iterator[tuple[int, int]]:
        for n in range(3):
            drawn.append(n)
            yield n, 10

    found = each_run(pow, jobs())
    assert next(found) == ((0, 10), 0)
    assert drawn == [0]
    assert list(found) == [((1, 10), 1), ((2, 10), 1024)]


def test_there_the_order_and_the_errors_are_those_of_here(
    two_workers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", two_workers.address)
    assert list(each_run(printable, [("a",), ("b",)])) == [(("a",), "a"), (("b",), "b")]
    assert list(each_run(printable, [])) == []
    with pytest.raises(ClusterFaultError, match="AttributeError"):
        list(each_run(printable, [("a",), (1,)]))  # type: ignore[list-item]
    with pytest.raises(DumpError, match="nothing there"):
        list(each_run(read_tree, [(Path("no such path"),)]))


def test_jobs_go_there_in_loads() -> None:
    jobs = [(np.zeros(n, np.int8), [Tables()]) for n in (5, 5, 6, 30, 1, 9)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("servebook.measure.each_run._LOAD_BYTES", 10)
        loads = list(_loads(iter(jobs)))
    assert [[len(job[0]) for job in load] for load in loads] == [[5, 5], [6], [30], [1, 9]]
    assert list(_loads([])) == []


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal to the bit, arrays and what is made of them included."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if hasattr(a, "__dataclass_fields__"):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return bool(a == b)


def test_steps_and_stalls_are_those_of_here(
    two_workers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = LOOPBACK / "spread"
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "")
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "here"))
    tables = read_tree(folder)
    here = list(timelines(tables)), gap_stalls(tables), stalls(folder, tmp_path / "here.parquet")
    metrics = run_metrics(tables)
    assert len(here[0]) > 3
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", two_workers.address)
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "there"))
    lines = list(timelines(tables))
    assert all(same(a, b) for a, b in zip(here[0], lines, strict=True))
    assert gap_stalls(tables).equals(here[1])
    assert run_metrics(Tables.concat([tables])).equals(metrics)
    assert stalls(folder, tmp_path / "there.parquet") == here[2]
    bytes_here, bytes_there = (
        (tmp_path / f"{place}.parquet").read_bytes() for place in ("here", "there")
    )
    assert bytes_here == bytes_there


def test_what_a_worker_lacks_a_file_for_is_done_here(
    two_workers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", two_workers.address)
    (tmp_path / "a").write_text("x")
    jobs = [(tmp_path / "a",)]
    assert list(each_run(crc32_of, jobs)) == [(jobs[0], crc32_of(tmp_path / "a"))]
    assert try_there(crc32_of, (tmp_path / "none",)) == (False, None)
    # Nobody has this one: the error is that of here.
    with pytest.raises(FileNotFoundError):
        list(each_run(crc32_of, [(tmp_path / "none",)]))
