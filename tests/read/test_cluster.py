from __future__ import annotations

import importlib.util
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servebook.cli import main
from servebook.errors import ServebookError
from servebook.read import cluster, cluster_reading, cluster_worker
from servebook.read.cache import Cache
from servebook.read.cluster import Call, ClusterFaultError, each, outcomes, scheduler
from servebook.read.discover import discover, read_tree
from servebook.read.inspect import inspect
from servebook.read.parts import inputs_of, key_of
from servebook.read.reading import read_sources
from servebook.read.source import Source
from tests.read.clusters import PAUSING, Cluster, started, wait_for
from tests.read.samples import FIXTURES, record, write_lines


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with started(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def on_cluster(two_workers: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", two_workers.address)
    return two_workers.address


def some_dumps(folder: Path) -> Path:
    """Six small runs, a copy, one that no reader can use, counters, and a foreign file."""
    for run in range(6):
        lines = [record(n + 100 * run) for n in range(5)]
        write_lines(folder / f"run_{run}" / "profile_export.jsonl", *lines)
    write_lines(folder / "twin" / "profile_export.jsonl", *[record(n) for n in range(5)])
    write_lines(folder / "bad" / "profile_export.jsonl", b'{"metadata":{')
    (folder / "notes.bin").write_bytes(b"\0\1\2")
    (folder / "host1_1700000000_proc_net_dev").write_text("nothing of the kind\n")
    return folder


def read_all(folder: Path) -> tuple[list[object], list[tuple[str, str]]]:
    refused: list[tuple[str, str]] = []
    parts = read_sources(discover(folder).sources, refused)
    return [(part.source, part.tables, part.inputs) for part in parts], refused


def entries(cache: Path) -> dict[str, bytes]:
    """Every file of the entries in a cache, by its path there."""
    found = [path for path in cache.rglob("*") if path.is_file() and "sums" not in path.parts]
    return {path.relative_to(cache).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize("shared", [True, False], ids=["one cache", "caches of their own"])
def test_a_cluster_leaves_the_bytes_in_the_cache_that_reading_here_does(
    shared: bool, two_workers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = some_dumps(tmp_path / "dumps")
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "here"))
    alone = read_all(dumps)
    assert len(alone[0]) == 6
    assert [path for path, _ in alone[1]] == ["bad/profile_export.jsonl"]
    if not shared:  # no worker finds the mark that it looks for
        sound = cluster_reading.Call
        monkeypatch.setattr(
            cluster_reading,
            "Call",
            lambda f, arguments, *rest: sound(f, (*arguments[:-1], "no such mark"), *rest),
        )
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "there"))
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", two_workers.address)
    got: list[int] = []
    sound_take = Cache.take
    monkeypatch.setattr(Cache, "take", lambda *a: (got.append(1), sound_take(*a))[1])
    assert read_all(dumps) == alone
    assert entries(tmp_path / "there") == entries(tmp_path / "here")
    assert not list((tmp_path / "there").glob(".*"))
    monkeypatch.setattr(cluster_reading, "outcomes", lambda calls: pytest.fail(str(calls)))
    # The bad one is the only one that the cache does not hold.
    with pytest.raises(pytest.fail.Exception, match="bad/profile_export"):
        read_all(dumps)


def test_every_client_is_read_there_as_here(
    on_cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert on_cluster
    monkeypatch.setenv("SERVEBOOK_CACHE", "")  # results go through a folder for the moment
    there = read_tree(FIXTURES), inspect(FIXTURES)
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "")
    here = read_tree(FIXTURES), inspect(FIXTURES)
    assert there == here
    assert here[0].runs.num_rows > 5
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_is_killed_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumps = some_dumps(tmp_path / "dumps")
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "here"))
    alone = read_all(dumps)
    pause = tmp_path / "pause"
    pause.mkdir()

    def begun() -> set[tuple[int, str]]:
        found = [path.name.split("-") for path in pause.glob("begun-*")]
        return {(int(pid), run) for _, pid, run in found}

    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "there"))
    variables = {"PAUSE_FOLDER": str(pause)}
    with started(tmp_path / "cluster", preload=PAUSING, variables=variables) as two:
        monkeypatch.setenv("SERVEBOOK_SCHEDULER", two.address)
        results: queue.Queue[Any] = queue.Queue()
        thread = threading.Thread(target=lambda: results.put(read_all(dumps)))
        thread.start()
        try:
            wait_for(lambda: len({pid for pid, _ in begun()}) == 2, "both workers at work")
            first = two.workers[0].pid
            [lost] = [run for pid, run in begun() if pid == first]
            os.kill(first, signal.SIGKILL)
            two.workers[0].wait()
        finally:
            (pause / "go").touch()
            thread.join()
        assert results.get() == alone
        assert (two.workers[1].pid, lost) in begun()  # done again, by the other one
    assert entries(tmp_path / "there") == entries(tmp_path / "here")


