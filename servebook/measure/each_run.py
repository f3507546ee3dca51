"""Work on each run by itself: here, one after the other, or on the cluster that the user names.

The one seam of measuring. What runs on a cluster is a function at the top of a module of ours, on
arrays that are sent there; the same function on the same numbers gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from servebook.read.cluster import Call, each, scheduler

__all__ = ["each_run", "try_there"]

#: So much goes to a cluster at once.
_LOAD_BYTES = 1 << 28

J = TypeVar("J", bound=tuple[Any, ...])
T = TypeVar("T")


def each_run(function: Callable[..., T], jobs: Iterable[J]) -> Iterator[tuple[J, T]]:
    """Each job with ``function(*job)``, in the order of ``jobs``, which here is drawn on lazily.

    What a worker cannot do for want of a file is done here. Raises what ``function`` raises, and
    ServebookError where a cluster was asked for and cannot do it.
    """
    if not scheduler():
        for job in jobs:
            yield job, function(*job)
            del job  # its arrays, before those of the next one are made
        return
    for asked in _loads(jobs):
        calls = [Call(f"{__name__}:try_there", (function, job)) for job in asked]
        for job, (done, result) in zip(asked, each(calls), strict=True):
            yield job, result if done else function(*job)


def _loads(jobs: Iterable[J]) -> Iterator[list[J]]:
    """The jobs in lists of so many that their arrays take no more than ``_LOAD_BYTES``, or one."""
    load: list[J] = []
    n_bytes = 0
    for job in jobs:
        size = _bytes_of(job)
        if load and n_bytes + size > _LOAD_BYTES:
            yield load
            load, n_bytes = [], 0
        load.append(job)
        n_bytes += size
        del job
    if load:
        yield load


def _bytes_of(value: Any) -> int:
    """What the arrays in it take."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, list | tuple):
        return sum(map(_bytes_of, value))
    if is_dataclass(value):
        return sum(_bytes_of(getattr(value, one.name)) for one in fields(value))
    return 0


def try_there(function: Callable[..., T], job: tuple[Any, ...]) -> tuple[bool, T | None]:
    """On a worker: the result; or that this worker lacks a file that the job reads.

    Gaps of large runs are files in the cache folder, which a worker may not see.
    """
    try:
        return True, function(*job)
    except FileNotFoundError:
        return False, None
