"""The elements of one JSON array, one after another, of a file that may be larger than memory.

Own code: ijson and the like stop for good at the first damage and do not read NaN. Here a damaged
element costs itself alone, because the next one is found by how its text begins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from servebook.read.codecs import DAMAGED
from servebook.read.files import open_bytes
from servebook.read.json_text import StreamText

__all__ = ["MAX_ELEMENT_CHARS", "elements"]

#: No request takes more; a longer one is an array without its ends.
MAX_ELEMENT_CHARS = 64 << 20
_READ = 1 << 20
_PIECE = 1 << 16
#: How near to the end of what was read an error may lie and yet be owed to the rest.
_EDGE = 16
_SPACE = re.compile(r"[\s\ufeff]*")

Element = tuple[int, Any, str | None]


class _Text(StreamText):
    """The text of a stream, up to its end or its damage."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(_SPACE)
        self._read = getattr(stream, "read1", stream.read)
        self.damage = ""

    def more(self) -> None:
        """Read at least as much again, so that an element of any length takes linear time."""
        self.text, self.at = self.text[self.at :], 0
        wanted, parts = max(_READ, len(self.text)), []
        try:
            while wanted > 0:
                # Piece by piece: what comes before the damage of a compressed stream counts.
                parts.append(self._read(min(wanted, _PIECE)))
                if not parts[-1]:
                    self.ended = True
                    break
                wanted -= len(parts[-1])
        except DAMAGED:
            self.ended, self.damage = True, "the compressed stream is cut short or damaged"
        except OSError as error:
            self.ended, self.damage = True, f"the file cannot be read further ({error.strerror})"
        self.text += self._decode(b"".join(parts), final=self.ended)


def elements(path: Path, opening: re.Pattern[str]) -> Iterator[Element]:
    """(line, element, None) of each element, or (line, None, reason) for what is none.

    ``opening`` matches how an element begins; after a damaged one the next match is tried. A file
    without an array gives one reason; so does an array without an end, text behind it, and a file
    that cannot be opened.
    """
    try:
        stream = open_bytes(path)
    except DAMAGED:
        yield 1, None, "a compressed stream that is cut short or damaged"
        return
    except OSError as error:
        yield 1, None, f"a file that cannot be read ({error.strerror})"
        return
    with stream:
        text = _Text(stream)
        if text.next_character() != "[":
            yield text.line, None, "no JSON array"
            return
        text.go(text.at + 1)
        yield from _inside(text, opening)


def _inside(text: _Text, opening: re.Pattern[str]) -> Iterator[Element]:
    decoder = json.JSONDecoder()
    expected = False  # a comma promised one more
    while True:
        first = text.next_character()
        if first == "]" and not text.damage:
            text.go(text.at + 1)
            if text.next_character():
                yield text.line, None, "text after the end of the array"
            return
        if not first:
            where = text.damage or "the file is torn there"
            yield text.line, None, f"an array without an end; {where}"
            return
        if first == "," and not expected:
            text.go(text.at + 1)
            expected = True
            continue
        expected = False
        line = text.line
        value, end, wrong = _one(text, decoder)
        if wrong is None:
            text.go(end)
            yield line, value, None
            continue
        end = _next(text, opening)
        torn = text.ended and end == len(text.text)
        where = text.damage or "the file is torn there"
        yield line, None, wrong + (f"; {where}" if torn else "")
        text.go(end)
        if torn:
            return


def _one(text: _Text, decoder: json.JSONDecoder) -> tuple[Any, int, str | None]:
    while True:
        try:
            value, end = decoder.raw_decode(text.text, text.at)
            # "0." is 0 and a point, unless more of it is to come.
            cut = isinstance(value, int | float) and len(text.text) - end < _EDGE
            if (end < len(text.text) and not cut) or text.ended:
                return value, end, None
        except json.JSONDecodeError as error:
            cut = "Unterminated" in error.msg or error.pos >= len(text.text) - _EDGE
            if not cut or text.ended:
                return None, 0, "no valid JSON"
        except RecursionError:
            return None, 0, "JSON nested deeper than any client writes"
        except ValueError:
            return None, 0, "a number out of range"
        if len(text.text) - text.at > MAX_ELEMENT_CHARS:
            return None, 0, f"an element of more than {MAX_ELEMENT_CHARS >> 20} MiB"
        text.more()


def _next(text: _Text, opening: re.Pattern[str]) -> int:
    """Where the next element begins behind a damaged one; the end of the text where none does."""
    at = text.at + 1
    while True:
        found = opening.search(text.text, at)
        if found:
            return found.start()
        if text.ended:
            return len(text.text)
        # An opening may lie across the edge of what was read.
        text.go(max(text.at + 1, len(text.text) - 4096))
        text.more()
        at = 0
