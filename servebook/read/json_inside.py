"""The JSON values of a file, with long lists of objects deep inside, each cut down to little.

As ``json_objects.objects`` of the file's text, value by value and word by word. But the lists at
the places that the caller names are read in pieces, and each element is cut down to what the caller
wants before the next piece is read. So a report of thousands of requests with their prompts takes
the memory of what is needed of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from servebook.read import files
from servebook.read.json_stream import WINDOW_BYTES, InvalidError, Reader, Value
from servebook.read.json_window import Window, elements_end

__all__ = ["Place", "objects_inside"]

#: Names from the top of an object on; objects in a list have the place of the list.
Place = tuple[str, ...]


def objects_inside(
    path: Path,
    keep: Mapping[Place, Callable[[Any], Any]],
    opening: str = "{",
    *,
    unique: bool = False,
    window: int = WINDOW_BYTES,
) -> Iterator[Value]:
    """(line of its first character, value, None), or (line, None, reason) for what is none.

    ``keep`` says, by the places of lists, what is kept of an element. Raises DumpError for a file
    that cannot be read.
    """
    with files.reading(path) as open_again:
        ahead = Window(open_again, window, files.most_unpacked(path))
        try:
            yield from _Inside(ahead, keep, unique=unique).values(opening.encode())
        finally:
            ahead.close()


class _Inside(Reader):
    def __init__(
        self, ahead: Window, keep: Mapping[Place, Callable[[Any], Any]], *, unique: bool
    ) -> None:
        super().__init__(ahead, (), unique=unique)
        self.keep = keep
        self.above = {place[:n] for place in keep for n in range(1, len(place))}
        self.place: Place = ()

    def value(self, first: bytes) -> tuple[Any, str | None]:
        self.place = ()
        return super().value(first)

    def member(self, name: str) -> Any:
        outer = self.place
        self.place = (*outer, name)
        try:
            return self._here()
        finally:
            self.place = outer

    def _here(self) -> Any:
        first = self.ahead.skip()
        if first == b"[" and self.place in self.keep:
            return self._cut_down(self.keep[self.place])
        if self.place in self.above:
            if first == b"{":
                return self.members()
            if first == b"[":
                return self._objects()
        return self.plain()

    def _objects(self) -> list[Any]:
        """A list whose objects are looked into."""
        ahead = self.ahead
        ahead.at += 1
        found: list[Any] = []
        while (first := ahead.skip()) != b"]" or found:
            found.append(self.members() if first == b"{" else self.plain())
            mark = ahead.skip()
            if mark == b"]":
                break
            if mark != b",":
                raise InvalidError
            ahead.at += 1
        ahead.at += 1
        return found

    def _cut_down(self, keep: Callable[[Any], Any]) -> list[Any]:
        """A list that is read in pieces, with what is kept of each element."""
        ahead = self.ahead
        ahead.at += 1
        found: list[Any] = []
        mark = ahead.skip()
        while mark != b"]" or found:
            closed, values = self._some_objects()
            if not values:  # a comma without an element
                raise InvalidError
            found += map(keep, values)
            mark = ahead.skip()
            if mark == b"]":
                break
            if closed or mark != b",":
                raise InvalidError
            ahead.at += 1
            ahead.skip()
        ahead.at += 1
        return found

    def _some_objects(self) -> tuple[bool, list[Any]]:
        """Elements from here on, and whether the array's bracket comes next."""
        ahead = self.ahead
        unsure = False
        while True:
            # A quote inside a text comes behind a backslash: this is between two objects.
            guess = max(ahead.data.rfind(between, ahead.at) for between in (b'}, {"', b'},{"'))
            if guess >= 0 and not unsure:
                try:
                    return False, self._up_to(guess + 1)
                except InvalidError:  # objects within objects, or another list
                    unsure = True
            end, closed, _ = elements_end(ahead.data, ahead.at, len(ahead.data))
            if end >= 0:
                return closed, self._up_to(end)
            self.more()

    def _up_to(self, end: int) -> list[Any]:
        ahead = self.ahead
        values: list[Any] = self.loads(b"[" + ahead.data[ahead.at : end] + b"]")
        ahead.at = end
        return values
