"""Arista EOS: interface counters and rates as JSON, each port with its own time.

Written by: EOS 4.15 or later: ``show interfaces | json``, ``show interfaces counters | json``,
``show interfaces counters rates | json``; one reply, replies one after another, eAPI's JSON-RPC
envelope, or a collector's records that hold the reply as ``data`` beside ``cmd`` and ``hostname``.
Specified in: the switch's own eAPI command documentation; the meanings here were checked on rows of
both commands from one device. In ``counters rates`` ``inBpsRate`` is bit/s, ``inPpsRate`` packets/s
and ``inPktsRate`` utilisation in percent with 20 bytes of framing per packet; in ``show
interfaces`` the same ``inPktsRate`` is packets/s.
Cannot tell: queues, priorities and ECN marks (other commands); the window of a rate beyond its
nominal interval (300 s unless ``load-interval`` is set), so peaks are lower bounds. Where a port
has octets its rates are set aside. Ports of one reply are stamped up to seconds apart; each counter
is placed at its own port's time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from servebook.errors import DumpError
from servebook.read.counter_names import Meaning
from servebook.read.counter_rows import Rows, number, whole
from servebook.read.counter_stamps import Block, blocks, find_texts, no_time
from servebook.read.json_objects import objects
from servebook.read.source import File, Format, Source
from servebook.read.times import YEAR_2001, YEAR_2100
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "eos-json"
_START = re.compile(rb"\s*(### [^\n]*\n\s*)?[\[{]")
_DEVICE = "switch"
_WHAT = "counters of Arista EOS as JSON"
_COUNTERS = {
    "inOctets": Meaning("bytes", "rx"),
    "outOctets": Meaning("bytes", "tx"),
    "inUcastPkts": Meaning("unicast_packets", "rx"),
    "outUcastPkts": Meaning("unicast_packets", "tx"),
    "inTotalPkts": Meaning("packets", "rx"),
    "outTotalPkts": Meaning("packets", "tx"),
    "inDiscards": Meaning("drops", "rx"),
    "outDiscards": Meaning("drops", "tx"),
    "totalInErrors": Meaning("errors", "rx"),
    "totalOutErrors": Meaning("errors", "tx"),
}
_CASTS = ("Ucast", "Multicast", "Broadcast")
_WAYS = (("in", "rx"), ("out", "tx"))
_Rate = tuple[str, str, str, float]  # key, metric, kind, factor
_OF_RATES: tuple[_Rate, ...] = (
    ("BpsRate", "bytes", "rate", 0.125),
    ("PpsRate", "packets", "rate", 1.0),
    ("PktsRate", "util", "util", 0.01),
)
_OF_INTERFACES: tuple[_Rate, ...] = (
    ("BitsRate", "bytes", "rate", 0.125),
    ("PktsRate", "packets", "rate", 1.0),
)


def find(files: Sequence[File]) -> list[Source]:
    """Files of replies one by one; those named after their time as one series per folder."""
    return find_texts(_NAME, files, _mine)


def _mine(head: bytes) -> bool:
    counted = b'"inOctets"' in head and (
        b'"lastUpdateTimestamp"' in head or b'"counterRefreshTime"' in head
    )
    known = counted or b'"inBpsRate"' in head or b'"interfaceCounters"' in head
    return _START.match(head) is not None and b'"interfaces"' in head and known


def read(source: Source) -> Tables:
    """Samples of all replies of the source.

    Raises DumpError where no interface has a counter or rate with a time; interfaces without are
    set aside.
    """
    rows = Rows(source)
    for block in blocks(rows, _WHAT, own_times=True):
        text = "\n".join(text for _, text in block.lines)
        offset = block.lines[0][0] - 1 if block.lines else 0
        for line, document, broken in objects(text, "{"):
            if broken:
                rows.aside("reply", broken, line + offset, block.path)
                continue
            rows.complete(block.path)
            for device, reply in _replies(rows, document, line + offset, block):
                for name, port in reply.items():
                    _port(rows, block, line + offset, device, str(name), port)
    if not len(rows):
        fault = rows.unusable("")
        if "no time" in fault:
            raise no_time(rows.where(), _WHAT)
        raise DumpError(
            rows.where(),
            "interfaces with octets or rates",
            f"none {fault.strip()}".strip(),
            "save the reply of show interfaces counters | json",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _replies(
    rows: Rows, document: Any, line: int, block: Block
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(device, interfaces) of every reply inside a document."""
    for part in document if isinstance(document, list) else [document]:
        if not isinstance(part, dict):
            rows.aside("reply", "no JSON object", line, block.path)
        elif isinstance(part.get("interfaces"), dict):
            yield _DEVICE, part["interfaces"]
        elif isinstance(part.get("result"), list):
            yield from _replies(rows, part["result"], line, block)
        elif "data" in part and "cmd" in part:
            data = part["data"]
            if isinstance(data, dict) and isinstance(data.get("interfaces"), dict):
                host = part.get("hostname")
                yield (
                    rows.alias(host) if isinstance(host, str) and host else _DEVICE,
                    data["interfaces"],
                )
            else:
                rows.aside_once("replies", "not one of EOS about interfaces", line, block.path)
        else:
            rows.aside_once("replies", "not one about interfaces", line, block.path)


