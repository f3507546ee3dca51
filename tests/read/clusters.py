"""A Dask scheduler and its workers as processes on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import servebook

__all__ = ["PAUSING", "Cluster", "started", "wait_for"]

PATIENCE_S = 120
CODE = Path(servebook.__file__).parents[1]
#: For ``preload``: a worker that says which dump it begins, then waits for "go" in PAUSE_FOLDER.
PAUSING = """
import os, pathlib, time
from servebook.read import cluster_reading

folder = pathlib.Path(os.environ["PAUSE_FOLDER"])

def pausing(source, cache, sound=cluster_reading.read_into):  # dask runs a preload twice
    name = str(source.options.get("run_id", source.main.name)).replace("/", "_")
    (folder / f"begun-{os.getpid()}-{name}").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    return sound(source, cache)

cluster_reading.read_into = pausing
"""


@dataclass(frozen=True)
class Cluster:
    """The scheduler's address, and the processes of the workers."""

    address: str
    workers: tuple[subprocess.Popen[bytes], ...]


def wait_for(there: Callable[[], bool], what: str) -> None:
    """Wait until it is so; fails after a minute."""
    end = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < end, f"{what} was not there within {PATIENCE_S} s"
        time.sleep(0.05)


@contextmanager
def started(
    folder: Path, n_workers: int = 2, preload: str = "", variables: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """A cluster whose files lie below ``folder``; ``preload`` is code that each worker runs."""
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / "scheduler.json"
    with ExitStack() as stack:

        def start(name: str, *words: str) -> subprocess.Popen[bytes]:
            own = {"SERVEBOOK_CACHE": str(folder / f"cache of {name}"), "SERVEBOOK_SCHEDULER": ""}
            environment = {**os.environ, **own, **(variables or {}), "PYTHONPATH": str(CODE)}
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            command = [sys.executable, "-m", *words, "--no-dashboard", "--host", "127.0.0.1"]
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        start("s", "distributed.cli.dask_scheduler", "--port=0", f"--scheduler-file={place}")
        wait_for(lambda: place.exists() and place.read_bytes().endswith(b"}"), "a scheduler")
        address = json.loads(place.read_bytes())["address"]
        more = ["--nthreads=1", "--no-nanny", f"--local-directory={folder / 'local'}"]
        if preload:
            (folder / "preloaded.py").write_text(preload)
            more += [f"--preload={folder / 'preloaded.py'}"]
        workers = tuple(
            start(f"w{n}", "distributed.cli.dask_worker", address, *more) for n in range(n_workers)
        )
        logs = [folder / f"w{n}.log" for n in range(n_workers)]
        wait_for(lambda: all(b"Registered to" in log.read_bytes() for log in logs), "workers")
        yield Cluster(address, workers)
