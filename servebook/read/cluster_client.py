"""The process that talks to a Dask cluster for another one (see ``cluster``), over its pipes.

A process of its own, because dask's client starts threads, and a build forks kernels from the
process that reads: nothing may be forked beside threads. It takes an address, versions and calls
on standard input, and answers with one pickled message per call, in the order in which they end.
When its caller is gone, however it went, standard input closes and it leaves; the cluster then
drops what it still had to do.
"""

from __future__ import annotations

import importlib
import logging
import os
import pickle
import queue
import sys
import threading
import time
import warnings
from collections import deque
from typing import Any, BinaryIO

from servebook.read.cluster_worker import do

__all__ = ["main"]

CONNECT_S = 10
#: With no worker at all for so long, somebody has to look; a cluster may still be starting some.
PATIENCE_S = 120.0
_LOOK_S = 2.0
#: Arguments on their way at one time: what a scheduler must hold.
_MOST_BYTES = 256 << 20


class _StopError(Exception):
    """What ends all of it, in words for the user."""


def _client(address: str) -> Any:
    import distributed

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # it is told in our words
    # A graph of ours is one task, and how much is on its way is bounded here.
    warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
    # Versions that matter are compared with each task.
    warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
    try:
        client: Any = distributed.Client
        return client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError, ImportError) as error:
        why = "no answer" if isinstance(error, TimeoutError) else "no connection"
        if isinstance(error, ValueError | TypeError):
            why = "no address of a scheduler"
        raise _StopError(
            f"{address}: expected a Dask scheduler, found {why} within {CONNECT_S} s; check the "
            "address (--scheduler or SERVEBOOK_SCHEDULER) and that this machine may connect to "
            "it, or leave it out to read here"
        ) from None


class _Run:
    """The calls of one caller on the cluster."""

    def __init__(self, client: Any, address: str, expected: dict[str, str], out: BinaryIO) -> None:
        self.client, self.address, self.expected, self.out = client, address, expected, out
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.number: dict[Any, int] = {}
        self.n_bytes = 0
        self.workers_seen = time.monotonic()

    def all(self, calls: list[tuple[str, bytes, str, tuple[Any, ...]]]) -> None:
        waiting = deque(range(len(calls)))
        while waiting or self.number:
            while waiting and (self.n_bytes < _MOST_BYTES or not self.number):
                self._submit(waiting.popleft(), calls)
            try:
                future = self.done.get(timeout=_LOOK_S)
            except queue.Empty:
                self._look()
                continue
            index = self.number.pop(future)
            self.n_bytes -= len(calls[index][1])
            self._answer(index, future, *calls[index][2:])
            del future  # the cluster may forget it

    def _submit(self, index: int, calls: list[tuple[str, bytes, str, tuple[Any, ...]]]) -> None:
        function, payload = calls[index][:2]
        future = self.client.submit(
            do, function, payload, self.expected, pure=False, key=f"servebook-{_token()}"
        )
        self.number[future] = index
        self.n_bytes += len(payload)
        future.add_done_callback(self.done.put)

    def _answer(self, index: int, future: Any, then: str, more: tuple[Any, ...]) -> None:
        try:
            kind, value = future.result()
        except Exception as error:
            raise _StopError(self._failure(error)) from None
        if kind == "versions":
            said = ", ".join(f"{name} {a} (here {b})" for name, (a, b) in sorted(value.items()))
            raise _StopError(
                f"{self.address}: expected workers with the same versions as here, found one with "
                f"{said}; install the same on all of them"
            )
        if kind == "not here":
            raise _StopError(f"{self.address}: {value}")
        if kind == "told":
            raise _StopError(value)
        if kind == "value" and then:
            module, _, name = then.partition(":")
            value = getattr(importlib.import_module(module), name)(value, *more)
        _send(self.out, (kind, index, value))

    def _failure(self, error: Exception) -> str:
        name = type(error).__name__
        if name == "KilledWorker":
            return (
                f"{self.address}: the workers that took one task ended again and again (killed, or "
                "out of memory); give them more memory and run it again: what was read is kept"
            )
        if isinstance(error, ImportError) or "deserializ" in str(error):
            return (
                f"{self.address}: Servebook is missing there, or is another version; install the "
                "same one on the scheduler and on all workers"
            )
        return self._lost() if "Cancel" in name else f"{self.address}: a task failed with {name}"

    def _lost(self) -> str:
        return (
            f"{self.address}: the connection to the scheduler was lost; run it again: what was "
            "read is kept"
        )

    def _look(self) -> None:
        """Nothing came for a while: are there still a scheduler and workers?"""
        now = time.monotonic()
        try:
            alive = self.client.status == "running" and self.client.nthreads()
        except Exception:
            raise _StopError(self._lost()) from None
        if self.client.status != "running":
            raise _StopError(self._lost())
        if alive:
            self.workers_seen = now
        elif now - self.workers_seen > PATIENCE_S:
            raise _StopError(
                f"{self.address}: no worker was there for {PATIENCE_S:.0f} s; start workers for "
                "this scheduler"
            )


def _token() -> str:
    return os.urandom(12).hex()


def _send(out: BinaryIO, message: tuple[Any, ...]) -> None:
    pickle.dump(message, out, protocol=5)
    out.flush()


def _leave_with(inlet: BinaryIO) -> None:
    """End this process with its caller's end of the pipe."""
    inlet.read(1)
    os._exit(1)


def main() -> int:
    """Serve one caller."""
    inlet, out = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever prints must not get between the messages
    address, expected, calls = pickle.load(inlet)
    threading.Thread(target=_leave_with, args=(inlet,), daemon=True).start()
    try:
        with _client(address) as client:
            _Run(client, address, expected, out).all(calls)
    except _StopError as error:
        _send(out, ("stop", -1, str(error)))
    else:
        _send(out, ("end", -1, None))
    out.close()
    sys.stderr.flush()
    os._exit(0)  # not held up by the thread that reads


if __name__ == "__main__":
    main()
