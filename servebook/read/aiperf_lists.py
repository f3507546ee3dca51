"""Record lines of AIPerf taken apart by compiled code, where it is there: list of gaps, and rest.

Own code in C (``aiperf_lists.c``): of the libraries that read JSON simdjson is the fastest with a
list of decimals, and it takes three times as long to make floats of them as this takes to make
whole ns, which is what tables hold (``benchmarks/README.md``). It is compiled when Servebook is
installed (``hatch_build.py``), to a library whose name tells of which source. Without a compiler,
or with ``SERVEBOOK_COMPILED=0``, simdjson reads the lists; both ways give the same numbers.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["PAD", "SOURCE", "SWITCH", "Lists", "digest", "library"]

SWITCH = "SERVEBOOK_COMPILED"
SOURCE = Path(__file__).with_suffix(".c")
#: So many bytes behind a block are looked at, whatever they are.
PAD = 64

_MOST_LINES = 4096
#: A number and its comma take no less.
_LEAST_BYTES = 4


def digest(content: bytes) -> str:
    """Part of a checksum, as it stands in names of libraries."""
    return hashlib.sha256(content).hexdigest()[:16]


def library() -> Any:
    """The compiled functions; None where they are switched off, missing or of another source."""
    return None if os.environ.get(SWITCH) == "0" else _loaded(SOURCE)


@functools.cache
def _loaded(source: Path) -> Any:
    try:
        name = f"lib{source.stem}-{digest(source.read_bytes())}-"
        for path in sorted(source.parent.glob(f"{name}*.so")):
            # A library that was cut short would end the process that loads it.
            if path.name == f"{name}{digest(path.read_bytes())}.so":
                return _declared(ctypes.CDLL(str(path)))
    except (OSError, AttributeError):
        pass
    return None


def _declared(functions: Any) -> Any:
    number, place = ctypes.c_int64, ctypes.c_void_p
    take = functions.servebook_aiperf_lists
    take.argtypes = [place, number, place, place, number, place, number]
    take.restype = number
    return functions


class Lists:
    """Takes blocks of lines apart, in memory that the next block takes again."""

    def __init__(self, functions: Any) -> None:
        self._take = functions.servebook_aiperf_lists
        self._room = 0
        self._lines = np.empty((_MOST_LINES, 3), np.int64)

    def take(
        self, block: memoryview
    ) -> Iterator[tuple[memoryview, memoryview | None, npt.NDArray[np.int32] | None]]:
        """Each line with its line feed, its rest and its gaps in ns (None: it has no list).

        The rest is that of JSON in ASCII without escapes, which names the list of gaps once or
        never, and has null in its place; None for a line that is to be read in another way. The
        block ends with a line feed, and ``PAD`` bytes follow it in memory.
        """
        if len(block) > self._room:
            self._room = len(block)
            self._rests = np.empty(self._room, np.uint8)
            self._gaps = np.empty(self._room // _LEAST_BYTES + 1, np.int32)
        text = np.frombuffer(block, np.uint8).ctypes.data
        rests, gaps = self._rests.ctypes.data, self._gaps.ctypes.data
        rest_of = self._rests.data
        begin = rest_begin = done = 0  # done: gaps
        while begin < len(block):
            n = self._take(
                *(text + begin, len(block) - begin, rests + rest_begin, gaps + 4 * done),
                *(len(self._gaps) - done, self._lines.ctypes.data, len(self._lines)),
            )
            found = self._lines[:n] + np.array([begin, rest_begin, 0])
            for end, rest_end, count in found.tolist():
                line = block[begin:end]
                begin = end
                if count < 0:
                    yield line, None, None
                    continue
                own = self._gaps[done : done + count] if count else None
                yield line, rest_of[rest_begin:rest_end], own
                done += count
                rest_begin = rest_end
