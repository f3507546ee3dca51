"""Parquet tables of counters: one row per sample of a metric, or our columns as in a plain CSV.

Written by: srt-slurm's Tachometer (``metric_name`` with labels inside, ``metric_value``,
``timestamp_ns``, ``scraper_endpoint``) and others that store what they scraped of node_exporter
(node_infiniband_*, node_network_*) as metric, labels, timestamp and value; pandas and spreadsheets.
Specified in: Apache Parquet; the columns by their writers. Names and labels: ``prometheus_names``.
Cannot tell: the zone of times without one (``time_zone:`` in the manifest); more digits than a
double holds (exact below 2^53). Endpoints and other labels name hosts: the device is a number where
they are addresses. A capture with relative times alone is refused.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows
from servebook.read.csvmap_columns import Columns, known_header
from servebook.read.files import open_bytes
from servebook.read.prometheus_names import Series, known_name, reading_of, series_of, words_factor
from servebook.read.series_labels import device_of, label_map, series_text, shared_step
from servebook.read.source import File, Format, Source, printable
from servebook.read.times import ClockChangeError, NoOffsetError, printed_ns
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "parquet"
_MAGIC = b"PAR1"
_METRICS = ("metric_name", "metric", "__name__", "name")
_VALUES = ("metric_value", "value", "sample_value")
_TIMES = ("timestamp_ns", "timestamp_us", "timestamp_ms", "timestamp", "ts_ns", "ts", "time")
_LABELS = ("labels", "tags", "metric_labels", "attributes")
_PER_UNIT = {"_ns": 1, "_us": 10**3, "_ms": 10**6}
_FINAL, _PART = "final.parquet", re.compile(r"out-\d+\.parquet")
_TICKS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_BATCH = 65_536
#: What the library raises for damage, a column's name that is no UTF-8 included.
_DAMAGE = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, OverflowError)
_MAX_ROWS = 200_000_000
_DEVICE = "host"
_Point = tuple[int, int, int | float, int]  # series, ns, value, row


@dataclass(frozen=True)
class _Long:
    """Where the parts of a sample stand in a long table."""

    metric: str
    value: str
    time: str
    labels: str | None
    others: tuple[str, ...]


def find(files: Sequence[File]) -> list[Source]:
    """Parquet files whose columns are a plain CSV's, or whose metrics are network counters.

    Where Tachometer has put its parts together (``final.parquet``), they belong to that one.
    """
    mine = [file for file in files if file.head.startswith(_MAGIC) and _mine(file)]
    finals = {file.path.parent: file.path for file in mine if file.path.name == _FINAL}
    parts: dict[Path, list[Path]] = {path: [] for path in finals.values()}
    sources = []
    for file in mine:
        final = finals.get(file.path.parent)
        if final is not None and final != file.path and _PART.fullmatch(file.path.name):
            parts[final].append(file.path)
        else:
            sources.append(file)
    return [
        Source(_NAME, file.root, file.path, (file.path, *sorted(parts.get(file.path, ()))))
        for file in sources
    ]


def read(source: Source) -> Tables:
    """Samples of one Parquet file; ``source.options`` as for a plain CSV.

    Raises DumpError for a file that is no whole Parquet file, has too many rows, no time or no
    counter of an interface.
    """
    rows = Rows(source)
    for part in source.files[1:]:
        rows.aside("file", f"a part of {source.main.name}, which holds its readings", None, part)
    table, schema = _open(rows)
    if table.metadata.num_rows > _MAX_ROWS:
        raise DumpError(
            rows.where(),
            f"at most {_MAX_ROWS:,} rows",
            f"{table.metadata.num_rows:,}",
            "keep the network's metrics and the campaign's hours alone",
        )
    long = None if source.options.get("columns") else _long(schema)
    try:
        if long is not None:
            _read_long(rows, table, long)
        else:
            _read_wide(rows, table, list(schema.names))
    except _DAMAGE as error:
        raise _damaged(rows, error) from None
    if not len(rows):
        raise DumpError(
            rows.where(),
            "readings of network counters with a time",
            rows.unusable("none"),
            "store node_exporter's network metrics (node_infiniband_*, node_network_*) with their "
            "labels, or map the columns in the manifest",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _mine(file: File) -> bool:
    try:
        table, schema = _open(Rows(Source(_NAME, file.root, file.path, (file.path,))))
    except DumpError:
        return True  # and ``read`` says what is wrong with it
    if known_header(schema.names):
        return True
    long = _long(schema)
    if long is None or table.num_row_groups == 0:
        return False
    try:
        for batch in table.iter_batches(batch_size=_BATCH, columns=[long.metric]):
            if any(known_name(_bare(name)) for name in _unique(batch.column(0))):
                return True
    except _DAMAGE:
        return True
    return False


def _open(rows: Rows) -> tuple[pq.ParquetFile, pa.Schema]:
    path = rows.source.main
    try:
        with path.open("rb") as stream:
            plain = stream.read(4) == _MAGIC
        if plain:
            table = pq.ParquetFile(path, page_checksum_verification=True)
        else:
            with open_bytes(path) as packed:
                table = pq.ParquetFile(io.BytesIO(packed.read(1 << 30)))
        schema = table.schema_arrow
        schema.names  # noqa: B018 (decodes them)
    except _DAMAGE as error:
        raise _damaged(rows, error) from None
    return table, schema


def _damaged(rows: Rows, error: Exception) -> DumpError:
    kind = "one that is cut short or damaged"
    if isinstance(error, pa.ArrowNotImplementedError):
        kind = "one with a compression or type that cannot be read"
    return DumpError(
        rows.where(), "a whole Parquet file", kind, "copy the file again after its writer has ended"
    )


def _long(schema: pa.Schema) -> _Long | None:
    found: list[str] = []
    for wanted in (_METRICS, _VALUES, _TIMES):
        name = next((name for name in wanted if name in schema.names), None)
        if name is None:
            return None
        found.append(name)
    if not (_is_text(schema.field(found[0]).type) and _is_number(schema.field(found[1]).type)):
        return None
    labels = next((name for name in _LABELS if name in schema.names), None)
    taken = {*found, labels}
    others = [f.name for f in schema if f.name not in taken and _is_text(f.type)]
    return _Long(found[0], found[1], found[2], labels, tuple(others))


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)
    )


def _unique(column: pa.Array) -> list[str]:
    return [name for name in pc.unique(column).to_pylist() if name is not None]


def _bare(name: str) -> str:
    return name.partition("{")[0].strip()


def _read_long(rows: Rows, table: pq.ParquetFile, long: _Long) -> None:
    columns = [long.metric, long.value, long.time, *long.others]
    columns += [long.labels] if long.labels else []
    known: dict[Any, tuple[int, Series] | None] = {}
    taken: dict[int, Any] = {}
    points: list[_Point] = []
    others = row = 0
    for batch in table.iter_batches(batch_size=_BATCH, columns=columns):
        metrics = batch.column(batch.schema.get_field_index(long.metric)).cast(pa.string())
        wanted = [name for name in _unique(metrics) if known_name(_bare(name))]
        keep = pc.is_in(metrics, pa.array(wanted, type=pa.string()))
        numbers = pc.add(pc.indices_nonzero(keep), row + 1).to_pylist()
        row += batch.num_rows
        others += batch.num_rows - len(numbers)
        records = _plain_times(batch.filter(keep)).to_pylist()
        for number, record in zip(numbers, records, strict=True):
            _sample(rows, long, record, number, known, taken, points)
    if others:
        rows.aside("rows", f"{others} readings of other metrics, which are no network counters")
    stamp = rows.stamp("collector", shared_step(ns for _, ns, _, _ in points))
    for series, ns, value, line in points:
        rows.add(series, ns, value, stamp, line)


def _sample(
    rows: Rows,
    long: _Long,
    record: Mapping[str, Any],
    line: int,
    known: dict[Any, tuple[int, Series] | None],
    taken: dict[int, Any],
    points: list[_Point],
) -> None:
    labels = record[long.labels] if long.labels else None
    text = repr(labels) if isinstance(labels, list | dict) else labels
    identity = (record[long.metric], text, *(record[name] for name in long.others))
    if identity not in known:
        known[identity] = _series(rows, long, record, identity, taken)
    found = known[identity]
    name = _bare(record[long.metric])
    if found is None:
        rows.aside_once(name, "labels that cannot be read, or those of another series", line)
        return
    key, series = found
    try:
        ns = _ns(record[long.time], long.time, rows.source.options.get("time_zone"))
        factor = words_factor(None, rows.source.options.get("unit")) if series.in_words else 1
        value = record[long.value]
        if value is None:
            raise ValueError("no value")
        points.append((key, ns, reading_of(series.meaning, _text(value), factor), line))
    except ValueError as error:
        rows.aside_once(name, str(error), line)


def _series(
    rows: Rows, long: _Long, record: Mapping[str, Any], identity: Any, taken: dict[int, Any]
) -> tuple[int, Series] | None:
    try:
        name, labels = series_text(record[long.metric])
        labels |= label_map(record[long.labels]) if long.labels else {}
    except ValueError:
        return None
    extra = {key: record[key] for key in long.others if record[key]}
    series = series_of(str(name), extra | labels)
    if series is None:
        return None
    device = series.device or extra.get("scraper_endpoint") or device_of(extra | labels)
    key = rows.meant(
        series.meaning,
        rows.alias(device) if device else _DEVICE,
        series.interface or "unknown",
        rank=series.rank,
    )
    return (key, series) if taken.setdefault(key, identity) == identity else None


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _plain_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with times as text: epoch ns where they have a zone, ISO 8601 where they do not.

    Python's own times end at the year 9999 and at microseconds.
    """
    for place, field in enumerate(batch.schema):
        if not pa.types.is_timestamp(field.type):
            continue
        ticks = batch.column(place).cast(pa.int64()).to_pylist()
        unit = field.type.unit
        texts: list[str | None] = []
        for tick in ticks:
            if tick is None:
                texts.append(None)
            elif field.type.tz is not None:
                texts.append(str(tick * _TICKS[unit]))
            else:
                texts.append(str(np.datetime64(tick, unit)))
        batch = batch.set_column(place, field.name, pa.array(texts, pa.string()))
    return batch


