"""Records of the manifest: dataclasses whose fields know their kind, read from mappings.

A record is a frozen dataclass whose fields were made with ``key``; ``record`` reads one from a
mapping. The dataclass is thus schema, type and documentation at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from typing import Any, TypeVar

from servebook.read.manifest_kinds import SLUG, TEXT, At, Kind
from servebook.read.manifest_pattern import nearest
from servebook.read.manifest_yaml import Node

__all__ = ["key", "listed", "named", "record", "reference", "texts", "values"]

T = TypeVar("T")


def key(
    kind: Kind, meaning: str, unit: str = "", *, default: Any = None, required: bool = False
) -> Any:
    """A dataclass field for a manifest key; a missing or null key gives ``default``."""
    about = {"kind": kind, "meaning": meaning, "unit": unit, "required": required}
    if required:
        return field(metadata=about)
    if isinstance(default, dict):
        return field(default_factory=default.copy, metadata=about, hash=False)
    return field(default=default, metadata=about)


def record(cls: type[T], node: Node, at: At, **given: Any) -> T:
    """Read ``cls`` from a mapping; ``given`` are fields that do not come from the file.

    Raises ManifestError for a node that is no mapping, unknown keys, missing required ones and
    values of the wrong kind.
    """
    known = {f.name: f for f in fields(cls) if "kind" in f.metadata}  # type: ignore[arg-type]
    if not isinstance(node.value, dict):
        raise at.wrong(node, "a mapping", "write `key: value` lines: " + ", ".join(known))
    for name, entry in node.value.items():
        if name not in known:
            raise at.error(entry.line, "a known key", f"`{name}`", nearest(name, known))
    values = dict(given)
    for name, this in known.items():
        found = node.value.get(name)
        if found is not None and found.node.value is not None:
            values[name] = this.metadata["kind"].read(found.node, at.child(name))
        elif this.metadata["required"] and name not in given:
            line = node.line if found is None else found.line
            raise at.child(name).error(
                line,
                this.metadata["kind"].expected,
                "nothing",
                f"add it: {this.metadata['meaning']}",
            )
        elif this.default is MISSING and this.default_factory is MISSING and name not in given:
            values[name] = None
    return cls(**values)


def listed(cls: type[Any]) -> Kind:
    """A list of records; each knows its ``line``."""

    def read(node: Node, at: At) -> tuple[Any, ...]:
        if not isinstance(node.value, tuple):
            raise at.wrong(node, kind.expected, "begin each entry with `- `")
        return tuple(
            record(cls, item, at.item(index), line=item.line)
            for index, item in enumerate(node.value)
        )

    kind = Kind("a list", read)
    return kind


def named(cls: type[Any]) -> Kind:
    """A mapping from a name to a record, which gets the name as its ``name``."""

    def read(node: Node, at: At) -> tuple[Any, ...]:
        if not isinstance(node.value, dict):
            raise at.wrong(node, kind.expected, "write a name, a colon, and its keys below it")
        found = []
        for name, entry in node.value.items():
            SLUG.read(Node(name, entry.line), at)
            body = entry.node
            if body.value is None:
                body = Node({}, entry.line)
            found.append(record(cls, body, at.child(name), name=name, line=entry.line))
        return tuple(found)

    kind = Kind("a mapping from names to settings", read)
    return kind


def reference(cls: type[Any]) -> Kind:
    """One record."""
    return Kind("a mapping", lambda node, at: record(cls, node, at))


def texts() -> Kind:
    """A list of texts."""

    def read(node: Node, at: At) -> tuple[str, ...]:
        if not isinstance(node.value, tuple):
            raise at.wrong(node, kind.expected, "write [a, b]")
        return tuple(TEXT.read(item, at.item(index)) for index, item in enumerate(node.value))

    kind = Kind("a list of texts", read)
    return kind


def values(of: Kind) -> Kind:
    """A mapping from free names to values of one kind."""

    def read(node: Node, at: At) -> Mapping[str, Any]:
        if not isinstance(node.value, dict):
            raise at.wrong(node, kind.expected, "write `name: value` lines")
        return {name: of.read(entry.node, at.child(name)) for name, entry in node.value.items()}

    kind = Kind(f"a mapping from names to {of.expected}", read)
    return kind