def only_source(folder: Path) -> tuple[str, Source]:
    write_lines(folder / "run" / "profile_export.jsonl", record())
    [source] = discover(folder).sources
    return key_of(source, inputs_of(source)), source


def test_a_worker_that_does_not_see_a_file_is_named(on_cluster: str, tmp_path: Path) -> None:
    key, source = only_source(tmp_path / "dumps")
    source.main.unlink()
    with pytest.raises(ServebookError) as raised:
        cluster_reading.fill([(key, source)], Cache(tmp_path / "cache"))
    text = str(raised.value)
    assert text.startswith(f"{on_cluster}: expected the file run/profile_export.jsonl at ")
    assert "on every worker, found none on the worker tcp://127.0.0.1:" in text
    assert "mount at the same path, or give the URL" in text


def test_a_worker_that_sees_another_file_is_named(on_cluster: str, tmp_path: Path) -> None:
    _, source = only_source(tmp_path / "dumps")
    with pytest.raises(ServebookError, match=r"found other content at .* on the worker tcp://"):
        cluster_reading.fill([("0" * 64, source)], Cache(tmp_path / "cache"))
    assert on_cluster


def test_a_worker_with_other_versions_is_told_in_one_sentence(
    on_cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, source = only_source(tmp_path / "dumps")
    found = cluster_worker.versions()
    other = {**found, "pyarrow": "1.0", "Servebook": "0.0 (abc)"}
    monkeypatch.setattr(cluster, "versions", lambda: other)
    with pytest.raises(ServebookError) as raised:
        cluster_reading.fill([(key, source)], Cache(tmp_path / "cache"))
    assert str(raised.value) == (
        f"{on_cluster}: expected workers with the same versions as here, found one with Servebook "
        f"{found['Servebook']} (here 0.0 (abc)), pyarrow {found['pyarrow']} (here 1.0); install "
        "the same on all of them"
    )


def test_calls_answer_in_their_order_and_by_their_errors(on_cluster: str) -> None:
    assert on_cluster
    name = "servebook.read.source:printable"
    assert each([Call(name, (text,)) for text in "abc"]) == ["a", "b", "c"]
    found = dict(outcomes([Call(name, ("a",)), Call(name, (1,)), Call("os:getpid", ())]))
    assert found[0] == "a"
    assert isinstance(found[1], ClusterFaultError)
    assert str(found[1]).startswith("could not be read by a fault of Servebook (AttributeError in")
    assert str(found[2]) == "os is no part of Servebook"
    with pytest.raises(ClusterFaultError, match="AttributeError"):
        each([Call(name, (1,))])


def test_no_scheduler_is_told_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "tcp://127.0.0.1:9")
    with pytest.raises(ServebookError) as raised:
        each([Call("servebook.read.source:printable", ("a",))])
    assert str(raised.value).startswith("tcp://127.0.0.1:9: expected a Dask scheduler, found no ")
    assert "leave it out to read here" in str(raised.value)


