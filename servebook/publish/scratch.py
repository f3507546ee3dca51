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

__all__ = ["alive", "scratch", "sweep"]

PREFIX = "sb-"


def alive(pid: int) -> bool:
    """Whether a process of this id runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def sweep(place: Path) -> None:
    """Remove the folders below ``place`` that killed builds of this user left there."""
    for left in place.glob(f"{PREFIX}*-*"):
        pid = left.name.split("-")[1]
        with contextlib.suppress(OSError):
            mine = left.lstat().st_uid == os.getuid() and not left.is_symlink()
            if pid.isdigit() and mine and not alive(int(pid)):
                shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """An absolute folder with a short path: a socket's path may have some hundred characters."""
    place = Path(tempfile.gettempdir()).resolve()
    sweep(place)
    with tempfile.TemporaryDirectory(
        prefix=f"{PREFIX}{os.getpid()}-", dir=place, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)
