"""NVUE's interface counters as JSON: `nv show interface ... -o json`, one reading per block.

Written by: NVIDIA Cumulus Linux 5 and NVOS: ``nv show interface -o json`` (also of one interface,
with ``link``, ``link stats``, ``counters``, ``counters qos`` or, until 5.4, ``qos counters``), and
the REST API (``/nvue_v1/interface?rev=operational``).
Specified in: NVIDIA's NVUE command reference and API schema.
Cannot tell: its own time (a ``### <epoch>`` line before each reading, or the file's name); the
interface, where one was asked for and the document does not repeat it (``### <epoch> swp1``, or
``interface:``); how long PFC paused. The text output rounds bytes to two digits and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from servebook.errors import DumpError
from servebook.read.cli_blocks import count, documents, named_interface
from servebook.read.counter_names import Meaning
from servebook.read.counter_rows import Rows
from servebook.read.counter_stamps import Block, blocks, find_texts
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "nvue"
_JSON = re.compile(
    rb'"(in|out)-bytes"\s*:|"(pfc|egress-queue|ingress-buffer)-stats"\s*:|"rx-pause-frames"\s*:'
)
_TEXT = re.compile(
    rb"(?m)^\s*(in|out)-bytes\s+[\d.]+ ?([KMGTP]?B|Bytes)\b|^Counter\s+Receive\s+Transmit\s*$"
)
_COMMAND = re.compile(r"nv show interface (\S+)")
_STATS = {
    f"{way}-{leaf}": Meaning(metric, direction)
    for way, direction in (("in", "rx"), ("out", "tx"))
    for leaf, metric in (
        ("bytes", "bytes"),
        ("pkts", "packets"),
        ("drops", "drops"),
        ("errors", "errors"),
    )
} | {"out-wait": Meaning("xmit_wait", "tx")}
_PFC = {f"{way}-pause-frames": Meaning("pfc_frames", way, scope="prio") for way in ("rx", "tx")}
_QUEUE = {
    name: Meaning(metric, "tx", scope="queue")
    for name, metric in (
        ("tx-frames", "packets"),
        ("tx-bytes", "bytes"),
        ("ecn-marked-frames", "ecn_marked"),
        ("wred-discards", "wred_drops"),
        ("tx-uc-buffer-discards", "drops"),
    )
}
_GROUPS = {"pfc-stats": _PFC, "egress-queue-stats": _QUEUE}
#: Keys of the tree between its root and the statistics; other objects at the top are interfaces.
_PATH = ("operational", "interface", "link", "stats", "counters", "qos", "roce")
_SPEED = re.compile(r"(\d{1,4}(?:\.\d)?)([MGT])", re.ASCII)
_SCALE = {"M": 1e6, "G": 1e9, "T": 1e12}
_DEPTH = 8
_DEVICE = "switch"
_WHAT = "the output of `nv show interface -o json`"


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; files named after their time as one series per folder."""
    return find_texts(_NAME, files, _mine)


def _mine(head: bytes) -> bool:
    if _TEXT.search(head):
        return True
    return bool(_JSON.search(head)) and any(c in head[:4096] for c in (b"{",))


def read(source: Source) -> Tables:
    """Samples of all readings of the source.

    Raises DumpError for NVUE's text, for a file without times, and where no interface has a
    counter.
    """
    rows = Rows(source)
    text = False
    option: str | None = None
    if isinstance(source.options.get("interface"), str):
        option = str(source.options["interface"])
    named = unnamed = False
    for block in blocks(rows, _WHAT):
        body = "\n".join(line for _, line in block.lines)
        if _TEXT.search(body.encode("utf-8", "replace")) and "{" not in body:
            text = True
            rows.aside("block", "NVUE's text, whose bytes are rounded", block.line, block.path)
            continue
        told = named_interface(block, _COMMAND)
        for line, document in documents(rows, block):
            walk = _Walk(rows, block, line, told, option)
            walk.visit(document, None, 0)
            named, unnamed = named or walk.named, unnamed or walk.unnamed
    if text and not len(rows):
        raise _rounded(rows)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "interfaces with counters (link.stats with in-bytes and out-bytes)",
            rows.unusable("none"),
            "save `nv show interface -o json`, or name the interface: `### <epoch> swp1`",
        )
    if unnamed and not named:
        rows.take_interface()
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _rounded(rows: Rows) -> DumpError:
    return DumpError(
        rows.where(),
        _WHAT,
        "NVUE's text, whose bytes are rounded (39.21 MB), so that no rate can be told",
        "add `-o json` to the command",
    )


class _Walk:
    """Goes through one document; ``named`` and ``unnamed`` say whether it named interfaces."""

    def __init__(
        self, rows: Rows, block: Block, line: int, told: str | None, option: str | None
    ) -> None:
        self.rows, self.block, self.line = rows, block, line
        self.told, self.option = told, option
        self.named = self.unnamed = False

    def visit(self, node: Any, interface: str | None, depth: int) -> None:
        """Reads the counters of an object and goes on below it."""
        if not isinstance(node, Mapping) or depth > _DEPTH:
            return
        for key in sorted(_STATS.keys() & node.keys()):
            self._add(interface, _STATS[key], node[key], None)
        for group, names in _GROUPS.items():
            self._group(interface, node.get(group), names)
        if (match := _SPEED.fullmatch(str(node.get("speed")))) and float(match[1]):
            speed = float(match[1]) * _SCALE[match[2]]
            self._add(interface, Meaning("speed_bps", kind="gauge"), speed, None)
        for key, child in node.items():
            if key in _PATH:
                self.visit(child, interface, depth + 1)
            elif interface is None and key not in _GROUPS and self._is_interface(child):
                self.visit(child, str(key), depth + 1)

    def _is_interface(self, child: Any) -> bool:
        return isinstance(child, Mapping) and any(
            key in child for key in (*_PATH, *_STATS, *_GROUPS)
        )

    def _group(self, interface: str | None, group: Any, names: Mapping[str, Meaning]) -> None:
        if not isinstance(group, Mapping):
            return
        for index, values in group.items():
            if not isinstance(values, Mapping) or not str(index).isdecimal():
                continue
            for key in sorted(names.keys() & values.keys()):
                self._add(interface, names[key], values[key], int(str(index)[:9]))

    def _add(self, interface: str | None, meaning: Meaning, value: Any, index: int | None) -> None:
        rows, block = self.rows, self.block
        self.named |= interface is not None or self.told is not None
        name = interface or self.told or self.option
        if name is None:
            reason = "no interface is named; write `### <epoch> NAME`, or `interface:`"
            rows.aside_once("counters", reason, self.line, block.path)
            return
        self.unnamed |= interface is None and self.told is None
        series = rows.meant(meaning, _DEVICE, name, index=index)
        try:
            amount = value if meaning.kind == "gauge" else count(value)
        except ValueError as error:
            rows.aside("reading", str(error), self.line, block.path)
            return
        rows.add(series, block.ts_ns, amount, block.stamp, self.line)
