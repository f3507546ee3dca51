"""Compressed files as plain streams: gzip, bzip2, xz and zstd, told by their first bytes.

The standard library unpacks the first three, Arrow (already here for the tables) the fourth.
Every stream is read piece by piece; what is cut short or damaged raises one of ``DAMAGED``.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

__all__ = ["DAMAGED", "SUFFIXES", "codec", "foreign", "open_unpacked"]

#: What reading a stream raises that is cut short or damaged.
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError)

#: The usual ends of compressed files' names; content decides, names are only shortened by them.
SUFFIXES = (".gz", ".zst", ".bz2", ".xz")

_PIECE = 1 << 18
#: xz may ask for a dictionary of 4 GiB; its highest preset needs 65 MiB.
_XZ_MEMORY = 256 << 20

#: Packed forms that nothing here opens.
_FOREIGN = (
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x04\x22\x4d\x18", "an LZ4 file"),
    (b"\x1f\x9d", "a file of the old compress"),
)


def foreign(start: bytes) -> str | None:
    """What a packed file is that cannot be opened here, in words; None for any other file."""
    return next((words for magic, words in _FOREIGN if start.startswith(magic)), None)


def codec(start: bytes) -> str | None:
    """The compression that a file's first ten bytes name; None where it is not compressed."""
    if start.startswith(b"\x1f\x8b"):
        return "gzip"
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    # After "BZh" and a digit comes the mark of a block, or that of the end.
    if start[:3] == b"BZh" and start[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bzip2"
    return "xz" if start.startswith(b"\xfd7zXZ\x00") else None


def open_unpacked(path: Path) -> BinaryIO | None:
    """The unpacked content of a compressed file; None where it is not compressed."""
    stream = path.open("rb")
    try:
        start = stream.read(10)
        stream.seek(0)
        kind = codec(start)
    except BaseException:
        stream.close()
        raise
    if kind == "gzip":
        stream.close()
        return cast("BinaryIO", gzip.GzipFile(path))
    if kind == "zstd":
        return cast("BinaryIO", Unpacking(_Packed(stream, _Zstd(stream).piece), _PIECE))
    if kind is not None:
        new: Callable[[], Any] = bz2.BZ2Decompressor if kind == "bzip2" else _xz
        return cast("BinaryIO", Unpacking(_Packed(stream, _Blocks(stream, new).piece), _PIECE))
    stream.close()
    return None


def _xz() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


class Unpacking(io.BufferedReader):
    """A stream that is unpacked while it is read; it cannot be wound back."""


class _Packed(io.RawIOBase):
    """What ``piece`` unpacks of a stream, which it owns: up to so many bytes, none at the end."""

    def __init__(self, stream: BinaryIO, piece: Callable[[int], bytes]) -> None:
        self.stream, self.piece = stream, piece

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.stream.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        piece = self.piece(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


class _Zstd:
    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.unpacker = pa.CompressedInputStream(stream, "zstd")
        self.at, self.broken = 0, False

    def piece(self, size: int) -> bytes:
        if self.broken:
            raise EOFError("cut short or damaged")
        try:
            out = cast("bytes", self.unpacker.read(size))
        except OSError:
            out, self.broken = self._last(), True
            if not out:
                raise EOFError("cut short or damaged") from None
        self.at += len(out)
        return out

    def _last(self) -> bytes:
        """What comes before the damage: Arrow drops it, so it is read again byte by byte."""
        self.stream.seek(0)
        again = pa.CompressedInputStream(self.stream, "zstd")
        out = bytearray()
        try:
            left = self.at
            while left:
                left -= len(again.read(min(left, _PIECE)))
            while byte := again.read(1):
                out += byte
        except OSError:
            pass
        return bytes(out)


class _Blocks:
    """bzip2 or xz, with any number of streams one after another."""

    def __init__(self, stream: BinaryIO, new: Callable[[], Any]) -> None:
        self.stream = stream
        self.new, self.unpacker, self.began = new, new(), False

    def piece(self, size: int) -> bytes:
        while True:
            if self.unpacker.eof:
                rest = self.unpacker.unused_data or self.stream.read(_PIECE)
                rest = rest.lstrip(b"\0") if self.began else rest  # xz pads between streams
                if not rest:
                    return b""
                self.unpacker, packed = self.new(), rest
            elif self.unpacker.needs_input:
                packed = self.stream.read(_PIECE)
                if not packed:
                    raise EOFError("cut short")
            else:
                packed = b""
            self.began = True
            try:
                out = cast("bytes", self.unpacker.decompress(packed, size))
            except (OSError, lzma.LZMAError) as error:
                raise EOFError(str(error)) from None
            if out:
                return out
