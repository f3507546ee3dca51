"""VictoriaMetrics' export: raw samples of series, one JSON object per line.

Written by: VictoriaMetrics, ``/api/v1/export?match[]=node_network_transmit_bytes_total`` with
``start`` and ``end``: ``{"metric": {...}, "values": [...], "timestamps": [...]}``.
Specified in: https://docs.victoriametrics.com/ ("How to export data in JSON line format").
Cannot tell: what ``prometheus_api`` cannot; its times are those of the scrapes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows
from servebook.read.files import lines, loads
from servebook.read.prometheus_api import add_series, aliases, labels_of
from servebook.read.prometheus_names import BUILD_INFO, words_factor
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "prometheus-export"
_HEAD = re.compile(rb'\s*\{\s*"metric"\s*:\s*\{')


def find(files: Sequence[File]) -> list[Source]:
    """Files whose first line is a series with its values."""
    return [
        Source(_NAME, file.root, file.path, (file.path,))
        for file in files
        if _HEAD.match(file.head) and b'"values"' in file.head
    ]


def read(source: Source) -> Tables:
    """Samples of all lines.

    Raises DumpError where no line is a network counter; lines that are no series, and series of
    other things, are set aside.
    """
    rows = Rows(source)
    series = []
    for line, raw in lines(source.main):
        if not raw.strip():
            continue
        try:
            entry = loads(raw)
        except ValueError as error:
            rows.aside("line", str(error), line)
            continue
        points = _points(rows, entry, line)
        if points is not None:
            series.append((labels_of(entry), points))
    stamp = rows.stamp("collector", 1_000_000)
    builds = [own.get("version") for own, _ in series if own.get("__name__") == BUILD_INFO]
    factor = words_factor(builds[0] if builds else None, source.options.get("unit"))
    devices = aliases([own for own, _ in series])
    for (own, points), device in zip(series, devices, strict=True):
        add_series(rows, own, points, device, stamp, source.main, factor)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "series of network counters",
            rows.unusable("none"),
            "export the counter itself: match[]=node_network_receive_bytes_total",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _points(rows: Rows, entry: Any, line: int) -> list[tuple[int, str]] | None:
    """(ms, printed value) of a series; None for what is no series."""
    values = entry.get("values") if isinstance(entry, dict) else None
    times = entry.get("timestamps") if isinstance(entry, dict) else None
    if not isinstance(values, list) or not isinstance(times, list) or len(values) != len(times):
        rows.aside("line", "no series with as many `timestamps` as `values`", line)
        return None
    points = []
    for at, value in zip(times, values, strict=True):
        if type(at) is not int or value is None or isinstance(value, bool | list | dict):
            rows.aside_once("readings", "no time in ms with a number", line)
        else:
            points.append((at, str(value)))
    return points
