"""Parsed dumps kept as Parquet, keyed by everything that decides what a reader returns.

The key covers the content of each file (sha256), where the files lie below the campaign, the
reader's options and the source code of all readers; so a hit is never stale. An entry is a folder
that appears by one rename and carries a checksum of each table: a torn, altered or foreign one is
thrown away and built again. A folder that cannot be written means no cache, not an error.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from servebook import tables as tables_module
from servebook.read.source import Source, relative
from servebook.read.sums import cache_folder as default_folder
from servebook.tables import SCHEMAS, Tables, empty

__all__ = ["Cache", "default_folder", "reader_version", "source_key"]

_INDEX = "entry.json"
_FORM = "servebook tables 1"
_LARGE = 4 << 20
_NAMES = ["run_id", "request_id"]
_USUAL = {"compression": "zstd"}
#: Gaps are many, and their numbers do not repeat: differences take less room than zstd leaves, and
#: a third of its time.
_PARQUET: dict[str, dict[str, Any]] = {
    "gaps": {
        "compression": "none",
        "use_dictionary": _NAMES,
        "column_encoding": dict.fromkeys(("index", "end_ns", "gap_ns"), "DELTA_BINARY_PACKED"),
        "write_statistics": False,
    }
}


@functools.cache
def reader_version() -> str:
    """A digest of all code that turns files into tables."""
    digest = hashlib.sha256()
    modules = [*Path(__file__).parent.glob("*.py"), Path(tables_module.__file__)]
    for module in sorted(modules, key=lambda path: path.name):
        digest.update(module.name.encode() + b"\0" + module.read_bytes() + b"\0")
    return digest.hexdigest()


def source_key(source: Source, hashes: Iterable[tuple[str, str]]) -> str:
    """The cache key of a source; ``hashes`` are (path below the root, sha256) of its files.

    Paths belong to the key because tables hold them (run_id, path, source).
    """

    def plain(value: object) -> str:
        return relative(value, source.root) if isinstance(value, Path) else str(value)

    parts = {
        "reader": reader_version(),
        "format": source.format,
        "main": relative(source.main, source.root),
        "files": sorted(hashes),
        "options": source.options,
    }
    text = json.dumps(parts, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()


class Cache:
    """Tables by key in a folder; every failure of the file system counts as a miss."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def _entry(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / key[:2] / key

    def holds(self, key: str) -> bool:
        """Whether there is an entry under ``key``; only ``get`` tells whether it is sound."""
        entry = self._entry(key)
        return entry is not None and entry.is_dir()

    def get(self, key: str) -> Tables | None:
        """The tables under ``key``, or None; an entry that does not hold is removed."""
        entry = self._entry(key)
        if entry is None:
            return None
        try:
            return _read(entry, key) if entry.is_dir() else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException):
            self._discard(entry)
            return None

    def put(self, key: str, tables: Tables) -> None:
        """Keep ``tables`` under ``key``; a writer that comes second leaves the first one's."""
        self._keep(key, lambda folder: _write(folder, key, tables))

    def files(self, key: str) -> dict[str, bytes] | None:
        """The files of the entry under ``key`` as they are, for ``take`` on another machine."""
        entry = self._entry(key)
        try:
            return None if entry is None else {p.name: p.read_bytes() for p in entry.iterdir()}
        except OSError:
            return None

    def take(self, key: str, files: Mapping[str, bytes]) -> None:
        """Keep an entry that another machine wrote; as with any, ``get`` tells whether it holds."""

        def write(folder: Path) -> None:
            for name, content in files.items():
                (folder / Path(name).name).write_bytes(content)

        self._keep(key, write)

    def _keep(self, key: str, write: Callable[[Path], None]) -> None:
        entry = self._entry(key)
        if entry is None:
            return
        work = None
        try:
            entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=".new-", dir=entry.parent))
            write(work)
            work.rename(entry)
        except OSError:  # read-only, full, or another writer was first
            if work is not None:
                shutil.rmtree(work, ignore_errors=True)

    def _discard(self, entry: Path) -> None:
        # Moved away first, so that a reader beside us never sees it half removed.
        with contextlib.suppress(OSError):
            grave = Path(tempfile.mkdtemp(prefix=".old-", dir=entry.parent))
            with contextlib.suppress(OSError):  # another process was first
                entry.rename(grave / "entry")
            shutil.rmtree(grave, ignore_errors=True)


def _write(folder: Path, key: str, tables: Tables) -> None:
    sums = {}
    for field in fields(tables):
        table = getattr(tables, field.name)
        if table.num_rows:
            path = folder / f"{field.name}.parquet"
            pq.write_table(table, path, **_PARQUET.get(field.name, _USUAL))
            sums[field.name] = _sha256(path)
    index = {"form": _FORM, "key": key, "reader": reader_version(), "sha256": sums}
    (folder / _INDEX).write_text(json.dumps(index, sort_keys=True))


def _read(entry: Path, key: str) -> Tables:
    index = json.loads((entry / _INDEX).read_bytes())
    if index["form"] != _FORM or index["key"] != key:
        raise ValueError("an entry of something else")
    found = {}
    for field in fields(Tables):
        schema = SCHEMAS[field.name]
        if field.name not in index["sha256"]:
            found[field.name] = empty(field.name)
            continue
        content = (entry / f"{field.name}.parquet").read_bytes()
        if hashlib.sha256(content).hexdigest() != index["sha256"][field.name]:
            raise ValueError("a table that was altered")
        threads = len(content) > _LARGE  # for a small table they cost more than they save
        names = _NAMES if field.name in _PARQUET else []
        file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=names)
        table = file.read(use_threads=threads)
        if names:  # spelled out here, which takes a quarter of the time
            table = table.cast(schema)
        if not table.schema.equals(schema):
            raise ValueError("a table of another schema")
        found[field.name] = table.replace_schema_metadata(None)
    return Tables(**found)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
