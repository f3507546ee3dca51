"""The two counter snapshots of SONiC's ``show techsupport``, and when they were taken.

``generate_dump`` writes into its ``dump`` folder, twice: ``date.counter_N``
(``dd/mm/YYYY HH:MM:SS:ffffff``, in the switch's own zone), ``interface.counters_N``,
``queue.counters_N`` and ``COUNTERS_DB_N.json``. The database dump holds its own wall clock as epoch
seconds, moments later, so the two together give the zone.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows
from servebook.read.files import HEAD_BYTES, open_bytes
from servebook.read.source import File, Source
from servebook.read.times import iso_ns, moment_ns

__all__ = ["STEP_NS", "dump_ns", "snapshots", "support_sources"]

#: The command starts up to this long after the date was taken: python starts slowly on a switch.
STEP_NS = 10**9
_DATE = re.compile(rb"\s*(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d)[:.](\d{1,6})\d*\s*")
_NUMBERED = re.compile(r"(.+)_(\d+)(?:\.(?:txt|json))?(?:\.gz)?")
_EXPIRY = re.compile(
    rb'"expireat"\s*:\s*(\d{9,11}(?:\.\d+)?)\s*,\s*"ttl"\s*:\s*(-?\d{1,9}(?:\.\d+)?)'
)
_QUARTER = timedelta(minutes=15)
_NEAR = timedelta(minutes=5)


def support_sources(
    name: str, files: Sequence[File], mine: Callable[[bytes], bool]
) -> list[Source]:
    """One source per folder that holds ``date.counter_N`` files: they and what is ``mine``."""
    dates: dict[Path, list[File]] = {}
    for file in files:
        if _DATE.fullmatch(file.head) and _number(file.path) is not None:
            dates.setdefault(file.path.parent, []).append(file)
    sources = []
    for folder, own in sorted(dates.items()):
        numbers = {_number(file.path) for file in own}
        beside = [
            file
            for file in files
            if file.path.parent == folder and _number(file.path) in numbers and mine(file.head)
        ]
        if beside:
            paths = sorted(file.path for file in beside)
            every = (*paths, *sorted(file.path for file in own))
            sources.append(Source(name, own[0].root, paths[0], every))
    return sources


def snapshots(rows: Rows) -> list[tuple[Path, int]]:
    """(file, ns) of a techsupport's counter texts; empty where the source is no techsupport.

    Raises DumpError where nothing tells the zone of the dates.
    """
    source = rows.source
    heads = {path: _head(path) for path in source.files if _number(path) is not None}
    dates = {
        _number(path): (path, match)
        for path, head in heads.items()
        if (match := _DATE.fullmatch(head))
    }
    out = []
    for path in source.files if dates else ():
        number = _number(path)
        if number not in dates:
            rows.aside("file", "no date.counter file beside it", None, path)
        elif path != dates[number][0]:
            try:
                out.append((path, date_ns(rows, *dates[number])))
            except (ValueError, OverflowError):
                rows.aside("file", "its date.counter file holds no date", None, path)
    return out


def date_ns(rows: Rows, path: Path, match: re.Match[bytes]) -> int:
    """The time of a ``date.counter_N`` file as ns."""
    day, month, year, hour, minute, second = (int(part) for part in match.groups()[:6])
    micro = int((match[7].decode() + "000000")[:6])
    naive = datetime(year, month, day, hour, minute, second, micro)
    zone = rows.source.options.get("time_zone")
    if zone is not None:
        return iso_ns(naive.isoformat(), str(zone))[0]
    moment = naive.replace(tzinfo=UTC)
    for dump in sorted(path.parent.glob(f"COUNTERS_DB_{_number(path)}.json*")):
        found = dump_ns(_head(dump))
        if found is None:
            continue
        offset = datetime.fromtimestamp(found / 1e9, UTC) - moment
        whole = round(offset / _QUARTER) * _QUARTER
        if abs(offset - whole) <= _NEAR and abs(whole) <= timedelta(hours=14):
            return moment_ns(moment + whole)
    raise DumpError(
        rows.where(path),
        "the zone of the switch's clock",
        "a date without one, and no COUNTERS_DB dump beside it that tells it",
        "write `time_zone: UTC` (or the switch's zone) in the manifest's counters entry",
    )


def dump_ns(head: bytes) -> int | None:
    """When a redis dump was taken: ``expireat`` less ``ttl`` of its first key, or None."""
    match = _EXPIRY.search(head)
    return None if match is None else round((float(match[1]) - float(match[2])) * 1e6) * 1000


def _number(path: Path) -> str | None:
    match = _NUMBERED.fullmatch(path.name)
    return match[2] if match else None


def _head(path: Path) -> bytes:
    try:
        with open_bytes(path) as stream:
            return stream.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return b""
