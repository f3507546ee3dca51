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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["PAD", "SOURCE", "SWITCH", "Found", "Lists", "digest", "library"]

SWITCH = "SERVEBOOK_COMPILED"
SOURCE = Path(__file__).with_suffix(".c")
#: So many bytes behind a block are looked at, whatever they are.
PAD = 64

#: Room for so many lines, and for twice as many where there are more.
_SOME_LINES = 4096
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


class Found(NamedTuple):
    """Lines of a block taken apart; it holds until the next block is.

    Of each line: where it begins and ends in the block, line feed included, and its rest in
    ``rests``, and how many of ``gap_ns`` are its own (0: it has no list). The rest is ASCII without
    escapes, which names the list of gaps once or never, and has null in its place. A line that is
    to be read in another way has -1 gaps, and no rest.
    """

    begins: list[int]
    ends: list[int]
    rest_begins: list[int]
    rest_ends: list[int]
    counts: npt.NDArray[np.int64]
    rests: memoryview
    gap_ns: npt.NDArray[np.int32]

    @property
    def refused(self) -> bool:
        """Whether there is a line to be read in another way."""
        return bool((self.counts < 0).any())

    def gaps(self) -> list[npt.NDArray[np.int32] | None]:
        """The gaps of each line in ns; None where it is to be read in another way."""
        ends = np.cumsum(np.maximum(self.counts, 0))[:-1]
        each = np.split(self.gap_ns, ends) if len(self.counts) else []
        return [None if n < 0 else one for n, one in zip(self.counts, each, strict=True)]


class Lists:
    """Takes blocks of lines apart, in memory that the next block takes again."""

    def __init__(self, functions: Any) -> None:
        self._take = functions.servebook_aiperf_lists
        self._lines = np.empty((_SOME_LINES, 3), np.int64)
        self._rests, self._gaps = np.empty(0, np.uint8), np.empty(0, np.int32)

    def take(self, block: memoryview) -> Found:
        """The lines of a block, which ends with a line feed and has ``PAD`` bytes behind it."""
        if len(block) > len(self._rests):
            self._rests = np.empty(len(block), np.uint8)
            self._gaps = np.empty(len(block) // _LEAST_BYTES + 1, np.int32)
        text = np.frombuffer(block, np.uint8).ctypes.data
        at = end = rest_end = n_gaps = 0
        while end < len(block):
            if at == len(self._lines):
                self._lines = np.concatenate([self._lines, np.empty_like(self._lines)])
            own = self._lines[at:]
            n = self._take(
                *(text + end, len(block) - end, self._rests.ctypes.data + rest_end),
                *(self._gaps.ctypes.data + 4 * n_gaps, len(self._gaps) - n_gaps),
                *(own.ctypes.data, len(own)),
            )
            own[:n, :2] += (end, rest_end)
            n_gaps += int(own[:n, 2].clip(0).sum())
            at += n
            end, rest_end = own[n - 1, :2].tolist()
        ends, rest_ends, counts = self._lines[:at].T
        ends, rest_ends = ends.tolist(), rest_ends.tolist()
        return Found(
            [0, *ends[:-1]], ends, [0, *rest_ends[:-1]], rest_ends,
            counts.copy(), self._rests.data, self._gaps[:n_gaps],
        )  # fmt: skip
