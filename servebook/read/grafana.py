"""A Grafana panel's series as CSV: "Inspect > Data > Download CSV".

Written by: Grafana (all versions), with series as columns (joined by time), one frame after
another, or ``Series;Time;Value``; ``,``, ``;`` or tab, with or without ``sep=``, UTF-8 or UTF-16
with "Excel compatibility"; times as epoch ms, ISO 8601 or text; values raw or with units.
Specified in: nothing but Grafana's source (packages/grafana-data: csv.ts, valueFormats).
Cannot tell: what a legend does not say (interface, direction); the unit of raw values; the zone of
times as text (the dashboard's: ``time_zone:`` in the manifest); the scrapes. Values are averages
over the panel's step, so peaks are lowered, and formatted ones are rounded to what they print. A
rounded total (``1.53 TB``) cannot give rates and is set aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows, whole
from servebook.read.counter_stamps import ends_whole
from servebook.read.csvmap import SEP, delimiter, fields
from servebook.read.csvmap_columns import FACTORS, known_header, named
from servebook.read.files import lines
from servebook.read.grafana_cells import Clock, amount
from servebook.read.grafana_legend import Legend, legend_of
from servebook.read.source import File, Format, Source, printable
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "grafana-csv"
_TIME = ("time", "date", "date & time", "timestamp")
_DEVICE, _INTERFACE = "device", "unknown"
_EMPTY = ("", "null", "undefined", "-")  # no value, which is not 0
_PER_S = {"bits/s": 0.125, "bytes/s": 1.0, "packets/s": 1.0}
_WAY_OUT = (
    "export the panel with series joined by time; `columns:`, `unit:`, `direction:` and "
    "`time_zone:` of the manifest say what the file does not"
)


@dataclass
class _Series:
    """One legend: its place for messages, and its cells with line and time."""

    place: int
    cells: list[tuple[int, str, str]] = field(default_factory=list)


def find(files: Sequence[File]) -> list[Source]:
    """CSV files that begin with a time column and legends, where those are not our own names."""
    return [
        Source(_NAME, file.root, file.path, (file.path,))
        for file in files
        if b"\x00" not in file.head[:4096] and _mine(file.head.decode("utf-8", "replace"))
    ]


def read(source: Source) -> Tables:
    """Samples of one panel; ``source.options`` may hold columns, unit, kind, direction,
    interface, device and time_zone.

    Raises DumpError where a mapped legend is not there or no cell can be used; cells and rows
    that cannot be used are set aside.
    """
    rows = Rows(source)
    series: dict[str, _Series] = {}
    separator, last = _collect(rows, series)
    zone = source.options.get("time_zone")
    clock = Clock(
        (text for one in series.values() for _, text, _ in one.cells),
        None if zone is None else str(zone),
    )
    whole_file = ends_whole(source.main)
    mapped = _mapped(rows, series)
    legends = {}
    for text, one in series.items():
        try:
            legends[text] = mapped.get(text) or legend_of(text, _direction(rows))
        except ValueError as error:
            rows.aside("series", f"column {one.place}: {error} ({len(one.cells):,} readings)")
    named = any(legend.interface for legend in legends.values())
    option = None if named else rows.take_interface()
    stamp = rows.stamp("grid", None)
    seen: set[tuple[str | None, ...]] = set()
    for text, legend in legends.items():
        one = series[text]
        identity = (legend.device, legend.interface, legend.metric, legend.direction, legend.scope)
        if identity in seen:
            told = "a legend that says no more than another; map both in `columns:`"
            rows.aside("series", f"column {one.place}: {told} ({len(one.cells):,} readings)")
            continue
        seen.add(identity)
        if not whole_file:
            _without_torn(rows, one, last)
        name = legend.interface or option or _INTERFACE
        _add(rows, legend, name, one, clock, separator == ";", stamp)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "a panel with the traffic of interfaces",
            rows.unusable("no reading that can be used"),
            _WAY_OUT,
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _mine(text: str) -> bool:
    separator, header, raw, first = "", None, "", None
    for line in text.split("\n")[:40]:
        bare = line.strip("\r")
        if not bare.strip():
            continue
        if header is None and (match := SEP.fullmatch(bare)):
            separator = match[1]
        elif header is None:
            raw, header = bare, fields(bare, separator or delimiter(bare))
        else:
            first = fields(bare, separator or delimiter(raw))
            break
    if header is None or len(header) < 2 or first is None:
        return False
    names = [name.strip().lower() for name in header]
    units = any(_has_unit(cell) for cell in first)
    if known_header(header) and not units:
        return False
    if {"series", "time", "value"} <= set(names):
        return True
    if names[0] not in _TIME:
        return False
    quoted = all(part.startswith('"') for part in _parts(raw, separator or delimiter(raw)))
    return bool(separator) or quoted or units


def _parts(raw: str, separator: str) -> list[str]:
    """The first two cells as they stand: legends may hold separators."""
    return [part.lstrip() for part in raw.split(separator, 1)]


def _has_unit(cell: str) -> bool:
    try:
        return amount(cell, comma=True)[1] != ""
    except ValueError:
        return False


def _collect(rows: Rows, series: dict[str, _Series]) -> tuple[str, int]:
    """Fills ``series`` by legend; returns the delimiter and the last line."""
    separator, header, times, last = "", None, 0, 0
    for last, raw in lines(rows.source.main):
        text = raw.decode("utf-8", "replace")
        if not text.strip():
            continue
        if match := SEP.fullmatch(text):
            separator = match[1]
            continue
        if not separator:
            separator = delimiter(text)
        row = fields(text, separator)
        names = [name.strip().lower() for name in row]
        if header is None or any(name in _TIME for name in names[:2]):
            header, times = row, next((i for i, name in enumerate(names) if name in _TIME), -1)
            _reserve(rows, series, row, last)
        elif len(row) != len(header):
            rows.aside("row", f"expected {len(header)} fields, found {len(row)}", last)
        elif times >= 0:
            for place, legend, cell in _cells(header, row, times):
                if cell.strip() not in _EMPTY:
                    one = series.setdefault(legend, _Series(place))
                    one.cells.append((last, row[times], cell))
    if header is None:
        raise DumpError(rows.where(), "a header and rows", "an empty file", "export it again")
    return separator, last


def _value_place(header: Sequence[str]) -> int | None:
    """The place of ``Value`` in the long form, whose other columns name the series."""
    names = [name.strip().lower() for name in header]
    found = [i for i, name in enumerate(names) if name == "value" or name.startswith("value #")]
    return found[0] if len(found) == 1 and len(header) > 2 else None


def _reserve(rows: Rows, series: dict[str, _Series], header: Sequence[str], line: int) -> None:
    if _value_place(header) is not None:
        return
    legends = [name for name in header if name.strip().lower() not in _TIME]
    if len(set(legends)) < len(legends):
        raise DumpError(
            rows.where(),
            "one column per legend",
            "two of one name, and nobody can tell which is which",
            "give the panel's queries different legends",
            line=line,
        )
    for place, legend in enumerate(header, start=1):
        if legend.strip().lower() not in _TIME:
            series.setdefault(legend, _Series(place))


def _cells(header: Sequence[str], row: Sequence[str], times: int) -> Iterator[tuple[int, str, str]]:
    """(place, legend, cell) of the values of one row."""
    value = _value_place(header)
    if value is None:
        yield from (
            (place + 1, header[place], cell) for place, cell in enumerate(row) if place != times
        )
        return
    labels = {
        name.strip(): cell.strip()
        for place, (name, cell) in enumerate(zip(header, row, strict=True))
        if place not in (times, value) and cell.strip()
    }
    lowered = {name.lower(): cell for name, cell in labels.items()}
    legend = lowered.get("series") or lowered.get("metric")
    if legend is None:
        name = labels.pop("__name__", "")
        quoted = ",".join(
            '{}="{}"'.format(key, text.replace("\\", r"\\").replace('"', r"\""))
            for key, text in sorted(labels.items())
        )
        legend = f"{name}{{{quoted}}}"
    yield value + 1, legend, row[value]


def _direction(rows: Rows) -> str | None:
    option = rows.source.options.get("direction")
    return None if option is None else str(option)


def _mapped(rows: Rows, series: Mapping[str, _Series]) -> dict[str, Legend]:
    """Legends that ``columns:`` of the manifest explains."""
    mapping = cast("Mapping[str, str]", rows.source.options.get("columns") or {})
    unit = str(rows.source.options.get("unit") or "bytes").removesuffix("/s")
    by_text = {text.strip(): text for text in series}
    out = {}
    for ours, theirs in mapping.items():
        meaning = named(ours)
        if meaning is None:
            continue
        if theirs.strip() not in by_text:
            raise DumpError(
                rows.where(),
                f"a legend {printable(theirs)} (for {printable(ours)}), as the manifest says",
                f"{len(series)} others",
                "copy the legend from the file's first line",
            )
        rate = meaning.rate or rows.source.options.get("kind") == "rate"
        factor = FACTORS.get(unit, 1.0) if meaning.factor is None else meaning.factor
        out[by_text[theirs.strip()]] = Legend(
            meaning.interface,
            meaning.device,
            meaning.metric,
            meaning.direction,
            counter=not rate,
            factor=factor,
        )
    return out


def _without_torn(rows: Rows, one: _Series, last: int) -> None:
    """Drops a cell at the end of a file that ends in a line, where digits may be missing."""
    if one.cells and one.cells[-1][0] == last and not _has_unit(one.cells[-1][2]):
        one.cells.pop()
        rows.aside("reading", "the file ends inside this line; the number may lack digits", last)


def _add(
    rows: Rows,
    legend: Legend,
    interface: str,
    one: _Series,
    clock: Clock,
    comma: bool,
    stamp: int,
) -> None:
    found: list[tuple[int, int, int | float, str, str]] = []
    for line, when, cell in one.cells:
        try:
            ns = clock.ns(when)
        except ValueError as error:
            rows.aside_once(f"column {one.place}", str(error), line)
            continue
        try:
            found.append((line, ns, *_reading(rows, legend, cell, comma)))
        except ValueError as error:
            rows.aside_once(f"column {one.place}", str(error), line)
    # Panels draw what is sent below the axis: then no value of the series is above it.
    mirrored = not any(value > 0 for _, _, value, _, _ in found)
    device = rows.alias(legend.device) if legend.device else _DEVICE
    numbers: dict[tuple[str, str], int] = {}
    for line, ns, value, kind, metric in found:
        if value < 0 and not (mirrored and kind == "rate"):
            rows.aside_once(f"column {one.place}", "a rate cannot be negative", line)
            continue
        number = numbers.get((metric, kind))
        if number is None:
            number = numbers[metric, kind] = rows.series(
                device,
                interface,
                metric,
                legend.direction,
                scope=legend.scope,
                kind=kind,
                bits=legend.bits,
            )
        rows.add(number, ns, abs(value), stamp, line)


def _reading(rows: Rows, legend: Legend, cell: str, comma: bool) -> tuple[int | float, str, str]:
    """(value in canonical units, kind, metric) of one cell."""
    value, unit = amount(cell, comma=comma)
    options = rows.source.options
    if unit in _PER_S:
        metric = legend.metric
        if unit == "packets/s" and metric == "bytes":
            metric = "packets"
        elif (unit != "packets/s") != (metric == "bytes"):
            raise ValueError("a unit that does not fit what the legend says")
        return value * _PER_S[unit], "rate", metric
    if unit == "percent":
        raise ValueError("a percentage; export the rate")
    if unit:
        raise ValueError(
            "a rounded total, from which no rate can be told; export it without formatting"
        )
    if legend.counter and options.get("kind") != "rate":
        return _exact(cell, legend.factor), "counter", legend.metric
    stated = str(options.get("unit") or "").removesuffix("/s")
    if options.get("kind") == "rate" or legend.factor != 1.0:
        factor = legend.factor if legend.factor != 1.0 else FACTORS.get(stated)
        if factor is not None or legend.metric != "bytes":
            return value * (factor or 1.0), "rate", legend.metric
    raise ValueError(
        "a value without a unit; write `kind: rate` and `unit: bits` or `bytes` in the manifest"
    )


def _exact(cell: str, factor: float) -> int:
    count = whole(cell)
    exact = count // 8 if factor == 0.125 else count * int(factor)
    if exact >= 1 << 64:
        raise ValueError("the value is above 64 bits")
    return exact
