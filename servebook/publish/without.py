"""Import a package as if others were not installed, whose parts of it a build has no use for.

papermill imports pyarrow to read notebooks from Hadoop, ipykernel a debugger, Altair widgets, and
nbconvert a language of selectors; each does without where it is not there, and each costs a large
part of the start.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

__all__ = ["FORMATS", "without"]

#: What jsonschema looks for to check durations and addresses, which nobody here asks it for.
FORMATS = ("isoduration", "rfc3986_validator")


@contextlib.contextmanager
def without(*names: str) -> Iterator[None]:
    """Let an import of these packages fail inside; those that are imported already stay."""
    modules: dict[str, Any] = sys.modules
    hidden = [name for name in names if name not in modules]
    modules |= dict.fromkeys(hidden)  # None there means: not to be found
    try:
        yield
    finally:
        for name in hidden:
            del modules[name]
