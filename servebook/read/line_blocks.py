"""The lines of a file as fast as Python finds them, also from one byte to another.

A line belongs to the range in which it begins, so that ranges that cover a file cover its lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import FileIO
from itertools import pairwise
from pathlib import Path

from servebook.read import files
from servebook.read.codecs import open_unpacked

__all__ = ["RANGE_BYTES", "lines_between", "ranges"]

#: What is looked through at once stays in the processor's cache.
_BLOCK = 1 << 18
#: Least and most of a file that are one range, and how many ranges it should become.
RANGE_BYTES = (8 << 20, 64 << 20)
_RANGES = 32
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


def lines_between(stream: FileIO, start: int, end: int) -> Iterator[bytes]:
    """The lines that begin at or after ``start`` and before ``end``, without their line ends.

    ``stream`` has no buffer of its own. A line of more than ``files.MAX_LINE_BYTES`` is cut there.
    """
    most = files.MAX_LINE_BYTES
    # One piece of memory for all that is read: fresh memory costs more than reading.
    block = bytearray(_BLOCK)
    view = memoryview(block)
    offset = stream.seek(start - 1) if start else 0  # of the block
    skip = start > 0  # the rest of a line that began before
    rest = bytearray()
    while n := stream.readinto(block):
        begin = 0
        while (stop := block.find(b"\n", begin, n)) >= 0:
            if not skip:
                line = bytes(view[begin:stop])
                yield _bare(bytes(rest) + line if rest else line, most)
            skip = False
            rest.clear()
            begin = stop + 1
            if offset + begin >= end:
                return
        if not skip and len(rest) < most:
            rest += view[begin:n]
        offset += n
    if rest:
        yield _bare(bytes(rest), most)


def _bare(line: bytes, most: int) -> bytes:
    line = line if len(line) < most else line[:most]
    return line.rstrip(b"\r\n") if line.endswith((b"\r", b"\n")) else line
