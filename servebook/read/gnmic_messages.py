"""Notifications of gnmic (`json`, `protojson`, `flat`) and pygnmi as single counters.

Paths: ``interfaces/interface[name=Ethernet1]/state/counters/in-octets`` and SR Linux'
``interface[name=ethernet-1/1]/statistics/in-octets``, cut anywhere between prefix and update.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servebook.read.files import loads
from servebook.read.gnmi_names import leaf_of

__all__ = ["FLAT", "Leaf", "flat_leaf", "is_message", "leaves_below", "message_leaves"]

#: A line of `--format flat`.
FLAT = re.compile(
    r"\s*(?P<path>(?:[\w-]+:)?/?(?:[\w:-]+/)*interface\[name=[^\]\n]+\][^:\n]*"
    r"(?::[\w-][^:\n]*)*): (?P<value>.*)"
)
_KEY = re.compile(r"(?:interface|port)\[(?:name|port-id)=([^\]]+)\]")
_DEPTH = 16


@dataclass(frozen=True)
class Leaf:
    """One value: when the device sent it, of which interface, and its last name in the path."""

    ts_ns: Any
    device: str | None
    interface: str | None
    name: str
    value: Any


def is_message(value: Any) -> bool:
    """True for a notification of `json` or `protojson`, or for one that ends the first answers."""
    return isinstance(value, Mapping) and bool(
        {"updates", "update", "notification", "sync-response", "syncResponse", "deletes"}
        & value.keys()
    )


def message_leaves(message: Mapping[str, Any]) -> Iterator[Leaf]:
    """The values of one notification."""
    for notification in (message.get("update"), *_listed(message.get("notification"))):
        if isinstance(notification, Mapping):
            yield from _protojson(notification)
    updates = message.get("updates")
    prefix = str(message.get("prefix") or "")
    device = message.get("target") or message.get("source")
    for update in updates if isinstance(updates, Sequence) and not isinstance(updates, str) else ():
        if not isinstance(update, Mapping) or not isinstance(update.get("values"), Mapping):
            continue
        path = f"{prefix}/{update.get('Path') or update.get('path') or ''}"
        found = _KEY.search(path)
        for name, value in update["values"].items():
            named = found[1] if found else None
            at, told = message.get("timestamp"), str(device) if device else None
            for own, leaf, number in leaves_below(str(name), value, named):
                yield Leaf(at, told, own, leaf, number)


def _protojson(update: Mapping[str, Any]) -> Iterator[Leaf]:
    prefix = update.get("prefix")
    before = prefix if isinstance(prefix, str) else ""
    prefix = prefix if isinstance(prefix, Mapping) else {}
    for entry in _listed(update.get("update")):
        if not isinstance(entry, Mapping):
            continue
        path = entry.get("path")
        if isinstance(path, str):  # as pygnmi writes it
            found = _KEY.search(f"{before}/{path}")
            named = found[1] if found else None
            for own, leaf, number in leaves_below(path, entry.get("val"), named):
                yield Leaf(update.get("timestamp"), None, own, leaf, number)
            continue
        elements = [*_elements(prefix), *_elements(path)]
        interface = None
        for element in elements:
            key = element.get("key")
            if element.get("name") in ("interface", "port") and isinstance(key, Mapping):
                interface = next((str(text) for text in key.values()), None)
        name = str(elements[-1].get("name", "")) if elements else ""
        device = str(prefix["target"]) if prefix.get("target") else None
        for own, leaf, number in leaves_below(name, _typed(entry.get("val")), interface):
            yield Leaf(update.get("timestamp"), device, own, leaf, number)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _elements(path: Any) -> list[Mapping[str, Any]]:
    found = path.get("elem") if isinstance(path, Mapping) else None
    return [e for e in found if isinstance(e, Mapping)] if isinstance(found, list) else []


def _typed(value: Any) -> Any:
    """The value of a TypedValue; JSON inside it is base64 text."""
    if not isinstance(value, Mapping):
        return value
    for kind, inner in value.items():
        if kind in ("jsonIetfVal", "jsonVal") and isinstance(inner, str):
            try:
                return loads(base64.b64decode(inner, validate=True))
            except (binascii.Error, ValueError):
                return None
        return inner
    return None


def leaves_below(
    name: str, value: Any, interface: str | None = None, depth: int = 0
) -> Iterator[tuple[str | None, str, Any]]:
    """(interface, last name, value) of all leaves of a value, which may be a whole container.

    An entry of a list of interfaces names itself.
    """
    if depth > _DEPTH:
        return
    if isinstance(value, list):
        listed = leaf_of(name) in ("interface", "port")
        for child in value:
            own = child.get("name") if listed and isinstance(child, Mapping) else None
            yield from leaves_below(name, child, str(own) if own else interface, depth + 1)
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from leaves_below(str(key), child, interface, depth + 1)
    else:
        yield interface, leaf_of(name), value


def flat_leaf(text: str) -> Leaf | None:
    """The value of a line of `--format flat`, whose time the line does not tell."""
    match = FLAT.fullmatch(text)
    found = _KEY.search(match["path"]) if match else None
    if match is None or found is None:
        return None
    return Leaf(None, None, found[1], leaf_of(match["path"]), match["value"].strip())
