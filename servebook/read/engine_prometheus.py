"""Reader of Prometheus API replies that hold series of serving engines.

Written by: Prometheus and servers with the same API, asked for ``vllm:*`` and its like.
Specified in: https://prometheus.io/docs/prometheus/latest/querying/api/
Cannot tell: when the engine was read. A range query's times are its grid, and each value is that
of the last scrape before; a range selector gives the scrapes. Computed series have no name and are
set aside.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from servebook.errors import DumpError
from servebook.read.counter_rows import number
from servebook.read.engine_names import meaning, mentions
from servebook.read.engine_rows import EngineRows
from servebook.read.files import loads, read_text
from servebook.read.source import File, Format, Source, relative
from servebook.read.values import object_of, objects_in
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "engine-prometheus"
_NAMES = re.compile(rb'"__name__"\s*:\s*"([^"]{1,200})"')


def find(files: Sequence[File]) -> list[Source]:
    """Replies whose first named series is an engine's."""
    return [Source(_NAME, file.root, file.path, (file.path,)) for file in files if _mine(file.head)]


def _mine(head: bytes) -> bool:
    if head.lstrip()[:1] != b"{" or b'"resultType"' not in head:
        return False
    first = _NAMES.search(head)
    return first is not None and mentions(first[1])


def read(source: Source) -> Tables:
    """Table ``engine`` of one reply; raises DumpError for one that cannot be used at all."""
    rows = EngineRows(source)
    where = relative(source.main, source.root)
    try:
        reply = loads(read_text(source.main))
    except ValueError as error:
        raise DumpError(where, "a reply of Prometheus's API", str(error), "save it again") from None
    if object_of(reply).get("status") != "success":
        found = "one that reports an error"
        raise DumpError(where, "a reply of Prometheus's API", found, "repeat the query")
    result = object_of(object_of(reply).get("data")).get("result")
    for series in objects_in(result):
        _series(rows, series)
    if not len(rows):
        rows.aside("reply", "no value of an engine's metric that is read")
    return rows.tables()


FORMAT = Format(_NAME, "engine", find, read)


def _series(rows: EngineRows, series: Mapping[str, Any]) -> None:
    labels = {str(k): str(v) for k, v in object_of(series.get("metric")).items()}
    name = labels.get("__name__", "")
    if meaning(name, labels) is None:
        unnamed = "a series without a name, computed by the query; ask for the metric itself"
        rows.aside("series", "not one of the metrics that are read" if name else unnamed)
        return
    points = series.get("values")
    points = points if isinstance(points, list) else [series.get("value")]
    times = [_ns(point) for point in points]
    kind = "grid" if _on_grid([t for t in times if t is not None]) else "collector"
    for at, point in zip(times, points, strict=True):
        if at is None:
            rows.aside_once("point", "expected a time and a value, found something else")
            continue
        try:
            value: Any = number(str(point[1]))
        except ValueError as error:
            rows.aside_once("point", str(error))
            continue
        rows.add(name, labels, value, start_ns=at, ts_kind=kind)


def _ns(point: Any) -> int | None:
    """Epoch ns of a point, exact to the digits that were written."""
    if not isinstance(point, list) or len(point) != 2 or isinstance(point[0], bool):
        return None
    if not isinstance(point[0], int | float) or not 0 < point[0] < 1e11:
        return None
    return int(Decimal(repr(point[0])) * 10**9)


def _on_grid(times: list[int]) -> bool:
    """Whether all times lie on multiples of one step: the weaker claim where scrapes do, too."""
    steps = [b - a for a, b in itertools.pairwise(times)]
    least = min((s for s in steps if s > 0), default=0)
    return least == 0 or all(s % least == 0 for s in steps)
