"""Lines of AIPerf by the compiled library and without it, for tests of both."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import pytest

from servebook.read.aiperf_lists import PAD, library

__all__ = ["block_of", "needs_library"]

_COMPILERS = ("cc", "gcc", "clang")
#: What lies behind a block by chance: a list that seems to go on.
_BEHIND = b"1.5,2.5],"


def needs_library() -> Any:
    """The compiled functions; the test is skipped only where no compiler could make them."""
    found = library()
    if found is None and not any(map(shutil.which, _COMPILERS)):
        pytest.skip(f"no C compiler ({', '.join(_COMPILERS)}): nothing was compiled")
    assert found is not None, "the compiled part is missing or older than its source: make venv"
    return found


def block_of(lines: Sequence[bytes], ending: bytes = b"\n") -> memoryview:
    """The lines as ``line_blocks`` hands them over."""
    text = b"".join(line + ending for line in lines)
    return memoryview(bytearray(text + (_BEHIND * PAD)[:PAD]))[: len(text)]
