"""Files for the gaps of large dumps, which go when the last table that needs them is gone.

They lie beside the cache, whose entries then are the same files under a second name, or, without a
cache, where the system keeps temporary files. A folder belongs to the process that made it: its
forks write into it and never remove it, and what a killed process left goes a day later.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
import weakref
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from servebook.gap_table import InFile, InMemory, narrow
from servebook.read.scratch import PREFIX, alive
from servebook.read.sums import cache_folder

__all__ = ["FOLDER", "Spool", "crc32_of", "write"]

FOLDER = "spool"
_LEFT_S = 86_400
_PIECE = 1 << 20
#: More than all that Parquet writes besides the numbers.
_HEADS = 1 << 20
#: Larger memory is given back.
_MOST_ROOM = 64 << 20


class Spool:
    """A folder of its own for as long as this object lives; raises OSError where none can be."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=_place()))
        weakref.finalize(self, _remove, self.folder, os.getpid())
        self._count = 0

    def next(self) -> Path:
        """A path in it that was not given out before."""
        self._count += 1
        return self.folder / f"{self._count:05d}.parquet"


def write(path: Path, data: InMemory, holder: object = None) -> InFile:
    """The same gaps as a Parquet file: gap_ns, and tokens where they are told.

    Numbers as they are, for they hardly repeat: packing them takes longer than reading the dump.
    Raises OSError where there is no room.
    """
    gap_ns = data.gap_ns if data.gap_ns.dtype == np.int32 else narrow(data.gap_ns)
    columns: list[npt.NDArray[np.int64] | npt.NDArray[np.int32]] = [gap_ns]
    kinds = [pa.field("gap_ns", pa.from_numpy_dtype(gap_ns.dtype), nullable=False)]
    if data.tokens is not None:
        columns.append(data.tokens.astype(np.int32, copy=False))
        kinds.append(pa.field("tokens", pa.int32(), nullable=False))
    size = sum(column.nbytes for column in columns) + _HEADS
    room = (
        _rooms.pop() if _rooms and _rooms[-1].size >= size else pa.allocate_buffer(size + size // 4)
    )
    sink = pa.FixedSizeBufferWriter(room)
    pq.write_table(
        pa.table([pa.array(column) for column in columns], schema=pa.schema(kinds)),
        sink,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
        write_batch_size=_PIECE,
    )
    content = memoryview(room)[: sink.tell()]
    with path.open("wb") as stream:
        stream.write(content)
    crc32 = zlib.crc32(content)
    if room.size <= _MOST_ROOM:
        _rooms[:] = [room]
    return InFile(path, crc32, holder)


#: Memory for a file that the next one takes again: fresh memory costs more than copying.
_rooms: list[pa.Buffer] = []


def crc32_of(path: Path) -> int:
    """The CRC-32 of a file, read piece by piece."""
    found = 0
    with path.open("rb") as stream:
        while piece := stream.read(_PIECE):
            found = zlib.crc32(piece, found)
    return found


def _place() -> Path:
    folder = cache_folder()
    if folder is not None:
        place = folder / FOLDER
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:  # no cache, then
            return Path(tempfile.gettempdir())
        if os.access(place, os.W_OK | os.X_OK):
            _sweep(place)
            return place
    return Path(tempfile.gettempdir())


def _sweep(place: Path) -> None:
    # By age too: a process of another machine on shared storage has an id that means nothing here.
    before = time.time() - _LEFT_S
    for left in place.glob(f"{PREFIX}*-*"):
        pid = left.name.split("-")[1]
        with contextlib.suppress(OSError):
            if pid.isdigit() and left.lstat().st_mtime < before and not alive(int(pid)):
                shutil.rmtree(left, ignore_errors=True)


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)
