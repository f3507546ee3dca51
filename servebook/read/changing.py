"""A source whose files change while it is read: one reason for what goes, once more for the rest.

What a reader makes of a file that is removed under it depends on how far it was: a file without
records, a line that is torn, as many reasons as it has ranges. None of them is what happened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from servebook.errors import DumpError
from servebook.read.files import GONE, removed, unreadable
from servebook.read.source import Source, relative
from servebook.read.sums import stamp

__all__ = ["files_of", "stamps", "while_it_stays"]

Found = TypeVar("Found")


def files_of(source: Source) -> list[Path]:
    """Every file of the source once, sorted."""
    return sorted({source.main, *source.files})


def stamps(source: Source) -> list[str]:
    """What changes when the content of one of the source's files does."""
    found = []
    for path in files_of(source):
        try:
            found.append(stamp(path.stat()))
        except OSError as error:
            found.append(str(error.errno))
    return found


def while_it_stays(source: Source, read: Callable[[], Found]) -> Found:
    """What ``read`` gives; a source that changes while it is read is read once more.

    Raises DumpError where a file was removed, or was shortened so that it cannot be used, and
    whatever else ``read`` raises.
    """
    sizes = _sizes(source)
    for is_last in (False, True):
        before = stamps(source)
        try:
            found = read()
        except (DumpError, OSError):
            _refuse_removed(source)
            if is_last or stamps(source) == before:
                _refuse_shortened(source, sizes)
                raise
        else:
            _refuse_removed(source)
            if is_last or stamps(source) == before:
                break
    return found


def _sizes(source: Source) -> list[int]:
    found = []
    for path in files_of(source):
        try:
            found.append(path.stat().st_size)
        except OSError as error:
            raise unreadable(relative(path, source.root), error) from None
    return found


def _refuse_removed(source: Source) -> None:
    for path in files_of(source):
        try:
            path.stat()
        except OSError as error:
            if error.errno in GONE:
                raise removed(relative(path, source.root)) from None


def _refuse_shortened(source: Source, sizes: list[int]) -> None:
    for path, before, now in zip(files_of(source), sizes, _sizes(source), strict=True):
        if now < before:
            raise DumpError(
                relative(path, source.root),
                "a file that stays as it is until it is read",
                f"that it was shortened meanwhile, from {before:,} to {now:,} bytes",
                "read again when it is whole",
            )
