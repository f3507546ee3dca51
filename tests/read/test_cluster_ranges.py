from __future__ import annotations

import json
import pickle
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from servebook.errors import DumpError, ServebookError
from servebook.read import aiperf_split, cluster_ranges, cluster_worker, line_blocks, reading
from servebook.read.aiperf_piece import Piece
from servebook.read.cluster import Call
from servebook.read.cluster_ranges import range_there
from servebook.read.cluster_worker import NotHereError, versions
from servebook.read.discover import discover
from servebook.read.reading import read_sources
from tests.read.clusters import started
from tests.read.samples import record, write_lines


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dump of 300 records, one of them torn and one twice, that counts as large."""
    monkeypatch.setattr(line_blocks, "RANGE_BYTES", (5000, 20_000))
    monkeypatch.setattr(aiperf_split, "_LARGE_BYTES", 1)
    monkeypatch.setattr(reading, "_RANGED_BYTES", 1)
    lines: list[Any] = [record(n) for n in range(300)]
    lines[100] = b'{"metadata": {'
    lines[200] = lines[5]
    write_lines(tmp_path / "dumps" / "run" / "profile_export.jsonl", *lines)
    return tmp_path / "dumps"


def read(folder: Path) -> Any:
    refused: list[tuple[str, str]] = []
    parts = read_sources(discover(folder).sources, refused)
    return [part.tables for part in parts], refused


def entries(cache: Path) -> dict[str, bytes]:
    found = [p for p in cache.rglob("*") if p.is_file() and not {"sums", "spool"} & set(p.parts)]
    return {p.relative_to(cache).as_posix(): p.read_bytes() for p in found}


def worker(calls: Sequence[Call]) -> list[tuple[int, Any]]:
    """What a cluster would answer: arguments and results travel as pickles."""
    out: list[tuple[int, Any]] = []
    for n, call in enumerate(calls):
        kind, value = cluster_worker.do(call.function, pickle.dumps(call.arguments), versions())
        if kind == "dump":
            out.append((n, DumpError(**value)))
            continue
        if kind == "not here":
            raise ServebookError(value)
        assert kind == "value", value
        assert call.then.endswith(":keep_piece")
        cluster_ranges.keep_piece(pickle.loads(pickle.dumps(value)), *call.more)
        out.append((n, None))
    return out


def test_ranges_read_elsewhere_give_the_bytes_of_a_file_read_here(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "")
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "here"))
    here = read(dump)
    [tables] = here[0]
    assert tables.requests.num_rows == 298
    assert tables.set_aside.num_rows == 2
    n_calls: list[int] = []

    def outcomes(calls: Sequence[Call]) -> list[tuple[int, Any]]:
        n_calls.append(len(calls))
        return worker(calls)

    monkeypatch.setattr(cluster_ranges, "outcomes", outcomes)
    monkeypatch.setattr(reading, "fill", lambda *_: pytest.fail("sent as a whole"))
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "tcp://127.0.0.1:1")
    # A task takes the variable away from its worker, which here is this process.
    monkeypatch.setattr(aiperf_split, "seen_by_all", lambda _: True)
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "there"))
    assert read(dump) == here
    assert n_calls[0] > 5
    assert entries(tmp_path / "there") == entries(tmp_path / "here")


def test_a_range_that_no_worker_reads_is_read_here(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "")
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "here"))
    here = read(dump)
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "tcp://127.0.0.1:1")
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "there"))
    monkeypatch.setattr(cluster_ranges, "outcomes", lambda calls: [(0, calls[0])])
    assert read(dump) == here


def test_a_member_of_an_archive_is_read_here(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(tmp_path / "dumps.tar", "w") as archive:
        archive.add(dump, "dumps")
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "tcp://127.0.0.1:1")
    monkeypatch.setattr(cluster_ranges, "outcomes", lambda calls: pytest.fail(str(calls)))
    [tables] = read(tmp_path / "dumps.tar")[0]
    assert tables.requests.num_rows == 298


def test_another_file_is_told(dump: Path) -> None:
    path = dump / "run" / "profile_export.jsonl"
    status = path.stat()
    settings = aiperf_split.Settings()
    seen = (path, status.st_size, status.st_mtime_ns)
    piece = range_there(*seen, 0, 2000, settings, False)
    assert isinstance(piece, Piece)
    assert piece.n_lines > 1
    for other in (
        (path, status.st_size + 1, status.st_mtime_ns),
        (path, status.st_size, status.st_mtime_ns + 1),
        (dump / "none", status.st_size, status.st_mtime_ns),
    ):
        with pytest.raises(NotHereError, match="on every worker, found none or another one"):
            range_there(*other, 0, 2000, settings, False)


def test_workers_of_a_cluster_read_one_large_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaps = [5.0 + n / 1000 for n in range(2000)]
    one = record(0)
    one["metrics"]["inter_chunk_latency"]["value"] = gaps
    text = json.dumps(one, separators=(",", ":"))
    path = tmp_path / "dumps" / "run" / "profile_export.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w") as stream:
        for n in range((36 << 20) // len(text)):
            stream.write(text.replace("request-0", f"request-{n}") + "\n")
    monkeypatch.setattr(reading, "_RANGED_BYTES", 1)
    monkeypatch.setattr(reading, "fill", lambda *_: pytest.fail("sent as a whole"))
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "")
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "here"))
    here = read(tmp_path / "dumps")
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "there"))
    taken: list[bool] = []
    sound = aiperf_split._taken

    def taken_from(place: Path | None) -> Piece | None:
        piece = sound(place)
        taken.append(piece is not None)
        return piece

    monkeypatch.setattr(aiperf_split, "_taken", taken_from)
    with started(tmp_path / "cluster") as two:
        monkeypatch.setenv("SERVEBOOK_SCHEDULER", two.address)
        assert read(tmp_path / "dumps") == here
    assert len(taken) > 3
    assert all(taken)
    assert entries(tmp_path / "there") == entries(tmp_path / "here")
