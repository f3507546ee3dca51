"""Reads the sources of a tree through the cache, and keeps account of every input file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tqdm import tqdm

from servebook.errors import DumpError
from servebook.read import source as source_module
from servebook.read.cache import Cache, default_folder, source_key
from servebook.read.files import sha256
from servebook.read.registry import FORMATS
from servebook.read.source import Source, reading_fault, relative
from servebook.tables import Tables

__all__ = ["Part", "read_sources"]


@dataclass(frozen=True)
class Part:
    """What reading one source gave; ``inputs`` are (path, sha256, bytes) of each of its files."""

    source: Source
    tables: Tables
    inputs: tuple[tuple[str, str, int], ...]


def read_sources(sources: Sequence[Source], refused: list[tuple[str, str]]) -> list[Part]:
    """The parts in the order of ``sources``; one that cannot be used goes to ``refused``."""
    cache = Cache(default_folder())
    readers = {form.name: form.read for form in FORMATS}
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


def _read(source: Source, reader: Callable[[Source], Tables], cache: Cache) -> Part:
    inputs = []
    for path in sorted({source.main, *source.files}):
        try:
            inputs.append((relative(path, source.root), sha256(path), path.stat().st_size))
        except OSError as error:
            raise DumpError(
                relative(path, source.root),
                "a readable file",
                error.strerror or "an error",
                "check its permissions",
            ) from None
    key = source_key(source, [(path, digest) for path, digest, _ in inputs])
    tables = cache.get(key)
    if tables is None:
        tables = reader(source)
        cache.put(key, tables)
    return Part(source, tables, tuple(inputs))
