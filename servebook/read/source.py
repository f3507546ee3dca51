"""What a reader is: the seam between finding files and parsing them.

``find`` looks at file heads (content decides, not names) and groups the files of one tree that
belong together into sources; ``read`` turns one source into canonical tables. A registry entry is
one line in ``servebook/read/registry.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from servebook.read.definition import Definition
from servebook.tables import Tables

__all__ = ["File", "Format", "Source", "printable", "reading_fault", "relative"]


#: What a reader may raise by a fault of its own. Tests empty it, so that faults come to light.
FAULTS: tuple[type[Exception], ...] = (Exception,)


def reading_fault(error: Exception) -> str:
    """The refusal of a dump at which a reader itself failed: where in our code, never content."""
    place = "an unknown place"
    if trace := error.__traceback__:
        while trace.tb_next:
            trace = trace.tb_next
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return (
        f"could not be read by a fault of Servebook ({type(error).__name__} in {place}); "
        "the other dumps are read; please report it"
    )


def printable(text: str) -> str:
    """``text`` without what would steer a terminal, turn a line round or fit into no table."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def relative(path: Path, root: Path) -> str:
    """``path`` below ``root``, "/" separated, as text that can always be printed and stored."""
    name = os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "backslashreplace")
    # Escaped, not replaced: two names stay two names.
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)


@dataclass(frozen=True)
class File:
    """One file of the inspected tree: its place and its first bytes, unpacked if compressed."""

    root: Path  # the inspected root (the parent folder when one file is inspected)
    path: Path  # absolute
    head: bytes  # first 64 KiB of the unpacked content
    size: int

    @property
    def relative(self) -> str:
        """Path below the root, "/" separated; bytes that are not UTF-8 in hex."""
        return relative(self.path, self.root)


@dataclass(frozen=True)
class Source:
    """The files that together are one dump, and the file that names it."""

    format: str
    root: Path
    main: Path
    files: tuple[Path, ...] = ()  # all files that this source accounts for, main included
    options: dict[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Format:
    """A reader: ``kind`` is "runs", "counters" or "engine".

    ``find(files)`` returns the sources among the files (those it does not claim stay for the
    formats after it); ``read(source)`` returns their tables and raises DumpError for a dump that
    cannot be used at all. ``definitions`` are those of the client's figures that are its own, by
    the code that ``read`` writes into ``_definition`` of ``runs.native``.
    """

    name: str
    kind: str
    find: Callable[[Sequence[File]], list[Source]]
    read: Callable[[Source], Tables]
    definitions: Mapping[str, Definition] = field(default_factory=dict, hash=False)
