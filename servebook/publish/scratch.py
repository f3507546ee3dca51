"""A build's own folder for sockets and files, gone when the build ends; swept up if it was killed.

Its name carries the process id of the build, so that a later build knows which ones are stale.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from servebook.read.scratch import PREFIX, alive, sweep

__all__ = ["alive", "scratch", "sweep"]


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """An absolute folder with a short path: a socket's path may have some hundred characters."""
    place = Path(tempfile.gettempdir()).resolve()
    sweep(place)
    with tempfile.TemporaryDirectory(
        prefix=f"{PREFIX}{os.getpid()}-", dir=place, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)
