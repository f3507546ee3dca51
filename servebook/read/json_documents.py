"""The JSON values of a file one after another, a piece of its text at a time.

As ``json_objects.objects`` of the whole text, value by value and word by word, for logs of many
small values. ``json_stream`` and its like are for few large ones: they look at each name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from servebook.read import files
from servebook.read.json_text import StreamText

__all__ = ["documents"]

_READ = 1 << 20
#: How near to the end of what was read an error may lie and yet be owed to the rest.
_EDGE = 16
_SPACE = re.compile("[ \t\r\n\ufeff]*")


class _Text(StreamText):
    """The text of a file, up to a bound."""

    def __init__(self, stream: BinaryIO, size: int, most: int) -> None:
        super().__init__(_SPACE)
        self._stream, self._size, self._most = stream, size, most

    def more(self) -> None:
        """Read at least as much again as is left; raises OSError for too much."""
        left = len(self.text) - self.at
        if left > files.MAX_TEXT_BYTES or self._most < 0:
            raise files.too_large()
        new = self._stream.read(max(self._size, left))
        self._most -= len(new)
        self.ended = not new
        self.text = self.text[self.at :] + self._decode(new, final=self.ended)
        self.at = 0

    def seek(self, words: str) -> bool:
        """Go to where ``words`` stand next; whether they do, else to the end."""
        while (found := self.text.find(words, self.at)) < 0 and not self.ended:
            # They may lie across the edge of what was read.
            self.go(max(self.at, len(self.text) - len(words) + 1))
            self.more()
        self.go(found if found >= 0 else len(self.text))
        return found >= 0


def documents(
    path: Path, opening: str = "{", *, size: int = _READ
) -> Iterator[tuple[int, Any, str | None]]:
    """(line of its first character, value, None), or (line, None, reason) for what is none.

    After a broken value the next line that begins with ``opening`` is tried. Raises DumpError for
    a file that cannot be read.
    """
    decoder = json.JSONDecoder()
    with files.reading(path) as open_again, open_again() as stream:
        text = _Text(stream, size, files.most_unpacked(path))
        while text.next_character():
            line = text.line
            try:
                value, end = _one(text, decoder)
            except (ValueError, RecursionError):
                torn = not text.seek("\n" + opening)
                yield line, None, "no valid JSON" + ("; the file is torn there" if torn else "")
            else:
                text.go(end)
                yield line, value, None


def _one(text: _Text, decoder: json.JSONDecoder) -> tuple[Any, int]:
    """The value that begins here and where it ends."""
    while True:
        try:
            value, end = decoder.raw_decode(text.text, text.at)
            # "0." is 0 and a point, unless more of it is to come.
            cut = isinstance(value, int | float) and len(text.text) - end < _EDGE
        except json.JSONDecodeError as error:
            cut = "Unterminated" in error.msg or error.pos >= len(text.text) - _EDGE
            if not cut or text.ended:
                raise
        else:
            if not cut or text.ended:
                return value, end
        text.more()