@pytest.mark.parametrize("text", ["10.0.0.1:8786", "http://a:1", "tcp://a b:1", "tcp://u:p@h:1"])
def test_what_is_no_address_is_told(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", text)
    with pytest.raises(ServebookError, match="expected an address such as tcp://"):
        scheduler()


@pytest.mark.parametrize("text", ["tcp://u:SECRET@h:1", "u:SECRET@h:1", "tcp://u:SE@CRET@h:1"])
def test_no_message_tells_a_password(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", text)
    with pytest.raises(ServebookError, match="h:1'; the scheduler") as raised:
        scheduler()
    assert "SE" not in str(raised.value).replace("SERVEBOOK", "")


def test_a_missing_package_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVEBOOK_SCHEDULER", "tcp://127.0.0.1:9")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ServebookError, match=r"pip install 'servebook\[cluster\]'"):
        scheduler()


def test_nothing_is_asked_for_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SERVEBOOK_SCHEDULER", raising=False)
    assert scheduler() == ""
    script = "import sys, servebook.read.campaign; sys.exit('distributed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_process_that_talks_to_the_cluster_may_be_killed(
    on_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = subprocess.Popen

    def killed(*args: Any, **named: Any) -> Any:
        process = sound(*args, **named)
        process.kill()
        return process

    monkeypatch.setattr(subprocess, "Popen", killed)
    with pytest.raises(ServebookError, match="the process that talks to the cluster ended"):
        each([Call("servebook.read.source:printable", ("a" * 100_000,))])
    assert on_cluster


def test_the_client_leaves_no_warning_and_nothing_behind(on_cluster: str, tmp_path: Path) -> None:
    calls = [("servebook.read.source:printable", pickle.dumps(("a",)), "", ())]
    text = pickle.dumps((on_cluster, cluster_worker.versions(), calls))
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-m"]
    process = subprocess.Popen(
        [*command, "servebook.read.cluster_client"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(text)
    process.stdin.flush()
    assert pickle.load(process.stdout) == ("value", 0, "a")
    assert pickle.load(process.stdout) == ("end", -1, None)
    code = process.wait(60)  # by itself, with its input still open
    out, err = process.communicate()
    assert (code, out, err) == (0, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_members_of_an_archive_are_read_where_they_were_unpacked(
    on_cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tarfile

    assert on_cluster
    write_lines(tmp_path / "dumps" / "run" / "profile_export.jsonl", record())
    with tarfile.open(tmp_path / "dumps.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "dumps", "dumps")
    monkeypatch.setattr(cluster_reading, "outcomes", lambda calls: pytest.fail(str(calls)))
    assert read_tree(tmp_path / "dumps.tar.gz").runs.num_rows == 1


def test_workers_fetch_for_themselves_what_lies_at_a_url(
    on_cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import functools
    import http.server

    from servebook.read.remote import local, origin

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            asked.append(self.path)
            super().do_GET()

    asked: list[str] = []
    some_dumps(tmp_path / "served" / "dumps")
    handler = functools.partial(Handler, directory=str(tmp_path / "served"))
    monkeypatch.setenv("SERVEBOOK_ORIGINS", "{}")
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "mine"))
    assert on_cluster
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            root = local(f"http://127.0.0.1:{server.server_port}/dumps/")
            sources = discover(root).sources
            asked.clear()
            # As on a machine of its own: there is nothing where the files are here.
            jobs = [(key_of(s, inputs_of(s)), s) for s in sources if "bad" not in str(s.main)]
            told = [origin([s.main, *s.files]) for _, s in jobs]
            monkeypatch.setattr(cluster_reading, "origin", lambda _: told.pop(0))
            root.rename(tmp_path / "away")
            cache = Cache(tmp_path / "elsewhere")
            assert cluster_reading.fill(jobs, cache) == {}
        finally:
            server.shutdown()
            thread.join()
    assert all(cache.holds(key) for key, _ in jobs)
    assert {path for path in asked if path.endswith(".jsonl")} == {
        f"/dumps/run_{n}/profile_export.jsonl" for n in range(6)
    }


@pytest.mark.parametrize("command", ["inspect", "measure"])
def test_the_option_is_for_one_command(
    command: str,
    two_workers: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dumps = str(some_dumps(tmp_path / "dumps"))
    monkeypatch.delenv("SERVEBOOK_SCHEDULER", raising=False)
    assert main([command, dumps, "--json"]) == 0
    here = capsys.readouterr().out
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "there"))
    assert main([command, dumps, "--json", "--scheduler", two_workers.address]) == 0
    assert capsys.readouterr().out == here
    assert len(list((tmp_path / "there").glob("*/*/entry.json"))) == 6
    assert "SERVEBOOK_SCHEDULER" not in os.environ


def test_an_address_that_is_none_is_told_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", str(tmp_path / "nowhere"), "--scheduler", "here"]) == 2
    assert capsys.readouterr().err.startswith(
        "servebook: --scheduler (or SERVEBOOK_SCHEDULER): expected an address such as tcp://"
    )
