"""Plain CSV of interface counters, in our column names or mapped to them by the manifest.

Written by: shell loops, spreadsheets and exporters of many kinds; no single client.
Specified in: docs/formats.md, "Plain CSV". One row per reading: a time (``ts`` or ``ts_ns`` or
``time``), and columns such as ``rx_bytes``, ``tx_bytes``, ``rx_packets``; ``device`` and
``interface`` where the file holds several. Other names are mapped by ``columns:`` (ours: theirs).
Cannot tell: units and whether a column is a counter or a rate. ``rx_bytes`` is a counter in bytes
unless the manifest says otherwise (``kind: rate``, ``unit: bits``, ``unit: words`` of 4 bytes);
``rx_bytes_per_s`` and ``rx_bits_per_s`` say it themselves. ``interface:`` in the manifest names
the interface of a file without that column; else it is called "unknown".
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows, number, whole
from servebook.read.counter_stamps import ends_whole, epoch_ns, iso_ns
from servebook.read.files import lines, printable
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "csv"
_TIMES = ("ts_ns", "ts_us", "ts_ms", "ts", "time", "timestamp", "epoch")
_UNITS = {"ts_ns": 1, "ts_us": 10**3, "ts_ms": 10**6}
_VALUE = re.compile(
    r"(?P<direction>rx|tx)_(?P<metric>bytes|octets|packets|errors|errs|drops|dropped|bits)"
    r"(?P<rate>_per_s)?"
)
_METRICS = {"octets": "bytes", "errs": "errors", "dropped": "drops", "bits": "bytes"}
_FACTORS = {"bytes": 1.0, "bits": 0.125, "words": 4.0}
_DEVICE, _INTERFACE = "host", "unknown"


@dataclass(frozen=True)
class _Column:
    place: int
    metric: str
    direction: str | None
    kind: str
    factor: float


def find(files: Sequence[File]) -> list[Source]:
    """CSV files with a time column and at least one counter column in our names.

    A file with other names is claimed by nobody; the manifest's counters entry makes it a source.
    """
    sources = []
    for file in files:
        first = file.head.lstrip().partition(b"\n")[0].decode("utf-8", "replace")
        names = [name.strip().lower() for name in _fields(first.rstrip("\r"), _delimiter(first))]
        if any(name in _TIMES for name in names) and any(_VALUE.fullmatch(name) for name in names):
            sources.append(Source(_NAME, file.root, file.path, (file.path,)))
    return sources


def read(source: Source) -> Tables:
    """Samples of one CSV file; ``source.options`` may hold columns, kind, unit, interface, device,
    time_zone and bits.

    Raises DumpError where a mapped column is not there, there is no time column, or no row can
    be used. Rows that cannot be read are set aside with their line.
    """
    rows = Rows(source)
    text = ((n, raw.decode("utf-8", "replace")) for n, raw in lines(source.main))
    first = next(((n, line) for n, line in text if line.strip()), None)
    if first is None:
        raise DumpError(rows.where(), "a header and rows", "an empty file", "copy the file again")
    delimiter = _delimiter(first[1])
    header = [name.strip() for name in _fields(first[1], delimiter)]
    names = _places(rows, header, first[0])
    at = _time(rows, names, first[0])
    columns = _columns(rows, names, first[0])
    stamps: dict[int, int] = {}
    last = first[0]
    for line, raw in text:
        last, fields = line, _fields(raw, delimiter)
        if not any(field.strip() for field in fields):
            continue
        if len(fields) != len(header):
            rows.aside("row", f"expected {len(header)} fields, found {len(fields)}", line)
            continue
        try:
            ns, step = at(fields)
        except ValueError as error:
            rows.aside("row", str(error) if "time" in str(error) else "no time", line)
            continue
        stamp = stamps.setdefault(step, rows.stamp("collector", step))
        _row(rows, names, columns, fields, ns, stamp, line)
    if not ends_whole(source.main):
        rows.torn(last)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "rows with a time and counters",
            rows.unusable("none that can be read"),
            "correct the file, or what the manifest's counters entry says of it",
        )
    options = {key: value for key, value in source.options.items() if key != "interface"}
    if "interface" in names:
        return rows.tables()
    rows.source = Source(source.format, source.root, source.main, source.files, options)
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _fields(line: str, delimiter: str) -> list[str]:
    """The fields of one line; one field, the line itself, where it is no CSV."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a line break or more than 128 KiB inside a field
        return [line]


