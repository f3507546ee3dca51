"""Files as readers want them: found in a stable order, unpacked, split into lines.

Nothing here knows a dump format. A file that cannot be opened, a link that leaves the tree and a
name that is not UTF-8 are all ordinary cases, told in words and never raised as Python errors.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from servebook.errors import DumpError
from servebook.read.archives import is_archive, unpack
from servebook.read.codecs import DAMAGED, foreign, open_unpacked
from servebook.read.source import File, printable, relative
from servebook.read.sums import remembered_sha256

__all__ = [
    "GONE",
    "HEAD_BYTES",
    "Survey",
    "hidden",
    "lines",
    "loads",
    "most_unpacked",
    "open_bytes",
    "printable",
    "read_text",
    "reading",
    "removed",
    "sha256",
    "survey",
    "too_large",
    "unreadable",
    "walk",
]

HEAD_BYTES = 65_536
#: What opening a file says that is no longer there; the last of a file on a server.
GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
#: A longer line is cut there: no dump format writes one, and reading it whole could fill memory.
MAX_LINE_BYTES = 64 * 1024 * 1024

#: A file that must be taken into memory as a whole may have this much, unpacked.
MAX_TEXT_BYTES = 1 << 30

#: What dumps unpack to is some ten times their size.
_MOST_PACKED = 100

_BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
)


@dataclass(frozen=True)
class Survey:
    """What a walk found: files that can be read, links that are left alone, and refusals."""

    files: list[File] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)


def open_bytes(path: Path) -> BinaryIO:
    """The content of ``path`` as UTF-8 bytes: unpacked by its magic bytes, UTF-16 recoded.

    Raises OSError where the file cannot be opened, and one of ``codecs.DAMAGED`` while reading a
    compressed stream (gzip, zstd, bzip2, xz) that is cut short or damaged.
    """
    stream: BinaryIO = open_unpacked(path) or path.open("rb")
    try:
        start = stream.read(4)
        if stream.seekable():
            stream.seek(0)
            return _as_utf8(stream, start)
        return _as_utf8(_after(path, stream), start)
    except BaseException:
        stream.close()
        raise


def _after(path: Path, stream: BinaryIO) -> BinaryIO:
    """The stream from its beginning again, where it cannot be wound back."""
    stream.close()
    return open_unpacked(path) or path.open("rb")


def _as_utf8(stream: BinaryIO, start: bytes) -> BinaryIO:
    for bom, encoding in _BOMS:
        if start.startswith(bom):
            if encoding == "utf-8-sig":
                stream.read(len(bom))
                return stream
            with stream:
                text = _whole(stream).decode(encoding, "replace")
            return io.BytesIO(text.removeprefix("\ufeff").encode())
    return stream


def _whole(stream: BinaryIO) -> bytes:
    content = stream.read(MAX_TEXT_BYTES + 1)
    if len(content) > MAX_TEXT_BYTES:
        raise too_large()
    return content


def most_unpacked(path: Path) -> int:
    """How much of a file is read in pieces at most: all of a plain one, and of a packed one more
    than any real dump unpacks to.
    """
    return max(MAX_TEXT_BYTES, _MOST_PACKED * path.stat().st_size)


def too_large() -> OSError:
    """What is raised for more than may be taken into memory as a whole."""
    return OSError(
        errno.EFBIG,
        f"more than {MAX_TEXT_BYTES >> 20:,} MiB, the limit for a file that is read as a whole",
    )


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of ``path``, numbered from 1, each without its line end.

    Raises DumpError where the file cannot be opened, and after the last whole line of a
    compressed stream that is cut short.
    """
    number = 0
    try:
        with open_bytes(path) as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                number += 1
                yield number, line.rstrip(b"\r\n")
                while not line.endswith(b"\n") and len(line) == MAX_LINE_BYTES:
                    line = stream.readline(MAX_LINE_BYTES)
    except DAMAGED:
        raise _damaged(path, number + 1) from None
    except OSError as error:
        raise unreadable(path.name, error) from None


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Callable[[], BinaryIO]]:
    """A way to open the unpacked content; what fails in reading it fails as in ``read_text``."""
    try:
        yield partial(open_bytes, path)
    except DAMAGED:
        raise _damaged(path, None) from None
    except OSError as error:
        raise unreadable(path.name, error) from None


def read_text(path: Path) -> str:
    """The whole content of ``path`` as text; bytes that are not UTF-8 become U+FFFD.

    Raises DumpError where the file cannot be opened, holds more than ``MAX_TEXT_BYTES``, or is a
    compressed stream that is cut short.
    """
    try:
        with open_bytes(path) as stream:
            return _whole(stream).decode("utf-8", "replace")
    except DAMAGED:
        raise _damaged(path, None) from None
    except OSError as error:
        raise unreadable(path.name, error) from None


