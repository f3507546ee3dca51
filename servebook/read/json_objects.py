"""Splits a text of JSON values, one or several, compact or indented, into these values.

``vllm bench serve --append-result`` and the log of a switch's replies hold object after object:
no JSON document and, once an indented one is among them, no JSON lines either.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

from servebook.read.source import printable

__all__ = ["RepeatedKeyError", "objects", "without_repeats"]


def objects(
    text: str, opening: str = "{", *, unique: bool = False
) -> Iterator[tuple[int, Any, str | None]]:
    """(line of its first character, object, None), or (line, None, reason) for what is none.

    NaN and Infinity are read, because serving clients write them. After a broken object the next
    line that begins with ``opening`` is tried, so that one torn result does not hide those after
    it. With ``unique`` an object that names a key twice is none: which of the two counts is not
    known.
    """
    decoder = json.JSONDecoder(object_pairs_hook=without_repeats if unique else None)
    at, line = 0, 1
    while True:
        start = at
        while at < len(text) and text[at] in " \t\r\n\ufeff":
            at += 1
        line += text.count("\n", start, at)
        if at >= len(text):
            return
        if start == 0 and not unique and (whole := _whole(text[at:] if at else text)) is not None:
            yield line, whole, None
            return
        start = at
        try:
            try:
                value, at = decoder.raw_decode(text, at)
                wrong = None
            except RepeatedKeyError as error:
                _, at = json.JSONDecoder().raw_decode(text, at)
                value, wrong = None, f"an object with {error} twice"
        except (ValueError, RecursionError):
            at = text.find("\n" + opening, start)
            at = len(text) if at < 0 else at
            torn = at >= len(text)
            yield line, None, "no valid JSON" + ("; the file is torn there" if torn else "")
        else:
            yield line, value, wrong
        line += text.count("\n", start, at)


def _whole(text: str) -> Any:
    """The one JSON value of a text, in a tenth of the time; None where it is not just that.

    The fast parser refuses what is not strictly JSON (NaN, a second object), so that it is left to
    the way that says what is wrong.
    """
    try:
        return orjson.loads(text)
    except ValueError:
        return None


class RepeatedKeyError(Exception):
    """A key that an object has twice."""


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object of its pairs; raises RepeatedKeyError where two have one key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise RepeatedKeyError(
            f"the key '{printable(next(k for k in keys if keys.count(k) > 1))[:40]}'"
        )
    return found
