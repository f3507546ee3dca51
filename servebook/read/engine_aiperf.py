"""Reader of the engine metrics that AIPerf fetches while it runs (0.4 and later).

- Written by AIPerf beside its run: ``server_metrics_export.json`` and ``.csv`` by default
  (statistics of the measured phase), ``.jsonl`` and ``.parquet`` on demand (every reading).
- Specified in AIPerf's documentation of its server metrics exports; seen in real files of 0.13.
- It cannot tell, from the JSON and the CSV: when a value was read. Their statistics are over
  readings, some of them from before the first or after the last request, so a mean or a minimum
  says little; the median and the maximum hold. Counters in the Parquet file begin at 0.

Of several exports of one run the one that says most is read: JSONL, Parquet, JSON, CSV.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from servebook.errors import DumpError
from servebook.read.codecs import SUFFIXES
from servebook.read.engine_names import meaning
from servebook.read.engine_rows import EngineRows
from servebook.read.files import lines, loads, read_text
from servebook.read.source import File, Format, Source
from servebook.read.values import number, object_of, objects_in
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "aiperf-server"
_COPIES = {"phases", "aggregate", "sweep_aggregate"}
#: Kinds of file in the order of what they say.
_KINDS = ("jsonl", "parquet", "json", "csv")
_COLUMNS = {"endpoint_url", "metric_name", "timestamp_ns", "value"}
_OWN_COLUMNS = _COLUMNS | {"metric_type", "unit", "description", "sum", "count"}
_OWN_COLUMNS |= {"bucket_le", "bucket_count"}
_STATISTICS = {"avg": "mean", "min": "min", "max": "max", "p50": "p50", "p90": "p90", "p99": "p99"}
_STATISTICS |= {"total": "total"}
#: Columns of the CSV that are no labels.
_NO_LABEL = re.compile(
    r"Endpoint|Type|Metric|Unit|Description|buckets|avg|min|max|std|p\d+(_estimate)?"
    r"|total|(count|sum|rate)(_\w+)?"
)


def find(files: Sequence[File]) -> list[Source]:
    """One source per run: the exports of one folder whose names differ in their kind alone."""
    groups: dict[tuple[Path, str], dict[str, File]] = defaultdict(dict)
    for file in files:
        kind = _kind(file)
        if kind and not _COPIES & set(file.path.relative_to(file.root).parent.parts):
            name = file.path.name
            for end in (*SUFFIXES, *(f".{k}" for k in _KINDS)):
                name = name.removesuffix(end)
            groups[file.path.parent, name].setdefault(kind, file)
    sources = []
    for group in groups.values():
        best = next(group[kind] for kind in _KINDS if kind in group)
        members = tuple(sorted(file.path for file in group.values()))
        options: dict[str, object] = {"kind": next(k for k in _KINDS if k in group)}
        sources.append(Source(_NAME, best.root, best.path, members, options))
    return sources


def _kind(file: File) -> str | None:
    head = file.head
    if head.startswith(b"PAR1"):
        return "parquet" if _is_export(file.path) else None
    if head.startswith(b"# AIPerf Server Metrics"):
        return "csv"
    if head.lstrip()[:1] != b"{":
        return None
    first = head.partition(b"\n")[0]
    if all(key in first for key in (b'"endpoint_url"', b'"timestamp_ns"', b'"metrics"')):
        return "jsonl"
    return "json" if b'"endpoints_configured"' in head and b'"summary"' in head else None


def _is_export(path: Path) -> bool:
    try:
        return set(pq.read_schema(path).names) >= _COLUMNS
    except (OSError, pa.ArrowException):
        return False


def read(source: Source) -> Tables:
    """Table ``engine`` of one run's export; raises DumpError where it cannot be read at all."""
    rows = EngineRows(source)
    kind = str(source.options.get("kind", "json"))
    {"jsonl": _jsonl, "parquet": _parquet, "json": _json, "csv": _csv}[kind](source, rows)
    if not len(rows):
        rows.aside("export", "no metric of an engine that is known, or no value of one")
    return rows.tables()


FORMAT = Format(_NAME, "engine", find, read)


def _jsonl(source: Source, rows: EngineRows) -> None:
    try:
        for line, raw in lines(source.main):
            if raw.strip():
                _scrape(raw, line, rows)
    except DumpError as damage:
        rows.aside("rest of the file", damage.reason, damage.line)


