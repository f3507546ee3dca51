"""Parsed dumps kept as Parquet, keyed by everything that decides what a reader returns.

The key covers the content of each file (sha256), where the files lie below the campaign, the
reader's options and the source code of all readers; so a hit is never stale. An entry is a folder
that appears by one rename and carries a checksum of each table: a torn, altered or foreign one is
thrown away and built again. A folder that cannot be written means no cache, not an error.

Gaps are files of their own, one a part, checked by CRC-32 piece by piece; those of a large dump are
not read into memory, but put under a second name (``servebook.read.spool``), so that they last
for whoever reads them when the entry is removed meanwhile.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from servebook import gap_table
from servebook import tables as tables_module
from servebook.gap_table import GapPart, GapTable, InFile, InMemory
from servebook.read.counter_points import MOST_IN_ORDER
from servebook.read.shared_columns import SharedColumns
from servebook.read.source import Source, relative
from servebook.read.spool import Spool, crc32_of, write
from servebook.read.sums import cache_folder as default_folder
from servebook.tables import SCHEMAS, Tables

__all__ = ["Cache", "default_folder", "reader_version", "source_key"]

_INDEX = "entry.json"
_FORM = "servebook tables 3"
_LARGE = 4 << 20
_USUAL = {"compression": "zstd"}
#: Of requests and of the places of their gaps only these repeat; a dictionary of others is made and
#: thrown away.
_FEW = ["run_id", "phase", "status", "error_kind", "part"]
#: Rows of requests that are packed at once, and unpacked.
_ROWS = 1 << 17
#: Of a dump with more gaps they stay in their files.
_MOST_IN_MEMORY = 1 << 20


@functools.cache
def reader_version() -> str:
    """A digest of all code that turns files into tables."""
    digest = hashlib.sha256()
    others = (tables_module, gap_table)
    own = [path for path in Path(__file__).parent.iterdir() if path.suffix in (".c", ".py")]
    modules = [*own, *(Path(str(one.__file__)) for one in others)]
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
    index: dict[str, Any] = {"form": _FORM, "key": key, "reader": reader_version()}
    index["sha256"] = sums = {}
    for field in fields(tables):
        table = getattr(tables, field.name)
        if isinstance(table, GapTable):
            index["gap_crc32"] = [
                _write_part(folder / _part_name(n), part) for n, part in enumerate(table.parts)
            ]
        if table.num_rows:
            path = folder / f"{field.name}.parquet"
            if isinstance(table, GapTable):
                _write_spans(path, table)
            elif field.name == "samples" and table.num_rows > MOST_IN_ORDER:
                _write_batches(path, table)
            else:
                long = field.name in ("requests", "gaps")
                few = [name for name in _FEW if name in table.column_names] if long else True
                how = {"use_dictionary": few, "write_statistics": not long, **_USUAL}
                pq.write_table(table, path, row_group_size=_ROWS if long else None, **how)
            sums[field.name] = _sha256(path)
    (folder / _INDEX).write_text(json.dumps(index, sort_keys=True))


def _write_batches(path: Path, samples: pa.Table) -> None:
    """A row group for each batch: most are of one series, and say once what all its rows say."""
    with pq.ParquetWriter(path, samples.schema, write_statistics=False, **_USUAL) as writer:
        for batch in samples.to_batches():
            writer.write_batch(batch)


def _part_name(number: int) -> str:
    return f"gaps-{number:05d}.parquet"


def _write_part(path: Path, part: GapPart) -> int:
    """The part's file under another name where that can be, else written; its checksum."""
    if isinstance(part.data, InMemory):
        return write(path, part.data).crc32
    try:
        os.link(part.data.path, path)
    except OSError:  # another file system
        shutil.copyfile(part.data.path, path)
    return part.data.crc32


_SPANS = pa.schema(
    [
        ("part", pa.int32()),
        ("run_id", pa.string()),
        ("request_id", pa.string()),
        ("first", pa.int64()),
        ("count", pa.int64()),
        ("start_ns", pa.int64()),
    ]
)


def _write_spans(path: Path, gaps: GapTable) -> None:
    """One row per part and request that has gaps in it, and one row group per part."""
    few = [name for name in _FEW if name in _SPANS.names]
    how = {"use_dictionary": few, "write_statistics": False, **_USUAL}
    with pq.ParquetWriter(path, _SPANS, **how) as writer:
        for number, part in enumerate(gaps.parts):
            n = len(part.count)
            columns = [
                pa.repeat(pa.scalar(number, pa.int32()), n),
                pa.repeat(pa.scalar(part.run_id), n),
                part.request_id,
                *map(pa.array, (part.first, part.count, part.start_ns)),
            ]
            writer.write_table(pa.table(columns, schema=_SPANS), row_group_size=n)


def _read(entry: Path, key: str) -> Tables:
    index = json.loads((entry / _INDEX).read_bytes())
    if index["form"] != _FORM or index["key"] != key:
        raise ValueError("an entry of something else")
    found = {}
    for field in fields(Tables):
        packed = field.name == "gaps" and "gap_crc32" in index
        schema = _SPANS if packed else SCHEMAS[field.name]
        table = schema.empty_table()
        if field.name in index["sha256"]:
            path = entry / f"{field.name}.parquet"
            if _sha256(path) != index["sha256"][field.name]:
                raise ValueError("a table that was altered")
            # For a small table threads cost more than they save.
            file = pq.ParquetFile(path)
            threads = path.stat().st_size > _LARGE
            if packed:
                found[field.name] = _gaps(entry, file, index["gap_crc32"])
                continue
            long = field.name in ("requests", "samples")
            table = _table(file, threads) if long else file.read(None, threads)
            if not table.schema.equals(schema):
                raise ValueError("a table of another schema")
        table = table.replace_schema_metadata(None)
        found[field.name] = GapTable() if packed else table
    return Tables(**found)


def _table(file: pq.ParquetFile, threads: bool) -> pa.Table:
    """A table row group by row group, with columns of one value shared."""
    shared = SharedColumns()
    groups = range(file.num_row_groups)
    return pa.concat_tables(
        shared.table(file.read_row_group(at, use_threads=threads)) for at in groups
    )


def _gaps(entry: Path, file: pq.ParquetFile, sums: list[int]) -> GapTable:
    """The gaps of an entry; raises ValueError where a file is not what was written."""
    if file.num_row_groups != len(sums) or not file.schema_arrow.equals(_SPANS):
        raise ValueError("parts that are not there, or of another schema")
    total = sum(pq.read_metadata(entry / _part_name(at)).num_rows for at in range(len(sums)))
    spool = Spool() if total > _MOST_IN_MEMORY else None
    parts = []
    for at, crc32 in enumerate(sums):
        own = file.read_row_group(at, use_threads=False)
        if not pc.all(pc.equal(own["part"], at)).as_py():
            raise ValueError("parts in another order")
        columns = {
            name: own[name].combine_chunks().to_numpy() for name in ("first", "count", "start_ns")
        }
        path = entry / _part_name(at)
        if spool is not None:
            with contextlib.suppress(OSError):  # another file system
                os.link(path, held := spool.next())
                path = held
        if crc32_of(path) != crc32:
            raise ValueError("gaps that were altered")
        if pq.read_metadata(path).num_rows < int((columns["first"] + columns["count"]).max()):
            raise ValueError("fewer gaps than requests say")
        data: InFile | InMemory = InFile(path, crc32, spool)
        data = data if spool is not None else InMemory(*data.read())
        request_id = own["request_id"].combine_chunks()
        parts.append(GapPart(own["run_id"][0].as_py(), request_id, **columns, data=data))
    return GapTable(parts)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
