"""What a build starts at most once for all its pages: zygote, drawing workers, their folder."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path

from servebook.publish.draw import Studio
from servebook.publish.forks import Zygote
from servebook.publish.scratch import scratch

__all__ = ["Workers"]


class Workers:
    """A context manager; each worker is started when it is first asked for.

    ``folder`` is for sockets and files. On leaving, however that comes, all are ended.
    """

    folder: Path
    #: A campaign that the zygote has read into the cache first, where it is set before.
    first: Path | None = None
    #: The modules of chapters that it imports; all where none are named before it starts.
    chapters: Sequence[str] = ()
    #: Whether it was told that the zygote ended before it could fork anything.
    alone = False

    def __init__(self) -> None:
        self.lock = threading.Lock()  # of those that order drawings in threads

    def __enter__(self) -> Workers:
        with contextlib.ExitStack() as stack:
            self.folder = stack.enter_context(scratch())
            self._stack = stack.pop_all()
        return self

    @cached_property
    def zygote(self) -> Zygote | None:
        """What kernels are forked from; None where they cannot be."""
        started = Zygote.start(self.folder / "ipython", self.first, self.chapters)
        if started is not None:
            self._stack.enter_context(started)
        return started

    @cached_property
    def studio(self) -> Studio:
        """The workers that draw and paint."""
        return self._stack.enter_context(Studio(self.folder / "fonts"))

    @cached_property
    def bundle(self) -> Future[str]:
        """The Vega script."""
        return self.studio.bundle()

    def __exit__(self, *_: object) -> None:
        self._stack.close()
