"""One source through the cache: checksums of its files, the key that follows, its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from servebook.errors import DumpError
from servebook.read.ahead import can_fork
from servebook.read.cache import Cache, source_key
from servebook.read.files import sha256
from servebook.read.registry import FORMATS
from servebook.read.source import Format, Source, relative
from servebook.read.sums import begin, is_remembered, stamp
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


def files_of(source: Source) -> list[Path]:
    """Every file of the source once, sorted."""
    return sorted({source.main, *source.files})


def inputs_of(source: Source) -> Inputs:
    """Path, sha256 and bytes of each file; raises DumpError where one cannot be read."""
    inputs = []
    for path in files_of(source):
        try:
            inputs.append((relative(path, source.root), sha256(path), path.stat().st_size))
        except OSError as error:
            raise DumpError(
                relative(path, source.root),
                "a readable file",
                error.strerror or "an error",
                "check its permissions",
            ) from None
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
    part, is_settled = _read(source, cache)
    return part if is_settled else _read(source, cache)[0]


def _read(source: Source, cache: Cache) -> tuple[Part, bool]:
    """As ``read_part``, in one go; whether what was read is what was hashed."""
    before = _stamps(source)
    tables = None
    if _unseen(source.main):  # hashed while it is read: hardly ever does the cache hold it
        begin(source.main)
        tables = format_of(source).read(source)
    inputs = inputs_of(source)
    key = key_of(source, inputs)
    if tables is None:
        if (tables := cache.get(key)) is not None:
            return Part(source, tables, inputs), True
        tables = format_of(source).read(source)
    is_settled = _stamps(source) == before
    if is_settled:
        cache.put(key, tables)
    return Part(source, tables, inputs), is_settled


def _stamps(source: Source) -> list[str]:
    """What changes when the content of one of the source's files does."""
    stamps = []
    for path in files_of(source):
        try:
            stamps.append(stamp(path.stat()))
        except OSError as error:
            stamps.append(str(error.errno))
    return stamps


def _unseen(path: Path) -> bool:
    """Whether a file is large and was never hashed here as it is now."""
    try:
        return path.stat().st_size >= _LARGE_BYTES and can_fork() and not is_remembered(path)
    except OSError:
        return False


def read_into(source: Source, cache: Cache) -> str:
    """Read the source into the cache, and its key there; raises as ``read_part`` does."""
    return key_of(source, read_part(source, cache).inputs)
