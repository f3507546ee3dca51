"""Tables that SONiC's commands print: cut into cells, with the meaning of their columns.

The tables are python-tabulate's "simple" form: a header, a rule of dashes, rows, a blank line.
Cells are parted by two or more spaces; a single space is part of a cell (``653.87 MB/s``,
``Port Rx``). Own code: no public parser reads these tables (ntc-templates has no SONiC).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from servebook.read.counter_names import Meaning
from servebook.read.counter_rows import number, whole

__all__ = [
    "DETAILED",
    "HISTORY",
    "PER_QUEUE",
    "PORT",
    "QUEUE_JSON",
    "QUEUE_SCOPES",
    "Table",
    "are_binary",
    "cut",
    "reading",
]

_RULE = re.compile(r"\s*-{2,}(\s+-{2,})+\s*")
_PROMPT = re.compile(r"\s*(\S+@\S+.*?[$#]|\$|#)\s.*|\s*```.*")
_DASHES = re.compile(r"\S+")
_GAP = re.compile(r"\s{2,}")
_RATE = re.compile(r"([\d.,eE+]+)\s*([KMGT]?)B/s")
#: Columns of ``show interfaces counters`` and its kin; upper case, without direction.
_PORT_COLUMNS = {
    "OK": ("packets", "counter"),
    "BPS": ("bytes", "rate"),
    "PPS": ("packets", "rate"),
    "UTIL": ("util", "util"),
    "ERR": ("errors", "counter"),
    "DRP": ("drops", "counter"),
    "OVR": ("overruns", "counter"),
}
PORT = {
    f"{way}_{column}": Meaning(metric, way.lower(), kind=kind)
    for way in ("RX", "TX")
    for column, (metric, kind) in _PORT_COLUMNS.items()
} | {
    "FEC_CORR": Meaning("fec_corrected", "rx"),
    "FEC_UNCORR": Meaning("fec_uncorr", "rx"),
    "TRIM": Meaning("trimmed", "tx"),
    "TRIM_PKTS": Meaning("trimmed", "tx"),
}
PER_QUEUE = {
    "Counter/pkts": "packets",
    "Counter/bytes": "bytes",
    "Drop/pkts": "drops",
    "Drop/bytes": "drop_bytes",
    "WredDrp/pkts": "wred_drops",
    "WredDrp/bytes": "wred_drop_bytes",
    "EcnMarked/pkts": "ecn_marked",
    "EcnMarked/bytes": "ecn_marked_bytes",
    "Trim/pkts": "trimmed",
}
QUEUE_JSON = {
    "totalpacket": "packets",
    "totalbytes": "bytes",
    "droppacket": "drops",
    "dropbytes": "drop_bytes",
    "wreddroppacket": "wred_drops",
    "wreddropbytes": "wred_drop_bytes",
    "ecnmarkedpacket": "ecn_marked",
    "ecnmarkedbytes": "ecn_marked_bytes",
    "trimpacket": "trimmed",
}
#: Unicast and multicast queues of a port may share their numbers.
QUEUE_SCOPES = {"UC": "queue", "ALL": "queue", "MC": "queue_mc", "VOQ": "voq"}
HISTORY = {
    "RX Pause Transitions": "pfc_transitions",
    "Total RX Pause Time US": "pfc_pause_us",
}
DETAILED = {
    "Total Packets Received Without Errors": Meaning("packets", "rx"),
    "Unicast Packets Received": Meaning("unicast_packets", "rx"),
    "Overruns Received": Meaning("overruns", "rx"),
    "Total Packets Transmitted Successfully": Meaning("packets", "tx"),
    "Unicast Packets Transmitted": Meaning("unicast_packets", "tx"),
    "WRED Total Dropped Packets": Meaning("wred_drops", "tx"),
    "Trimmed Packets": Meaning("trimmed", "tx"),
}
#: Speeds of Ethernet links, Gbit/s.
_SPEEDS = (1, 2.5, 5, 10, 25, 40, 50, 100, 200, 400, 800, 1600)


@dataclass(frozen=True)
class Table:
    """A table: its header cells (none where they do not fit the rule), and its rows with their
    lines; None for a row of another length.
    """

    line: int
    header: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...] | None], ...]


def cut(lines: Sequence[tuple[int, str]]) -> Iterator[Table | tuple[int, str]]:
    """The tables among the numbered lines, in order, and every other line that is not blank."""
    at = 0
    while at < len(lines):
        number_, text = lines[at]
        if at + 1 < len(lines) and _RULE.fullmatch(lines[at + 1][1]) and text.strip():
            rule = lines[at + 1][1]
            header = _cells(text, rule) or ()
            at += 2
            rows = []
            while at < len(lines) and lines[at][1].strip() and not _PROMPT.fullmatch(lines[at][1]):
                if at + 1 < len(lines) and _RULE.fullmatch(lines[at + 1][1]):
                    break  # the next table's header, without a blank line between
                rows.append((lines[at][0], _cells(lines[at][1], rule)))
                at += 1
            yield Table(number_, header, tuple(rows))
            continue
        if text.strip():
            yield number_, text
        at += 1


def _cells(text: str, rule: str) -> tuple[str, ...] | None:
    """The cells of a line, or None where they are not as many as the rule has groups.

    Where there are fewer, some are empty (a port's description): each then has to lie below its
    own group of the rule, the last one too, which a torn line lacks.
    """
    cells = _GAP.split(text.strip())
    groups = [match.span() for match in _DASHES.finditer(rule)]
    if len(cells) < len(groups):
        below = [text[start:end].strip() for start, end in groups]
        whole_line = bool(below[-1]) and [cell for cell in below if cell] == cells
        return tuple(below) if whole_line else None
    return tuple(cells) if len(cells) == len(groups) else None


def reading(meaning: Meaning, text: str, *, binary: bool = False) -> int | float | None:
    """A cell in canonical units; None for N/A; raises ValueError, in words, for what is none."""
    text = text.strip()
    if text.upper() in ("N/A", "", "-"):
        return None
    if meaning.kind == "counter":
        return whole(text.replace(",", ""))
    if meaning.kind == "util":
        return number(_without(text, "%")) / 100
    if meaning.metric == "bytes":
        match = _RATE.fullmatch(text)
        if match is None:
            raise ValueError("no rate in B/s")
        step = 1024 if binary else 1000
        return number(match[1].replace(",", "")) * float(step ** " KMGT".index(match[2] or " "))
    return number(_without(text, "/s"))


def _without(text: str, unit: str) -> str:
    if not text.endswith(unit):
        raise ValueError(f"no number with its unit ({unit})")
    return text.removesuffix(unit).replace(",", "")


def are_binary(pairs: Sequence[tuple[str, str]]) -> bool:
    """True where (rate, utilisation) cells fit K = 1024 and a speed of n x 2^30 bit/s.

    Images before December 2020 print so. Rows below 5 % are rounded too much to tell.
    """
    votes = 0
    rate_of, share_of = Meaning("bytes", "rx", kind="rate"), Meaning("util", "rx", kind="util")
    for rate, share in pairs:
        try:
            bytes_per_s, used = reading(rate_of, rate), reading(share_of, share)
        except ValueError:
            continue
        if bytes_per_s is None or used is None or used < 0.05 or "MB/s" not in rate:
            continue
        speed = bytes_per_s * 8e-9 / used
        slack = 0.0001 / used
        decimal = any(abs(speed / s - 1) < slack for s in _SPEEDS)
        two = any(abs(speed / (s * 1.024) - 1) < slack for s in _SPEEDS)
        votes += two - decimal
    return votes > 0
