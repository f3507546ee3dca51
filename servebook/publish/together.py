"""Run the notebooks of a campaign at the same time, as many as there are usable cores.

What comes out is in the order of the file names, and the error that is told is the first in that
order, whatever the number of cores: a failure stops the notebooks after it, while those before it
go on, since one of them may fail, too.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

from nbformat import NotebookNode

from servebook.publish.execute import Run, Scalar
from servebook.publish.forks import Zygote

__all__ = ["cores", "run_all"]

T = TypeVar("T")
Bar = Callable[[Path], dict[str, Any]]


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def run_all(
    paths: Sequence[Path],
    parameters: dict[str, Scalar],
    folder: Path,
    *,
    zygote: Zygote | None,
    finish: Callable[[NotebookNode, Path], T],
    bar: Bar,
    at_once: int | None = None,
) -> list[T]:
    """``finish(notebook, path)`` of each executed notebook, in the order of ``paths``.

    ``finish`` is called in the caller's thread, as notebooks end. ``folder`` takes their files;
    ``bar`` gives the options of a notebook's progress bar; ``at_once`` is by default ``cores()``.

    Raises:
        BuildError: of the first notebook in order that failed (or whose ``finish`` did).

    """
    runs = [Run(path) for path in paths]
    at_once = min(at_once or cores(), len(runs))
    lines: queue.SimpleQueue[int] = queue.SimpleQueue()
    for line in range(at_once):
        lines.put(line)

    def one(number: int) -> NotebookNode:
        line = lines.get()  # of the terminal: bars of notebooks at work stand one below the other
        try:
            own = folder / str(number)
            own.mkdir()
            progress = {**bar(paths[number]), "position": line}
            return runs[number](parameters, own, zygote=zygote, progress=progress)
        finally:
            lines.put(line)

    results: dict[int, T] = {}
    failures: dict[int, BaseException] = {}
    with ThreadPoolExecutor(at_once, thread_name_prefix="notebook") as pool:
        waiting: dict[Future[NotebookNode], int] = {
            pool.submit(one, number): number for number in range(len(runs))
        }
        try:
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    number = waiting.pop(future)
                    try:
                        results[number] = finish(future.result(), paths[number])
                    except (CancelledError, Exception) as error:
                        failures[number] = error
                if failures:
                    _stop_after(min(failures), waiting, runs)
        except BaseException:  # Ctrl-C: threads end with their kernels
            _stop_after(-1, waiting, runs)
            raise
    if failures:
        raise failures[min(failures)]
    return [results[number] for number in range(len(runs))]


def _stop_after(number: int, waiting: dict[Future[NotebookNode], int], runs: list[Run]) -> None:
    for future, other in waiting.items():
        if other > number:
            future.cancel()
            runs[other].stop()
