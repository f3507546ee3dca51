"""``ethtool -S``: the counters of a NIC's driver, one reading per interface and time.

Written by: ethtool, with the names of the driver (tried: mlx5_core, bnxt_en, ice), in a loop that
prints ``### <epoch> <interface>`` before each reading, or in files named after interface and time
(``ethtool_eth0_<epoch>.txt``); also parts of it (``| grep phy``).
Specified in: the drivers; mlx5: Linux, Documentation/networking/.../mlx5/counters.rst.
Cannot tell: the interface (from the ``###`` line, a line with the command, the file's name or the
manifest's ``interface:``), the time, the speed. ``*_phy``, ``port.*`` and ``*.nic`` count all that
passed the port and replace the kernel's counters, which miss RDMA. mlx5's phy bytes hold the
Ethernet header and FCS, its vport (RDMA) bytes no FCS. A pause that was received (rx) is one with
which the switch stopped the NIC. Rings of the host and driver internals are set aside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows, whole
from servebook.read.counter_stamps import LONGEST_TEXT_LINE, Block, blocks, find_texts
from servebook.read.ethtool_names import ethtool_meaning, is_ring
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "ethtool"
_DEVICE = "host"
_COUNTER = re.compile(r"\s*(\[\d+\]: )?[A-Za-z][\w.\-]*\s*:\s*-?\d+\s*")
_TITLE = "NIC statistics:"
_COMMAND = re.compile(r".*\bethtool\s+(?:-S|--statistics)\s+([A-Za-z][\w.@-]{0,30})\b.*")
_NAMED = re.compile(r"(?:=+|-+|#+|>+)?\s*([A-Za-z][\w.-]{0,30}?)\s*:?\s*(?:=+|-+)?")
_TOKEN = re.compile(r"[A-Za-z]+\d\w*")
_LINUX = re.compile(r"(?:eth|en[opsx]|ib|bond|swp|hsn|roce|rdma|team|net|mlx)\w*\d\w*")
_LEAST_SHARE = 0.8


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; readings named after their time as one series per folder and interface."""
    return find_texts(_NAME, files, _mine)


def _mine(head: bytes) -> bool:
    text = head[:16384].decode("utf-8", "replace")
    whole_lines = text.splitlines()[: 300 if len(head) < 16384 else -1]
    lines = [line for line in whole_lines[:300] if line.strip() and not line.startswith("###")]
    counters = [line for line in lines if _COUNTER.fullmatch(line)]
    known = any(ethtool_meaning(line.rpartition(":")[0].strip()) for line in counters)
    if any(line.strip() == _TITLE for line in lines[:50]):
        return bool(counters)
    return known and len(counters) >= _LEAST_SHARE * len(lines)


def read(source: Source) -> Tables:
    """Samples of all readings of the source.

    Raises DumpError where there is no time or no counter of a port; lines that are no counter and
    counters of other things are set aside.
    """
    rows = Rows(source)
    interface = rows.take_interface()
    for block in blocks(rows, "`ethtool -S` output", longest=LONGEST_TEXT_LINE):
        _block(rows, block, interface)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "counters of a port such as rx_bytes_phy or rx_bytes",
            rows.unusable("none that Servebook knows"),
            "save the whole output of ethtool -S with a `### $(date +%s.%N) INTERFACE` before it; "
            "where the driver counts by queue alone (ena, virtio, gve), save /proc/net/dev or "
            "`ip -s -j link` in this way instead",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _block(rows: Rows, block: Block, interface: str | None) -> None:
    own = interface or next(iter(block.words), None) or _in_name(block.path) or "unknown"
    titled: set[str] = set()
    twice = False
    others: dict[tuple[str, str], list[int]] = {}  # (key, reason): first line, number
    lines = [(line, text) for line, text in block.lines if text.strip()]
    for place, (line, text) in enumerate(lines):
        name, colon, value = text.rpartition(":")
        name, value = name.strip(), value.strip()
        if text.strip() == _TITLE:
            # A second device without a name of its own would be taken for the first.
            twice = own in titled
            titled.add(own)
        elif named := _heading(text, lines[place + 1 : place + 2]):
            own = interface or named
        elif not (name and colon and value) or len(value.split()) != 1:
            others.setdefault(("lines", "no counter"), [line, 0])[1] += 1
        elif twice:
            reason = "a second device in one reading, without a name"
            others.setdefault(("counters", reason), [line, 0])[1] += 1
        elif ethtool_meaning(name) is None:
            key = "rings of the host" if is_ring(name) else "counters"
            others.setdefault((key, "none that Servebook uses"), [line, 0])[1] += 1
        else:
            _counter(rows, block, line, own, name, value)
    for (key, reason), (line, n) in others.items():
        rows.aside_once(key, reason, line, block.path, n)


def _heading(text: str, following: Sequence[tuple[int, str]]) -> str | None:
    """The interface that a line with the command, or above a device's title, names."""
    if "ethtool" in text and (match := _COMMAND.fullmatch(text)):
        return match[1]
    if (
        following
        and following[0][1].strip() == _TITLE
        and (match := _NAMED.fullmatch(text.strip()))
    ):
        return match[1]
    return None


def _counter(rows: Rows, block: Block, line: int, interface: str, name: str, text: str) -> None:
    found = ethtool_meaning(name)
    if found is None:
        return
    meaning, rank = found
    try:
        count = whole(text)
    except ValueError as error:
        rows.aside("counter", f"{name}: {error}", line, block.path)
        return
    key = rows.meant(meaning, _DEVICE, interface, rank=rank)
    rows.add(key, block.ts_ns, count, block.stamp, line)


def _in_name(path: Path) -> str | None:
    """The interface in a file's name (``ethtool_eth0_1795973865.txt``), where there is one."""
    found = [word for word in re.split(r"[\W_]+", path.name) if _TOKEN.fullmatch(word)]
    usual = [word for word in found if _LINUX.fullmatch(word)]
    return usual[0] if len(usual) == 1 else found[0] if len(found) == 1 else None