def _scrape(raw: bytes, line: int, rows: EngineRows) -> None:
    try:
        scrape = loads(raw)
    except ValueError as error:
        rows.aside("scrape", f"expected one JSON object a line, found {error}", line)
        return
    metrics = scrape.get("metrics") if isinstance(scrape, dict) else None
    at = _ns(scrape.get("timestamp_ns")) if isinstance(metrics, dict) else None
    if not isinstance(metrics, dict) or at is None:
        rows.aside("scrape", "expected 'timestamp_ns' and 'metrics', found none", line)
        return
    for name, series in metrics.items():
        for one in objects_in(series):
            if "value" in one:
                rows.add(
                    name,
                    _labels(one.get("labels")),
                    one["value"],
                    start_ns=at,
                    ts_kind="collector",
                    endpoint=str(scrape.get("endpoint_url")),
                    line=line,
                )


def _parquet(source: Source, rows: EngineRows) -> None:
    try:
        file = pq.ParquetFile(source.main)
        own = [c for c in file.schema_arrow.names if c not in ("bucket_le", "bucket_count")]
        for batch in file.iter_batches(columns=own):
            for row in batch.to_pylist():
                if row["value"] is not None:
                    labels = {k: v for k, v in row.items() if k not in _OWN_COLUMNS}
                    rows.add(
                        str(row["metric_name"]),
                        _labels(labels),
                        row["value"],
                        start_ns=row["timestamp_ns"],
                        ts_kind="collector",
                        endpoint=str(row["endpoint_url"]),
                    )
    except (OSError, pa.ArrowException):
        where = rows.tables().engine.num_rows
        raise DumpError(
            source.main.name,
            "a whole Parquet file",
            f"one that is damaged after {where} values",
            "copy the file again",
        ) from None


def _json(source: Source, rows: EngineRows) -> None:
    try:
        found = loads(read_text(source.main))
    except ValueError as error:
        raise DumpError(
            source.main.name, "one JSON object", str(error), "copy the file again"
        ) from None
    phases = object_of(object_of(object_of(found).get("summary")).get("phase_time_ranges"))
    phase = object_of(phases.get("profiling"))
    window = _ns(phase.get("start_ns")), _ns(phase.get("end_ns"))
    for name, metric in object_of(object_of(found).get("metrics")).items():
        for series in objects_in(object_of(metric).get("series")):
            labels = _labels(series.get("labels"))
            endpoint = str(series.get("endpoint_url", series.get("endpoint")))
            # The first versions keep the statistics beside the labels.
            stats = object_of(series.get("stats")) or series
            _stats(rows, name, labels, endpoint, stats, window)
            for piece in objects_in(series.get("timeslices")):
                part = _ns(piece.get("start_ns")), _ns(piece.get("end_ns"))
                if None not in part:
                    _stats(rows, name, labels, endpoint, piece, part, "slice_")


def _stats(
    rows: EngineRows,
    name: str,
    labels: dict[str, str],
    endpoint: str,
    stats: Mapping[str, Any],
    window: tuple[int | None, int | None],
    prefix: str = "",
) -> None:
    for theirs, ours in _STATISTICS.items():
        if stats.get(theirs) is not None:
            rows.add(
                name,
                labels,
                stats[theirs],
                start_ns=window[0],
                end_ns=window[1],
                ts_kind="collector",
                endpoint=endpoint,
                statistic=prefix + ours,
            )


def _csv(source: Source, rows: EngineRows) -> None:
    """The sections of the table, one per kind of metric, each with its own header."""
    plain = [line if line[:1] != "#" else "" for line in read_text(source.main).splitlines()]
    reader = csv.reader(io.StringIO("\n".join(plain)))
    header: list[str] = []
    try:
        for cells in reader:
            if cells[:3] == ["Endpoint", "Type", "Metric"]:
                header = cells
            elif cells and header:
                _row(rows, header, cells, reader.line_num)
    except csv.Error as error:
        rows.aside("rest of the file", f"no valid CSV ({error})", reader.line_num)


def _row(rows: EngineRows, header: list[str], cells: list[str], line: int) -> None:
    row = dict(zip(header, cells, strict=False))
    labels = {k: v for k, v in row.items() if v and not _NO_LABEL.fullmatch(k)}
    name = row.get("Metric", "")
    if not name or (meaning(name, labels) and len(cells) != len(header)):
        rows.aside("row", "a number of cells that is not that of its header", line)
        return
    stats = {k: float(row[k]) for k in _STATISTICS if _is_number(row.get(k, ""))}
    _stats(rows, name, labels, row["Endpoint"], stats, (None, None))


def _is_number(text: str) -> bool:
    try:
        return number(float(text)) is not None
    except ValueError:
        return False


def _ns(value: Any) -> int | None:
    """Epoch ns as an exact integer; a float has lost its last digits."""
    return value if type(value) is int else None


def _labels(value: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in object_of(value).items() if v is not None}
