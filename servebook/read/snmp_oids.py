"""Object identifiers of interface counters, in each notation of net-snmp.

``IF-MIB::ifHCInOctets.1``, ``ifHCInOctets[1]`` (-OX), ``.1.3.6.1.2.1.31.1.1.1.6.1`` (-On),
``iso.3.6...``, ``SNMPv2-SMI::mib-2.31...`` (without the MIB), ``.iso.org.dod...ifHCInOctets.1``
(-Of). Specified in: RFC 2863 (IF-MIB), RFC 3418 (sysUpTime), RFC 3635 (EtherLike-MIB).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from servebook.read.counter_names import NAMES, Meaning
from servebook.read.source import printable

__all__ = ["SNMP_NAMES", "object_of", "text_value", "uptime_s"]

_IFX, _IF = "1.3.6.1.2.1.31.1.1.1.", "1.3.6.1.2.1.2.2.1."
_PAUSE = "1.3.6.1.2.1.10.7.10.1."
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
    _PAUSE + "3": "dot3InPauseFrames",
    _PAUSE + "4": "dot3OutPauseFrames",
    _PAUSE + "5": "dot3HCInPauseFrames",
    _PAUSE + "6": "dot3HCOutPauseFrames",
    "1.3.6.1.2.1.1.3": "sysUpTime",
}
#: What ``counter_names`` says of IF-MIB, and the pause frames of EtherLike-MIB.
SNMP_NAMES: Mapping[str, Meaning] = {
    **NAMES,
    **{
        f"dot3{wide}{way}PauseFrames": Meaning("pause_frames", direction, 64 if wide else 32)
        for wide in ("", "HC")
        for way, direction in (("In", "rx"), ("Out", "tx"))
    },
}
_NUMBERED = re.compile(r"\.?(?:1|iso)\.(3\.6\.1\.[\d.]+)", re.ASCII)
_BELOW_MIB_2 = re.compile(r"(?:SNMPv2-SMI::)?mib-2\.([\d.]+)", re.ASCII)
_NAMED = re.compile(r"(?:[\w-]+::|\.?iso\.org\.[\w.-]*\.)?([A-Za-z][\w-]*)[.\[](\d+)\]?", re.ASCII)
_INSTANCE = re.compile(r"(?:[\w-]+::|\.?iso\.org\.[\w.-]*\.)?(sysUpTimeInstance)", re.ASCII)
_OBJECT = re.compile(r"(?:[\w.:-]+[.\[])[\w.\[\]\"':-]*[\w\]\"']|[\w.-]+::\w+", re.ASCII)
_TICKS = re.compile(r"\((\d{1,20})\).*|(\d{1,20})", re.ASCII)
_CLOCK = re.compile(
    r"(?:(\d{1,6})(?::| days?, ))?(\d{1,3}):(\d{1,2}):(\d{1,2}(?:\.\d{1,2})?)", re.ASCII
)
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}\s*)+")


def object_of(oid: str) -> tuple[str, str] | None:
    """(name, index) of an object; the name is "" for one that is not an interface's counter.

    None for what is no object identifier.
    """
    if match := _INSTANCE.fullmatch(oid):
        return "sysUpTime", "0"
    numbers = None
    if match := _NUMBERED.fullmatch(oid):
        numbers = "1." + match[1]
    elif match := _BELOW_MIB_2.fullmatch(oid):
        numbers = "1.3.6.1.2.1." + match[1]
    if numbers is not None:
        object_id, _, index = numbers.rpartition(".")
        return _OIDS.get(object_id, ""), index
    if match := _NAMED.fullmatch(oid):
        return match[1], match[2]
    # An index of several parts: no table of interfaces has one.
    return ("", "") if _OBJECT.fullmatch(oid) else None


def text_value(kind: str | None, value: str) -> str:
    """A string as net-snmp prints it: in quotation marks, plain, or in hexadecimal."""
    value = value.strip()
    if kind is None and value.endswith(' "') and _HEX.fullmatch(value.strip('" ')):
        kind, value = "Hex-STRING", value.strip('" ')  # as -Oq prints it
    if kind == "Hex-STRING":
        if not _HEX.fullmatch(value):
            raise ValueError("no text")
        return printable(bytes.fromhex(value).decode("utf-8", "replace").rstrip("\x00"))
    return printable(value.strip('"'))


def uptime_s(value: str) -> float:
    """Seconds of a sysUpTime: ``(4789) 0:00:47.89``, ``4789`` or ``0:0:00:47.89`` (-Oq)."""
    value = value.strip()
    if match := _TICKS.fullmatch(value):
        return int(match[1] or match[2]) / 100
    if match := _CLOCK.fullmatch(value):
        days, hours, minutes = (int(part or 0) for part in match.groups()[:3])
        return ((days * 24 + hours) * 60 + minutes) * 60 + float(match[4])
    raise ValueError("no time ticks")
