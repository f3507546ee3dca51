from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from servebook.read import ahead, reading
from servebook.read.ahead import as_done, at_once, fork
from servebook.read.discover import discover
from tests.read.samples import record, write_lines

LINUX = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="not on Linux")


def leave(folder: Path, number: int) -> None:
    if number == 3:
        raise ValueError
    if number == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / str(number)).write_text(str(os.getpid()))


@LINUX
def test_each_job_is_done_once_and_a_failure_is_no_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "cores", lambda: 3)
    monkeypatch.setattr(ahead, "_threads", lambda: 1)  # of other tests there may be some
    assert at_once([partial(leave, tmp_path, number) for number in range(40)])
    found = {int(path.name): int(path.read_text()) for path in tmp_path.iterdir()}
    assert sorted(found) == [n for n in range(40) if n not in (3, 4)]
    assert os.getpid() not in found.values()


@LINUX
def test_the_last_process_waits_until_another_one_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "cores", lambda: 2)
    monkeypatch.setattr(ahead, "_threads", lambda: 1)
    inlet, outlet = os.pipe()
    answer, told = os.pipe()

    def job(number: int) -> None:
        if number == 1:  # what is left is for the one that waits
            os.write(told, b"1")
            os.read(inlet, 1)
        leave(tmp_path, number + 10)

    done = as_done([partial(job, number) for number in range(6)], lambda: os.read(inlet, 1))
    assert next(done) == 0
    os.read(answer, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["10"]
    os.write(outlet, b"1")  # one of the two goes on
    os.write(outlet, b"1")
    assert sorted(done) == [1, 2, 3, 4, 5]
    failing = as_done([partial(leave, tmp_path, number) for number in (5, 6)], lambda: 1 / 0)
    assert sorted(failing) == [0, 1]
    for end in (inlet, outlet, answer, told):
        os.close(end)


@LINUX
def test_each_job_is_told_of_when_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "cores", lambda: 3)
    monkeypatch.setattr(ahead, "_threads", lambda: 1)
    jobs = [partial(leave, tmp_path, number) for number in range(40)]
    told = []
    for number in as_done(jobs):
        assert (tmp_path / str(number)).exists() == (number != 3)
        told.append(number)
    assert sorted(told) == [n for n in range(40) if n != 4]  # its process was killed
    pids: list[int] = []
    monkeypatch.setattr(ahead, "fork", lambda: pids.append(fork()) or pids[-1])
    few: Any = as_done(jobs[5:])
    next(few)
    few.close()  # whoever waits no more leaves no process behind
    assert len(pids) == 3
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    monkeypatch.setattr(ahead, "cores", lambda: 1)
    assert list(as_done(jobs)) == []


def test_nothing_is_forked_from_threads_or_for_one_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [partial(leave, tmp_path, number) for number in range(2)]
    monkeypatch.setattr(ahead, "cores", lambda: 1)
    assert not at_once(jobs)
    monkeypatch.setattr(ahead, "cores", lambda: 2)
    go = threading.Event()
    beside = threading.Thread(target=go.wait)
    beside.start()
    try:
        assert not at_once(jobs)
    finally:
        go.set()
        beside.join()
    assert list(tmp_path.iterdir()) == []


@LINUX
def test_reading_ahead_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in range(4):
        lines = [record(n + 100 * run) for n in range(5)]
        write_lines(tmp_path / "dumps" / f"run_{run}" / "profile_export.jsonl", *lines)
    write_lines(tmp_path / "dumps" / "bad" / "profile_export.jsonl", b'{"metadata":{')
    sources = discover(tmp_path / "dumps").sources
    assert len(sources) == 5

    def read(cache: str) -> tuple[list[object], list[tuple[str, str]]]:
        monkeypatch.setenv("SERVEBOOK_CACHE", cache)
        refused: list[tuple[str, str]] = []
        parts = reading.read_sources(sources, refused)
        return [(part.source, part.tables, part.inputs) for part in parts], refused

    alone = read("")
    monkeypatch.setattr(reading, "_LEAST_BYTES", 1)
    monkeypatch.setattr(reading, "_WORTH_BYTES", 1)
    monkeypatch.setattr(ahead, "cores", lambda: 2)
    monkeypatch.setattr(ahead, "_threads", lambda: 1)
    done: list[bool] = []
    monkeypatch.setattr(reading, "at_once", lambda jobs: done.append(at_once(jobs)))
    cache = str(tmp_path / "cache")
    assert read(cache) == alone
    assert done == [True]
    done.clear()
    monkeypatch.setattr(reading, "at_once", lambda jobs: done.append(len(jobs) != 1))
    assert read(cache) == alone  # only what no reader could use is tried again
    assert done == [False]
    assert alone[1][0][0] == "bad/profile_export.jsonl"
