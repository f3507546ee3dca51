"""One large file read on a Dask cluster in ranges of lines, each by one worker.

The ranges are those in which processes of one machine read it (``aiperf_split``), and the pieces
are joined here, so the result is that of any other way. A range that no worker could read is left
to this machine, which then tells why.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from servebook.gap_table import InMemory
from servebook.read.aiperf_piece import Piece
from servebook.read.aiperf_summary import Settings
from servebook.read.archives import unpacked_here
from servebook.read.cluster import Call, outcomes, scheduler
from servebook.read.cluster_worker import NotHereError
from servebook.read.remote import origin
from servebook.read.source import printable
from servebook.read.spool import write

__all__ = ["in_ranges", "keep_piece", "range_there", "seen_by_all"]


def seen_by_all(path: Path) -> bool:
    """Whether a cluster was asked for, and the file is not one that only this machine can have."""
    return bool(scheduler()) and not unpacked_here(path) and origin([path]) is None


def in_ranges(
    path: Path,
    cuts: Sequence[tuple[int, int]],
    places: Sequence[Path],
    settings: Settings,
    with_sent: bool,
) -> None:
    """Have the cluster leave the pickled piece of each range in its place, gaps in files beside.

    Raises ServebookError where the cluster, or what its workers see, is not as it must be.
    """
    status = path.stat()
    seen = (path, status.st_size, status.st_mtime_ns)
    calls = [
        Call(
            f"{__name__}:range_there",
            (*seen, *cut, settings, with_sent),
            f"{__name__}:keep_piece",
            (place,),
        )
        for cut, place in zip(cuts, places, strict=True)
    ]
    for _ in outcomes(calls):
        pass


def range_there(
    path: Path,
    size: int,
    mtime_ns: int,
    start: int,
    end: int,
    settings: Settings,
    with_sent: bool,
) -> Piece:
    """On a worker: the piece of one range, with its gaps; NotHereError for another file."""
    from servebook.read.aiperf_split import read_range

    def seen() -> tuple[int, int] | None:
        with suppress(OSError):
            status = path.stat()
            return status.st_size, status.st_mtime_ns
        return None

    if seen() != (size, mtime_ns):
        raise NotHereError(
            f"expected the file {printable(path.name)} of {size:,} bytes at {printable(str(path))} "
            "on every worker, found none or another one; put dumps and cache on storage that all "
            "machines mount at the same path"
        )
    return read_range(path, start, end, settings, None, with_sent)


def keep_piece(piece: Piece, place: Path) -> None:
    """Beside the caller: put a piece in its place, and its gaps into files; no room is no error."""
    with suppress(OSError):
        parts: list[Any] = []
        for number, (data, upto) in enumerate(piece.parts):
            if isinstance(data, InMemory):
                data = write(place.with_name(f"{place.stem}-{number:03d}.parquet"), data)
            parts.append((data, upto))
        work = place.with_suffix(".part")
        work.write_bytes(pickle.dumps(replace(piece, parts=parts)))
        work.replace(place)
