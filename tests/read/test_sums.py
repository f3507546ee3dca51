"""A file hashed by a process of its own has the checksum that this one would find."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import select
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from servebook.read import ahead, aiperf, aiperf_split, parts, sums
from servebook.read.cache import Cache
from servebook.read.discover import discover
from servebook.read.parts import read_part
from servebook.read.source import Source
from servebook.read.sums import begin, end_of, remembered_sha256
from servebook.tables import Tables
from tests.read.samples import record, write_lines

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="not on Linux")


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as large, on two cores, in a process without threads."""
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ahead, "cores", lambda: 2)
    monkeypatch.setattr(ahead, "_threads", lambda: 1)
    monkeypatch.setattr(sums, "_LEAST_BYTES", 1)
    monkeypatch.setattr(sums, "_WINDOW_BYTES", mmap.ALLOCATIONGRANULARITY)
    for module in (aiperf, aiperf_split, parts):
        monkeypatch.setattr(module, "_LARGE_BYTES", 1)
    path = tmp_path / "dumps" / "run" / "profile_export.jsonl"
    write_lines(path, *(record(n) for n in range(50)))
    os.utime(path, (10**9, 10**9))
    return path


def test_the_digest_arrives(large: Path) -> None:
    expected = hashlib.sha256(large.read_bytes()).hexdigest()
    begin(large)
    begin(large)  # it is on its way
    (key,) = sums._coming
    assert sums._arrived(*key) == expected
    begin(large)
    assert remembered_sha256(large) == expected
    assert not sums._coming


def test_its_end_can_be_waited_for(large: Path) -> None:
    assert end_of(large) is None
    begin(large)
    wait = end_of(large)
    assert wait is not None
    wait()
    ((_, _, inlet),) = sums._coming.values()
    assert select.select([inlet], [], [], 0)[0]
    assert remembered_sha256(large) == hashlib.sha256(large.read_bytes()).hexdigest()
    assert end_of(large) is None
    assert end_of(large.with_name("none")) is None


def test_a_killed_process_and_a_changed_file(large: Path) -> None:
    begin(large)
    ((_, pid, _),) = sums._coming.values()
    os.kill(pid, signal.SIGKILL)
    assert remembered_sha256(large) == hashlib.sha256(large.read_bytes()).hexdigest()
    large.write_bytes(large.read_bytes() + b"\n")
    begin(large)
    large.write_bytes(large.read_bytes() + b"\n")
    assert remembered_sha256(large) == hashlib.sha256(large.read_bytes()).hexdigest()


def test_what_is_read_beside_is_cached_under_its_key(large: Path, tmp_path: Path) -> None:
    (source,) = discover(tmp_path / "dumps").sources
    cache = Cache(tmp_path / "cache")
    first = read_part(source, cache)
    again = read_part(source, cache)
    assert first.inputs == again.inputs
    assert first.inputs[0][1] == hashlib.sha256(large.read_bytes()).hexdigest()
    assert first.tables.runs["sha256"].to_pylist() == [first.inputs[0][1]]
    for name in ("runs", "requests", "gaps", "set_aside"):
        assert getattr(first.tables, name).equals(getattr(again.tables, name))


@pytest.mark.parametrize("large_bytes", [1, 1 << 40])
def test_a_file_that_grows_while_it_is_read_is_read_again_or_not_kept(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_bytes: int
) -> None:
    monkeypatch.setattr(parts, "_LARGE_BYTES", large_bytes)
    (source,) = discover(tmp_path / "dumps").sources
    read = parts.format_of(source).read
    n_records, most = 50, 51

    def growing(one: Source) -> Tables:
        nonlocal n_records
        found = read(one)
        if n_records < most:
            with large.open("a") as stream:
                stream.write(json.dumps(record(n_records)) + "\n")
            n_records += 1
        return found

    monkeypatch.setattr(parts, "format_of", lambda _: SimpleNamespace(read=growing))
    cache = Cache(tmp_path / "cache")
    for part in (read_part(source, cache), read_part(source, cache)):
        assert part.tables.requests.num_rows == n_records == 51
        assert part.inputs[0][1] == hashlib.sha256(large.read_bytes()).hexdigest()
        assert cache.holds(parts.key_of(source, part.inputs))
    most = 99  # it goes on growing
    with large.open("a") as stream:
        stream.write("\n")
    part = read_part(source, cache)
    assert n_records == 53
    assert not cache.holds(parts.key_of(source, part.inputs))
    assert not cache.holds(parts.key_of(source, parts.inputs_of(source)))
