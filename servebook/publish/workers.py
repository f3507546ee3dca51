"""What a build starts once for all its pages: zygote, drawing worker, a folder for their files."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType

from servebook.publish.draw import Studio
from servebook.publish.forks import Zygote
from servebook.publish.scratch import scratch

__all__ = ["Workers"]


class Workers:
    """Started on entering, while the caller goes on; ended on leaving, however that comes.

    ``folder`` is for sockets and files; ``zygote`` is None where kernels cannot be forked;
    ``bundle`` is the Vega script.
    """

    folder: Path
    zygote: Zygote | None
    studio: Studio
    bundle: Future[str]

    def __enter__(self) -> Workers:
        with contextlib.ExitStack() as stack:
            self.folder = stack.enter_context(scratch())
            self.zygote = Zygote.start(self.folder / "ipython")
            if self.zygote is not None:
                stack.enter_context(self.zygote)
            self.studio = stack.enter_context(Studio())
            self.bundle = self.studio.bundle()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._stack.close()
