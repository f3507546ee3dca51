"""Put a finished page in the place of the last one, whole or not at all.

Everything is written into a staging folder beside the target and flushed to the disk. Then the
folder of files is swapped and the page renamed over the old one, page last: a reader never sees
half a page, and a build that is killed at any moment leaves the last good one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from servebook.errors import BuildError
from servebook.publish.scratch import alive

__all__ = ["publish", "staging", "writable"]

PREFIX = ".staging-"
AT_FDCWD = -100
RENAME_EXCHANGE = 2


def _sweep(output: Path) -> None:
    """Remove what killed builds left behind; a folder that one of them had set aside goes back."""
    for left in output.glob(f"{PREFIX}*"):
        pid = left.name.rpartition("-")[2]
        if pid.isdigit() and not alive(int(pid)):
            if left.is_file():
                left.unlink(missing_ok=True)
            for aside in left.glob("*.old"):
                if not (target := output / aside.stem).exists():
                    aside.replace(target)
            shutil.rmtree(left, ignore_errors=True)


def _told(output: Path, error: OSError) -> BuildError:
    return BuildError(
        f"cannot write the page to {output}: {error.strerror or error}; "
        "the last good page is as it was; free some space or name another folder with -o"
    )


def writable(output: Path) -> None:
    """Find out before the work whether the target can be written to.

    Raises:
        BuildError: it cannot.

    """
    probe = output / f"{PREFIX}probe-{os.getpid()}"
    try:
        output.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"1")
    except OSError as error:
        raise _told(output, error) from None
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


@contextlib.contextmanager
def staging(output: Path, name: str) -> Iterator[Path]:
    """A folder beside the target to write into; gone afterwards, whatever happens.

    Raises:
        BuildError: the target cannot be written to, or the disk is full; the last page stays.

    """
    folder = output / f"{PREFIX}{name}-{os.getpid()}"
    try:
        output.mkdir(parents=True, exist_ok=True)
        _sweep(output)
        shutil.rmtree(folder, ignore_errors=True)
        for part in ("tables", "charts"):
            (folder / name / part).mkdir(parents=True)
        yield folder
    except OSError as error:
        raise _told(output, error) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _flush(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system has no such call."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    first, second = os.fsencode(one), os.fsencode(other)
    code: int = rename(AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE)
    return code == 0


def publish(folder: Path, output: Path, name: str) -> Path:
    """Move ``<name>/`` and ``<name>.html`` from the staging folder to the target.

    Returns the page's path.
    """
    _flush(folder)
    new, target = folder / name, output / name
    if not target.exists():
        new.replace(target)
    elif not _exchange(new, target):
        target.replace(folder / f"{name}.old")
        new.replace(target)
    page = output / f"{name}.html"
    (folder / f"{name}.html").replace(page)
    handle = os.open(output, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return page
