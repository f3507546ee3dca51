"""gnmic's `event` output: streamed gNMI updates of interface counters.

Written by: gnmic (openconfig), ``--format event`` to a file or standard output: arrays of events
one after another, or one event per line with ``split-events``; each event carries a ``timestamp``
(ns, the device's), ``tags`` and ``values``.
Specified in: gnmic's documentation of its outputs; paths and counters: openconfig-interfaces
(``/interfaces/interface/state/counters``), and SR Linux (``/interface/statistics``).
Cannot tell: counters that did not change under ON_CHANGE or suppress-redundant (missing means
unchanged there), the sampling interval of the hardware behind the stamps, and link speeds.
64-bit values may come as strings (json_ietf writes them so) and are exact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows, whole
from servebook.read.counter_stamps import find_texts
from servebook.read.files import read_text
from servebook.read.source import File, Format, Source
from servebook.read.vllm_objects import objects
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_NAME = "gnmic-event"
_START = re.compile(rb"\s*(\[\s*)?\{")
_INTERFACE_TAGS = ("interface_name", "interface-name", "name", "port_port-id", "ifname")
_COUNTERS = {
    "in-octets": ("bytes", "rx"),
    "out-octets": ("bytes", "tx"),
    "in-pkts": ("packets", "rx"),
    "out-pkts": ("packets", "tx"),
    "in-packets": ("packets", "rx"),
    "out-packets": ("packets", "tx"),
    "in-unicast-pkts": ("unicast_packets", "rx"),
    "out-unicast-pkts": ("unicast_packets", "tx"),
    "in-errors": ("errors", "rx"),
    "out-errors": ("errors", "tx"),
    "in-discards": ("drops", "rx"),
    "out-discards": ("drops", "tx"),
}
_DEVICE = "device"
_WORD = re.compile(r"[A-Za-z][\w-]{0,63}", re.ASCII)


def find(files: Sequence[File]) -> list[Source]:
    """Files of events with interface counters."""
    return find_texts(
        _NAME,
        files,
        lambda head: bool(
            _START.match(head)
            and all(key in head for key in (b'"timestamp"', b'"tags"', b'"values"'))
            and (b"octets" in head or b"counters/" in head)
        ),
    )


def read(source: Source) -> Tables:
    """Samples of all events of the source.

    Raises DumpError where no event holds an interface counter; events and values that cannot be
    used are set aside.
    """
    rows = Rows(source)
    for path in source.files or (source.main,):
        stamp = rows.stamp("device", None, path)
        for line, document, broken in objects(read_text(path), "["):
            if broken:
                rows.aside("array", broken, line, path)
                continue
            for event in document if isinstance(document, list) else [document]:
                _event(rows, event, stamp, line, path)
    if not len(rows):
        raise DumpError(
            rows.where(),
            "events with interface counters such as .../state/counters/in-octets",
            rows.unusable("none that can be used"),
            "subscribe to /interfaces/interface/state/counters and write with --format event",
        )
    return rows.tables()


FORMAT = Format(_NAME, "counters", find, read)


def _event(rows: Rows, event: Any, stamp: int, line: int, path: Path) -> None:
    if not isinstance(event, Mapping) or not isinstance(event.get("values"), Mapping):
        rows.aside("event", "no `values`", line, path)
        return
    tags = event.get("tags")
    tags = tags if isinstance(tags, Mapping) else {}
    interface = next((str(tags[name]) for name in _INTERFACE_TAGS if name in tags), None)
    if interface is None:
        rows.aside_once("events", "no tag names an interface", line, path)
        return
    at = event.get("timestamp")
    if type(at) is not int or at <= 0:
        rows.aside("event", "no `timestamp` in ns", line, path)
        return
    device = rows.alias(str(tags.get("source", _DEVICE)))
    for leaf, value in event["values"].items():
        name = str(leaf).rsplit("/", 1)[-1].rsplit(":", 1)[-1]
        if name not in _COUNTERS:
            shown = name if _WORD.fullmatch(name) else "?"
            rows.aside_once(shown, "not a counter that Servebook uses", line, path)
            continue
        try:
            number = whole(str(value))
        except ValueError as error:
            rows.aside("value", f"{name}: {error}", line, path)
            continue
        metric, direction = _COUNTERS[name]
        rows.add(rows.series(device, interface, metric, direction), at, number, stamp, line)
