"""The JSON values of a file, one after another, without a tree of the whole.

As ``json_objects.objects`` of the file's text, value by value and word by word, with two
differences: a file may be larger than memory, and the long lists at the top of an object come as
columns (``json_columns``), those that nobody wants as their length alone. Such a list is read in
pieces of whole elements; where a piece ends is a guess that its parser confirms, because a piece
that is a list of JSON values by itself can only have ended there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import simdjson

from servebook.read import files
from servebook.read.json_columns import Column, Lists, Numbers, Unkept, Values
from servebook.read.json_objects import RepeatedKeyError, without_repeats
from servebook.read.json_window import Window, element_end, elements_end

__all__ = ["BETWEEN", "WINDOW_BYTES", "InvalidError", "Large", "Reader", "Value", "objects_of"]

Value = tuple[int, Any, str | None]

WINDOW_BYTES = 1 << 19
BETWEEN = re.compile(rb"(?:[ \t\r\n]|\xef\xbb\xbf)*")
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BACKSLASH = ord("\\")
_SCALAR = re.compile(rb'[^\s,\[\]{}"]+')

#: Adds elements of a list to a column; how many. The reader then stands at the next.
Large = Callable[["Reader", Lists], int]


def _nothing(_reader: Reader, _column: Lists) -> int:
    return 0


class InvalidError(Exception):
    """What is read is no JSON, whatever comes behind it."""


def objects_of(
    path: Path,
    wanted: Collection[str],
    opening: str = "{",
    *,
    unique: bool = False,
    lists: Callable[[], Lists] = Lists,
    large: Large = _nothing,
    window: int = WINDOW_BYTES,
) -> Iterator[Value]:
    """(line of its first character, value, None), or (line, None, reason) for what is none.

    Lists of an object (at the top, or in an array there) that are its values by a name in
    ``wanted`` are columns of what they hold, its other lists have their length. ``lists`` makes the
    column of a list of lists, and ``large`` may read much of one at once. Raises DumpError for a
    file that cannot be read.
    """
    with files.reading(path) as open_again:
        ahead = Window(open_again, window, files.most_unpacked(path))
        try:
            reader = Reader(ahead, wanted, lists, large, unique=unique)
            yield from reader.values(opening.encode())
        finally:
            ahead.close()


class Reader:
    """Reads JSON values where a window stands; ``lists``, ``large`` as in ``objects_of``."""

    def __init__(
        self,
        ahead: Window,
        wanted: Collection[str],
        lists: Callable[[], Lists] = Lists,
        large: Large = _nothing,
        *,
        unique: bool = False,
    ) -> None:
        self.ahead, self.wanted, self.unique = ahead, frozenset(wanted), unique
        self.lists, self.large = lists, large
        self.parser = simdjson.Parser()
        self.repeated: str | None = None  # what an object within the present one has twice

    def values(self, opening: bytes) -> Iterator[Value]:
        """Every value from here on, as of ``objects_of``."""
        ahead = self.ahead
        while first := ahead.skip(BETWEEN):
            place = ahead.place()
            line = place[1] + 1
            try:
                value, repeated = self.value(first)
            except (InvalidError, RecursionError):
                ahead.go(place)
                torn = not ahead.seek(b"\n" + opening)
                yield line, None, "no valid JSON" + ("; the file is torn there" if torn else "")
            else:
                if repeated is None:
                    yield line, value, None
                else:
                    yield line, None, f"an object with {repeated} twice"

    def value(self, first: bytes) -> tuple[Any, str | None]:
        """The value that begins here, and what an object in it names twice."""
        self.repeated = None
        found: Any = self.members() if first == b"{" else None
        found = self._objects() if first == b"[" else found
        return self._other(first) if found is None else found, self.repeated

    def _objects(self) -> list[Any] | None:
        """The array of objects that begins here, each as ``members``; None of anything else."""
        ahead = self.ahead
        place = ahead.place()
        ahead.at += 1
        if ahead.skip() != b"{":
            ahead.go(place)
            return None
        found, mark = [], b","
        while mark == b",":
            found.append(self.members() if ahead.skip() == b"{" else self.plain())
            mark = ahead.skip()
            ahead.at += 1
        if mark != b"]":
            raise InvalidError
        return found

    def members(self) -> dict[str, Any]:
        """The object that begins here; its long lists as columns."""
        found: dict[str, Any] = {}
        names: list[str] = []
        ahead = self.ahead
        ahead.at += 1
        if ahead.skip() == b"}":
            ahead.at += 1
            return found
        while True:
            name = self._name()
            names.append(name)
            found[name] = self.member(name)
            mark = ahead.skip()
            ahead.at += 1
            if mark == b"}":
                break
            if mark != b",":
                raise InvalidError
            ahead.skip()
        if self.unique and self.repeated is None and len(found) < len(names):
            self._note_repeats([(name, None) for name in names])
        return found

    def _note_repeats(self, pairs: list[tuple[str, Any]]) -> None:
        try:
            without_repeats(pairs)
        except RepeatedKeyError as error:
            self.repeated = str(error)

    def _name(self) -> str:
        name = self.loads(self._token(_TEXT))
        if not isinstance(name, str) or self.ahead.skip() != b":":
            raise InvalidError
        self.ahead.at += 1
        return name

    def _token(self, pattern: re.Pattern[bytes]) -> bytes:
        """What matches here and ends before what is read does."""
        ahead = self.ahead
        while True:
            found = pattern.match(ahead.data, ahead.at)
            if found and (found.end() < len(ahead.data) or ahead.ended):
                ahead.at = found.end()
                return found.group()
            if ahead.ended or (found is None and ahead.data[ahead.at : ahead.at + 1] != b'"'):
                raise InvalidError
            self.more()

    def more(self) -> None:
        """Read further; raises InvalidError at the end."""
        if self.ahead.ended:
            raise InvalidError
        if len(self.ahead.data) - self.ahead.at > files.MAX_TEXT_BYTES:
            raise files.too_large()
        self.ahead.more()

    def member(self, name: str) -> Any:
        """The value of a name of the object that is being read."""
        return self.list_of(name) if self.ahead.skip() == b"[" else self.plain()

    def plain(self) -> Any:
        """The value that begins here, as Python has it."""
        first = self.ahead.skip()
        if first in (b"[", b"{"):
            return self.loads(self._whole())
        return self.loads(self._token(_TEXT if first == b'"' else _SCALAR))

    def _whole(self) -> bytes:
        """The object or array that begins here."""
        ahead = self.ahead
        while (end := element_end(ahead.data, ahead.at)) < 0:
            self.more()
        start, ahead.at = ahead.at, end
        return ahead.data[start:end]

    def _other(self, first: bytes) -> Any:
        """A value that is no object: an array, a text, a number, a word."""
        if first in b'["':
            return self.plain()
        text = self._token(_SCALAR)
        try:
            value, end = json.JSONDecoder().raw_decode(text.decode("latin-1"))
        except ValueError:
            raise InvalidError from None
        self.ahead.at += end - len(text)  # "1x" is 1, and then no JSON
        return value

    def list_of(self, name: str) -> Any:
        """The array that begins here: a column where it is wanted, else its length.

        Raises InvalidError.
        """
        ahead = self.ahead
        ahead.at += 1
        first = ahead.skip()
        if first == b"]":
            ahead.at += 1
            return []
        column: Column | None = None
        if name in self.wanted:
            column = self.lists() if first == b"[" else Values() if first in b'"{' else Numbers()
        n = self.large(self, column) if isinstance(column, Lists) else 0
        first = ahead.skip()
        while True:
            count, closed = self._some(column, first)
            n += count
            mark = ahead.skip()
            if mark != b"]" and (closed or mark != b","):
                raise InvalidError
            ahead.at += 1
            if mark == b"]":
                return Unkept(n) if column is None else column
            first = ahead.skip()

    def _some(self, column: Column | None, first: bytes) -> tuple[int, bool]:
        """Adds elements from here on; how many, and whether the array's bracket comes next."""
        ahead = self.ahead
        guess = None
        if first == b"[":
            guess = self.guess_lists()
        elif first == b'"':
            guess = self._guess_texts()
        elif first != b"{":
            guess = self._guess_plain()
        if guess is not None:
            end, closed = guess
            piece = ahead.data[ahead.at : end]
            objects = self.unique and b"{" in piece
            # Whether a brace beside texts is in one of them, only the long way tells.
            unsure = objects and first == b'"'
            count = 0 if unsure else self._add(column, piece, objects=objects)
            if count:
                ahead.at = end
                return count, closed
        while True:
            end, closed, objects = elements_end(ahead.data, ahead.at)
            if end >= 0:
                break
            self.more()
        count = self._add(column, ahead.data[ahead.at : end], objects=objects)
        if not count:
            raise InvalidError
        ahead.at = end
        return count, closed

    def guess_lists(self) -> tuple[int, bool] | None:
        """Where lists without texts end: before the array's bracket, or else before a comma.

        The array ends before the next quote, since a name or another value comes behind it.
        """
        ahead = self.ahead
        while True:
            data, at = ahead.data, ahead.at
            quote = data.find(b'"', at)
            if quote >= 0 or ahead.ended:
                end = data.rfind(b"]", at, quote if quote >= 0 else len(data))
                return (end, True) if end >= 0 else None
            last = data.rfind(b"[", at + 1)
            if last >= 0:
                comma = data.rfind(b",", at, last)
                usual = comma >= 0 and not data[comma + 1 : last].strip()
                return (comma, False) if usual else None
            self.more()

    def _guess_texts(self) -> tuple[int, bool] | None:
        """Where texts end: before the array's bracket, or else before a comma."""
        ahead = self.ahead
        while True:
            data, at = ahead.data, ahead.at
            end = data.find(b'"]', at)
            while end > at and data[end - 1] == _BACKSLASH:  # the quote is part of a text
                end = data.find(b'"]', end + 1)
            if end >= 0 or ahead.ended:
                return (end + 1, True) if end >= 0 else None
            end = data.rfind(b'",', at)
            while end > at and data[end - 1] == _BACKSLASH:
                end = data.rfind(b'",', at, end)
            if end >= 0:
                return end + 1, False
            self.more()

    def _guess_plain(self) -> tuple[int, bool] | None:
        """Where numbers and words end: before the array's bracket, or else before a comma."""
        ahead = self.ahead
        while True:
            data, at = ahead.data, ahead.at
            closing = data.find(b"]", at)
            stop = closing if closing >= 0 else len(data)
            for mark in (b'"', b"[", b"{"):
                found = data.find(mark, at, stop)
                stop = found if found >= 0 else stop
            if stop == closing:
                return closing, True
            end = data.rfind(b",", at, stop)
            if end >= 0:
                return end, False
            if stop < len(data) or ahead.ended:
                return None
            self.more()

    def _add(self, column: Column | None, piece: bytes, *, objects: bool) -> int:
        """Adds the values of a piece; how many, 0 where they are not JSON values."""
        text = b"[" + piece + b"]"
        if not (self.unique and objects) and not isinstance(column, Values):
            count = self._add_numbers(column, text)
            if count:
                return count
        try:
            values = self.loads(text)
        except InvalidError:
            return 0
        if isinstance(column, Lists):
            column.extend_values(values)
        elif isinstance(column, Values | Numbers):
            column.extend(values)
        return len(values)

    def _add_numbers(self, column: Column | None, text: bytes) -> int:
        """As ``_add``, of numbers or lists of them; 0 where they are anything else."""
        try:
            found: Any = self.parser.parse(text)
            if column is None:
                return len(found)
            if isinstance(column, Numbers):
                if text.find(b"[", 1) > 0:
                    return 0
                numbers = np.frombuffer(found.as_buffer(of_type="d"))
                column.extend(numbers)
                return len(numbers)
            lengths = np.array([len(one) for one in found], np.int64)
            n = int(lengths.sum())
            # An empty buffer cannot be taken; lists within lists add to the brackets.
            flat = np.frombuffer(found.as_buffer(of_type="d")) if n else np.zeros(0)
        except (ValueError, TypeError, RuntimeError):
            return 0
        brackets = np.count_nonzero(np.frombuffer(text, np.uint8) == ord("["))
        if len(flat) != n or brackets != len(lengths) + 1 or not isinstance(column, Lists):
            return 0
        column.extend(flat, lengths)
        return len(lengths)

    def loads(self, text: bytes) -> Any:
        """A JSON value as Python's objects, by whichever parser takes it."""
        if self.unique and b"{" in text:
            return self._loads_unique(text)
        try:
            return orjson.loads(text)
        except ValueError:
            pass
        try:
            return json.loads(text.decode("utf-8", "replace"))
        except ValueError:
            raise InvalidError from None

    def _loads_unique(self, text: bytes) -> Any:
        decoded = text.decode("utf-8", "replace")
        try:
            return json.loads(decoded, object_pairs_hook=without_repeats)
        except RepeatedKeyError as error:
            self.repeated = self.repeated or str(error)
            try:
                return json.loads(decoded)
            except ValueError:
                raise InvalidError from None
        except ValueError:
            raise InvalidError from None
