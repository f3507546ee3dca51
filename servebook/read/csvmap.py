"""Plain CSV of interface counters, in our column names or mapped to them by the manifest.

Written by: shell loops, spreadsheets and exporters of many kinds; no single client.
Specified in: docs/formats.md, "Plain CSV". One row per reading: a time (``ts`` or ``ts_ns`` or
``time``), and columns such as ``rx_bytes``, ``tx_bytes``, ``rx_packets``; ``device`` and
``interface`` where the file holds several. Other names are mapped by ``columns:`` (ours: theirs);
a file without a header is mapped by the numbers of its columns (``{ts: 1, rx_bytes: 2}``).
Cannot tell: units and whether a column is a counter or a rate. ``rx_bytes`` is a counter in bytes
unless the manifest says otherwise (``kind: rate``, ``unit: bits``, ``unit: words`` of 4 bytes);
``rx_bytes_per_s`` and ``rx_bits_per_s`` say it themselves. ``interface:`` in the manifest names
the interface of a file without that column; else it is called "unknown".
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import cast

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows
from servebook.read.counter_stamps import ends_whole
from servebook.read.csvmap_columns import Columns, known_header
from servebook.read.files import lines
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "SEP", "delimiter", "fields", "find", "read"]

_NAME = "csv"
#: A first line that names the delimiter, as spreadsheets want it.
SEP = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"')
_NUMBER = re.compile(r"[\d.eE+-]*\d[\d.eE+-]*")


def find(files: Sequence[File]) -> list[Source]:
    """CSV files with a time column and at least one counter column in our names.

    A file with other names is claimed by nobody; the manifest's counters entry makes it a source.
    """
    sources = []
    for file in files:
        if b"\x00" in file.head[:4096]:
            continue
        text = enumerate(file.head.decode("utf-8", "replace").split("\n"), start=1)
        _, header, _ = _header((n, line.rstrip("\r")) for n, line in text)
        if header is not None and known_header(header):
            sources.append(Source(_NAME, file.root, file.path, (file.path,)))
    return sources


def read(source: Source) -> Tables:
    """Samples of one CSV file; ``source.options`` may hold columns, kind, unit, interface, device
    and time_zone.

    Raises DumpError where a mapped column is not there, there is no time column, or no row can
    be used. Rows that cannot be read are set aside with their line.
    """
    rows = Rows(source)
    text = ((n, raw.decode("utf-8", "replace")) for n, raw in lines(source.main))
    first, header, separator = _header(text)
    if header is None:
        raise DumpError(rows.where(), "a header and rows", "an empty file", "copy the file again")
    last = first
    left: list[tuple[int, list[str]]] = []
    if _by_number(rows, header):
        left, header = [(first, header)], [str(n) for n in range(1, len(header) + 1)]
    columns = Columns(rows, header, first)
    stamps: dict[int, int] = {}
    whole_file = ends_whole(source.main)
    following = ((n, fields(raw, separator)) for n, raw in text)
    for line, row, final in _marked(chain(left, following)):
        last = line
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            rows.aside("row", f"expected {len(header)} fields, found {len(row)}", line)
            continue
        try:
            ns, step = columns.time(row)
        except ValueError as error:
            rows.aside("row", str(error), line)
            continue
        if final and not whole_file and columns.ends_in_rate(row):
            reason = "the file ends inside this line; the number may lack digits"
            rows.aside("reading", reason, line)
            row = [*row[:-1], ""]
        columns.add(row, ns, stamps.setdefault(step, rows.stamp("collector", step)), line)
    if not whole_file:
        rows.torn(last)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "rows with a time and counters",
            rows.unusable("none that can be read"),
            "correct the file, or what the manifest's counters entry says of it",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def delimiter(header: str) -> str:
    """The sign that separates the fields of a header; those inside quotation marks are text."""
    bare = _QUOTED.sub("", header)
    return max(",;\t|", key=bare.count)


def fields(line: str, separator: str) -> list[str]:
    """The fields of one line; one field, the line itself, where it is no CSV."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # a line break or more than 128 KiB inside a field
        return [line]


def _header(text: Iterator[tuple[int, str]]) -> tuple[int, list[str] | None, str]:
    """(line, header or None, delimiter); ``sep=;`` and comments before it are passed over."""
    separator = ""
    for line, raw in text:
        if not raw.strip():
            continue
        if match := SEP.fullmatch(raw):
            separator = match[1]
            continue
        bare = raw.lstrip("# \t") if raw.startswith("#") else raw
        header = fields(bare, separator or delimiter(bare))
        if raw.startswith("#") and not known_header(header):
            continue
        return line, header, separator or delimiter(bare)
    return 0, None, ","


def _marked(
    rows: Iterable[tuple[int, list[str]]],
) -> Iterator[tuple[int, list[str], bool]]:
    """The rows, each with whether it is the last."""
    held: tuple[int, list[str]] | None = None
    for row in rows:
        if held is not None:
            yield (*held, False)
        held = row
    if held is not None:
        yield (*held, True)


def _by_number(rows: Rows, header: Sequence[str]) -> bool:
    """True for a file without a header, whose columns the manifest names by their numbers."""
    mapping = cast("Mapping[str, str]", rows.source.options.get("columns") or {})
    theirs = [str(name) for name in mapping.values()]
    return (
        bool(theirs)
        and all(name.isascii() and name.isdigit() and int(name) >= 1 for name in theirs)
        and not any(name in header for name in theirs)
        and any(_NUMBER.fullmatch(cell.strip()) for cell in header)
    )
