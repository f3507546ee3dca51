"""The environment of a build's processes: what may change a number or a drawing is the same.

Imports nothing else, because the process that draws needs it and little besides.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["BUILD_VARIABLE", "FIXED", "environment", "seldom_collected"]

#: Tells a kernel that it runs a notebook for a page.
BUILD_VARIABLE = "SERVEBOOK_BUILD"

FIXED: Mapping[str, str] = {
    BUILD_VARIABLE: "1",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "COLUMNS": "120",
    "LINES": "40",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # a line of talk on stderr, of no use here
}


def environment(home: Path) -> dict[str, str]:
    """The environment of a build's processes; ``home`` takes the place of the IPython profile."""
    return {**os.environ, **FIXED, "IPYTHONDIR": str(home)}


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """Have Python look for unused cycles seldom: a tenth of the time of imports is spent on it.

    Processes that are forked inside inherit it.
    """
    usual = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)  # new objects, then how often among the older ones
    try:
        yield
    finally:
        gc.set_threshold(*usual)
