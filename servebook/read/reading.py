"""Reads the sources of a tree through the cache, and keeps account of every input file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tqdm import tqdm

from servebook.errors import DumpError
from servebook.read import source as source_module
from servebook.read.ahead import at_once
from servebook.read.cache import Cache, default_folder, source_key
from servebook.read.files import sha256
from servebook.read.registry import FORMATS
from servebook.read.source import Source, reading_fault, relative
from servebook.tables import Tables

__all__ = ["Part", "read_sources"]

Reader = Callable[[Source], Tables]

#: A dump of less is read before a process is there to do it, and so are all of them of less.
_LEAST_BYTES = 1 << 20
_WORTH_BYTES = 16 << 20


@dataclass(frozen=True)
class Part:
    """What reading one source gave; ``inputs`` are (path, sha256, bytes) of each of its files."""

    source: Source
    tables: Tables
    inputs: tuple[tuple[str, str, int], ...]


def read_sources(sources: Sequence[Source], refused: list[tuple[str, str]]) -> list[Part]:
    """The parts in the order of ``sources``; one that cannot be used goes to ``refused``.

    Several big dumps that the cache does not hold are read at once, where there is a cache.
    """
    cache = Cache(default_folder())
    readers = {form.name: form.read for form in FORMATS}
    _ahead(sources, readers, cache)
    parts = []
    # ``disable=None``: silent where the output is no terminal.
    for source in tqdm(sources, desc="reading", unit="dump", disable=None, leave=False, delay=1):
        try:
            parts.append(_read(source, readers[source.format], cache))
        except DumpError as error:
            line = "" if error.line is None else f"line {error.line}: "
            refused.append((relative(source.main, source.root), line + error.reason))
        except source_module.FAULTS as error:
            refused.append((relative(source.main, source.root), reading_fault(error)))
    return parts


def _ahead(sources: Sequence[Source], readers: Mapping[str, Reader], cache: Cache) -> None:
    """Fill the cache with the dumps that it lacks, where that is worth processes of its own."""
    if cache.folder is None:
        return
    lacking: list[tuple[int, Source]] = []
    for source in sources:
        with contextlib.suppress(DumpError, OSError):
            size = sum(path.stat().st_size for path in _files(source))
            if size >= _LEAST_BYTES and not cache.holds(_key(source, _inputs(source))):
                lacking.append((size, source))
    if sum(size for size, _ in lacking) >= _WORTH_BYTES:
        lacking.sort(key=lambda one: -one[0])  # the longest first, so that all end together
        at_once([partial(_read, one, readers[one.format], cache) for _, one in lacking])


def _files(source: Source) -> list[Path]:
    return sorted({source.main, *source.files})


def _inputs(source: Source) -> tuple[tuple[str, str, int], ...]:
    """Path, sha256 and bytes of each file; raises DumpError where one cannot be read."""
    inputs = []
    for path in _files(source):
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


def _key(source: Source, inputs: Sequence[tuple[str, str, int]]) -> str:
    return source_key(source, [(path, digest) for path, digest, _ in inputs])


def _read(source: Source, reader: Reader, cache: Cache) -> Part:
    inputs = _inputs(source)
    key = _key(source, inputs)
    tables = cache.get(key)
    if tables is None:
        tables = reader(source)
        cache.put(key, tables)
    return Part(source, tables, inputs)
