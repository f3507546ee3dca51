"""What a manifest value may be: small checkers from a YAML node to a Python value.

Written by hand because every message must name the line, which schema libraries that validate
plain values do not know.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from servebook.errors import ManifestError
from servebook.read.manifest_pattern import nearest
from servebook.read.manifest_yaml import Node, describe
from servebook.read.times import moment_ns

__all__ = [
    "BOOLEAN",
    "REFERENCE",
    "SLUG",
    "TEXT",
    "TIME",
    "ZONE",
    "At",
    "Kind",
    "choice",
    "number",
    "whole",
]


@dataclass(frozen=True)
class At:
    """Where a value stands: the file, and the keys that lead to it (``runs[2].isl``)."""

    path: Path
    keys: str = ""

    def child(self, name: str) -> At:
        """The place of a key below this one."""
        return At(self.path, f"{self.keys}.{name}" if self.keys else name)

    def item(self, index: int) -> At:
        """The place of a list item below this one."""
        return At(self.path, f"{self.keys}[{index}]")

    def error(self, line: int | None, expected: str, found: str, way_out: str) -> ManifestError:
        """The error for this place, its keys included in the sentence."""
        if self.keys:
            expected = f"{expected} at `{self.keys}`"
        return ManifestError(self.path, expected, found, way_out, line=line)

    def wrong(self, node: Node, expected: str, way_out: str) -> ManifestError:
        """The error for a value of the wrong kind."""
        return self.error(node.line, expected, describe(node), way_out)


@dataclass(frozen=True)
class Kind:
    """``expected`` in words (also for docs), and how to read it."""

    expected: str
    read: Callable[[Node, At], Any]


def _text(node: Node, at: At) -> str:
    value = node.value
    if isinstance(value, str) and value.strip() and not re.search(r"[\x00-\x08\x0b-\x1f]", value):
        return value.strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)  # engine_version: 0.9 is meant as text
    raise at.wrong(node, TEXT.expected, "write a text, in quotes if in doubt")


TEXT = Kind("a text", _text)


def _slug(node: Node, at: At) -> str:
    value = node.value
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", value):
        return value
    raise at.wrong(
        node, "a short name without spaces", "use letters, digits, dots, dashes and underscores"
    )


SLUG = Kind("a short name without spaces (it names files)", _slug)
REFERENCE = Kind("the name of a configuration", _slug)


def _boolean(node: Node, at: At) -> bool:
    if isinstance(node.value, bool):
        return node.value
    raise at.wrong(node, BOOLEAN.expected, "write true or false")


BOOLEAN = Kind("true or false", _boolean)


def whole(minimum: int, maximum: int = 10**15) -> Kind:
    """A whole number of at least ``minimum``; 671e9 is one too."""

    def read(node: Node, at: At) -> int:
        value = node.value
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum:
            return value
        raise at.wrong(node, kind.expected, "correct the number, without quotes or unit")

    fixed = f"the number {minimum}"
    kind = Kind(fixed if minimum == maximum else f"a whole number of at least {minimum}", read)
    return kind


def number(low: float = -math.inf, *, above: bool = False) -> Kind:
    """A finite number of at least ``low`` (``above``: greater than it)."""

    def read(node: Node, at: At) -> float:
        value = node.value
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
            number = float(value)
            if math.isfinite(number) and (number > low if above else number >= low):
                return number
        raise at.wrong(node, kind.expected, "correct the number, without quotes or unit")

    bound = "" if low == -math.inf else f" above {low:g}" if above else f" of at least {low:g}"
    kind = Kind(f"a number{bound}", read)
    return kind


def choice(*words: str) -> Kind:
    """One of a few words."""

    def read(node: Node, at: At) -> str:
        if isinstance(node.value, str) and node.value in words:
            return node.value
        raise at.wrong(node, kind.expected, nearest(str(node.value), words))

    kind = Kind("one of " + ", ".join(words), read)
    return kind


def _time(node: Node, at: At) -> int:
    """Epoch ns of an ISO 8601 time with offset; digits beyond microseconds are kept."""
    value = node.value
    if isinstance(value, str):
        digits = re.search(r"\.(\d{1,9})(?=Z|z|[+-]\d\d:?\d\d$)", value)
        coarse = value if digits is None else value.replace(digits[0], "", 1)
        try:
            moment = datetime.fromisoformat(coarse)
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is not None:
            return moment_ns(moment) + int(digits[1].ljust(9, "0") if digits else 0)
    raise at.wrong(node, TIME.expected, "write it like 2026-11-29T17:23:46.2+00:00")


TIME = Kind("an ISO 8601 time with its offset from UTC", _time)


def _zone(node: Node, at: At) -> str:
    value = node.value
    if isinstance(value, str):
        if re.fullmatch(r"UTC|Z|[+-]([01]\d|2[0-3]):[0-5]\d", value):
            return "UTC" if value == "Z" else value
        try:
            return ZoneInfo(value).key
        except (ValueError, OSError, KeyError):
            pass
    raise at.wrong(node, ZONE.expected, "write UTC, +02:00 or a name like Europe/Zurich")


ZONE = Kind("a time zone", _zone)
