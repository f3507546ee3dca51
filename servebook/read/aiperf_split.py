"""The records of one AIPerf file, by several processes where that pays, by one otherwise.

A large plain file is cut into ranges of lines; forked processes read them into files of a spool
folder, together with its checksum, which takes as long as a fifth of the reading. What a process
left undone this one does itself. Where the user names a cluster, its workers read the ranges.
Compressed files are one range.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import FileIO
from pathlib import Path

import pyarrow as pa

from servebook.read.ahead import as_done
from servebook.read.aiperf_join import join
from servebook.read.aiperf_piece import Piece, read_piece
from servebook.read.aiperf_records import Parsed
from servebook.read.aiperf_summary import Settings
from servebook.read.cluster_ranges import in_ranges, seen_by_all
from servebook.read.codecs import DAMAGED
from servebook.read.files import lines, unreadable
from servebook.read.line_blocks import blocks_between, mapped_between, ranges
from servebook.read.records import Requests
from servebook.read.spool import Spool
from servebook.read.sums import end_of

__all__ = ["read_lines", "read_range"]

#: From this size on a file is worth a folder for its gaps, and processes.
_LARGE_BYTES = 32 << 20
#: Of a file that is not cut at bytes so much is one piece.
_PIECE_BYTES = 64 << 20


def read_lines(path: Path, out: Requests, settings: Settings, *, with_sent: bool = False) -> Parsed:
    """Add the requests of all record lines to ``out``; what the lines held besides."""
    cuts = _ranges(path)
    spool = _spool(path)
    folder = None if spool is None else spool.folder
    if not cuts:
        return join(_in_turn(path, settings, folder, with_sent), out, spool)
    jobs = [partial(read_range, path, *cut, settings, folder, with_sent) for cut in cuts]
    done: Iterator[int] = iter(())
    if folder is not None and len(jobs) > 1 and seen_by_all(path):
        places = [_place(folder, n) for n in range(len(jobs))]
        in_ranges(path, cuts, places, settings, with_sent)
    elif folder is not None and len(jobs) > 1:
        pa.array([0])  # looks for pandas once in the life of a process: here, not in each
        done = as_done(
            [
                partial(_leave, partial(job, way=mapped_between), _place(folder, n))
                for n, job in enumerate(jobs)
            ],
            end_of(path),
        )
    return join(_in_order(jobs, done, folder), out, spool)


def _in_order(
    jobs: Sequence[partial[Piece]], done: Iterator[int], folder: Path | None
) -> Iterator[Piece]:
    """The pieces in the order of the file, each as soon as it is there."""
    there: set[int] = set()
    for n, job in enumerate(jobs):
        while n not in there and (number := next(done, None)) is not None:
            there.add(number)
        yield _taken(None if folder is None else _place(folder, n)) or job()
    for _ in done:  # the processes end
        pass


def _in_turn(
    path: Path, settings: Settings, folder: Path | None, with_sent: bool
) -> Iterator[Piece]:
    """The pieces of a file that cannot be cut at bytes, at least one."""
    each = (line for _, line in lines(path))
    for number in itertools.count():
        piece = read_piece(_some(each), settings, folder, f"all-{number:05d}", with_sent=with_sent)
        if number and not piece.n_lines and not piece.set_aside:
            return
        yield piece


def _some(each: Iterator[bytes]) -> Iterator[bytes]:
    left = _PIECE_BYTES
    while left > 0 and (line := next(each, None)) is not None:
        left -= len(line) + 1
        yield line


def read_range(
    path: Path,
    start: int,
    end: int,
    settings: Settings,
    folder: Path | None = None,
    with_sent: bool = False,
    way: Callable[[FileIO, int, int], Iterator[memoryview]] = blocks_between,
) -> Piece:
    """The piece of the lines that begin from one byte to another; its gaps in ``folder``.

    ``way``: how ``line_blocks`` comes at them.
    """
    lines = _between(path, start, end, way)
    return read_piece(lines, settings, folder, f"{start:016x}", with_sent=with_sent)


def _between(
    path: Path,
    start: int,
    end: int,
    way: Callable[[FileIO, int, int], Iterator[memoryview]],
) -> Iterator[memoryview]:
    try:
        with path.open("rb", buffering=0) as stream:
            yield from way(stream, start, end)
    except OSError as error:
        raise unreadable(path.name, error) from None


def _ranges(path: Path) -> list[tuple[int, int]]:
    try:
        return ranges(path)
    except (OSError, *DAMAGED):
        return []  # ``lines`` says what is wrong


def _spool(path: Path) -> Spool | None:
    try:
        return Spool() if path.stat().st_size >= _LARGE_BYTES else None
    except OSError:  # no room for files: gaps stay in memory
        return None


def _place(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.piece"


def _leave(job: partial[Piece], place: Path) -> None:
    work = place.with_suffix(".part")
    work.write_bytes(pickle.dumps(job()))
    work.replace(place)


def _taken(place: Path | None) -> Piece | None:
    """The piece that a process of ours left there."""
    if place is None:
        return None
    with contextlib.suppress(OSError):
        content = place.read_bytes()
        place.unlink()
        piece: Piece = pickle.loads(content)
        return piece
    return None
