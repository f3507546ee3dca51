"""Command-line texts of other switches: recognised, and refused with the better command.

Written by: Huawei VRP and H3C Comware (``display interface``, ``display counters``), Aruba AOS-CX
and Cisco IOS (``show interface``).
Specified in: their vendors' command references.
Cannot tell: their own time; Comware's ``display counters`` has no bytes. No parser that is kept up
and light gives exact bytes from them: ntc-templates has none for VRP and Comware, and gives up a
whole AOS-CX text at any line that it does not know. SNMP has the same counters, exact and typed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from servebook.errors import DumpError
from servebook.read.files import read_text
from servebook.read.source import File, Format, Source, relative
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "switch-text"
_KINDS: tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...] = (
    (
        "Huawei VRP",
        re.compile(r"(?m)^\S+ current state ?: (UP|DOWN|Administratively DOWN)"),
        re.compile(r"Line protocol current state"),
    ),
    (
        "H3C Comware",
        re.compile(r"(?m)^(Interface +Total \(pkts\)|Current state: (UP|DOWN))"),
        re.compile(r"Total \(pkts\)|Line protocol state"),
    ),
    (
        "Aruba AOS-CX",
        re.compile(r"(?m)^ *(Interface|Aggregate) \S+ is (up|down)"),
        re.compile(r"total packets +\d+ total bytes|(?m:^ *Statistic +RX +TX)"),
    ),
    (
        "Cisco IOS",
        re.compile(r"(?m)^\S+ is .{1,40}, line protocol is (up|down)"),
        re.compile(r"\d+ packets input, \d+ bytes"),
    ),
)


def find(files: Sequence[File]) -> list[Source]:
    """Texts of these switches, one source each."""
    return [
        Source(_NAME, file.root, file.path, (file.path,))
        for file in files
        if b"\x00" not in file.head[:4096] and _kind(file.head.decode("utf-8", "replace"))
    ]


def read(source: Source) -> Tables:
    """Raises DumpError, always: what the text is, and what to save instead."""
    kind = _kind(read_text(source.main)) or "another switch"
    raise DumpError(
        relative(source.main, source.root),
        "counters that a parser reads exactly",
        f"the command-line text of {kind}, for which there is none",
        "poll IF-MIB::ifXTable instead (snmpbulkwalk with a `### $(date +%s.%N)` line before each "
        "walk, Telegraf's snmp input, or snmp_exporter), or subscribe with gnmic",
    )


FORMAT = Format(_NAME, "counters", find, read)


def _kind(text: str) -> str | None:
    return next((name for name, one, two in _KINDS if one.search(text) and two.search(text)), None)
