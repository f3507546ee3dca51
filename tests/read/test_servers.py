"""Dumps on servers as they are: S3 by moto, Google's by an emulator, ranges by http.

The servers are processes on loopback. Where a package is missing, its tests are skipped by name:
``pip install 'moto[server]' s3fs gcp-storage-emulator gcsfs``.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import io
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest

from servebook.read.discover import read_tree
from servebook.read.remote import local
from servebook.tables import Tables
from tests.read.clusters import PAUSING, started, wait_for
from tests.read.samples import record, write_lines

LOOPBACK = Path(__file__).parents[2] / "data" / "loopback" / "raw"
SHIPPED = ("aiperf/spread/decode_c2", "counters/snmp", "vllm/decode_c2")


def needs(*modules: str) -> pytest.MarkDecorator:
    """Skip where a package is missing, by its name."""
    names = ", ".join(name for name in modules if not _is_there(name))
    return pytest.mark.skipif(bool(names), reason=f"not installed: {names}")


def _is_there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@contextmanager
def served(*words: str) -> Iterator[int]:
    """A server as a process; the port that stands for ``PORT`` in its command."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, *(word.replace("PORT", str(port)) for word in words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        assert process.poll() is None, "the server ended"
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_for(answers, "a server")
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Real dumps of three kinds in a folder; caches are the test's own."""
    folder = tmp_path / "here" / "campaign"
    for name in SHIPPED:
        shutil.copytree(LOOPBACK / name, folder / name)
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SERVEBOOK_ORIGINS", "{}")
    return folder


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """S3's file system, of a server with an empty bucket ``bench``."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with served("-m", "moto.server", "-H", "127.0.0.1", "-p", "PORT") as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        system = fresh("s3")
        system.mkdir("bench")
        yield system


def fresh(protocol: str, **options: str) -> Any:
    """A protocol's file system; those that know a server of another test are forgotten."""
    fsspec.get_filesystem_class(protocol).clear_instance_cache()
    return fsspec.filesystem(protocol, skip_instance_cache=True, **options)


def put(system: Any, folder: Path, url: str) -> None:
    """Copy a folder to a server, file by file."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            system.pipe(f"{url}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def same(url: str, folder: Path) -> Tables:
    """The tables of what lies at a URL, which are those of the folder."""
    found = read_tree(local(url))
    assert found == read_tree(folder)
    assert found.runs.num_rows == 2
    assert found.gaps.num_rows
    assert found.samples.num_rows
    return found


@needs("moto", "s3fs")
def test_s3_gives_what_the_folder_does(s3: Any, dumps: Path) -> None:
    put(s3, dumps, "bench/campaign")
    same("s3://bench/campaign", dumps)
    # What was changed there is fetched again, and what is gone there goes here.
    shutil.rmtree(dumps / "vllm")
    s3.rm("bench/campaign/vllm", recursive=True)
    assert read_tree(local("s3://bench/campaign")) == read_tree(dumps)


@needs("moto", "s3fs")
def test_a_worker_that_is_killed_while_it_reads_from_s3(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here" / "campaign"
    for run in range(6):
        lines = [record(n + 100 * run) for n in range(5)]
        write_lines(folder / f"run_{run}" / "profile_export.jsonl", *lines)
    put(s3, folder, "bench/campaign")
    monkeypatch.setenv("SERVEBOOK_ORIGINS", "{}")
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "alone"))
    alone = read_tree(folder)
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path / "cache"))
    pause = tmp_path / "pause"
    pause.mkdir()

    def begun() -> set[int]:
        return {int(path.name.split("-")[1]) for path in pause.glob("begun-*")}

    variables = {"PAUSE_FOLDER": str(pause)}
    with started(tmp_path / "cluster", preload=PAUSING, variables=variables) as two:
        monkeypatch.setenv("SERVEBOOK_SCHEDULER", two.address)
        results: queue.Queue[Any] = queue.Queue()

        def reading() -> None:
            try:
                results.put(read_tree(local("s3://bench/campaign")))
            except Exception as error:
                results.put(error)

        thread = threading.Thread(target=reading)
        thread.start()
        try:
            at_work = lambda: len(begun()) == 2 or not results.empty()  # noqa: E731
            wait_for(at_work, "both workers at work")
            os.kill(two.workers[0].pid, signal.SIGKILL)
            two.workers[0].wait()
        finally:
            (pause / "go").touch()
            thread.join()
        assert results.get() == alone


@needs("gcsfs", "gcp_storage_emulator")
def test_google_storage_gives_what_the_folder_does(
    dumps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # gcsfs asks an emulator in vain for what kind of bucket it has.
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    start = (
        "from gcp_storage_emulator.server import create_server as c;"
        "c('127.0.0.1', PORT, in_memory=True, default_bucket='bench').run()"
    )
    with served("-c", start) as port:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
        system = fresh("gs", token="anon")
        put(system, dumps, "bench/campaign")
        same("gs://bench/campaign", dumps)


class Ranged(http.server.SimpleHTTPRequestHandler):
    """Serves a folder with index pages, also parts of files, as most web servers do."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def send_head(self) -> Any:
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        path = Path(self.translate_path(self.path))
        if found is None or not path.is_file():
            return super().send_head()
        content = path.read_bytes()
        first, last = int(found[1]), min(int(found[2] or len(content)), len(content) - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        return io.BytesIO(content[first : last + 1])


def test_a_web_server_with_ranges_gives_what_the_folder_does(dumps: Path) -> None:
    handler = functools.partial(Ranged, directory=str(dumps.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            same(f"http://127.0.0.1:{server.server_port}/campaign/", dumps)
        finally:
            server.shutdown()
            thread.join()
