"""Walks of IF-MIB::ifXTable as net-snmp prints them, a `### <epoch>` line before each walk.

Written by: net-snmp's snmpwalk and snmpbulkwalk, with names or numbers (``-On``), with or without
types (``-Oq``, ``-OQ``), with short names (``-Os``).
Specified in: RFC 2863 (IF-MIB), RFC 3418 (sysUpTime).
Cannot tell: its own time, which device it was, and when the agent read the hardware: agents cache
(net-snmp about 3 s), so values repeat and then jump, and a walk is not atomic. 32-bit octet
counters wrap within a second on a fast link and are set aside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from servebook.errors import DumpError
from servebook.read.counter_names import NAMES, TOO_NARROW
from servebook.read.counter_rows import Rows, number, whole
from servebook.read.counter_stamps import Block, blocks, find_texts
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "snmpwalk"
_LINE = re.compile(
    r"\s*(?P<oid>(?:[\w-]+::)?[A-Za-z][\w-]*|\.?(?:iso\.|1\.)[\d.]+?)"
    r"(?:[.\[](?P<index>\d+)\]?)?\s+(?:=\s*)?"
    r"(?:(?P<type>Counter64|Counter32|Gauge32|STRING|Timeticks|INTEGER|Unsigned32):\s*)?(?P<value>.*)"
)
_HEAD = re.compile(
    rb"(?m)^\s*((IF-MIB::)?if(HC|Name|Descr|Index|HighSpeed|In|Out)|DISMAN-EVENT-MIB::sysUpTime"
    rb"|\.?(iso|1)\.3\.6\.1\.2\.1\.(31\.1\.1\.1|2\.2\.1|1\.3)\.)\S*\s"
)
_IFX, _IF = "1.3.6.1.2.1.31.1.1.1.", "1.3.6.1.2.1.2.2.1."
_OIDS = {
    _IFX + "1": "ifName",
    _IFX + "6": "ifHCInOctets",
    _IFX + "7": "ifHCInUcastPkts",
    _IFX + "10": "ifHCOutOctets",
    _IFX + "11": "ifHCOutUcastPkts",
    _IFX + "15": "ifHighSpeed",
    _IF + "2": "ifDescr",
    _IF + "5": "ifSpeed",
    _IF + "10": "ifInOctets",
    _IF + "13": "ifInDiscards",
    _IF + "14": "ifInErrors",
    _IF + "16": "ifOutOctets",
    _IF + "19": "ifOutDiscards",
    _IF + "20": "ifOutErrors",
    "1.3.6.1.2.1.1.3": "sysUpTime",
}
_DEVICE = "agent"
_TICKS = re.compile(r"\(?(\d{1,20})\)?", re.ASCII)


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; walks named after their time as one series per folder."""
    return find_texts(_NAME, files, lambda head: _HEAD.search(head[:4096]) is not None)


def read(source: Source) -> Tables:
    """Samples of all walks of the source.

    Interfaces are named by ifName (from any walk of the file), else by ifDescr, else
    ``ifIndex N``. Raises DumpError where there is no time or no 64-bit octet counter.
    """
    rows = Rows(source)
    names: dict[str, dict[str, str]] = {"ifName": {}, "ifDescr": {}}
    narrow = False
    for block in blocks(rows, "a walk of ifXTable"):
        for line, text in block.lines:
            if text.strip():
                narrow |= _line(rows, names, block, line, text)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "64-bit octet counters (ifHCInOctets, ifHCOutOctets)",
            rows.unusable("32-bit counters only" if narrow else "no interface counter"),
            "walk IF-MIB::ifXTable (.1.3.6.1.2.1.31.1.1.1) with SNMP version 2c or 3",
        )
    known = names["ifDescr"] | names["ifName"]
    rows.renamed = {f"ifIndex {index}": name for index, name in known.items()}
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _line(rows: Rows, names: dict[str, dict[str, str]], block: Block, line: int, text: str) -> bool:
    """Adds one line of a walk; True for a counter that is too narrow."""
    match = _LINE.fullmatch(text)
    if match is None:
        rows.aside("line", "no line of a walk (OID = TYPE: value)", line, block.path)
        return False
    oid, index, value = match["oid"], match["index"], match["value"].strip()
    if oid[0].isalpha() and not oid.startswith("iso."):
        name = oid.rpartition("::")[2]
    else:
        name = _OIDS.get(oid.lstrip(".").replace("iso.", "1."), "")
    if name in TOO_NARROW:
        rows.aside_once(name, TOO_NARROW[name], line, block.path)
        return True
    try:
        if name in names:
            names[name][index] = value.strip('"')
        elif name in ("sysUpTime", "sysUpTimeInstance"):
            ticks = _TICKS.match(value)
            torn = value.startswith("(") and ")" not in value
            if ticks is None or torn or value[ticks.end() :][:1].isdigit():
                raise ValueError("no time ticks")
            series = rows.series(_DEVICE, None, "uptime_s", None, kind="gauge")
            rows.add(series, block.ts_ns, int(ticks[1]) / 100, block.stamp, line)
        elif name in NAMES:
            meaning = NAMES[name]
            # IF-MIB's own Counter64; only snmp_exporter takes it modulo 2^53.
            bits = 64 if name.startswith("ifHC") else meaning.bits
            series = rows.series(
                _DEVICE,
                f"ifIndex {index}",
                meaning.metric,
                meaning.direction,
                kind=meaning.kind,
                bits=bits,
            )
            if meaning.kind == "counter":
                rows.add(series, block.ts_ns, whole(value), block.stamp, line)
            elif speed := number(value) * meaning.factor:
                rows.add(series, block.ts_ns, speed, block.stamp, line)
            else:
                rows.aside_once(name, "the device does not know its speed", line, block.path)
    except ValueError as error:
        rows.aside("reading", str(error), line, block.path)
    return False
