"""NX-OS' texts: `show interface`, `show interface counters` and `... counters table`.

Own code: the templates of ntc-templates drop the bytes of `show interface`, and none reads the
stacked tables; genieparser is far too heavy for what three expressions do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from servebook.read.counter_names import Meaning
from servebook.read.counter_rows import Rows
from servebook.read.counter_stamps import Block

__all__ = ["HEAD", "NAMELESS", "Found", "text_readings"]

#: What begins the texts: the columns of a table, or an interface's state above its hardware.
HEAD = re.compile(
    rb"(?m)^Port +(In|Out)Octets +(In|Out)UcastPkts|^Port +Description +Intvl +Rx Mbps"
    rb"|^ {2}RX\r?$[\s\S]{0,400}?unicast packets +\d+ multicast packets"
)
#: Lines of rates as NX-OS prints them, of which `| include rate` leaves nothing else.
NAMELESS = re.compile(rb"(?m)^ *(30|300|60) seconds (input|output) rate \d+ bits/sec")
_STATE = re.compile(r"([A-Za-z][\w/.-]*\d[\w/.]*|mgmt0) is (?:up|down|administratively|link)")
_BANDWIDTH = re.compile(r"\bBW (\d+) Kbit")
_SIDE = re.compile(r"\s{1,4}(RX|TX)\s*")
_RULE = re.compile(r"-{20,}\s*")
_HEADER = re.compile(r"Port\s+(\w+)\s+(\w+)\s*")
_CELLS = re.compile(r"(\S+)\s+(\S+)\s+(\S+)\s*")
_RATES = re.compile(
    r"(?P<port>\S+)\s.*?(?P<interval>\d+)/\d+\s+(?P<rx>[\d.]+)\s+[\d.]+%\s+(?P<tx>[\d.]+)\s+[\d.]+%\s*"
)
_SPEED = Meaning("speed_bps", kind="gauge", factor=1000)
_TABLE = {
    "InOctets": Meaning("bytes", "rx"),
    "OutOctets": Meaning("bytes", "tx"),
    "InUcastPkts": Meaning("unicast_packets", "rx"),
    "OutUcastPkts": Meaning("unicast_packets", "tx"),
    "InPkts": Meaning("packets", "rx"),
    "OutPkts": Meaning("packets", "tx"),
}
_KNOWN_HEADERS = {*_TABLE, "InMcastPkts", "InBcastPkts", "OutMcastPkts", "OutBcastPkts"}
_SIDES = tuple(
    (re.compile(pattern), metric)
    for pattern, metric in (
        (r"(\d+) unicast packets", "unicast_packets"),
        (r"(\d+) (?:input|output) packets", "packets"),
        (r"packets\s+(\d+) bytes", "bytes"),
        (r"(\d+) (?:input|output) error\b", "errors"),
        (r"(\d+) (?:input|output) discard\b", "drops"),
        (r"(\d+) [RT]x pause", "pause_frames"),
    )
)


@dataclass(frozen=True)
class Found:
    """One value as it is printed, and what it means."""

    line: int
    interface: str
    meaning: Meaning
    value: Any
    window_s: Any = None


def text_readings(rows: Rows, block: Block) -> Iterator[Found]:
    """The counters and rates of a block of text; table rows that do not fit are set aside."""
    header: list[str] | None = None
    rates = False
    interface = side = None
    for line, text in block.lines:
        if match := _HEADER.fullmatch(text):
            header = [match[1], match[2]] if {match[1], match[2]} <= _KNOWN_HEADERS else None
            interface, rates = None, False
        elif text.startswith("Port ") and "Rx Mbps" in text:
            header, interface, rates = None, None, True
        elif _RULE.fullmatch(text) or not text.strip():
            continue
        elif match := _STATE.match(text):
            interface, side, header, rates = match[1], None, None, False
        elif header is not None:
            yield from _row(rows, block, line, text, header)
        elif rates:
            yield from _rate(rows, block, line, text)
        elif interface is not None:
            if match := _BANDWIDTH.search(text):
                yield Found(
                    line, interface, Meaning("speed_bps", kind="gauge", factor=1000), match[1]
                )
            if match := _SIDE.fullmatch(text):
                side = match[1].lower()
            elif side is not None and text.startswith("    "):
                for pattern, metric in _SIDES:
                    if match := pattern.search(text):
                        yield Found(line, interface, Meaning(metric, side), match[1])


def _row(rows: Rows, block: Block, line: int, text: str, header: list[str]) -> Iterator[Found]:
    match = _CELLS.fullmatch(text)
    if match is None:
        if not text.rstrip().endswith(("#", ">")) and "#" not in text:
            rows.aside("row", "no port and two numbers", line, block.path)
        return
    for name, value in zip(header, (match[2], match[3]), strict=True):
        if value != "--" and name in _TABLE:
            yield Found(line, match[1], _TABLE[name], value)


def _rate(rows: Rows, block: Block, line: int, text: str) -> Iterator[Found]:
    match = _RATES.fullmatch(text)
    if match is None:
        if "#" not in text:
            rows.aside("row", "no port with rates in Mbps", line, block.path)
        return
    for way in ("rx", "tx"):
        meaning = Meaning("bytes", way, kind="rate", factor=125_000)
        yield Found(line, match["port"], meaning, match[way], match["interval"])
