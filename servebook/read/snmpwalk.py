"""Walks of IF-MIB::ifXTable as net-snmp prints them, a `### <epoch>` line before each walk.

Written by: net-snmp's snmpwalk and snmpbulkwalk with any output option (``-On``, ``-Oq``, ``-Os``,
``-OX``, ``-Of``, ``-Ot``, ...), snmptable (best with ``-Ci -Cf ,``), and snmpsim's ``.snmprec``.
Specified in: RFC 2863 (IF-MIB), RFC 3418 (sysUpTime).
Cannot tell: its own time, which device it was, and when the agent read the hardware: agents cache
(net-snmp about 3 s), so values repeat and then jump, and a walk is not atomic. 32-bit octet
counters wrap within a second on a fast link and are set aside.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from servebook.errors import DumpError
from servebook.read.counter_names import TOO_NARROW
from servebook.read.counter_rows import Rows, number, whole
from servebook.read.counter_stamps import Block, blocks, find_texts
from servebook.read.snmp_oids import SNMP_NAMES, object_of, text_value, uptime_s
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "snmpwalk"
_LINE = re.compile(
    r"\s*(?P<oid>[^\s=|]+)\s+(?:=\s*)?(?:Wrong Type \(should be \w+\): )?"
    r"(?:(?P<type>Counter64|Counter32|Gauge32|Hex-STRING|STRING|Timeticks|INTEGER|Unsigned32|OID"
    r"|Network Address|IpAddress):\s*)?(?P<value>.*)"
)
_RECORD = re.compile(r"(?P<oid>[\d.]+)\|(?P<type>\d+x?)\|(?P<value>.*)", re.ASCII)
_RECORD_TYPES = {"4x": "Hex-STRING"}
_TABLE = re.compile(r"SNMP table: ")
_HEAD = re.compile(
    rb"(?m)^\s*(([\w-]+::|\.?iso\.org\.[\w.-]*\.)?"
    rb"(if(HC|Name|Descr|Index|HighSpeed|In|Out)|sysUpTime|dot3(HC)?(In|Out)Pause)"
    rb"|(\.?(iso|1)\.3\.6\.1\.2\.1|(SNMPv2-SMI::)?mib-2)\.(31\.1\.1\.1|2\.2\.1|1\.3)\.)[^\s|,]*[\s|]"
    rb"|^SNMP table: (IF-MIB::)?if(X)?Table"
)
_DEVICE = "agent"
_NO_ANSWER = ("No Such ", "No more variables")


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; walks named after their time as one series per folder."""
    return find_texts(_NAME, files, lambda head: _HEAD.search(head[:4096]) is not None)


def read(source: Source) -> Tables:
    """Samples of all walks of the source.

    Interfaces are named by ifName (from any walk of the file), else by ifDescr, else
    ``ifIndex N``. Raises DumpError where there is no time or no 64-bit octet counter.
    """
    rows = Rows(source)
    walk = _Walk()
    for block in blocks(rows, "a walk of ifXTable"):
        for place, (line, text) in enumerate(block.lines):
            if _TABLE.match(text):
                _table(rows, walk, block, place + 1)
                break
            if text.strip():
                _line(rows, walk, block, line, text)
    if not walk.counted:
        raise DumpError(
            rows.where(),
            "64-bit octet counters (ifHCInOctets, ifHCOutOctets)",
            rows.unusable("32-bit counters only" if walk.narrow else "no interface counter"),
            "walk IF-MIB::ifXTable (.1.3.6.1.2.1.31.1.1.1) with SNMP version 2c or 3",
        )
    known = walk.names["ifDescr"] | walk.names["ifName"]
    rows.renamed = {f"ifIndex {index}": name for index, name in known.items()}
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


@dataclass
class _Walk:
    """The names of interfaces, and whether counters were read or were too narrow."""

    names: dict[str, dict[str, str]] = field(default_factory=lambda: {"ifName": {}, "ifDescr": {}})
    counted: bool = False
    narrow: bool = False


def _line(rows: Rows, walk: _Walk, block: Block, line: int, text: str) -> None:
    match = _RECORD.fullmatch(text) or _LINE.fullmatch(text)
    found = object_of(match["oid"]) if match else None
    if match is None or found is None or match["value"].startswith(_NO_ANSWER):
        rows.aside("line", "no line of a walk (OID = TYPE: value)", line, block.path)
        return
    kind = _RECORD_TYPES.get(match["type"] or "", match["type"])
    _value(rows, walk, block, line, (*found, kind, match["value"].strip()))


def _value(
    rows: Rows,
    walk: _Walk,
    block: Block,
    line: int,
    found: tuple[str, str, str | None, str],
) -> None:
    name, index, kind, value = found
    if name in TOO_NARROW:
        rows.aside_once(name, TOO_NARROW[name], line, block.path)
        walk.narrow = True
        return
    try:
        if name in walk.names:
            walk.names[name][index] = text_value(kind, value)
        elif name == "sysUpTime":
            series = rows.series(_DEVICE, None, "uptime_s", None, kind="gauge")
            rows.add(series, block.ts_ns, uptime_s(value), block.stamp, line)
        elif name in SNMP_NAMES:
            meaning = SNMP_NAMES[name]
            # IF-MIB's own Counter64; only snmp_exporter takes it modulo 2^53.
            bits = 64 if name.startswith("ifHC") else meaning.bits
            key = rows.meant(dataclasses.replace(meaning, bits=bits), _DEVICE, f"ifIndex {index}")
            if meaning.kind == "counter":
                rows.add(key, block.ts_ns, whole(value), block.stamp, line)
                walk.counted = True
            elif speed := number(value) * meaning.factor:
                rows.add(key, block.ts_ns, speed, block.stamp, line)
            else:
                rows.aside_once(name, "the device does not know its speed", line, block.path)
        else:
            rows.aside_once("other objects", "no counters of interfaces", line, block.path)
    except ValueError as error:
        rows.aside("reading", str(error), line, block.path)


def _table(rows: Rows, walk: _Walk, block: Block, start: int) -> None:
    """The rows of `snmptable` from the line after its title on.

    A row is named by its ifName or ifDescr, or by the index that -Ci adds.
    """
    header: list[str] | None = None
    mark: str | None = None
    for line, text in block.lines[start:]:
        if not text.strip():
            continue
        if header is None:
            mark = next((sign for sign in ",;|\t" if sign in text), None)
            header = [cell.strip() for cell in text.split(mark)]
            continue
        cells = [cell.strip() for cell in text.split(mark)]
        row = dict(zip(header, cells, strict=False))
        label = row.get("ifName") or row.get("ifDescr") or row.get("index")
        if len(cells) != len(header) or not label:
            rows.aside("row", "not one value per column; add `-Cf ,`", line, block.path)
            continue
        for name, value in row.items():
            if name in SNMP_NAMES or name in TOO_NARROW:
                _value(rows, walk, block, line, (name, label, None, value))
                walk.names["ifName"].setdefault(label, label)
