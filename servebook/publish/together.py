"""Run the notebooks of a campaign at the same time, as many as there are usable cores.

What comes out is in the order of the file names, and the error that is told is the first in that
order, whatever the number of cores: a failure stops the notebooks after it, while those before it
go on, since one of them may fail, too. Long notebooks are begun first, so that all cores have work
until the end.
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
    ran: Callable[[NotebookNode], None] | None = None,
) -> list[T]:
    """``finish(notebook, path)`` of each executed notebook, in the order of ``paths``.

    ``finish`` is called in the caller's thread, as notebooks end, and ``ran`` with each executed
    cell, in any thread. ``folder`` takes their files; ``bar`` gives the options of a notebook's
    progress bar; ``at_once`` is by default ``cores()``.

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
            source = zygote.of(paths[number]) if zygote is not None else None
            return runs[number](parameters, own, zygote=source, progress=progress, ran=ran)
        finally:
            lines.put(line)

    results: dict[int, T] = {}
    failures: dict[int, BaseException] = {}
    left = sorted(range(len(runs)), key=lambda number: (-_length(paths[number]), number))
    waiting: dict[Future[NotebookNode], int] = {}
    with ThreadPoolExecutor(at_once, thread_name_prefix="notebook") as pool:

        def begin() -> None:
            while left and len(waiting) < at_once:
                held = (n for n in left if zygote is None or not zygote.waits(paths[n]))
                number = next(held, left[0])
                left.remove(number)
                waiting[pool.submit(one, number)] = number

        try:
            begin()
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                ended = {waiting.pop(future): future for future in done}
                if not failures:
                    begin()
                for number, future in ended.items():
                    try:
                        results[number] = finish(future.result(), paths[number])
                    except (CancelledError, Exception) as error:
                        failures[number] = error
                if failures:
                    left = [number for number in left if number < min(failures)]
                    _stop_after(min(failures), waiting, runs)
                    begin()
        except BaseException:  # Ctrl-C: threads end with their kernels
            _stop_after(-1, waiting, runs)
            raise
    if failures:
        raise failures[min(failures)]
    return [results[number] for number in range(len(runs))]


def _length(path: Path) -> int:
    """Bytes of a notebook: those with many cells have most to do."""
    try:
        return path.stat().st_size
    except OSError:  # told when it is read
        return 0


def _stop_after(number: int, waiting: dict[Future[NotebookNode], int], runs: list[Run]) -> None:
    for future, other in waiting.items():
        if other > number:
            future.cancel()
            runs[other].stop()
