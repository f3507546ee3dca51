"""The members of a tar or zip archive, one after another, as one kind of thing.

``tarfile`` and ``zipfile`` read the archives. What they cannot, or what no dump is (encrypted
members, devices), becomes a member with a refusal. Names stay as they are in the archive.
"""

from __future__ import annotations

import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

__all__ = ["DAMAGED_ARCHIVE", "Member", "is_tar", "is_zip", "members"]

#: What the two libraries raise for archives that are damaged, or made to be.
DAMAGED_ARCHIVE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,  # UnicodeDecodeError too
    KeyError,
    IndexError,
    OverflowError,
    RecursionError,
    NotImplementedError,
)

#: No header is longer; one that says so would fill the memory.
_MAX_READ = 16 << 20
_MAX_DIRECTORY = 64 << 20


@dataclass(frozen=True)
class Member:
    """A file (``open``), a link (``link``) or what is refused (``refusal``); folders are none."""

    name: str
    open: Callable[[], BinaryIO]
    link: str | None = None
    symbolic: bool = False
    refusal: str | None = None
    last_if_damaged: bool = False  # nothing can follow a damaged one


def is_zip(start: bytes) -> bool:
    """Whether a file that begins so is a zip archive, and no document that is one inside."""
    if not start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return False
    name = start[30:].lstrip()
    return not name.startswith((b"[Content_Types].xml", b"_rels/", b"mimetype", b"docProps/"))


def is_tar(start: bytes) -> bool:
    """Whether a file that begins so is a tar archive: the check sum of its first header holds."""
    if len(start) < tarfile.BLOCKSIZE:
        return False
    try:
        tarfile.TarInfo.frombuf(start[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError):
        return False
    return True


def members(path: Path) -> Iterator[Member]:
    """The members of an archive without outer compression, in its order.

    Raises one of ``DAMAGED_ARCHIVE`` where it is damaged, after the members before the damage.
    """
    with path.open("rb") as stream:
        start = stream.read(4)
    return _zip(path) if start.startswith(b"PK") else _tar(path)


class _Bounded(io.FileIO):
    """A file of which no single read takes more than ``_MAX_READ``."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _MAX_READ:
            raise tarfile.ReadError("a header that is too long")
        return super().read(size) or b""


def _tar(path: Path) -> Iterator[Member]:
    with (
        _Bounded(path) as raw,
        tarfile.open(fileobj=cast("BinaryIO", raw), mode="r:", errors="surrogateescape") as archive,
    ):
        while (info := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # else it keeps all of them
            if not info.isdir():
                yield _of_tar(archive, info)
        # The library takes any damaged header for the end; the true end is nothing but zeros.
        raw.seek(archive.offset)
        rest = raw.read(_MAX_READ)
        if not rest:
            raise tarfile.ReadError("no end mark")
        while rest:
            if rest.strip(b"\0"):
                raise tarfile.ReadError("no header where one must be")
            rest = raw.read(_MAX_READ)


def _of_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Member:
    def opened() -> BinaryIO:
        stream = archive.extractfile(info)
        if stream is None:
            raise tarfile.ReadError("no content")
        return cast("BinaryIO", stream)

    if info.issym() or info.islnk():
        return Member(info.name, opened, link=info.linkname, symbolic=info.issym())
    if not info.isfile():
        return Member(info.name, opened, refusal="neither a file nor a folder")
    return Member(info.name, opened, last_if_damaged=True)


def _zip(path: Path) -> Iterator[Member]:
    _check_directory(path)
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                yield _of_zip(archive, info)


def _of_zip(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    name = info.filename.replace("\\", "/")  # written so on Windows by some programs

    def opened() -> BinaryIO:
        return cast("BinaryIO", archive.open(info))

    mode = info.external_attr >> 16
    if stat.S_ISLNK(mode):
        with archive.open(info) as stream:
            target = os.fsdecode(stream.read(4096))
        return Member(name, opened, link=target, symbolic=True)
    if info.flag_bits & 1:
        return Member(name, opened, refusal="encrypted; unpack it with its password")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return Member(name, opened, refusal="neither a file nor a folder")
    if info.compress_type not in _METHODS:
        method = f"compressed by zip's method {info.compress_type}, which is not read; "
        return Member(name, opened, refusal=method + "unpack it yourself")
    return Member(name, opened)


_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def _check_directory(path: Path) -> None:
    """Raises BadZipFile where the list of members is too long to be taken into memory."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        stream.seek(max(0, size - 65_557))
        tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        raise zipfile.BadZipFile("no list of members at its end")
    length = struct.unpack_from("<L", tail, at + 12)[0]
    if length == 0xFFFFFFFF:
        locator = tail.rfind(b"PK\x06\x06", 0, at)
        length = struct.unpack_from("<Q", tail, locator + 40)[0] if locator >= 0 else 0
    if length > _MAX_DIRECTORY:
        raise zipfile.BadZipFile("a list of members that is too long")
