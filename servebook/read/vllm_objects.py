"""Splits a file of result objects, one or several, compact or indented, into JSON objects.

``--append-result`` writes object after object into one file, which is then no JSON document and,
once an indented one is among them, no JSON lines either.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["objects"]


def objects(text: str, opening: str = "{") -> Iterator[tuple[int, Any, str | None]]:
    """(line of its first character, object, None), or (line, None, reason) for what is none.

    NaN and Infinity are read, because this client writes them. After a broken object the next
    line that begins with ``opening`` is tried, so that one torn result does not hide those after
    it.
    """
    decoder = json.JSONDecoder()
    at, line = 0, 1
    while True:
        start = at
        while at < len(text) and text[at] in " \t\r\n\ufeff":
            at += 1
        line += text.count("\n", start, at)
        if at >= len(text):
            return
        start = at
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("\n" + opening, start)
            at = len(text) if at < 0 else at
            torn = at >= len(text)
            yield line, None, "no valid JSON" + ("; the file is torn there" if torn else "")
        else:
            yield line, value, None
        line += text.count("\n", start, at)
