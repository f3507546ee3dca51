"""Calls on a Dask cluster instead of here, where the user names a scheduler.

``SERVEBOOK_SCHEDULER`` (or ``--scheduler``, which sets it for this process and what it starts)
holds the scheduler's address; empty or unset means here. Dask's client runs in a process of its
own, ``cluster_client``; tasks run ``cluster_worker.do``. A task whose worker is killed is run again
on another by the scheduler.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from servebook.errors import DumpError, ServebookError
from servebook.read.cluster_worker import versions

__all__ = ["VARIABLE", "Call", "ClusterFaultError", "each", "outcomes", "scheduler"]

VARIABLE = "SERVEBOOK_SCHEDULER"
_ADDRESS = re.compile(r"(?:tcp|tls|ucx|ws|wss)://[^\s/@]+(?::\d+)?/?")


class ClusterFaultError(Exception):
    """A fault of our own code on a worker; the text says where, as ``reading_fault`` does."""


@dataclass(frozen=True)
class Call:
    """One call of ``function`` ("module:name" of ours) with plain or picklable arguments.

    What it returns is handed to ``then`` (another name; with ``more``) in the process that talks
    to the cluster, where ``then`` is not empty: big results need not come here through a pipe.
    """

    function: str
    arguments: tuple[Any, ...]
    then: str = ""
    more: tuple[Any, ...] = ()


def scheduler() -> str:
    """The address of the scheduler that was asked for, or ""; raises ServebookError for no address.

    Also raised where the package that talks to it is not installed.
    """
    address = os.environ.get(VARIABLE, "").strip()
    if not address:
        return ""
    if not _ADDRESS.fullmatch(address):
        raise ServebookError(
            f"--scheduler (or {VARIABLE}): expected an address such as tcp://10.0.0.1:8786, found "
            f"{_without_user(address)!r}; the scheduler prints its address when it starts"
        )
    if importlib.util.find_spec("distributed") is None:
        raise ServebookError(
            "--scheduler: the package distributed is not installed here; install it with: "
            "pip install 'servebook[cluster]'"
        )
    return address


def _without_user(address: str) -> str:
    """The address as it may be printed: a user or password before an @ is nobody's business."""
    head, slashes, rest = address.partition("//") if "//" in address else ("", "", address)
    return f"{head}{slashes}{rest.rpartition('@')[2]}"


def outcomes(calls: Sequence[Call]) -> Iterator[tuple[int, Any]]:
    """Number and outcome of each call, as they end: its value, a DumpError or a ClusterFaultError.

    Raises ServebookError where the cluster cannot be reached or is not like this machine.
    """
    address = scheduler()
    with tempfile.TemporaryFile() as talk:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "servebook.read.cluster_client"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=talk,
        )
        try:
            yield from _talk(process, address, calls)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            talk.seek(0)
            last = talk.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise ServebookError(
                f"{address}: the process that talks to the cluster ended (killed, or out of "
                f"memory){': ' + last if last else ''}; run it again: what was read is kept"
            ) from None
        finally:
            with suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
            process.stdout.close()  # type: ignore[union-attr]
            process.wait()


def _talk(
    process: subprocess.Popen[bytes], address: str, calls: Sequence[Call]
) -> Iterator[tuple[int, Any]]:
    assert process.stdin is not None
    assert process.stdout is not None
    plain = [
        (call.function, pickle.dumps(call.arguments, protocol=5), call.then, call.more)
        for call in calls
    ]
    pickle.dump((address, versions(), plain), process.stdin, protocol=5)
    process.stdin.flush()
    while True:
        kind, index, value = pickle.load(process.stdout)
        if kind == "end":
            return
        if kind == "stop":
            raise ServebookError(value)
        if kind == "dump":
            yield index, DumpError(**value)
        elif kind == "fault":
            yield index, ClusterFaultError(value)
        else:
            yield index, value


def each(calls: Sequence[Call]) -> list[Any]:
    """The values of the calls, in their order; raises the first error in that order."""
    found = dict(outcomes(calls))
    for index in range(len(calls)):
        if isinstance(found[index], Exception):
            raise found[index]
    return [found[index] for index in range(len(calls))]
