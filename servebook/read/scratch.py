"""Folders that a process has for itself, named after it, and swept up if it was killed."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

__all__ = ["PREFIX", "alive", "sweep"]

#: A name is this, the process id, a dash and random letters.
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
    """Remove the folders below ``place`` that killed processes of this user left there."""
    for left in place.glob(f"{PREFIX}*-*"):
        pid = left.name.split("-")[1]
        with contextlib.suppress(OSError):
            mine = left.lstat().st_uid == os.getuid() and not left.is_symlink()
            if pid.isdigit() and mine and not alive(int(pid)):
                shutil.rmtree(left, ignore_errors=True)
