"""Saved replies of the Prometheus HTTP API: counters of node_exporter, snmp_exporter and others.

Written by: Prometheus 2 and 3 and servers with the same API (Thanos, Mimir, VictoriaMetrics):
``/api/v1/query_range`` and ``/api/v1/query``, saved as JSON.
Specified in: https://prometheus.io/docs/prometheus/latest/querying/api/
Cannot tell: the query; the scrape interval; whether a matrix came from ``query_range`` (times are
the evaluation grid, values are held from the last scrape before) or from ``query=metric[30m]``
(times are the scrapes). Times on one exact grid are taken as a grid, the weaker claim; scrapes of
several targets or with jitter are not on one. A series without a name is a computed one: its unit,
kind and direction come from the manifest (``kind: rate``, ``unit: bytes``, ``direction: tx``)
or it is set aside. Label values
name hosts, so the device becomes the job (with a number where a job has several instances, in the
order of their names); ``device:`` in the manifest names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from servebook.errors import DumpError
from servebook.read.counter_names import TOO_NARROW, Meaning
from servebook.read.counter_rows import Rows, whole
from servebook.read.files import loads, read_text
from servebook.read.prometheus_names import (
    BUILD_INFO,
    Series,
    job_of,
    reading_of,
    series_of,
    words_factor,
)
from servebook.read.prometheus_pairs import LARGE_BYTES, Pairs, large_reply, on_grid
from servebook.read.public_names import THIS_SITE, is_public
from servebook.read.source import File, Format, Source, relative
from servebook.tables import Tables

__all__ = ["FORMAT", "add_series", "aliases", "find", "labels_of", "read"]

_NAME = "prometheus"
_Pairs = Sequence[tuple[int, str]] | Pairs  # (ms, printed value)
_Reply = tuple[list[Any], str, dict[str, Any]]  # series, matrix or vector, the whole reply
_STATUS = re.compile(rb'"status"\s*:\s*"(success|error)"')
_VECTOR = re.compile(rb'"resultType"\s*:\s*"vector"')
_RESULT = re.compile(rb'"(resultType|errorType|data)"\s*:')
_WORD = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]{0,120}")


def find(files: Sequence[File]) -> list[Source]:
    """A source per saved reply; the instant vectors of one folder are one series of readings."""
    sources: list[Source] = []
    vectors: dict[Path, list[File]] = {}
    for file in files:
        head = file.head.lstrip()
        if not head.startswith(b"{"):
            continue
        start = head[:4096]
        if not (_STATUS.search(start) or b'"resultType"' in start) or not _RESULT.search(start):
            continue
        if _VECTOR.search(start):
            vectors.setdefault(file.path.parent, []).append(file)
        else:
            sources.append(Source(_NAME, file.root, file.path, (file.path,)))
    for group in vectors.values():
        paths = tuple(sorted(file.path for file in group))
        sources.append(Source(_NAME, group[0].root, paths[0], paths))
    return sorted(sources, key=lambda source: source.main)


def read(source: Source) -> Tables:
    """Samples of one saved reply (or of a folder's instant vectors).

    Raises DumpError for a reply that holds an error, no series, only series that nobody can
    interpret, or no reading that can be used. Values that are NaN or infinite and series of other
    things are set aside.
    """
    rows = Rows(source)
    paths = source.files or (source.main,)
    replies = [_reply(rows, path) for path in paths]
    # One alias per instance over all files, so that two hosts never share one.
    labels = [labels_of(entry) for result, _, _ in replies for entry in result]
    devices = iter(aliases(labels))
    usable = 0
    for path, reply in zip(paths, replies, strict=True):
        usable += _read_reply(rows, path, reply, devices)
    if not usable and not len(rows):
        nameless = rows.where()
        raise DumpError(
            nameless,
            "series with their metric names, or the manifest's word on what they are",
            "only series without a name: the result of a rate() or another computation",
            "export the counter itself (query=node_network_receive_bytes_total[30m]), or write "
            "`kind: rate`, `unit: bytes` (or bits) and `direction: rx` (or tx) in the manifest's "
            "counters entry",
        )
    if not len(rows):
        raise DumpError(
            rows.where(),
            "readings of counters",
            rows.unusable("none that can be used"),
            "save the reply of a query for a counter of interfaces "
            "(query=node_network_receive_bytes_total[30m])",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _read_reply(rows: Rows, path: Path, parsed: _Reply, devices: Iterator[str]) -> int:
    """Adds one reply; returns how many of its series have a name (or the manifest's word)."""
    result, kind, reply = parsed
    for key in ("warnings", "infos"):
        if told := reply.get(key):
            count = f"{len(told)} {key}" if isinstance(told, list) else key
            rows.aside(key, f"the server sent {count}: it may be incomplete", None, path)
    if reply.get("isPartial"):
        rows.aside("isPartial", "the server says that this reply is incomplete", None, path)
    points: list[_Pairs] = [_points(rows, entry, kind, path) for entry in result]
    grid = kind == "vector" or _on_grid(points)
    stamp = rows.stamp("grid" if grid else "collector", None if grid else 1_000_000, path)
    labels = [labels_of(entry) for entry in result]
    builds = [own.get("version") for own in labels if own.get("__name__") == BUILD_INFO]
    factor = words_factor(builds[0] if builds else None, rows.source.options.get("unit"))
    usable = 0
    points.reverse()
    for own in labels:  # what was added is let go
        usable += add_series(rows, own, points.pop(), next(devices), stamp, path, factor)
    return usable


def _reply(rows: Rows, path: Path) -> _Reply:
    where = relative(path, rows.source.root)
    if path.stat().st_size > LARGE_BYTES:
        return _series(where, large_reply(where, path, lambda one: _pairs(rows, one, path)))
    try:
        reply = loads(read_text(path))
    except ValueError as error:
        raise DumpError(
            where, "one reply of the Prometheus API", str(error), "save the query's reply again"
        ) from None
    return _series(where, reply)


def _series(where: str, reply: Any) -> _Reply:
    if not isinstance(reply, dict):
        reply = {}
    if reply.get("status") == "error":
        kind = str(reply.get("errorType"))
        points = "11,000 points" in str(reply.get("error"))
        raise DumpError(
            where,
            "a successful reply",
            f"an error of the server ({kind if _WORD.fullmatch(kind) else 'of no known kind'}"
            f"{': more than 11,000 points per series' if points else ''})",
            "ask for fewer points: a larger step, or several shorter ranges"
            if points
            else "correct the query and save the reply again",
        )
    data = reply.get("data") if "data" in reply else reply
    shape = data.get("resultType") if isinstance(data, dict) else None
    if shape not in ("matrix", "vector") or not isinstance(data, dict):
        raise DumpError(
            where,
            "a matrix or vector of samples",
            f"a {shape}" if shape in ("scalar", "string") else "a reply without samples",
            "save the reply of /api/v1/query_range, or of /api/v1/query?query=METRIC[30m]",
        )
    result = data.get("result")
    if not isinstance(result, list) or not result:
        raise DumpError(
            where,
            "at least one series",
            "an empty result",
            "check the metric's name, its labels (node_exporter may leave lo out) and the time "
            "range; Prometheus answers a query that matches nothing with an empty result",
        )
    return result, str(shape), reply


def labels_of(entry: Any) -> dict[str, str]:
    """The labels of a series, its name as ``__name__``; empty for what is no series."""
    metric = entry.get("metric") if isinstance(entry, dict) else None
    return {str(k): str(v) for k, v in metric.items()} if isinstance(metric, dict) else {}


def _points(rows: Rows, entry: Any, kind: str, path: Path) -> _Pairs:
    """(ms, printed value) of a series; what is not such a pair is set aside."""
    if isinstance(entry, dict) and entry.get("histograms"):
        rows.aside("series", "a native histogram is not a counter", None, path)
    if kind == "vector" and isinstance(entry, dict):
        entry = {"values": [entry.get("value")]}
    if isinstance(entry, dict) and isinstance(entry.get("values"), Pairs):
        packed: Pairs = entry.pop("values")
        return packed
    return _pairs(rows, entry, path)


def _pairs(rows: Rows, entry: Any, path: Path) -> list[tuple[int, str]]:
    raw = entry.get("values", []) if isinstance(entry, dict) else []
    points = []
    for pair in raw if isinstance(raw, list) else []:
        try:
            at, value = pair
            points.append((_ms(at), str(value)))
        except (TypeError, ValueError, ArithmeticError):
            rows.aside("reading", "no pair of a time and a value", None, path)
    return points


def _ms(at: Any) -> int:
    """A time in seconds as whole ms, from its printed digits; raises for what is no number.

    The digits of a float are asked for only where the float's own error could decide.
    """
    if type(at) is int:
        return at * 1000
    if type(at) is float and abs(at) < 1e11:
        near = round(at * 1000)
        if abs(at * 1000 - near) < 0.4:
            return near
    return round(Decimal(str(at)) * 1000)


def _on_grid(series: Sequence[_Pairs]) -> bool:
    """True where all times of all series lie on one grid of their smallest spacing."""
    packed = [points for points in series if isinstance(points, Pairs)]
    if len(packed) == len(series):
        return on_grid(packed)
    times = sorted({at for points in series for at, _ in points})
    own = [b[0] - a[0] for points in series for a, b in pairwise(points)]
    step = min(own, default=0)
    return step > 0 and all((at - times[0]) % step == 0 for at in times)


def aliases(labels: Sequence[Mapping[str, str]]) -> list[str]:
    """A stable alias per series: the job, with a number where a job has several instances."""
    keys = [(job_of(label), label.get("instance", "")) for label in labels]
    jobs: dict[str, set[str]] = {}
    for job, instance in keys:
        jobs.setdefault(job, set()).add(instance)
    aliases = {}
    for job, instances in jobs.items():
        name = job or "instance"
        for place, instance in enumerate(sorted(instances), start=1):
            single = len(instances) == 1 and bool(job)
            aliases[job, instance] = name if single else f"{name} {place}"
    return [aliases[key] for key in keys]


def add_series(
    rows: Rows,
    labels: Mapping[str, str],
    points: _Pairs,
    device: str,
    stamp: int,
    path: Path,
    factor: int | None,
) -> int:
    """Adds the (ms, printed value) pairs of a series, or sets them aside.

    Returns 0 for a series without a name that the manifest does not explain, else 1. ``factor`` is
    that of ``words_factor``.
    """
    name = labels.get("__name__")
    if name is None:
        stated = _stated(rows)
        interface = labels.get("ifName") or labels.get("ifDescr") or labels.get("device")
        found = None if stated is None else Series(stated, interface)
    else:
        found = series_of(name, labels)
    if name is None and found is None:
        rows.aside(
            "series",
            "a series without a name, so nobody knows its unit and direction; write `kind: rate`, "
            "`unit:` and `direction:` in the manifest",
            None,
            path,
        )
        return 0
    if found is None:
        shown = str(name) if is_public(str(name)) else THIS_SITE
        rows.aside(
            "series", f"{TOO_NARROW.get(str(name), 'not a network counter')} ({shown})", None, path
        )
        return 1
    device = rows.alias(found.device) if found.device else device
    interface = found.interface or "unknown"
    key = rows.meant(found.meaning, device, interface, rank=found.rank)
    meaning, own = found.meaning, factor if found.in_words else 1
    times = int(meaning.factor) * own if meaning.kind == "counter" and own is not None else 0
    for ms, value in points:
        try:
            read_value = whole(value, times) if times else reading_of(meaning, value, own)
            rows.add(key, ms * 10**6, read_value, stamp)
        except ValueError as error:
            shown = "a series" if name else "a nameless series"
            shown = str(name) if is_public(str(name)) else shown
            rows.aside_once(shown, str(error), None, path)
    return 1


def _stated(rows: Rows) -> Meaning | None:
    """What the manifest says about series without a name: nothing in them tells it."""
    options = rows.source.options
    unit, direction = options.get("unit"), options.get("direction")
    if options.get("kind") != "rate" or unit is None or direction not in ("rx", "tx"):
        return None
    factor = {"bytes": 1.0, "bits": 0.125}.get(str(unit).removesuffix("/s"))
    if factor is None:
        raise DumpError(
            rows.where(), "`unit:` bytes or bits", "another unit", "correct the manifest"
        )
    return Meaning("bytes", str(direction), kind="rate", factor=factor)
