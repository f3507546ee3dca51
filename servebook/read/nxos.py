"""Cisco NX-OS: `show interface`, `show interface counters` and their kin, as JSON or text.

Written by: NX-OS 7 to 10: ``show interface | json``, ``show interface counters [detailed] | json``
(also ``json native`` and NX-API's wrapping), ``show interface priority-flow-control | json``; the
text of ``show interface``, ``show interface counters`` and ``show interface counters table``; a
``### <epoch>`` line before each reading.
Specified in: Cisco's NX-OS command references; nothing that says the JSON's keys.
Cannot tell: its own time; in ``counters detailed`` a counter of 0, which is left out. Rates are
the device's own average over the load interval (30 s) and are read only where there are no bytes.
``show interface | include rate`` loses the interfaces' names and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from servebook.errors import DumpError
from servebook.read.cli_blocks import count, documents
from servebook.read.counter_names import Meaning
from servebook.read.counter_rows import Rows, number
from servebook.read.counter_stamps import Block, blocks, find_texts
from servebook.read.nxos_text import HEAD, NAMELESS, Found, text_readings
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "nxos"
_JSON = re.compile(
    rb'"TABLE_(interface|rx_counters|tx_counters|pfc_interface)"|"eth_(in|out)bytes"\s*:'
)
_INTERFACES = ("interface", "interface_rx", "interface_tx", "if-name-str", "interface_name")
_COUNTERS: Mapping[str, Meaning] = {
    f"{before}{names[way]}{leaf}": Meaning(metric, direction)
    for before, names in (
        ("eth_", {"in": "in", "out": "out"}),
        ("mgmt_", {"in": "in_", "out": "out_"}),
        ("vdc_lvl_", {"in": "in_", "out": "out_"}),
    )
    for way, direction in (("in", "rx"), ("out", "tx"))
    for leaf, metric in (
        ("bytes", "bytes"),
        ("pkts", "packets"),
        ("ucast", "unicast_packets"),
        ("err", "errors"),
        ("discard", "drops"),
        ("pause", "pause_frames"),
    )
} | {
    f"svi_ucast_{unit}_{way}": Meaning(metric, direction, scope="l3")
    for way, direction in (("in", "rx"), ("out", "tx"))
    for unit, metric in (("bytes", "bytes"), ("pkts", "unicast_packets"))
}
_PFC = {"rx-stats": Meaning("pause_frames", "rx"), "tx-stats": Meaning("pause_frames", "tx")}
_RATES = {
    "rx": ("eth_inrate1_bits", "eth_load_interval1_rx"),
    "tx": ("eth_outrate1_bits", "eth_load_interval1_tx"),
}
_DEPTH = 12
_DEVICE = "switch"
_WHAT = "the output of NX-OS' show commands"


def find(files: Sequence[File]) -> list[Source]:
    """Logs one by one; files named after their time as one series per folder."""
    return find_texts(
        _NAME,
        files,
        lambda head: bool(
            _JSON.search(head)
            or HEAD.search(head)
            or (NAMELESS.search(head) and b" current state" not in head)  # Huawei's
        ),
    )


def read(source: Source) -> Tables:
    """Samples of all readings of the source.

    Raises DumpError for a text without the interfaces' names, a file without times, and where no
    interface has a counter.
    """
    rows = Rows(source)
    nameless = counted = False
    for block in blocks(rows, _WHAT):
        if any(line.lstrip()[:1] in ("{", "[") for _, line in block.lines):
            for line, document in documents(rows, block):
                for interface, record in _records(document, 0):
                    counted |= _record(rows, block, line, interface, record)
            continue
        found = list(text_readings(rows, block))
        for reading in found:
            counted |= _add(rows, block, reading)
        lost = not found and any(NAMELESS.search(line.encode()) for _, line in block.lines)
        nameless |= lost
        if not found:
            reason = "rates without the names of interfaces" if lost else "no interface"
            rows.aside("block", reason, block.line, block.path)
    if not counted and nameless:
        raise DumpError(
            rows.where(),
            "the whole output of `show interface`",
            "rates without the names of their interfaces (| include rate)",
            "save `show interface | json`, or `show interface counters | json`",
        )
    if not counted:
        raise DumpError(
            rows.where(),
            "interfaces with counters",
            rows.unusable("none"),
            "save `show interface | json`, or `show interface counters detailed | json`",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _records(node: Any, depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(interface, row) of all rows of all tables, however they are wrapped."""
    if depth > _DEPTH:
        return
    if isinstance(node, list):
        for child in node:
            yield from _records(child, depth + 1)
    elif isinstance(node, dict):
        name = next((node[k] for k in _INTERFACES if isinstance(node.get(k), str)), None)
        if name:
            yield name, node
        for child in node.values():
            if isinstance(child, list | dict):
                yield from _records(child, depth + 1)


def _record(rows: Rows, block: Block, line: int, interface: str, record: Mapping[str, Any]) -> bool:
    """Adds one row of a table; True where it has a counter or a rate."""
    counted = False
    for names in (_COUNTERS, _PFC):
        for key in sorted(names.keys() & record.keys()):
            if str(record[key]).strip() not in ("--", "n/a", ""):
                counted |= _add(rows, block, Found(line, interface, names[key], record[key]))
    if not any(key.endswith("bytes") and key in record for key in _COUNTERS):
        for direction, (rate, window) in _RATES.items():
            if rate in record:
                meaning = Meaning("bytes", direction, kind="rate", factor=0.125)
                found = Found(line, interface, meaning, record[rate], record.get(window))
                counted |= _add(rows, block, found)
    if "eth_bw" in record:
        meaning = Meaning("speed_bps", kind="gauge", factor=1000)
        _add(rows, block, Found(line, interface, meaning, record["eth_bw"]))
    return counted


def _add(rows: Rows, block: Block, found: Found) -> bool:
    """Adds one value; True for a counter or a rate that could be read."""
    meaning = found.meaning
    try:
        if meaning.kind == "counter":
            amount: int | float = count(found.value)
        else:
            amount = number(str(found.value)) * meaning.factor
            if amount < 0 or (meaning.kind == "gauge" and amount == 0):
                raise ValueError("the device does not know it")
        window = None if found.window_s is None else number(str(found.window_s))
    except ValueError as error:
        rows.aside("reading", str(error), found.line, block.path)
        return False
    if meaning.kind == "rate":
        key = rows.meant(meaning, _DEVICE, found.interface, window_s=window, smoothing="ewma")
    else:
        key = rows.meant(meaning, _DEVICE, found.interface)
    rows.add(key, block.ts_ns, amount, block.stamp, found.line)
    return meaning.kind != "gauge"
