"""A build's own folder for sockets and files, gone when the build ends; swept up if it was killed.

Its name carries the process id of the build, so that a later build knows which ones are stale.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from servebook.errors import BuildError
from servebook.publish import words
from servebook.read.scratch import PREFIX, alive, sweep

__all__ = ["alive", "scratch", "sweep"]

LEAST_FREE = 16_000_000  # bytes: what the executed notebooks of a page take, and some more


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """An absolute folder with a short path: a socket's path may have some hundred characters.

    Raises:
        BuildError: there is no room for it.

    """
    place = Path(tempfile.gettempdir()).resolve()
    sweep(place)
    try:
        made = tempfile.TemporaryDirectory(
            prefix=f"{PREFIX}{os.getpid()}-", dir=place, ignore_cleanup_errors=True
        )
    except OSError as error:
        raise _full(place, error.strerror or str(error)) from None
    with made as folder:
        # Without room kernels die in ways that do not tell why.
        if shutil.disk_usage(place).free < LEAST_FREE:
            raise _full(place, f"less than {words.bytes_size(LEAST_FREE)} are free")
        yield Path(folder)


def _full(place: Path, why: str) -> BuildError:
    return BuildError(
        f"cannot keep temporary files in {place}: {why}; free some space there or name another "
        "folder in the variable TMPDIR"
    )
