"""Telegraf's metrics in InfluxDB line protocol, or as JSON: a line or object per metric.

Written by: Telegraf's file output (``data_format = "influx"`` or ``"json"``) and ``telegraf
--test`` (``> `` before each line), with the inputs net, ethtool, snmp, infiniband, gnmi and
prometheus; other writers of line protocol with the same names.
Specified in: InfluxDB's documentation, "Line protocol"; Telegraf's README of each input.
Cannot tell: the precision of times (read by their magnitude: s, ms, us or ns; Telegraf rounds them
to its interval, which shows as trailing zeros that all lines share); link speeds, except by snmp
(ifHighSpeed). ``net`` misses RDMA traffic; ``infiniband`` counts words of 4 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from line_protocol_parser import LineFormatError, parse_line

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows
from servebook.read.counter_stamps import ends_whole
from servebook.read.files import lines, loads
from servebook.read.public_names import is_public
from servebook.read.series_labels import shared_step
from servebook.read.source import File, Format, Source
from servebook.read.telegraf_names import amounts
from servebook.read.times import epoch_ns
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "telegraf"
_LINE = re.compile(rb"(?m)^(> )?[A-Za-z_][\w.:/-]*(,[^\s=,]+=(\\.|[^\s,\\])+)* [^\s=,]+=[^\s]")
_KNOWN = re.compile(
    rb"(?m)^(> )?(net|ethtool|infiniband|ifHC(In|Out)Octets|node_(network|infiniband)_\w+),"
    rb"|[ ,/:](if(HC)?(In|Out)Octets|(in|out)[-_]octets)=\d"
    rb"|[ ,]node_(network|infiniband|ethtool)_\w+=\d"
)
_JSON = re.compile(rb'\s*\{\s*"(fields|metrics|name|tags|timestamp)"\s*:')
_JSON_KNOWN = re.compile(
    rb'"name"\s*:\s*"(net|ethtool|infiniband)"|"if(HC)?(In|Out)Octets"|(in|out)[-_]octets"'
    rb'|"node_(network|infiniband|ethtool)_'
)


@dataclass(frozen=True)
class _Metric:
    line: int
    name: str
    tags: Mapping[str, str]
    fields: Mapping[str, Any]
    time: str


def find(files: Sequence[File]) -> list[Source]:
    """Files of line protocol or Telegraf's JSON with counters of interfaces; one source each."""
    return [
        Source(_NAME, file.root, file.path, (file.path,))
        for file in files
        if (_LINE.search(file.head[:16384]) and _KNOWN.search(file.head))
        or (
            _JSON.match(file.head)
            and _JSON_KNOWN.search(file.head)
            and all(key in file.head for key in (b'"fields"', b'"tags"', b'"timestamp"'))
        )
    ]


def read(source: Source) -> Tables:
    """Samples of all metrics of one file.

    Raises DumpError where no metric has a time and a counter of an interface; lines that cannot
    be read are set aside.
    """
    rows = Rows(source)
    shared = 10**9
    for metric, ns, step in _timed(rows, _metrics(rows)):
        # gNMI's stamps are the device's own; else it is when Telegraf asked.
        kind = "device" if "source" in metric.tags and "path" in metric.tags else "collector"
        stamp = rows.stamp(kind, step)
        for series, amount in _points(rows, metric):
            shared = shared_step((shared, ns))
            rows.add(series, ns, amount, stamp, metric.line)
    rows.rounded(shared)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "metrics with a time and counters of interfaces (net, ethtool, snmp, infiniband, gnmi)",
            rows.unusable("none"),
            'write them by [[outputs.file]] with data_format = "influx", times included',
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _metrics(rows: Rows) -> Iterator[_Metric]:
    digits, held = 0, None
    for line, raw in lines(rows.source.main):
        text = raw.decode("utf-8", "replace").removeprefix("> ").strip()
        if not text or text.startswith("#"):
            continue
        if held is not None:
            yield held
            digits, held = len(held.time), None
        if text.startswith("{"):
            yield from _objects(rows, text, line)
        else:
            held = _protocol(rows, text, line)
    if held is None:
        return
    if not ends_whole(rows.source.main) and digits and len(held.time) != digits:
        reason = "the file ends inside this line; the time may lack digits"
        rows.aside("line", reason, held.line)
        return
    yield held


def _protocol(rows: Rows, text: str, line: int) -> _Metric | None:
    try:
        found = parse_line(text)
    except LineFormatError:
        rows.aside("line", "no line of line protocol (name,tags fields time)", line)
        return None
    time = found["time"]
    if time is None:
        rows.aside("line", "no time", line)
        return None
    return _Metric(line, found["measurement"], found["tags"], found["fields"], str(time))


def _objects(rows: Rows, text: str, line: int) -> Iterator[_Metric]:
    try:
        document = loads(text)
    except ValueError as error:
        rows.aside("line", str(error), line)
        return
    batch = document.get("metrics") if isinstance(document.get("metrics"), list) else [document]
    for entry in batch:
        metric = entry if isinstance(entry, dict) else {}
        fields, tags = metric.get("fields"), metric.get("tags")
        if not isinstance(fields, dict) or not isinstance(tags, dict):
            rows.aside("metric", "no `fields` and `tags`", line)
            continue
        time = metric.get("timestamp")
        if isinstance(time, bool) or not isinstance(time, int | float):
            rows.aside("metric", "no time", line)
            continue
        shown = f"{time:.6f}" if isinstance(time, float) else str(time)
        texts = {str(key): str(value) for key, value in tags.items()}
        yield _Metric(line, str(metric.get("name")), texts, fields, shown)


def _timed(rows: Rows, metrics: Iterable[_Metric]) -> Iterator[tuple[_Metric, int, int]]:
    for metric in metrics:
        try:
            ns, step = epoch_ns(metric.time)
        except ValueError as error:
            rows.aside("metric", str(error), metric.line)
        else:
            yield metric, ns, step


def _points(rows: Rows, metric: _Metric) -> Iterator[tuple[int, int | float]]:
    """(series, value) of the network counters of one metric."""
    shown = metric.name if is_public(metric.name) else "a metric"
    return amounts(rows, metric.line, shown, metric.name, metric.tags, metric.fields)
