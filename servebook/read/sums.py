"""Checksums of files, remembered: a file that has not changed since is not read again.

Remembered is what the system says of a file (device, inode, size, times of its content and of its
inode, in ns) beside the sha256 of its content. Whoever changes a file changes one of them; only a
file that was changed within the last moments is not trusted, since a clock's tick can hide a second
change. A note that is missing, altered or old means that the file is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import select
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from servebook.read.ahead import can_fork, fork

__all__ = [
    "FOLDER",
    "cache_folder",
    "end_of",
    "is_remembered",
    "remember",
    "remembered_sha256",
    "stamp",
    "write_whole",
]

FOLDER = "sums"
#: A smaller file is read sooner than its note is found.
_LEAST_BYTES = 1 << 20
_SETTLED_NS = 2 * 10**9
#: So much of a file that is hashed lies in memory.
_WINDOW_BYTES = 32 << 20

_seen: dict[tuple[str, str], str] = {}


def cache_folder() -> Path | None:
    """``SERVEBOOK_CACHE`` (empty: no cache), else ``servebook`` in the user's cache folder."""
    chosen = os.environ.get("SERVEBOOK_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "servebook"
    except RuntimeError:  # no home folder
        return None


def stamp(status: os.stat_result) -> str:
    """What changes when a file's content does, as one text."""
    return (
        f"{status.st_dev}.{status.st_ino}.{status.st_size}"
        f".{status.st_mtime_ns}.{status.st_ctime_ns}"
    )


def settled(status: os.stat_result) -> bool:
    """Whether the last change is long enough ago for ``stamp`` to tell the next one."""
    now = time.time_ns()
    return max(status.st_mtime_ns, status.st_ctime_ns) < now - _SETTLED_NS


def remembered_sha256(path: Path) -> str:
    """Hex digest of the file as it lies on disk, read only where no note of it holds.

    Raises OSError where the file cannot be opened.
    """
    with path.open("rb") as stream:
        before = os.fstat(stream.fileno())
        if before.st_size < _LEAST_BYTES:
            return hashlib.file_digest(stream, "sha256").hexdigest()
        key = (os.path.realpath(path), stamp(before))
        known = _seen.get(key) or _noted(*key)
        if known is None:
            known = _arrived(*key) or hashlib.file_digest(stream, "sha256").hexdigest()
            after = os.fstat(stream.fileno())
            if stamp(after) != key[1] or not settled(after):
                return known
            _note(*key, known)
        _seen[key] = known
        return known


def begin(path: Path) -> None:
    """Have a process of its own hash a file that is not remembered, while this one reads it.

    ``remembered_sha256`` waits for it then. Where there can be no process nothing happens.
    """
    try:
        key = (os.path.realpath(path), stamp(path.stat()))
    except OSError:
        return
    if key in _coming or key in _seen or _noted(*key) or not can_fork():
        return
    inlet, outlet = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            with path.open("rb") as stream:
                digest = _of_mapped(stream.fileno())
                if stamp(os.fstat(stream.fileno())) == key[1]:
                    os.write(outlet, digest.encode())
        finally:
            os._exit(0)
    os.close(outlet)
    if pid < 0:
        os.close(inlet)
    else:
        _coming[key] = (os.getpid(), pid, inlet)


def end_of(path: Path) -> Callable[[], object] | None:
    """What waits, here or in a fork of this process, until a file that is hashed beside is done.

    None where no process hashes it.
    """
    try:
        key = (os.path.realpath(path), stamp(path.stat()))
    except OSError:
        return None
    owner, _, inlet = _coming.get(key, (0, 0, 0))
    if owner != os.getpid():
        return None
    waiting = select.poll()
    waiting.register(inlet, select.POLLIN)
    return waiting.poll


def _of_mapped(file: int) -> str:
    """The digest of a file that is not copied for it.

    Only for a process that nobody else needs: where a file shrinks meanwhile, it is killed.
    """
    found = hashlib.sha256()
    size = os.fstat(file).st_size
    for begin in range(0, size, _WINDOW_BYTES):
        n = min(_WINDOW_BYTES, size - begin)
        with mmap.mmap(file, n, access=mmap.ACCESS_READ, offset=begin) as window:
            found.update(window)
    return found.hexdigest()


#: Files that a process hashes: whose child it is, and where its digest comes out.
_coming: dict[tuple[str, str], tuple[int, int, int]] = {}


def _arrived(path: str, mark: str) -> str | None:
    owner, pid, inlet = _coming.pop((path, mark), (0, 0, 0))
    if owner != os.getpid():  # none, or one of the process that this was forked from
        return None
    with os.fdopen(inlet, "rb") as stream:
        digest = stream.read().decode("ascii", "replace")
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    return digest if len(digest) == 64 else None


def is_remembered(path: Path) -> bool:
    """Whether ``remembered_sha256`` would not read the file."""
    try:
        key = (os.path.realpath(path), stamp(path.stat()))
    except OSError:
        return False
    return key in _seen or _noted(*key) is not None


def remember(path: Path, before: os.stat_result, digest: str) -> bool:
    """Note a digest that another machine took; False where the file has changed since ``before``.

    So is a file that was changed so lately that another change would not show.
    """
    try:
        after = path.stat()
    except OSError:
        return False
    if stamp(before) != stamp(after) or not settled(after):
        return False
    key = (os.path.realpath(path), stamp(after))
    _note(*key, digest)
    _seen[key] = digest
    return True


def _place(path: str) -> Path | None:
    folder = cache_folder()
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:40]
    return None if folder is None else folder / FOLDER / name[:2] / name


def _noted(path: str, mark: str) -> str | None:
    place = _place(path)
    try:
        words = [] if place is None else place.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    if len(words) != 3 or words[0] != mark or len(words[1]) != 64:
        return None
    return words[1] if words[2] == _check(path, mark, words[1]) else None


def _check(path: str, mark: str, digest: str) -> str:
    return hashlib.sha256(os.fsencode(f"{path}\0{mark}\0{digest}")).hexdigest()[:16]


def _note(path: str, mark: str, digest: str) -> None:
    if (place := _place(path)) is not None:
        write_whole(place, f"{mark} {digest} {_check(path, mark, digest)}\n".encode())


def write_whole(place: Path, content: bytes) -> None:
    """Write a file of the cache so that it is there whole or not at all; no room is no error."""
    work = None
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, work = tempfile.mkstemp(prefix=".new-", dir=place.parent)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(work).replace(place)
    except OSError:
        if work is not None:
            with contextlib.suppress(OSError):
                Path(work).unlink()
