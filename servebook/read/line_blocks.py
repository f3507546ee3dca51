"""The lines of a file as fast as Python finds them, also from one byte to another.

A line belongs to the range in which it begins, so that ranges that cover a file cover its lines.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator
from io import FileIO
from itertools import pairwise
from pathlib import Path

from servebook.read import files
from servebook.read.codecs import open_unpacked

__all__ = ["PAD", "RANGE_BYTES", "bare", "blocks_between", "lines_of", "mapped_between", "ranges"]

#: What is read at once stays in the processor's cache.
_BLOCK = 1 << 21
#: And so many times as much of what is not copied, for each block costs something.
_UNCOPIED = 4
#: Room for the line that begins before what is read; more is taken where it is longer.
_LONG = 1 << 17
#: So many bytes can be read behind a block.
PAD = 64
#: Least and most of a file that are one range, and how many ranges it should become.
RANGE_BYTES = (8 << 20, 64 << 20)
_RANGES = 16
#: From so many of them on before the end they become shorter.
_AT_END = 4


def ranges(path: Path) -> list[tuple[int, int]]:
    """Byte ranges that cover a file, by its size alone; none where it cannot be cut at bytes.

    Raises OSError where the file cannot be opened, and what ``files.open_bytes`` raises.
    """
    if not _plain(path):
        return []
    size = path.stat().st_size
    least, most = RANGE_BYTES
    step = min(max(size // _RANGES, least), most)
    edges = [0]
    while edges[-1] < size:
        left = size - edges[-1]
        # Ever shorter at the end, so that whoever reads them end together.
        own = min(step, max(left // _AT_END, least))
        edges.append(size if left < own + own // 2 else edges[-1] + own)
    return list(pairwise(edges)) or [(0, size)]


def _plain(path: Path) -> bool:
    """Whether the file's bytes are its text: not compressed, not recoded, no mark before it."""
    unpacked = open_unpacked(path)
    if unpacked is not None:
        unpacked.close()
        return False
    with files.open_bytes(path) as stream:
        return stream.seekable() and stream.tell() == 0 and hasattr(stream, "raw")


def blocks_between(stream: FileIO, start: int, end: int) -> Iterator[memoryview]:
    """The lines that begin at or after ``start`` and before ``end``, some at a time.

    Every block is whole lines with their line feeds (the file's last line gets one where it has
    none), holds until the next one is asked for, and has ``PAD`` bytes behind it. ``stream`` has no
    buffer of its own. A line of more than ``files.MAX_LINE_BYTES`` is cut there.
    """
    most = files.MAX_LINE_BYTES
    block = _rooms.pop() if _rooms else bytearray(_BLOCK + _LONG)
    offset = stream.seek(max(start - 1, 0))  # of the block
    kept = 0  # bytes of a line that goes on
    skip = start > 0  # the rest of a line that is not wanted
    try:
        while True:
            if len(block) < kept + _BLOCK + 1 + PAD:  # of a line feed, too
                block = block[:kept].ljust(2 * kept + _BLOCK + 1 + PAD)
            view = memoryview(block)
            size = kept + stream.readinto(view[kept : kept + _BLOCK])
            if size == kept:
                break
            begin = stop = 0
            if skip:
                begin = block.find(b"\n", 0, size) + 1
                skip = not begin
                if not skip and offset + begin >= end:
                    return
            if not skip:
                last = end - 1 - offset  # the line of this byte is the last
                if last < size:
                    stop = block.find(b"\n", max(last, begin), size) + 1
                is_last = stop > 0
                stop = stop or max(begin, block.rfind(b"\n", begin, size) + 1)
                if stop > begin:
                    yield view[begin:stop]
                if is_last:
                    return
            kept = 0 if skip else size - stop
            offset += size - kept
            block[:kept] = block[size - kept : size]
            if kept >= most:
                block[most] = ord("\n")
                yield view[: most + 1]
                offset += kept
                skip, kept = True, 0
        if kept:
            block[kept] = ord("\n")
            yield view[: kept + 1]
    finally:
        if len(block) <= _BLOCK + _LONG:
            _rooms[:] = [block]


def mapped_between(stream: FileIO, start: int, end: int) -> Iterator[memoryview]:
    """The blocks of ``blocks_between``, most of them where the file lies, without a copy.

    Only for a process that another can do without: where the file shrinks meanwhile, it is killed.
    """
    base = max(start - 1, 0) // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    size = min(end + _LONG, os.fstat(stream.fileno()).st_size) - base
    begin = 0
    window = None
    if size > PAD:
        with contextlib.suppress(OSError, ValueError):  # a file system that cannot do it
            window = mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ, offset=base)
    if window is not None:
        view = memoryview(window)
        safe, last = size - PAD, end - 1 - base
        most = _UNCOPIED * _BLOCK
        begin = window.find(b"\n", start - 1 - base) + 1 if start else 0
        while begin <= last and (begin or not start):
            stop = 0
            if last < begin + most:
                stop = window.find(b"\n", max(last, begin), safe) + 1
            stop = stop or window.rfind(b"\n", begin, min(begin + most, safe)) + 1
            if not stop:
                break  # a long line, or the file's last ones
            yield view[begin:stop]
            begin = stop
    if base + begin < end:
        yield from blocks_between(stream, max(base + begin, start), end)


#: Room for a block, which the next range takes again: fresh memory costs more than reading.
_rooms: list[bytearray] = []


def lines_of(block: memoryview) -> list[bytes]:
    """The lines of a block without their line ends."""
    return [bare(line) for line in bytes(block[:-1]).split(b"\n")]


def bare(line: bytes) -> bytes:
    """A line without its line end, of at most ``files.MAX_LINE_BYTES``."""
    line = line if len(line) < files.MAX_LINE_BYTES else line[: files.MAX_LINE_BYTES]
    return line.rstrip(b"\r\n") if line.endswith((b"\r", b"\n")) else line