def _places(rows: Rows, header: Sequence[str], line: int) -> dict[str, int]:
    """Our column name -> place in the file; the manifest's map wins over equal names."""
    mapping = cast("Mapping[str, str]", rows.source.options.get("columns") or {})
    there = {name: place for place, name in enumerate(header)}
    names: dict[str, int] = {}
    for place, column in enumerate(header):
        name = column.lower()
        used = _ours(name) and name not in mapping
        if (used and name in names) or (column in mapping.values() and there[column] != place):
            raise DumpError(
                rows.where(),
                f"one column {printable(column)}",
                "two, and nobody can tell which counts",
                "rename or remove one of them",
                line=line,
            )
        names[name] = place
    for ours, theirs in mapping.items():
        if theirs not in there:
            raise DumpError(
                rows.where(),
                f"a column {theirs} (for {ours}), as the manifest says",
                f"columns {printable(', '.join(header))[:200]}",
                "correct `columns:` in the manifest",
                line=line,
            )
        if not _ours(ours):
            raise DumpError(
                rows.where(),
                "one of our column names on the left of `columns:`",
                ours,
                f"use {', '.join(_TIMES)}, device, interface, speed_bps, or "
                "rx_/tx_ with bytes, packets, errors, drops, bytes_per_s or bits_per_s",
                line=line,
            )
        names[ours] = there[theirs]
    return names


def _ours(name: str) -> bool:
    known = (*_TIMES, "device", "interface", "speed_bps")
    return name in known or bool(_VALUE.fullmatch(name))


def _time(
    rows: Rows, names: Mapping[str, int], line: int
) -> Callable[[Sequence[str]], tuple[int, int]]:
    mapped = rows.source.options.get("columns") or {}
    order = sorted(_TIMES, key=lambda name: name not in cast("Mapping[str, str]", mapped))
    name = next((name for name in order if name in names), None)
    if name is None:
        raise DumpError(
            rows.where(),
            f"a column with the time ({', '.join(_TIMES)})",
            "none",
            "map it in the manifest: `columns: {ts: NAME}`",
            line=line,
        )
    place = names[name]
    zone = rows.source.options.get("time_zone")

    def at(fields: Sequence[str]) -> tuple[int, int]:
        text = fields[place].strip()
        if name in _UNITS and text.isdigit():
            return int(text) * _UNITS[name], _UNITS[name]
        try:
            return epoch_ns(text)
        except ValueError:
            pass
        try:
            return iso_ns(text, str(zone) if zone is not None else None)
        except ValueError as error:
            if "time" in str(error) or "hour" in str(error):
                raise ValueError(
                    f"{error}; write `time_zone:` in the manifest" if zone is None else str(error)
                ) from None
            raise ValueError("no time that can be read") from None

    return at


def _columns(rows: Rows, names: Mapping[str, int], line: int) -> list[_Column]:
    options = rows.source.options
    kind, unit = options.get("kind"), str(options.get("unit") or "bytes").removesuffix("/s")
    if unit not in _FACTORS:
        raise DumpError(rows.where(), "`unit:` bytes, bits or words", unit, "correct the manifest")
    columns = []
    for name, place in names.items():
        if name == "speed_bps":
            columns.append(_Column(place, name, None, "gauge", 1.0))
        elif match := _VALUE.fullmatch(name):
            metric = _METRICS.get(match["metric"], match["metric"])
            rate = bool(match["rate"]) or kind == "rate"
            own = "bits" if match["metric"] == "bits" else unit
            factor = _FACTORS[own] if metric == "bytes" else 1.0
            columns.append(
                _Column(place, metric, match["direction"], "rate" if rate else "counter", factor)
            )
    if not any(column.metric == "bytes" for column in columns):
        raise DumpError(
            rows.where(),
            "a column of bytes (rx_bytes, tx_bytes, rx_bytes_per_s, rx_bits_per_s)",
            "none",
            "map one in the manifest: `columns: {rx_bytes: NAME}`",
            line=line,
        )
    return columns


def _row(
    rows: Rows,
    names: Mapping[str, int],
    columns: Sequence[_Column],
    fields: Sequence[str],
    ns: int,
    stamp: int,
    line: int,
) -> None:
    option = rows.source.options.get("interface")
    device = rows.alias(fields[names["device"]].strip()) if "device" in names else _DEVICE
    if "interface" in names:
        interface = fields[names["interface"]].strip()
    else:
        interface = str(option) if isinstance(option, str) else _INTERFACE
    bits = rows.source.options.get("bits")
    for column in columns:
        text = fields[column.place].strip()
        if not text:
            continue  # an empty cell says nothing; it is not a zero
        try:
            if column.kind == "counter":
                value: int | float = _exact(text, column.factor)
            else:
                value = number(text) * column.factor
                if value < 0:
                    raise ValueError("a rate cannot be negative")
        except ValueError as error:
            rows.aside("reading", str(error), line)
            continue
        series = rows.series(
            device,
            interface,
            column.metric,
            column.direction,
            kind=column.kind,
            bits=bits if isinstance(bits, int) else 64,
        )
        rows.add(series, ns, value, stamp, line)


def _exact(text: str, factor: float) -> int:
    count = whole(text)
    value = count // 8 if factor == 0.125 else count * int(factor)
    if value >= 1 << 64:
        raise ValueError("the value is above 64 bits")
    return value
