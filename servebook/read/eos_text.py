"""Arista EOS: the texts of ``show interfaces``, ``counters``, ``counters rates`` and others.

Written by: EOS: ``show interfaces``, ``show interfaces counters`` (also ``rates``, ``discards``),
``show priority-flow-control counters`` (all priorities together), with a ``### <epoch>`` line
before each text or in files named after their time.
Specified in: nowhere as a format; Arista's manual of the commands, and texts of real devices.
Cannot tell: the time (refused without one), and below 0.1 Mbit/s a rate. ``counters rates`` prints
10^6 bit/s without framing, averaged over ``Intvl`` (5:00 unless ``load-interval`` is set), and a
utilisation with 20 bytes of framing per packet. Where a text has bytes its rates are not read.
``show interfaces | include rate`` loses the interfaces' names and is refused. Short names (Et1/1)
stay as they are printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from servebook.errors import DumpError
from servebook.read.counter_names import Meaning
from servebook.read.counter_rows import Rows, number, whole
from servebook.read.counter_stamps import LONGEST_TEXT_LINE, Block, blocks, find_texts
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "eos-text"
_DEVICE = "switch"
_WHAT = "the output of EOS' show commands"
_HEAD = re.compile(
    rb"(?m)with framing overhead\), |^Port\s+Name\s+Intvl\s+In Mbps\s+%"
    rb"|^Port\s+InOctets\s+InUcastPkts\s+InMcastPkts\s+InBcastPkts\s*$"
    rb"|^Port\s+(RxPfc\s+TxPfc|InDiscards\s+OutDiscards)\s*$"
)
_INTERFACE = re.compile(r"(\S+) is .+, line protocol is \w+.*")
_RATE_LINE = re.compile(r"\s+\d+ \w+ (input|output) rate .*with framing overhead\).*")
_SPEED = re.compile(r".*\bBW (\d{1,13}) kbit\b.*")
_PACKETS = re.compile(r"\s*(\d{1,20}) packets (input|output), (\d{1,20}) bytes\b.*")
_NUMBERS = (
    (re.compile(r"\b(\d{1,20}) (input|output) errors\b"), "errors"),
    (re.compile(r"\b(\d{1,20}) (input|output) discards\b"), "drops"),
    (re.compile(r"\b(\d{1,20}) PAUSE (input|output)\b"), "pause_frames"),
)
_WAYS = {"input": "rx", "output": "tx", "In": "rx", "Out": "tx"}
_RATES_HEADER = re.compile(r"Port\s+Name\s+Intvl\s+In Mbps\s+.*")
_RATES_ROW = re.compile(
    r"(?P<port>\S+)\s.*?(?P<min>\d{1,4}):(?P<sec>\d\d)\s+"
    r"(?P<in_mbps>[\d.]+)\s+(?P<in_util>[\d.]+%|-)\s+(?P<in_kpps>[\d.]+)\s+"
    r"(?P<out_mbps>[\d.]+)\s+(?P<out_util>[\d.]+%|-)\s+(?P<out_kpps>[\d.]+)\s*"
)
_COUNTS_HEADER = re.compile(r"Port\s+(In|Out)Octets\s+\1UcastPkts\s+\1McastPkts\s+\1BcastPkts\s*")
#: Tables of two numbers a port: received (in), then sent (out).
_PAIR_HEADERS = (
    (re.compile(r"Port\s+RxPfc\s+TxPfc\s*"), "pause_frames"),
    (re.compile(r"Port\s+InDiscards\s+OutDiscards\s*"), "drops"),
)
_PAIR_ROW = re.compile(r"(\S+)\s+(\d{1,20})\s+(\d{1,20})\s*")
_COUNTS_ROW = re.compile(r"(\S+)" + r"\s+(\d{1,20})" * 4 + r"\s*")


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; texts named after their time as one series per folder."""
    return find_texts(_NAME, files, lambda head: _HEAD.search(head) is not None)


