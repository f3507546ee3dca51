"""Readings of a command line: documents and commands inside the blocks of a log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from servebook.read.counter_rows import Rows, whole
from servebook.read.counter_stamps import Block
from servebook.read.json_objects import objects

__all__ = ["INTERFACE", "count", "documents", "named_interface"]

#: How switches call a port: letters, then numbers (swp1s0, Ethernet1/1, et-0/0/1, bond3).
INTERFACE = re.compile(r"[A-Za-z][A-Za-z-]{0,30}\d[\w/.:-]{0,30}", re.ASCII)
_NOT = re.compile(r"\d{4}-\d\d-\d\dT.*|[A-Z][a-z]{2}\d*")


def documents(rows: Rows, block: Block) -> Iterator[tuple[int, Any]]:
    """(line, value) of each JSON document of a block; what is broken is set aside.

    Lines before the first that begins with a brace or bracket are the prompt and the command.
    """
    first = next(
        (i for i, (_, text) in enumerate(block.lines) if text.lstrip()[:1] in ("{", "[")), None
    )
    if first is None:
        if any(text.strip() for _, text in block.lines):
            rows.aside("block", "no JSON document", block.lines[0][0], block.path)
        return
    start = block.lines[first][0]
    text = "\n".join(text for _, text in block.lines[first:])
    for line, value, broken in objects(text, text.lstrip()[:1]):
        if broken:
            rows.aside("document", broken, start + line - 1, block.path)
        else:
            yield start + line - 1, value


def named_interface(block: Block, command: re.Pattern[str]) -> str | None:
    """The interface that the separator or the command of a block names."""
    for word in block.words:
        if INTERFACE.fullmatch(word) and not _NOT.fullmatch(word):
            return word
    for _, text in block.lines[:20]:
        if (match := command.search(text)) and INTERFACE.fullmatch(match[1]):
            return match[1]
    return None


def count(value: Any) -> int:
    """A counter of a JSON document, as a number or a text with or without separators of thousands.

    Raises ValueError, in words, for anything else, a rounded ``39.21 MB`` included.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("the value is not a number")
    text = str(value).strip()
    if re.fullmatch(r"\d{1,3}(,\d{3})+", text):
        text = text.replace(",", "")
    if re.fullmatch(r"[\d.]+ ?([kKMGTP]i?)?(B|b|Bytes|bytes)", text):
        raise ValueError("a rounded total, from which no rate can be told")
    return whole(text)
