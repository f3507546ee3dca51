"""One source through the cache: checksums of its files, the key that follows, its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from servebook.read.ahead import can_fork
from servebook.read.cache import Cache, source_key
from servebook.read.changing import files_of, stamps, while_it_stays
from servebook.read.files import sha256, unreadable
from servebook.read.registry import FORMATS
from servebook.read.source import Format, Source, relative
from servebook.read.sums import begin, is_remembered
from servebook.tables import Tables

__all__ = [
    "Inputs",
    "Part",
    "files_of",
    "format_of",
    "inputs_of",
    "key_of",
    "read_into",
    "read_part",
]

#: Hashing a smaller file takes no time worth a process.
_LARGE_BYTES = 32 << 20

#: Path, sha256 and bytes of each file of a source.
Inputs = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class Part:
    """What reading one source gave; ``inputs`` are (path, sha256, bytes) of each of its files."""

    source: Source
    tables: Tables
    inputs: Inputs


def format_of(source: Source) -> Format:
    """The format whose reader reads the source."""
    return next(form for form in FORMATS if form.name == source.format)


def inputs_of(source: Source) -> Inputs:
    """Path, sha256 and bytes of each file; raises DumpError where one cannot be read."""
    inputs = []
    for path in files_of(source):
        try:
            inputs.append((relative(path, source.root), sha256(path), path.stat().st_size))
        except OSError as error:
            raise unreadable(relative(path, source.root), error) from None
    return tuple(inputs)


def key_of(source: Source, inputs: Sequence[tuple[str, str, int]]) -> str:
    """The key of the source's entry in the cache."""
    return source_key(source, [(path, digest) for path, digest, _ in inputs])


def read_part(source: Source, cache: Cache) -> Part:
    """The source's tables from the cache, else read and put there.

    One that changes while it is read is read once more; one that goes on changing is not kept, for
    nobody can tell which content was read.

    Raises DumpError, and whatever a reader raises by a fault of its own.
    """
    return while_it_stays(source, lambda: _read(source, cache))


def _read(source: Source, cache: Cache) -> Part:
    """As ``read_part``, in one go; kept where what was read is what was hashed."""
    before = stamps(source)
    tables = None
    if _unseen(source.main):  # hashed while it is read: hardly ever does the cache hold it
        begin(source.main)
        tables = format_of(source).read(source)
    inputs = inputs_of(source)
    key = key_of(source, inputs)
    if tables is None:
        if (tables := cache.get(key)) is not None:
            return Part(source, tables, inputs)
        tables = format_of(source).read(source)
    if stamps(source) == before:
        cache.put(key, tables)
    return Part(source, tables, inputs)


def _unseen(path: Path) -> bool:
    """Whether a file is large and was never hashed here as it is now."""
    try:
        return path.stat().st_size >= _LARGE_BYTES and can_fork() and not is_remembered(path)
    except OSError:
        return False


def read_into(source: Source, cache: Cache) -> str:
    """Read the source into the cache, and its key there; raises as ``read_part`` does."""
    return key_of(source, read_part(source, cache).inputs)