def read(source: Source) -> Tables:
    """Samples of all texts of the source.

    Raises DumpError where there is no time, no interface's name, or nothing to read; interfaces
    without counters and rows that cannot be read are set aside.
    """
    rows = Rows(source)
    nameless = False
    for block in blocks(rows, _WHAT, longest=LONGEST_TEXT_LINE):
        nameless |= _block(rows, block)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "interfaces with their names and counters",
            "rate lines without the names of their interfaces"
            if nameless
            else rows.unusable("none that can be read"),
            "save the whole output of show interfaces, without `| include`, or better "
            "show interfaces counters | json",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _block(rows: Rows, block: Block) -> bool:
    """Adds one text; True where a rate stands under no interface's name."""
    interface: str | None = None
    counted, start = True, block.line
    table: str | None = None
    nameless = False
    for line, text in block.lines:
        if match := _INTERFACE.fullmatch(text):
            _without(rows, interface, counted, start, block)
            interface, counted, table, start = match[1], False, None, line
        elif (match := _COUNTS_HEADER.fullmatch(text)) or _RATES_HEADER.fullmatch(text):
            _without(rows, interface, counted, start, block)
            table, interface = _WAYS[match[1]] if match else "rates", None
        elif pair := next((m for pattern, m in _PAIR_HEADERS if pattern.fullmatch(text)), None):
            _without(rows, interface, counted, start, block)
            table, interface = pair, None
        elif not text.strip():
            continue
        elif table is not None:
            _row(rows, block, line, text, table)
        elif interface is not None:
            counted |= _fact(rows, block, line, text, interface)
        elif _RATE_LINE.fullmatch(text):
            nameless = True
            rows.aside_once("rates", "no interface's name above them", line, block.path)
        else:
            rows.aside_once("lines", "neither an interface nor a table", line, block.path)
    _without(rows, interface, counted, start, block)
    return nameless


def _without(rows: Rows, interface: str | None, counted: bool, line: int, block: Block) -> None:
    if interface is not None and not counted:
        rows.aside_port(interface, "an interface without counters", line, block.path)


def _fact(rows: Rows, block: Block, line: int, text: str, interface: str) -> bool:
    """Adds what a line of an interface says; True where it has its bytes."""
    if match := _PACKETS.fullmatch(text):
        way = _WAYS[match[2]]
        _add(rows, block, line, interface, Meaning("packets", way), match[1])
        _add(rows, block, line, interface, Meaning("bytes", way), match[3])
        return True
    if match := _SPEED.fullmatch(text):
        if speed := int(match[1]) * 1000:
            key = rows.series(_DEVICE, interface, "speed_bps", None, kind="gauge")
            rows.add(key, block.ts_ns, float(speed), block.stamp, line)
        return False
    for pattern, metric in _NUMBERS:
        for found in pattern.finditer(text):
            _add(rows, block, line, interface, Meaning(metric, _WAYS[found[2]]), found[1])
    return False


def _row(rows: Rows, block: Block, line: int, text: str, table: str) -> None:
    if table == "rates":
        match = _RATES_ROW.fullmatch(text)
        if match is None:
            rows.aside_once("rows", "no row of rates", line, block.path)
            return
        window_s = int(match["min"]) * 60.0 + int(match["sec"])
        for way, direction in (("in", "rx"), ("out", "tx")):
            for cell, metric, kind, factor in (
                ("mbps", "bytes", "rate", 125_000.0),
                ("kpps", "packets", "rate", 1000.0),
                ("util", "util", "util", 0.01),
            ):
                value = match[f"{way}_{cell}"].removesuffix("%")
                if value == "-":
                    continue
                try:
                    rate = number(value) * factor
                except ValueError as error:
                    rows.aside("cell", f"{metric}: {error}", line, block.path)
                    continue
                key = rows.series(
                    _DEVICE, match["port"], metric, direction, kind=kind, window_s=window_s
                )
                rows.add(key, block.ts_ns, rate, block.stamp, line)
        return
    if table in ("pause_frames", "drops"):
        pair = _PAIR_ROW.fullmatch(text)
        if pair is None:
            rows.aside_once("rows", "no row of counters", line, block.path)
            return
        for way, value in (("rx", pair[2]), ("tx", pair[3])):
            _add(rows, block, line, pair[1], Meaning(table, way), value)
        return
    match = _COUNTS_ROW.fullmatch(text)
    if match is None:
        rows.aside_once("rows", "no row of counters", line, block.path)
        return
    try:
        octets, *casts = [whole(value) for value in match.groups()[1:]]
    except ValueError as error:
        rows.aside("row", str(error), line, block.path)
        return
    for metric, value in (
        ("bytes", octets),
        ("packets", sum(casts)),
        ("unicast_packets", casts[0]),
    ):
        if value < 1 << 64:
            key = rows.meant(Meaning(metric, table), _DEVICE, match[1])
            rows.add(key, block.ts_ns, value, block.stamp, line)


def _add(rows: Rows, block: Block, line: int, interface: str, meaning: Meaning, text: str) -> None:
    try:
        value = whole(text)
    except ValueError as error:
        rows.aside("counter", f"{meaning.metric}: {error}", line, block.path)
        return
    rows.add(rows.meant(meaning, _DEVICE, interface), block.ts_ns, value, block.stamp, line)
