"""gnmic's output: streamed gNMI updates of interface counters, in its formats but prototext.

Written by: gnmic (openconfig) to a file or standard output. ``--format event``: arrays of events
one after another, or one event per line with ``split-events``, with a ``timestamp`` (ns, the
device's), ``tags`` and ``values``. ``json`` (its default) and ``protojson``: a notification after
another; ``gnmic get`` writes the same in one array. ``flat``: ``path: value`` lines without a time,
with a ``### <epoch>`` line before each reading.
The replies of pygnmi, saved as JSON, are read too.
Specified in: gnmic's documentation of its outputs; gNMI's protobuf; paths and counters:
openconfig-interfaces (``/interfaces/interface/state/counters``), and SR Linux
(``/interface/statistics``).
Cannot tell: counters that did not change under ON_CHANGE or suppress-redundant (missing means
unchanged there), the sampling interval of the hardware behind the stamps, and most link speeds.
64-bit values may come as strings (json_ietf writes them so) and are exact. ``prototext`` is not
read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servebook.errors import DumpError
from servebook.read.counter_names import Meaning
from servebook.read.counter_rows import Rows, whole
from servebook.read.counter_stamps import blocks, find_texts
from servebook.read.files import HEAD_BYTES, reading
from servebook.read.gnmi_names import INTERFACE_TAGS, LEAVES, leaf_of
from servebook.read.gnmic_messages import FLAT, Leaf, flat_leaf, is_message, message_leaves
from servebook.read.json_documents import documents
from servebook.read.public_names import THIS_SITE, is_public_leaf
from servebook.read.source import File, Format, Source
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "gnmic-event"
_START = re.compile(rb"\s*(\[\s*)?\{")
_FLAT = re.compile(FLAT.pattern.encode().replace(b"\\s*", b"[ \\t]*", 1))
_TEXT = re.compile(rb"(?m)^\s*update:\s*\{\s*$")
_SPEED = re.compile(r"(?:SPEED_)?(\d{1,5})(?:GB?|Gb/s)")
_SPEEDS = ("port-speed", "negotiated-port-speed")
_DEVICE = "device"
_CLOCK = re.compile(r"\d{1,20}", re.ASCII)


def find(files: Sequence[File]) -> list[Source]:
    """Files of events, notifications or flat paths with interface counters."""
    return find_texts(_NAME, files, _mine)


def _mine(head: bytes) -> bool:
    if b"octets" not in head and b"counters/" not in head and b'"counters"' not in head:
        return False
    if _START.match(head):
        kinds = (
            (b'"timestamp"', b'"tags"', b'"values"'),
            (b'"timestamp"', b'"updates"', b'"values"'),
            (b'"update"', b'"elem"'),
            (b'"update"', b'"path"', b'"val"', b'"timestamp"'),
        )
        return any(all(key in head for key in keys) for keys in kinds)
    return bool(_flat(head) or _is_prototext(head))


def _flat(head: bytes) -> bool:
    lines = (line for line in head[:16384].split(b"\n") if b"interface[name=" in line)
    return any(_FLAT.fullmatch(line.rstrip(b"\r")) for line in lines)


def _is_prototext(head: bytes) -> bool:
    return bool(_TEXT.search(head) and b"timestamp:" in head and b"elem" in head)


def read(source: Source) -> Tables:
    """Samples of all events and notifications of the source.

    Raises DumpError where none holds an interface counter, for prototext, and for flat paths
    without times; what cannot be used is set aside.
    """
    rows = Rows(source)
    text = False
    for path in source.files or (source.main,):
        head = _head(path)
        if _START.match(head[:4096]):
            _documents(rows, path, head.lstrip()[:1].decode())
        elif _is_prototext(head):
            text = True
    if text:
        raise DumpError(
            rows.where(),
            "gnmic's events or JSON",
            "its prototext, which repeats every path in full and is for reading by people",
            "run gnmic with --format event (or json)",
        )
    if not len(rows) and _flat(head):
        _flat_blocks(rows)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "events with interface counters such as .../state/counters/in-octets",
            rows.unusable("none that can be used"),
            "subscribe to /interfaces/interface/state/counters and write with --format event",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _head(path: Path) -> bytes:
    with reading(path) as open_again, open_again() as stream:
        return stream.read(HEAD_BYTES)


def _documents(rows: Rows, path: Path, opening: str) -> None:
    stamp = rows.stamp("device", None, path)
    for line, document, broken in documents(path, opening):
        if broken:
            kind = "array" if opening == "[" else "object"
            rows.aside(kind, broken, line, path)
            continue
        for event in document if isinstance(document, list) else [document]:
            if is_message(event):
                _message(rows, event, stamp, line, path)
            else:
                _event(rows, event, stamp, line, path)


def _flat_blocks(rows: Rows) -> None:
    for block in blocks(rows, "gnmic's flat paths"):
        for line, text in block.lines:
            if not text.strip():
                continue
            leaf = flat_leaf(text)
            if leaf is None:
                rows.aside_once("other lines", "no path of an interface", line, block.path)
            else:
                _leaf(rows, leaf, block.ts_ns, block.stamp, line, block.path)


def _message(rows: Rows, message: Mapping[str, Any], stamp: int, line: int, path: Path) -> None:
    found = False
    for leaf in message_leaves(message):
        found = True
        at = leaf.ts_ns
        at = int(at) if isinstance(at, str) and _CLOCK.fullmatch(at) else at
        if type(at) is not int or at <= 0:
            rows.aside("notification", "no `timestamp` in ns", line, path)
            return
        _leaf(rows, leaf, at, stamp, line, path)
    if not found:
        rows.aside_once("notifications", "no values", line, path)


def _event(rows: Rows, event: Any, stamp: int, line: int, path: Path) -> None:
    if not isinstance(event, Mapping) or not isinstance(event.get("values"), Mapping):
        rows.aside("event", "no `values`", line, path)
        return
    tags = event.get("tags")
    tags = tags if isinstance(tags, Mapping) else {}
    interface = next((str(tags[name]) for name in INTERFACE_TAGS if name in tags), None)
    if interface is None:
        rows.aside_once("events", "no tag names an interface", line, path)
        return
    at = event.get("timestamp")
    if type(at) is not int or at <= 0:
        rows.aside("event", "no `timestamp` in ns", line, path)
        return
    device = str(tags["source"]) if "source" in tags else None
    for name, value in event["values"].items():
        leaf = Leaf(at, device, interface, leaf_of(str(name)), value)
        _leaf(rows, leaf, at, stamp, line, path)


def _leaf(rows: Rows, leaf: Leaf, at: int, stamp: int, line: int, path: Path) -> None:
    name = leaf.name
    device = rows.alias(leaf.device) if leaf.device else _DEVICE
    if leaf.interface is None:
        rows.aside_once("values", "no path names an interface", line, path)
    elif name in _SPEEDS and (match := _SPEED.fullmatch(str(leaf.value))):
        meaning = Meaning("speed_bps", kind="gauge")
        rows.add(rows.meant(meaning, device, leaf.interface), at, int(match[1]) * 1e9, stamp, line)
    elif name not in LEAVES:
        shown = name if is_public_leaf(name) else THIS_SITE
        rows.aside_once(shown, "not a counter that Servebook uses", line, path)
    else:
        try:
            number = whole(str(leaf.value))
        except ValueError as error:
            rows.aside("value", f"{name}: {error}", line, path)
            return
        rows.add(rows.meant(LEAVES[name], device, leaf.interface), at, number, stamp, line)
