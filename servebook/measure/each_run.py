"""Work on each run by itself: here, one after the other, or on the cluster that the user names.

The one seam of measuring. What runs on a cluster is a function at the top of a module of ours, on
arrays that are sent there; the same function on the same numbers gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from servebook.read.cluster import Call, each, scheduler

__all__ = ["each_run"]

J = TypeVar("J", bound=tuple[Any, ...])
T = TypeVar("T")


def each_run(function: Callable[..., T], jobs: Iterable[J]) -> Iterator[tuple[J, T]]:
    """Each job with ``function(*job)``, in the order of ``jobs``, which here is drawn on lazily.

    Raises what ``function`` raises; ServebookError where a cluster was asked for and cannot do it.
    """
    if not scheduler():
        for job in jobs:
            yield job, function(*job)
        return
    asked = list(jobs)
    name = f"{function.__module__}:{function.__qualname__}"
    yield from zip(asked, each([Call(name, job) for job in asked]) if asked else [], strict=True)
