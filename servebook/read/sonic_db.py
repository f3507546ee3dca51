"""Dumps of SONiC's COUNTERS_DB: exact counters of every port, queue and priority group.

Written by: SONiC: ``sonic-db-dump -n COUNTERS_DB -y`` (redis-dump's JSON), also as
``COUNTERS_DB_1.json`` and ``_2.json`` in the ``dump`` folder of ``show techsupport``, which are one
series; rdbtools' JSON of the same database.
Specified in: SAI (saiport.h, saiqueue.h), sonic-swss; COUNTERS_PORT_NAME_MAP and its kin name the
objects. Object numbers change over reboots, so each dump's own maps are used.
Cannot tell: when the chip was asked. redis-dump writes ``expireat`` less ``ttl`` = its wall clock,
which is the time used; the values are up to a poll older (1 s for ports, 10 s for queues by
default), which is stated as the error of the time. rdbtools' JSON has no time: put it into the
file's name. RATES (smoothed by the device) are not read, because the counters say more.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servebook.errors import DumpError
from servebook.read.counter_names import SAI_PORT, SAI_QUEUE, Meaning
from servebook.read.counter_rows import Rows, whole
from servebook.read.counter_stamps import find_texts, name_ns, no_time
from servebook.read.files import loads, read_text
from servebook.read.source import File, Format, Source
from servebook.read.times import YEAR_2001, YEAR_2100
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "sonic-db"
_HEAD = re.compile(
    rb'"(COUNTERS:oid:0x[0-9a-fA-F]+|COUNTERS_(PORT|QUEUE)_NAME_MAP|RATES:oid:0x[0-9a-fA-F]+)"\s*:'
)
_SNAPSHOT = re.compile(r"(.*COUNTERS_DB)_\d{1,2}(\.json)?(\.gz)?", re.IGNORECASE)
_OBJECT = re.compile(r"COUNTERS:(oid:0x[0-9a-fA-F]{1,16})")
_PART = re.compile(r"(.+):(\d{1,5})")
_DEVICE = "switch"
_WHAT = "a dump of COUNTERS_DB"
_PORT_POLL_NS, _QUEUE_POLL_NS = 10**9, 10**10
_SCOPES = {"MULTICAST": "queue_mc", "UNICAST_VOQ": "voq"}
_GROUP = {"SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS": Meaning("drops", "rx", scope="pg")}
_WAYS = (("IN", "rx"), ("OUT", "tx"))
_Maps = dict[str, tuple[str, Mapping[str, Meaning], int | None, str | None]]


def find(files: Sequence[File]) -> list[Source]:
    """Dumps one by one; numbered or time-named ones of a folder as one series."""
    mine = [file for file in files if _is_dump(file.head)]
    series: dict[tuple[Path, str], list[File]] = {}
    rest = []
    for file in mine:
        if match := _SNAPSHOT.fullmatch(file.path.name):
            series.setdefault((file.path.parent, match[1]), []).append(file)
        else:
            rest.append(file)
    sources = find_texts(_NAME, rest, _is_dump)
    for group in series.values():
        paths = tuple(sorted(file.path for file in group))
        sources.append(Source(_NAME, group[0].root, paths[0], paths))
    return sorted(sources, key=lambda source: source.main)


def _is_dump(head: bytes) -> bool:
    return head.lstrip()[:1] in (b"{", b"[") and _HEAD.search(head) is not None


def read(source: Source) -> Tables:
    """Samples of all dumps of the source.

    Raises DumpError where a dump is no JSON, has no time or no port of its name map.
    """
    rows = Rows(source)
    for path in source.files or (source.main,):
        _dump(rows, path)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "counters of ports that COUNTERS_PORT_NAME_MAP names",
            rows.unusable("none"),
            "dump the whole database: sonic-db-dump -n COUNTERS_DB -y > COUNTERS_DB_<epoch>.json",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _dump(rows: Rows, path: Path) -> None:
    entries = _entries(rows, path)
    named = _named(entries)
    file_ns = name_ns(path)
    for key, entry in entries.items():
        match = _OBJECT.fullmatch(key)
        if match is None:
            reason = "rates of the device, or another table than counters"
            rows.aside_once("other keys", reason, None, path)
            continue
        if match[1] not in named:
            rows.aside_once("objects", "none that the dump's maps name", None, path)
            continue
        values = entry.get("value", entry)
        if not isinstance(values, dict):
            rows.aside("object", "no fields", None, path)
            continue
        interface, meanings, index, scope = named[match[1]]
        poll_ns = _PORT_POLL_NS if index is None else _QUEUE_POLL_NS
        own = _own_ns(entry)
        if own is not None:
            at, stamp = own, rows.stamp("device", poll_ns, path)
        elif file_ns is not None:
            at, stamp = file_ns[0], rows.stamp("filename", max(file_ns[1], poll_ns), path)
        else:
            raise no_time(rows.where(path), _WHAT)
        used = _object(rows, path, (interface, index, scope), meanings, values, at, stamp)
        if not used:
            rows.aside_once("objects", "none of the counters that Servebook uses", None, path)


def _entries(rows: Rows, path: Path) -> dict[str, Any]:
    try:
        document = loads(read_text(path))
    except ValueError as error:
        raise DumpError(
            rows.where(path), "one JSON document", str(error), "dump the database again"
        ) from None
    parts = document if isinstance(document, list) else [document]
    return {
        str(key): entry if isinstance(entry, dict) else {"value": entry}
        for part in parts
        if isinstance(part, dict)
        for key, entry in part.items()
    }


def _table(entries: Mapping[str, Any], name: str) -> dict[str, str]:
    entry = entries.get(name, {})
    values = entry.get("value", entry)
    return {str(k): str(v) for k, v in values.items()} if isinstance(values, dict) else {}


def _named(entries: Mapping[str, Any]) -> _Maps:
    """(interface, fields, index, scope) of every object that a name map names."""
    out: _Maps = {}
    for name, oid in _table(entries, "COUNTERS_PORT_NAME_MAP").items():
        out[oid] = (name, SAI_PORT, None, None)
    kinds = _table(entries, "COUNTERS_QUEUE_TYPE_MAP")
    numbers = _table(entries, "COUNTERS_QUEUE_INDEX_MAP")
    for table, fields in (
        ("COUNTERS_QUEUE_NAME_MAP", SAI_QUEUE),
        ("COUNTERS_VOQ_NAME_MAP", SAI_QUEUE),
        ("COUNTERS_PG_NAME_MAP", _GROUP),
    ):
        for name, oid in _table(entries, table).items():
            if match := _PART.fullmatch(name):
                number = numbers.get(oid, match[2]) if fields is SAI_QUEUE else match[2]
                if not (number.isascii() and number.isdigit() and len(number) <= 5):
                    number = match[2]
                scope = _SCOPES.get(kinds.get(oid, "").removeprefix("SAI_QUEUE_TYPE_"))
                # A system port is HOST|ASIC|PORT; only the port's name is kept.
                interface = match[1].rpartition("|")[2]
                out.setdefault(oid, (interface, fields, int(number), scope))
    return out


def _own_ns(entry: Mapping[str, Any]) -> int | None:
    """When redis-dump wrote the entry."""
    at, ttl = entry.get("expireat"), entry.get("ttl", -0.001)
    if isinstance(at, bool) or not isinstance(at, int | float) or not isinstance(ttl, int | float):
        return None
    if not 0 < at < YEAR_2100 / 1e9 or abs(ttl) > 1e9:
        return None
    ns = round((at - ttl) * 1e6) * 1000
    return ns if YEAR_2001 <= ns < YEAR_2100 else None


def _object(
    rows: Rows,
    path: Path,
    place: tuple[str, int | None, str | None],
    meanings: Mapping[str, Meaning],
    values: Mapping[str, Any],
    at: int,
    stamp: int,
) -> bool:
    """Adds the known fields of one object; False where it has none."""
    interface, index, scope = place
    known = False
    for name, meaning in meanings.items():
        if name not in values:
            continue
        known = True
        _add(rows, path, interface, _placed(meaning, index, scope), name, values[name], at, stamp)
    if meanings is SAI_PORT:
        for way, direction in _WAYS:
            total = _total(values, way)
            if total is not None:
                key = rows.meant(Meaning("packets", direction), _DEVICE, interface)
                rows.add(key, at, total, stamp)
    return known


def _placed(meaning: Meaning, index: int | None, scope: str | None) -> Meaning:
    if index is None:
        return meaning
    return dataclasses.replace(meaning, scope=scope or meaning.scope, index=index)


def _add(
    rows: Rows,
    path: Path,
    interface: str,
    meaning: Meaning,
    name: str,
    value: Any,
    at: int,
    stamp: int,
) -> None:
    try:
        count = whole(str(value))
    except ValueError as error:
        reason = "no value (N/A)" if str(value).upper() == "N/A" else str(error)
        rows.aside_port(interface, reason, None, path, what=name)
        return
    rows.add(rows.meant(meaning, _DEVICE, interface), at, count, stamp)


def _total(values: Mapping[str, Any], way: str) -> int | None:
    """All packets of a direction, as portstat sums them; None where a part is missing."""
    for parts in (("UCAST", "NON_UCAST"), ("UCAST", "MULTICAST", "BROADCAST")):
        try:
            total = sum(whole(str(values[f"SAI_PORT_STAT_IF_{way}_{part}_PKTS"])) for part in parts)
        except (KeyError, ValueError):
            continue
        return total if total < 1 << 64 else None
    return None