def _port(rows: Rows, block: Block, line: int, device: str, name: str, port: Any) -> None:
    if not isinstance(port, dict):
        rows.aside_port(name, "no object", line, block.path)
        return
    counters = port.get("interfaceCounters", port)
    counters = counters if isinstance(counters, dict) else {}
    statistics = port.get("interfaceStatistics", {})
    at = _time(rows, block, port, counters)
    if at is None:
        rows.aside_port(name, "no time and no counters, or no time of them", line, block.path)
        return
    before = len(rows)
    _counters(rows, at, line, device, name, counters)
    if "inOctets" not in counters and "outOctets" not in counters:
        _rates(rows, at, line, device, name, port, _OF_RATES, port.get("interval"))
        if isinstance(statistics, dict):
            window = statistics.get("updateInterval")
            _rates(rows, at, line, device, name, statistics, _OF_INTERFACES, window)
    elif statistics:
        rows.aside_once("rates", "averages of ports whose octets are here", line, block.path)
    if len(rows) == before:
        rows.aside_port(name, "no counters (a virtual or sub-interface)", line, block.path)
        return
    if (speed := port.get("bandwidth")) and isinstance(speed, int | float) and speed > 0:
        key = rows.series(device, name, "speed_bps", None, kind="gauge")
        rows.add(key, at.ts_ns, float(speed), at.stamp, line)


def _time(
    rows: Rows, block: Block, port: Mapping[str, Any], counters: Mapping[str, Any]
) -> Block | None:
    """The block at the port's own time; the block's where the port has none; None without both."""
    for value in (counters.get("counterRefreshTime"), port.get("lastUpdateTimestamp")):
        if isinstance(value, int | float) and YEAR_2001 <= value * 1e9 < YEAR_2100:
            # A double holds a time of today to a quarter of a microsecond.
            ns = round(value * 1e6) * 1000
            return Block(block.path, ns, rows.stamp("device", 1000, block.path), block.line)
    return block if block.ts_ns else None


def _counters(
    rows: Rows, at: Block, line: int, device: str, name: str, counters: Mapping[str, Any]
) -> None:
    found = [(meaning, counters[key]) for key, meaning in _COUNTERS.items() if key in counters]
    for way, direction in _WAYS:
        casts = [counters.get(f"{way}{cast}Pkts") for cast in _CASTS]
        if f"{way}TotalPkts" not in counters and all(type(part) is int for part in casts):
            found.append((Meaning("packets", direction), sum(c for c in casts if c is not None)))
        detail = counters.get("inputErrorsDetail" if way == "in" else "outputErrorsDetail")
        pause = f"{direction}Pause"
        if isinstance(detail, dict) and pause in detail:
            found.append((Meaning("pause_frames", direction), detail[pause]))
    for meaning, value in found:
        try:
            count = whole(str(value))
        except ValueError as error:
            rows.aside("counter", f"{name} {meaning.metric}: {error}", line, at.path)
            continue
        rows.add(rows.meant(meaning, device, name), at.ts_ns, count, at.stamp, line)


def _rates(
    rows: Rows,
    at: Block,
    line: int,
    device: str,
    name: str,
    values: Mapping[str, Any],
    which: Sequence[_Rate],
    window: Any,
) -> None:
    window_s = float(window) if isinstance(window, int | float) and 0 < window < 1e6 else None
    for way, direction in _WAYS:
        for key, metric, kind, factor in which:
            if f"{way}{key}" not in values:
                continue
            try:
                rate = number(str(values[f"{way}{key}"])) * factor
                if rate < 0:
                    raise ValueError("a rate cannot be negative")
            except ValueError as error:
                rows.aside("rate", f"{name} {metric}: {error}", line, at.path)
                continue
            series = rows.series(device, name, metric, direction, kind=kind, window_s=window_s)
            rows.add(series, at.ts_ns, rate, at.stamp, line)
