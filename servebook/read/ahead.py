"""Big dumps read by several processes at once, each of which leaves its tables in the cache.

The caller then reads all of them as ever, in order, and finds the tables there. So errors, order
and results are those of one process; a process that is killed costs time and nothing else. Only
where processes can be forked safely: on Linux, from a process without threads of its own.

Own code: a pool of the standard library sends results back as pickles, hangs when a worker is
killed, and starts threads; here a worker has nothing to send.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence

__all__ = ["as_done", "at_once", "can_fork", "cores", "fork"]


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def can_fork() -> bool:
    """Whether another process can be made here that works beside this one."""
    return cores() > 1 and sys.platform == "linux" and _threads() == 1


def fork() -> int:
    """As ``os.fork``, without its warning; -1 where there is no room for another process."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads in libraries
            return os.fork()
    except OSError:
        return -1


def at_once(jobs: Sequence[Callable[[], object]]) -> bool:
    """Do the jobs in forked processes, one a core, and wait; False where that cannot be.

    A job leaves something outside of memory. What it returns or raises is lost.
    """
    n = min(cores(), len(jobs))
    if n < 2 or not can_fork():
        return False
    for _ in as_done(jobs):
        pass
    return True


def as_done(
    jobs: Sequence[Callable[[], object]], core_is_free: Callable[[], object] | None = None
) -> Iterator[int]:
    """Do the jobs as ``at_once`` does; the number of each, from 0, as soon as it is done or failed.

    One that a killed process was at never comes; none come where there can be no processes. Where
    another process is at work beside, ``core_is_free`` waits for its end: the last process that is
    started here does that before it does anything else, so that as many work as there are cores.
    """
    n = min(cores(), len(jobs))
    if n < 2 or not can_fork():
        return
    inlet, outlet = os.pipe()
    numbers = b"".join(number.to_bytes(2, "little") for number in range(min(len(jobs), 2048)))
    os.write(outlet, numbers)  # a pipe holds 4096 bytes before anybody reads
    os.close(outlet)
    told, tell = os.pipe()
    waits = [None] * (n - 1) + [core_is_free]
    pids = [pid for wait in waits if (pid := _worker(jobs, inlet, told, tell, wait))]
    os.close(inlet)
    os.close(tell)
    try:
        while numbers := os.read(told, 4096):
            for at in range(0, len(numbers), 2):
                yield int.from_bytes(numbers[at : at + 2], "little")
    finally:
        os.close(told)  # who waits no more needs no more jobs done
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _threads() -> int:
    """How many do anything: those that a progress bar and fsspec leave behind only wait."""
    return sum(
        type(one).__name__ != "TMonitor" and one.name != "fsspecIO" for one in threading.enumerate()
    )


def _worker(
    jobs: Sequence[Callable[[], object]],
    inlet: int,
    told: int,
    tell: int,
    wait: Callable[[], object] | None,
) -> int:
    parent = os.getpid()
    if pid := fork():
        return max(pid, 0)
    gc.freeze()  # what is here is the parent's: not worth looking through, nor copying for that
    try:
        os.close(told)
        if wait is not None:
            with contextlib.suppress(Exception):
                wait()
        while os.getppid() == parent and (number := os.read(inlet, 2)):
            with contextlib.suppress(Exception):
                jobs[int.from_bytes(number, "little")]()
            os.write(tell, number)
    finally:
        os._exit(0)
