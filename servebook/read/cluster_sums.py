"""Checksums of big files taken on a Dask cluster, and remembered here as if taken here.

A key of the cache needs the sha256 of every file, so without this one machine would read all that
the others are there to read. A worker takes part only where it sees the same file: the same size
and time of change at the same path.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from servebook.read.cluster import Call, outcomes, scheduler
from servebook.read.sums import is_remembered, remember

__all__ = ["hash_ahead", "sum_there"]

#: A smaller file is hashed sooner than a task is sent.
_LEAST_BYTES = 64 << 20


def hash_ahead(places: Iterable[Path]) -> int:
    """Have the cluster hash the big files at or below ``places`` that no note here tells of.

    How many notes were made. Raises ServebookError where the cluster cannot be reached.
    """
    if not scheduler():
        return 0
    asked = [
        (path, status)
        for place in places
        for path in _files(place)
        if (status := _plain(path)) and status.st_size >= _LEAST_BYTES and not is_remembered(path)
    ]
    calls = [
        Call(f"{__name__}:sum_there", (str(path.resolve()), status.st_size, status.st_mtime_ns))
        for path, status in asked
    ]
    if not calls:
        return 0
    noted = 0
    with tqdm(
        total=len(calls), desc="hashing", unit="file", disable=None, leave=False, delay=1
    ) as bar:
        for index, digest in outcomes(calls):
            if isinstance(digest, str):
                noted += remember(*asked[index], digest)
            bar.update()
    return noted


def sum_there(name: str, size: int, mtime_ns: int) -> str | None:
    """On a worker: the sha256 of the file, or None where it is not the file that was meant."""
    try:
        with Path(name).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            status = os.fstat(stream.fileno())
    except OSError:
        return None
    return digest if (status.st_size, status.st_mtime_ns) == (size, mtime_ns) else None


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    for folder, _, names in os.walk(place):
        yield from (Path(folder) / name for name in sorted(names))


def _plain(path: Path) -> os.stat_result | None:
    try:
        status = path.stat()
    except OSError:  # a link that leads nowhere
        return None
    return status if stat.S_ISREG(status.st_mode) else None
