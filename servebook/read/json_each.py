"""The JSON objects of a file, those of an array one by one: a broken one costs itself alone.

As ``json_stream.objects_of``, but for arrays of objects, such as a sweep makes of its results. What
such an array holds comes element by element with the line of each. A broken element is one entry;
the next one begins where the same name opens an object again as in the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from servebook.read import files
from servebook.read.json_columns import Lists
from servebook.read.json_stream import (
    BETWEEN,
    WINDOW_BYTES,
    InvalidError,
    Large,
    Reader,
    Value,
)
from servebook.read.json_window import Window

__all__ = ["each_object"]

#: How an object begins, up to its first name; of one that is torn in it no quote and colon follow.
_OPENING = re.compile(rb'\{\s*"[^"\\\x00-\x1f]{0,200}"(?=\s*:)')
_ANY = b'{"'
_WRONG = "no valid JSON"


def each_object(
    path: Path,
    wanted: Collection[str],
    opening: str = "{",
    *,
    lists: Callable[[], Lists] = Lists,
    large: Large = lambda _reader, _column: 0,
    window: int = WINDOW_BYTES,
) -> Iterator[Value]:
    """(line of its first character, value, None), or (line, None, reason) for what is none.

    ``wanted``, ``lists`` and ``large`` are those of ``objects_of``. Raises DumpError for a file
    that cannot be read.
    """
    with files.reading(path) as open_again:
        ahead = Window(open_again, window, files.most_unpacked(path))
        try:
            yield from _Each(ahead, wanted, lists, large).values(opening.encode())
        finally:
            ahead.close()


class _Each(Reader):
    def values(self, opening: bytes) -> Iterator[Value]:
        while first := self.ahead.skip(BETWEEN):
            if first == b"[" and self._into_objects():
                yield from self._elements()
            else:
                yield next(super().values(opening))

    def _into_objects(self) -> bool:
        """Whether an array of objects begins here; then the reader stands at its first."""
        place = self.ahead.place()
        self.ahead.at += 1
        if self.ahead.skip() == b"{":
            return True
        self.ahead.go(place)
        return False

    def _elements(self) -> Iterator[Value]:
        """Objects up to the array's bracket."""
        ahead = self.ahead
        opening = self._opening()
        while True:
            place = ahead.place()
            line = place[1] + 1
            try:
                value = self.members() if ahead.skip() == b"{" else self.plain()
            except (InvalidError, RecursionError):
                ahead.go(place)
                ahead.at += bool(ahead.skip())
            else:
                yield line, value, None
                mark = ahead.skip()
                line = ahead.place()[1] + 1
                if mark in (b",", b"]"):
                    ahead.at += 1
                    ahead.skip()
                    if mark == b"]":
                        return
                    continue
            torn = not ahead.seek(opening)
            yield line, None, _WRONG + ("; the file is torn there" if torn else "")
            if torn:
                return

    def _opening(self) -> bytes:
        """How the object begins that begins here, or the first one behind it that can be told."""
        ahead = self.ahead
        while len(ahead.data) - ahead.at < 4096 and ahead.more():
            pass
        found = _OPENING.search(ahead.data, ahead.at)
        return found.group() if found else _ANY