def loads(data: bytes | str) -> Any:
    """One JSON value; raises ValueError, whose text says what is wrong and quotes nothing."""
    if len(data) == MAX_LINE_BYTES:  # only what ``lines`` cut has exactly this length
        raise ValueError(f"a line of more than {MAX_LINE_BYTES >> 20} MiB, the limit")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        column = error.pos
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError(f"no valid JSON (at byte {column})") from None
    raise ValueError("NaN, Infinity or a number out of range, which JSON does not have")


def sha256(path: Path) -> str:
    """Hex digest of the file as it lies on disk (what ``sha256sum`` prints)."""
    return remembered_sha256(path)


def hidden(name: str) -> bool:
    """Whether a relative path is meant to be left alone: a part begins with "_" or "."."""
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def survey(path: Path) -> list[File]:
    """The readable regular files at or below ``path``, sorted by their relative path."""
    return walk(path).files


def walk(path: Path) -> Survey:
    """All files at or below ``path``, with those that cannot be used and why.

    Links to folders are not followed; a link to a file inside the tree is skipped (its target is
    read anyway), one that leaves the tree is refused. Raises DumpError where ``path`` does not
    exist or cannot be read.
    """
    try:
        top = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise DumpError(
            printable(os.fsencode(path).decode("utf-8", "backslashreplace")),
            "a file or folder",
            "nothing there",
            "check the path",
        ) from None
    found = Survey()
    if not top.is_dir():
        _take(found, top, top.parent, top.parent)
        if len(found.files) == 1 and is_archive(found.files[0].head):
            found.files.clear()
            _open_archive(found, top, top.name, "")
        return _sorted(found)
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda e: os.fsencode(e.name))
        except OSError as error:
            _refuse(found, folder, top, f"a folder that cannot be opened: {error.strerror}")
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            else:
                _take(found, Path(entry.path), top, top)
    for file in [f for f in found.files if is_archive(f.head) and not hidden(f.relative)]:
        found.files.remove(file)
        _open_archive(found, file.path, top.name, file.path.relative_to(top).as_posix())
    return _sorted(found)


def _sorted(found: Survey) -> Survey:
    found.files.sort(key=lambda file: os.fsencode(file.path.relative_to(file.root)))
    found.skipped.sort()
    found.refused.sort()
    return found


def _open_archive(found: Survey, path: Path, top: str, below: str) -> None:
    """Take the members of an archive in its place."""
    members = unpack(path, top, below)
    for member in members.files:
        _take(found, member, members.root, members.root)
    found.skipped.extend(members.skipped)
    found.refused.extend(members.refused)


def _take(found: Survey, path: Path, root: Path, inside: Path) -> None:
    try:
        if path.is_symlink():
            target = path.resolve(strict=True)
            if target.is_relative_to(inside):
                found.skipped.append(relative(path, root))
            else:
                _refuse(found, path, root, "a link out of the inspected folder; copy its target in")
            return
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            _refuse(found, path, root, "neither a file nor a folder")
            return
        try:
            with open_bytes(path) as stream:
                head = stream.read(HEAD_BYTES)
        except DAMAGED:
            head = _salvage(path)
        if words := foreign(head):
            _refuse(found, path, root, f"{words}, which is not opened here; unpack it yourself")
            return
    except (OSError, RuntimeError) as error:
        if getattr(error, "errno", None) in GONE and not path.is_symlink():
            _refuse(found, path, root, removed("").reason)
            return
        reason = getattr(error, "strerror", None) or "a link that leads nowhere"
        _refuse(found, path, root, f"cannot be opened: {reason}; check its permissions")
        return
    found.files.append(File(root=root, path=path, head=head, size=status.st_size))


def _salvage(path: Path) -> bytes:
    """What can be unpacked of a compressed stream that is cut within its first bytes."""
    head = b""
    try:
        with open_unpacked(path) or path.open("rb") as stream:
            while len(head) < HEAD_BYTES and (piece := stream.read(1)):
                head += piece
    except DAMAGED:
        pass
    return head


def _refuse(found: Survey, path: Path, root: Path, reason: str) -> None:
    found.refused.append((relative(path, root), reason))


def _damaged(path: Path, line: int | None) -> DumpError:
    return DumpError(
        path.name,
        "a whole compressed stream",
        "one that is cut short or damaged",
        "copy the file again",
        line=line,
    )


def unreadable(where: str, error: OSError) -> DumpError:
    """The refusal of a file that cannot be opened, or not be read to its end."""
    if error.errno in GONE:
        return removed(where)
    way_out = {
        errno.EACCES: "check its permissions",
        errno.EPERM: "check its permissions",
        errno.EFBIG: "split it, or leave the generated texts out",
    }.get(error.errno or 0, "copy the file again")
    return DumpError(where, "a readable file", error.strerror or type(error).__name__, way_out)


def removed(where: str) -> DumpError:
    """The refusal of a file that was there when its folder was looked through."""
    return DumpError(
        where,
        "a file that stays until it is read",
        "that it was removed meanwhile",
        "put it back and read again",
    )
