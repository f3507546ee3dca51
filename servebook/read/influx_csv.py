"""Telegraf's metrics as InfluxDB exports them in CSV: a row per field, or a row per metric.

Written by: InfluxDB 2 and 3 and their web pages (annotated CSV with ``_time``, ``_value``,
``_field``, ``_measurement`` and tags; tables one after another, with or without the ``#`` lines),
and InfluxDB 1's ``influx -format csv`` (``name,time,`` and then fields and tags).
Specified in: InfluxDB's documentation, "Annotated CSV"; the names by Telegraf's inputs.
Cannot tell: whether a query averaged or took differences before: then it has other field names, or
fractions, and is set aside. Only raw counters are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows
from servebook.read.counter_stamps import ends_whole
from servebook.read.csvmap import fields
from servebook.read.files import lines
from servebook.read.source import File, Format, Source
from servebook.read.telegraf_names import amounts
from servebook.read.times import printed_ns
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "influx-csv"
_LONG = ("_time", "_value", "_field", "_measurement")


def find(files: Sequence[File]) -> list[Source]:
    """CSV files with InfluxDB's columns, one source each."""
    return [
        Source(_NAME, file.root, file.path, (file.path,))
        for file in files
        if b"\x00" not in file.head[:4096] and _mine(file.head.decode("utf-8", "replace"))
    ]


def _mine(text: str) -> bool:
    for line in text.split("\n")[:12]:
        if line.strip() and not line.startswith("#"):
            return _kind(fields(line.rstrip("\r"), ",")) is not None
    return False


def _kind(header: Sequence[str]) -> str | None:
    if all(name in header for name in _LONG):
        return "long"
    if header[:2] == ["name", "time"] or list(header[:3]) == ["name", "tags", "time"]:
        return "wide"
    return None


@dataclass(frozen=True)
class _Metric:
    """One row as a metric of Telegraf."""

    name: str
    tags: Mapping[str, str]
    fields: Mapping[str, str]
    time: str


def read(source: Source) -> Tables:
    """Samples of all rows of one file.

    Raises DumpError where no row has a time and a counter of an interface; rows that cannot be
    read are set aside.
    """
    rows = Rows(source)
    header: list[str] | None = None
    kind, last = None, 0
    for last, raw in lines(source.main):
        text = raw.decode("utf-8", "replace")
        if not text.strip() or text.startswith("#"):
            continue
        row = fields(text, ",")
        if (found := _kind(row)) is not None:
            header, kind = row, found
        elif header is None or len(row) != len(header):
            rows.aside("row", f"expected {len(header or ())} fields, found {len(row)}", last)
        else:
            _add(rows, _metric(dict(zip(header, row, strict=True)), kind), last)
    if not ends_whole(source.main):
        rows.torn(last)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "rows with a time and raw counters of interfaces, by Telegraf's names",
            rows.unusable("none"),
            "export the fields themselves (bytes_recv, ifHCInOctets, ...), without derivative() "
            "or mean()",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _metric(row: Mapping[str, str], kind: str | None) -> _Metric:
    own = {name: text for name, text in row.items() if text and not name.startswith("_")}
    if kind == "long":
        return _Metric(row["_measurement"], own, {row["_field"]: row["_value"]}, row["_time"])
    pairs = (pair.partition("=") for pair in own.get("tags", "").split(",") if "=" in pair)
    tags = own | {key.strip(): text.strip() for key, _, text in pairs}
    return _Metric(row["name"], tags, own, row["time"])


def _add(rows: Rows, metric: _Metric, line: int) -> None:
    try:
        ns, step = printed_ns(metric.time)
    except ValueError:
        rows.aside("row", "no time that can be read", line)
        return
    stamp = rows.stamp("collector", step)
    found = amounts(rows, line, "rows", metric.name, metric.tags, metric.fields)
    for key, amount in found:
        rows.add(key, ns, amount, stamp, line)
