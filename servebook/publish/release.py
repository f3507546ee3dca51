"""Put a finished page in the place of the last one, whole or not at all.

Everything is written into a staging folder beside the target and flushed to the disk. Then the
folder of files is swapped and the page renamed over the old one, page last: a reader never sees
half a page, and a build that is killed at any moment leaves the last good one.

Two names cannot change in one step. The folder therefore holds the sha256 of its page
(``page.sha256``, which ``sha256sum -c`` reads); where a kill falls between the two steps, the next
build into that place finds folder and page at odds and takes the second step before anything else.

Own code: libraries that write atomically replace one file, not a file and a folder that belong
together.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from servebook.errors import BuildError
from servebook.publish.scratch import alive

__all__ = ["SEAL", "paired", "publish", "staging", "writable"]

PREFIX = ".staging-"
SEAL = "page.sha256"
AT_FDCWD = -100
RENAME_EXCHANGE = 2


@contextlib.contextmanager
def _alone(output: Path) -> Iterator[None]:
    """One build at a time swaps or sweeps here; the lock goes with the process that has it."""
    handle = os.open(output, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
        os.fsync(handle)
    finally:
        os.close(handle)


def _sum(page: Path) -> str:
    with page.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _belong(folder: Path, page: Path) -> bool | None:
    try:
        said = (folder / SEAL).read_text(encoding="utf-8").partition(" ")[0]
    except (OSError, UnicodeDecodeError):
        return None
    try:
        return said == _sum(page)
    except OSError:
        return False


def paired(folder: Path) -> bool | None:
    """Whether the page beside ``folder`` is the one that was published with it.

    None where the folder does not tell: it was not published, or by an older version.
    """
    return _belong(folder, folder.with_name(f"{folder.name}.html"))


def _sweep(output: Path) -> None:
    """Remove what killed builds left behind, after the second step of a swap that was begun."""
    with _alone(output):
        for left in sorted(output.glob(f"{PREFIX}*")):
            pid = left.name.rpartition("-")[2]
            if pid.isdigit() and not alive(int(pid)):
                if left.is_file():
                    left.unlink(missing_ok=True)
                _complete(left, output)
                shutil.rmtree(left, ignore_errors=True)


def _complete(left: Path, output: Path) -> None:
    """Finish a swap that was begun; all of the new page was on the disk before it."""
    name = left.name.removeprefix(PREFIX).rpartition("-")[0]
    new, page, aside = (left / one for one in (name, f"{name}.html", f"{name}.old"))
    target = output / name
    if aside.exists() and not target.exists():
        (new if _belong(new, page) else aside).replace(target)
    if _belong(target, page):
        page.replace(output / page.name)


def _told(output: Path, error: OSError) -> BuildError:
    return BuildError(
        f"cannot write the page to {output}: {error.strerror or error}; "
        "the last good page is as it was; free some space or name another folder with -o"
    )


def writable(output: Path) -> None:
    """Find out before the work whether the target can be written to; mend what a kill left there.

    Raises:
        BuildError: it cannot.

    """
    probe = output / f"{PREFIX}probe-{os.getpid()}"
    try:
        output.mkdir(parents=True, exist_ok=True)
        _sweep(output)
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
    """Have all files and folders on the disk; at once, since each waits for the disk."""
    with ThreadPoolExecutor(8, thread_name_prefix="flush") as pool:
        list(pool.map(_flush_one, sorted(folder.rglob("*"))))


def _flush_one(path: Path) -> None:
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


def _swap(new: Path, target: Path, aside: Path) -> None:
    if not target.exists():
        new.replace(target)
    elif not _exchange(new, target):
        target.replace(aside)
        new.replace(target)


def _swap_back(new: Path, target: Path, aside: Path) -> None:
    if new.exists():
        _exchange(new, target)
    else:
        target.replace(new)
        if aside.exists():
            aside.replace(target)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C and a polite end wait for the two steps."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def publish(folder: Path, output: Path, name: str) -> Path:
    """Move ``<name>/`` and ``<name>.html`` from the staging folder to the target.

    Returns the page's path.

    Raises:
        OSError: it cannot be moved; then the last page and its folder are as they were.

    """
    new, page = folder / name, folder / f"{name}.html"
    (new / SEAL).write_text(f"{_sum(page)}  ../{page.name}\n", encoding="utf-8")
    _flush(folder)
    target, aside = output / name, folder / f"{name}.old"
    with _alone(output), _uninterrupted():
        _swap(new, target, aside)
        try:
            page.replace(output / page.name)
        except OSError:
            _swap_back(new, target, aside)
            raise
    return output / page.name
