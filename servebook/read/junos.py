"""Junos' `show interfaces` as XML or JSON: physical interfaces, one reading per block.

Written by: Juniper Junos: ``show interfaces [statistics|extensive|media] | display xml`` or
``| display json``, NETCONF's ``get-interface-information``; a ``### <epoch>`` line before each.
Specified in: Juniper's Junos XML API (``interface-information``).
Cannot tell: its own time. Bytes are those of the MAC where the reply has them (``extensive``),
else those of the traffic statistics, another layer with other bytes: keep to one command.
``statistics`` has rates alone, averaged over a window that it does not tell. Logical interfaces
are not read. XML with a document type or entities is set aside. The text is refused, because its
columns differ between versions and its rates lose their interface when lines are filtered.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from servebook.errors import DumpError
from servebook.read.cli_blocks import count, documents
from servebook.read.counter_names import Meaning
from servebook.read.counter_rows import Rows, number
from servebook.read.counter_stamps import Block, blocks, find_texts
from servebook.read.junos_xml import Node, from_json, from_xml, nodes, part_of, text_of
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "junos"
_MINE = re.compile(
    rb"<([\w-]+:)?(physical-interface|interface-information)[\s>/]"
    rb'|"(interface-information|physical-interface)"\s*:'
)
_TEXT = re.compile(rb"(?m)^\s*Physical interface: \S+, (Enabled|Administratively down)")
_PLACES: tuple[tuple[str, Mapping[str, Meaning]], ...] = (
    (
        "input-error-list",
        {"input-errors": Meaning("errors", "rx"), "input-drops": Meaning("drops", "rx")},
    ),
    (
        "output-error-list",
        {"output-errors": Meaning("errors", "tx"), "output-drops": Meaning("drops", "tx")},
    ),
    (
        "ethernet-mac-statistics",
        {
            "input-mac-pause-frames": Meaning("pause_frames", "rx"),
            "output-mac-pause-frames": Meaning("pause_frames", "tx"),
            "input-unicasts": Meaning("unicast_packets", "rx"),
            "output-unicasts": Meaning("unicast_packets", "tx"),
        },
    ),
)
_TRAFFIC = {
    "input-bytes": Meaning("bytes", "rx"),
    "output-bytes": Meaning("bytes", "tx"),
    "input-packets": Meaning("packets", "rx"),
    "output-packets": Meaning("packets", "tx"),
}
_RATES = {
    "input-bps": Meaning("bytes", "rx", kind="rate", factor=0.125),
    "output-bps": Meaning("bytes", "tx", kind="rate", factor=0.125),
}
_QUEUE = {
    "queue-counters-trans-packets": Meaning("packets", "tx", scope="queue"),
    "queue-counters-trans-bytes": Meaning("bytes", "tx", scope="queue"),
    "queue-counters-total-drop-packets": Meaning("drops", "tx", scope="queue"),
}
_MASTER = re.compile(r"\{\w+(:\w+)?\}\s*")  # a line above the prompt where there are two engines
_SPEED = re.compile(r"(\d{1,7})\s*([kmgt])bps", re.IGNORECASE)
_SCALE = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_DEVICE = "switch"
_WHAT = "the output of `show interfaces extensive | display xml`"


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; files named after their time as one series per folder."""
    return find_texts(_NAME, files, lambda head: bool(_MINE.search(head) or _TEXT.search(head)))


def read(source: Source) -> Tables:
    """Samples of all readings of the source.

    Raises DumpError for Junos' text, for a file without times, and where no physical interface has
    a counter.
    """
    rows = Rows(source)
    text = counted = False
    for block in blocks(rows, _WHAT):
        for line, node in _documents(rows, block):
            for interface in nodes(node, "physical-interface"):
                counted |= _interface(rows, block, line, interface)
        if any(_TEXT.match(line.encode("utf-8", "replace")) for _, line in block.lines):
            text = True
            rows.aside("block", "Junos' text", block.line, block.path)
    if not counted and text:
        raise DumpError(
            rows.where(),
            _WHAT,
            "Junos' text, whose columns differ between versions",
            "add `| display xml` (or `| display json`) to `show interfaces extensive`",
        )
    if not counted:
        raise DumpError(
            rows.where(),
            "physical interfaces with counters",
            rows.unusable("none"),
            "save `show interfaces extensive | display xml`",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _documents(rows: Rows, block: Block) -> Iterator[tuple[int, Node]]:
    kept = [(line, text) for line, text in block.lines if not _MASTER.fullmatch(text)]
    block = dataclasses.replace(block, lines=kept)
    starts = [text.lstrip()[:1] for _, text in block.lines]
    first = next((start for start in starts if start in ("<", "{")), "")
    if first == "{":
        for line, value in documents(rows, block):
            yield line, from_json(value)
        return
    if first != "<":
        return
    place = starts.index("<")
    line = block.lines[place][0]
    body = "\n".join(text for _, text in block.lines[place:])
    try:
        yield line, from_xml(body)
    except ValueError as error:
        rows.aside("document", str(error), line, block.path)


def _interface(rows: Rows, block: Block, line: int, node: Node) -> bool:
    """Adds one physical interface; True where it has a counter or a rate."""
    name = text_of(node, "name")
    if not name:
        rows.aside("interface", "no name", line, block.path)
        return False
    counted = False
    mac = part_of(node, "ethernet-mac-statistics")
    traffic = part_of(node, "traffic-statistics")
    layer = mac if text_of(mac, "input-bytes") is not None else traffic
    for key, meaning in _TRAFFIC.items():
        counted |= _add(rows, block, line, name, meaning, text_of(layer, key))
    if text_of(layer, "input-bytes") is None:
        for key, meaning in _RATES.items():
            counted |= _add(rows, block, line, name, meaning, text_of(traffic, key))
    for place, names in _PLACES:
        part = part_of(node, place)
        for key, meaning in names.items():
            counted |= _add(rows, block, line, name, meaning, text_of(part, key))
    for queue in nodes(part_of(node, "queue-counters"), "queue"):
        index = text_of(queue, "queue-number")
        if index is not None and index.isascii() and index.isdigit() and len(index) < 6:
            for key, meaning in _QUEUE.items():
                counted |= _add(rows, block, line, name, meaning, text_of(queue, key), int(index))
    if match := _SPEED.fullmatch(text_of(node, "speed") or ""):
        speed = int(match[1]) * _SCALE[match[2].lower()]
        meaning = Meaning("speed_bps", kind="gauge")
        _add(rows, block, line, name, meaning, str(speed) if speed else None)
    return counted


def _add(
    rows: Rows,
    block: Block,
    line: int,
    interface: str,
    meaning: Meaning,
    text: Any,
    index: int | None = None,
) -> bool:
    if text is None:
        return False
    try:
        if meaning.kind == "counter":
            amount: int | float = count(text)
        else:
            amount = number(text) * meaning.factor
            if amount < 0:
                raise ValueError("a rate cannot be negative")
    except ValueError as error:
        rows.aside("reading", str(error), line, block.path)
        return False
    series = rows.meant(meaning, _DEVICE, interface, index=index)
    rows.add(series, block.ts_ns, amount, block.stamp, line)
    return meaning.kind != "gauge"
