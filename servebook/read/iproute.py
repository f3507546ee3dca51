"""`ip -s -j link`: the kernel's interface counters as JSON, one reading per line or block.

Written by: iproute2 (4.14 or later), in a loop that adds the time: one JSON object per line with
``ts`` (epoch seconds) or ``iso``, and ``link`` (the array that ip printed); or a ``### <epoch>``
line before each array.
Specified in: iproute2, ip/ipaddress.c (print_link_stats); counters: Linux, if_link.h.
Cannot tell: the time of an array alone (refused), which host it was, the speed of a link, and RDMA
traffic, which bypasses the kernel's interface counters. ``stats`` without ``stats64`` is 32 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows, whole
from servebook.read.counter_stamps import Block, blocks, ends_whole, find_texts
from servebook.read.files import lines, loads
from servebook.read.source import File, Format, Source
from servebook.read.times import epoch_ns, iso_ns
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "ip-json"
_START = re.compile(rb"\s*(### [^\n]*\n\s*)?[\[{]")
_FIELDS = {"bytes": "bytes", "packets": "packets", "errors": "errors", "dropped": "drops"}
_DEVICE = "host"
_WHAT = "`ip -s -j link` output"


def find(files: Sequence[File]) -> list[Source]:
    """Files of JSON with the statistics of interfaces."""
    return find_texts(
        _NAME,
        files,
        lambda head: bool(
            _START.match(head)
            and b'"ifname"' in head
            and (b'"stats64"' in head or b'"stats"' in head)
        ),
    )


def read(source: Source) -> Tables:
    """Samples of all readings of the source.

    Raises DumpError where no reading has a time or there is no interface with statistics; lines
    that are not such a reading are set aside.
    """
    rows = Rows(source)
    if _has_own_times(source):
        for line, raw in lines(source.main):
            if raw.strip():
                _object(rows, raw, line)
    else:
        for block in blocks(rows, _WHAT):
            _array(rows, block)
    if not len(rows):
        raise DumpError(
            rows.where(),
            f"{_WHAT} with statistics and times",
            rows.unusable("no reading that can be used"),
            'write one line per reading: {"ts": EPOCH, "link": OUTPUT OF ip -s -j link}',
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _has_own_times(source: Source) -> bool:
    for _, raw in lines(source.main):
        if raw.strip():
            return raw.lstrip().startswith(b"{")
    return False


def _object(rows: Rows, raw: bytes, line: int) -> None:
    try:
        reading = loads(raw)
    except ValueError as error:
        whole_file = ends_whole(rows.source.main)
        rows.aside(
            "line", str(error) if whole_file else f"{error}: a line that was cut short", line
        )
        return
    links = reading.get("link") if isinstance(reading, dict) else None
    if not isinstance(links, list):
        rows.aside("line", "no `link` with the output of ip -s -j link", line)
        return
    for key, convert in (("ts_ns", epoch_ns), ("ts", epoch_ns), ("iso", iso_ns)):
        if key in reading:
            try:
                at = reading[key]
                # A JSON number holds an epoch time to a quarter of a microsecond, no better.
                ns, step = convert(f"{at:.6f}" if isinstance(at, float) else str(at))
            except ValueError:
                continue
            _links(rows, links, ns, rows.stamp("collector", step), line)
            return
    rows.aside("line", "a reading without a time (`ts` or `iso`)", line)


def _array(rows: Rows, block: Block) -> None:
    text = "\n".join(text for _, text in block.lines)
    first = block.lines[0][0] if block.lines else block.line
    try:
        links = loads(text)
    except ValueError as error:
        rows.aside("block", str(error), first, block.path)
        return
    if isinstance(links, dict):
        links = links.get("link", [links])
    _links(rows, links if isinstance(links, list) else [], block.ts_ns, block.stamp, first)


def _links(rows: Rows, links: Iterable[Any], at: int, stamp: int, line: int) -> None:
    for link in links:
        if not isinstance(link, dict) or not isinstance(link.get("ifname"), str):
            rows.aside("interface", "no interface name (`ifname`)", line)
            continue
        bits = 64 if isinstance(link.get("stats64"), dict) else 32
        statistics = link.get("stats64" if bits == 64 else "stats")
        if not isinstance(statistics, dict):
            rows.aside_port(link["ifname"], "no statistics; call ip with -s", line)
            continue
        for direction in ("rx", "tx"):
            values = statistics.get(direction)
            for key, metric in _FIELDS.items():
                if not isinstance(values, dict) or key not in values:
                    continue
                try:
                    value = whole(str(values[key]))
                except ValueError as error:
                    rows.aside("reading", str(error), line)
                    continue
                series = rows.series(_DEVICE, link["ifname"], metric, direction, bits=bits)
                rows.add(series, at, value, stamp, line)
