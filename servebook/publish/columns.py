"""How a table's columns are laid out on the page, so that it is read without scrolling sideways.

A table that is too wide for its place says a column of one value once, in a sentence above it, and
lets names break behind slashes and underscores. One that is still too wide is cut into bands of
columns, one below the other, each of which begins again with the columns that tell its rows apart;
a table where these take much of the room is not cut. Nothing is lost: the files beside the page
hold the table whole, and so does what is copied from the page.

Own code: a browser makes a table as wide as its words ask for, and knows no second line of columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from servebook.publish import text
from servebook.publish.names import ABSENT, Kind, Table

__all__ = ["Layout", "breakable", "laid_out"]

#: Pixels that a table may take beside the text of a page 1400 pixels wide; what a letter of a cell
#: takes there, of the first column, which is in bold, and of a head, which is smaller; the space
#: between columns.
ROOM = 1035
_LETTER, _BOLD, _HEAD, _BETWEEN = 7.7, 8.3, 7.6, 10.0
_LEAST = 42.0  # a column's least width, as the style sheet says
#: From so many letters on a text may break into lines, and the room that it then gets.
_SHORT, _LONG = 14, 60
_NARROW, _WIDE = 5.5 * 16.0, 9 * 16.0
#: The part of the room that the columns may take which begin every band.
_MOST_KEYS = 0.42
MANY = 8
_BREAKS = re.compile(r"(?<=[/_])(?=[^/_\s]\S)")  # no lone letter: that of a rate is its unit's
_PART = 9  # a name breaks into parts of so many letters at least
_PIECES = re.compile(r"[\s/_-]+")


@dataclass(frozen=True)
class Layout:
    """Columns by their place in the table: those that are said once, and those of each band.

    What is said once stays in its band, hidden, so that a table is copied whole and in order.
    """

    many: bool  # columns stand closer
    tight: bool  # names may break
    keys: tuple[int, ...]  # columns that begin every band but the first, which has them anyway
    same: tuple[tuple[str, str], ...]  # columns of one value, and it as shown
    empty: tuple[str, ...]  # columns without any
    hidden: frozenset[int]  # both
    bands: tuple[tuple[int, ...], ...]


def breakable(name: str) -> Markup:
    """A name as HTML, escaped, that may break behind a slash or an underscore.

    >>> str(breakable("raw/a_b_<long>_c/results_long"))
    'raw/a_b_&lt;long&gt;_<wbr>c/results_<wbr>long'
    >>> str(breakable("400 Gbit/s"))
    '400 Gbit/s'
    """
    parts = [""]
    for one in _BREAKS.split(name):
        if len(parts[-1]) >= _PART:
            parts.append("")
        parts[-1] += one
    return Markup("<wbr>").join(parts)


def _longest(texts: list[str]) -> int:
    return max(map(len, texts), default=0)


def _piece(texts: list[str]) -> int:
    return _longest([piece for one in texts for piece in _PIECES.split(one)])


def _width(head: str, cells: list[str], *, is_number: bool, first: bool) -> float:
    """What a column takes at least, in pixels."""
    longest = _longest(cells)
    body = longest * (_BOLD if first else _LETTER)
    if not is_number and longest > _SHORT:
        room = _WIDE if longest > _LONG or first else _NARROW
        body = min(body, max(room, _piece(cells) * (_BOLD if first else _LETTER)))
    return max(body, _longest(head.split()) * _HEAD, _LEAST) + _BETWEEN


def _family(name: str) -> str:
    return name.split(" ")[0]


def _keys(
    by_column: list[list[str]], kinds: list[Kind], widths: dict[int, float], room: float
) -> tuple[int, ...]:
    """The columns that tell the rows apart, the first one among them; none where they are wide.

    What was measured tells no rows apart, so fractional numbers are left out.
    """

    def distinct(of: Sequence[int]) -> int:
        return len(set(zip(*(by_column[at] for at in of), strict=True)))

    rows = len(by_column[0])
    keys = [0]
    for at, kind in enumerate(kinds):
        if distinct(keys) < rows and kind != "number" and distinct([*keys, at]) > distinct(keys):
            keys.append(at)
    for at in keys[1:]:
        without = [key for key in keys if key != at]
        keys = without if distinct(without) == rows else keys
    fits = sum(widths[at] for at in keys) <= _MOST_KEYS * room
    return tuple(keys) if fits and distinct(keys) == rows else ()


def _bands(
    widths: dict[int, float], keys: tuple[int, ...], columns: list[str], room: float
) -> list[tuple[int, ...]]:
    """The columns in bands, cut where another metric begins if one can."""
    before = sum(widths[at] for at in keys)
    bands: list[list[int]] = [[]]
    taken = 0.0
    for at in widths:
        if bands[-1] and taken + widths[at] > room:
            last = bands[-1]
            cut = len(last)
            while cut and _family(columns[last[cut - 1]]) == _family(columns[at]):
                cut -= 1
            moved = last[cut:] if 2 * cut > len(last) else []
            del last[len(last) - len(moved) :]
            bands.append(moved)
            taken = before + sum(widths[one] for one in moved)
        bands[-1].append(at)
        taken += widths[at]
    return [tuple(bands[0]), *((*keys, *band) for band in bands[1:])]


def _even(
    widths: dict[int, float], keys: tuple[int, ...], columns: list[str], room: float
) -> list[tuple[int, ...]]:
    """As few bands as the room allows, about as wide as one another."""
    most = _bands(widths, keys, columns, room)
    for part in (0.6, 0.7, 0.8, 0.9):
        if len(tried := _bands(widths, keys, columns, part * room)) == len(most):
            return tried
    return most


def laid_out(table: Table, room: float = ROOM) -> Layout:
    """How ``table`` (see ``tabular.table``) stands on the page; ``room`` is in pixels."""
    columns, kinds, cells = table["columns"], table["kinds"], table["text"]
    places = tuple(range(len(columns)))
    many = len(columns) >= MANY
    by_column = [[row[at] for row in cells] for at in places]
    widths = {
        at: _width(
            text.column(columns[at]),
            by_column[at],
            is_number=kinds[at] in ("number", "integer"),
            first=at == 0,
        )
        for at in places
    }
    if not cells or sum(widths.values()) <= room:
        whole = (max(widths[at], _longest(one) * _LETTER) for at, one in enumerate(by_column))
        return Layout(many, sum(whole) > room, (), (), (), frozenset(), (places,))
    # By values: what is shown of two may be rounded to the same.
    values = zip(*table["rows"], strict=True)
    alike = [at for at, one in enumerate(values) if at and len(cells) > 1 and len(set(one)) == 1]
    if len(alike) == len(columns) - 1:
        alike = []
    shown = {at: 0.0 if at in alike else width for at, width in widths.items()}
    bands: list[tuple[int, ...]] = [places]
    keys: tuple[int, ...] = ()
    if sum(shown.values()) > room and (keys := _keys(by_column, kinds, shown, room)):
        bands = _even(shown, keys, columns, room)
    value = {at: by_column[at][0] for at in alike}
    return Layout(
        many=many,
        tight=True,
        keys=keys,
        same=tuple((columns[at], text.told(value[at])) for at in alike if value[at] != ABSENT),
        empty=tuple(columns[at] for at in alike if value[at] == ABSENT),
        hidden=frozenset(alike),
        bands=tuple(bands),
    )