def _ns(value: Any, column: str, zone: object) -> int:
    """Epoch ns of a cell; raises ValueError, in words, for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("no time")
    if isinstance(value, int) and column[-3:] in _PER_UNIT:
        value *= _PER_UNIT[column[-3:]]
        if value <= 0:
            raise ValueError("a relative time, which nobody can place")
    text = f"{value:.6f}" if isinstance(value, float) else str(value)
    try:
        return printed_ns(text, None if zone is None else str(zone))[0]
    except NoOffsetError as error:
        raise ValueError(f"{error}; write `time_zone:` in the manifest") from None
    except ClockChangeError:
        raise
    except ValueError:
        raise ValueError("no time") from None


def _read_wide(rows: Rows, table: pq.ParquetFile, names: list[str]) -> None:
    columns = Columns(rows, names, None)
    places = {*columns.names.values(), *(column.place for column in columns.columns)}
    wanted = [names[place] for place in sorted(places)]
    stamps: dict[int, int] = {}
    row = 0
    for batch in table.iter_batches(batch_size=_BATCH, columns=wanted):
        batch = _plain_times(batch)
        cells = {name: batch.column(i).to_pylist() for i, name in enumerate(batch.schema.names)}
        for place in range(batch.num_rows):
            row += 1
            fields = [_cell(cells[name][place]) if name in cells else "" for name in names]
            try:
                ns, step = columns.time(fields)
            except ValueError as error:
                rows.aside("row", printable(str(error)), row)
                continue
            stamp = stamps.setdefault(step, rows.stamp("collector", step))
            columns.add(fields, ns, stamp, row)


def _cell(value: Any) -> str:
    return "" if value is None else _text(value)
