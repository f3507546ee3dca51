"""English wordings of the layers below the page, found again in the catalogue with their fields.

Reading, measuring and explaining make their reasons and remarks as English text: it is data, the
same in Parquet, CSV and claims.json whatever the page speaks. The catalogue holds the pattern of
each, ``{n} of {of} runs``; a wording that was made by it is recognised, its fields are taken out,
looked up themselves (reasons stand inside reasons) and filled into the pattern of the language.

A field that is called ``n`` or ``n_...`` stands for a number, any other for any text. Of several
patterns that fit, the one with most text of its own counts. What fits none is a list of such
wordings, or stays as it is: a name, a label, the text of an operating system's error.

Own code: libraries for message catalogues look up a pattern that the code still holds apart from
its values; parsers of formatted text (``parse``) try one pattern at a time, and there are a
thousand.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Container, Mapping
from dataclasses import dataclass

__all__ = ["JOINTS", "NESTED", "Pattern", "Wordings"]

#: What stands between reasons, behind what a reason is of, and between names; in this order.
JOINTS = (("; ", -1), (": ", 1), (", ", -1))
_BETWEEN = JOINTS[0][0]
_COUNTED = re.compile(r"; (?=\d[\d,]* x )")  # between "3 x a reason" and "2 x another"
#: Fields that hold a reason, which may be several.
NESTED = ("error", "reason", "sentence", "told", "way_out", "why")
_NUMBER = r"[-+−]?\d(?:[\d.,]*\d)?(?:e[-+]?\d+)?%?"
_WORD = re.compile(r"[A-Za-z]+")
_MOST_KEPT = 8192
#: No reason stands deeper in others, or is longer: such a text is somebody's label.
_DEEPEST, _LONGEST, _MOST_PARTS = 8, 4000, 16


@dataclass(frozen=True)
class Pattern:
    """An English pattern of the catalogue; ``own`` is how many characters are no field's."""

    key: str
    source: str  # of the regular expression
    own: int
    anchor: str  # a word that every wording of it holds, "" where there is none

    @functools.cached_property
    def regex(self) -> re.Pattern[str]:
        """What fits a wording of it; compiled when one is near, for most are never needed."""
        return re.compile(self.source, re.DOTALL)


def _is_number(field: str) -> bool:
    return field == "n" or field.startswith("n_")


def _pattern(key: str, english: str) -> Pattern | None:
    """The pattern of a text with fields; None where it has none."""
    regex, own, words, fields = "", 0, [""], 0
    before: str | None = None  # the field that the literal follows
    for literal, field, _, _ in string.Formatter().parse(english):
        regex, own = regex + re.escape(literal), own + len(literal)
        for word in _WORD.finditer(literal):
            touches = (word.start() == 0 and before is not None and not _is_number(before)) or (
                word.end() == len(literal) and field is not None and not _is_number(field)
            )
            if not touches:
                words.append(word[0])
        if field is not None:
            regex += f"(?P<{field}>{_NUMBER if _is_number(field) else '.+?'})"
            fields += 1
        before = field
    if not fields:
        return None
    return Pattern(key, regex, own, max(words, key=len))


def _plain(text: str) -> str:
    """A text without fields as it is shown."""
    return text.replace("{{", "{").replace("}}", "}")


class Wordings:
    """``told`` for the patterns ``english`` in a language's ``texts``, both by key.

    What is in ``names`` is never told otherwise, nor where it stands in a list.
    """

    def __init__(
        self, english: Mapping[str, str], texts: Mapping[str, str], names: Container[str] = ()
    ) -> None:
        self._texts = texts
        self._names = names
        self._whole = {_plain(text): key for key, text in english.items()}
        self._by_word: dict[str, list[Pattern]] = {}
        made = (_pattern(key, text) for key, text in english.items())
        for one in sorted(filter(None, made), key=lambda p: (-p.own, p.key)):
            self._by_word.setdefault(one.anchor, []).append(one)
        self._kept = functools.lru_cache(_MOST_KEPT)(self._told)

    def told(self, wording: str) -> str:
        """The wording in the language, itself where the catalogue does not know it."""
        return self._kept(wording, 0)

    def forget(self) -> None:
        """Look all up anew: there are other names."""
        self._kept.cache_clear()

    def found(self, wording: str) -> list[tuple[Pattern, dict[str, str]]]:
        """The patterns that fit a wording with the values of their fields, the best one first."""
        near = [
            one for word in {"", *_WORD.findall(wording)} for one in self._by_word.get(word, ())
        ]
        near.sort(key=lambda p: (-p.own, p.key))
        fits = ((one, one.regex.fullmatch(wording)) for one in near)
        return [(one, match.groupdict()) for one, match in fits if match]

    def _told(self, wording: str, depth: int) -> str:
        if wording in self._names:
            return wording
        if wording in self._whole:
            return _plain(self._texts[self._whole[wording]])
        if depth > _DEEPEST or len(wording) > _LONGEST:
            return wording
        several = _COUNTED.split(wording)
        if len(several) == 1:
            several = self._reasons(tuple(wording.split(_BETWEEN)))
        if len(several) > 1:
            return _BETWEEN.join(self._kept(one, depth + 1) for one in several)
        if fits := self.found(wording):
            pattern, fields = fits[0]
            told = {
                name: value if _is_number(name) else self._kept(value, depth + 1)
                for name, value in fields.items()
            }
            return self._texts[pattern.key].format(**told)
        what, bracket, reason = wording.removesuffix(")").rpartition(" (")
        if bracket and wording.endswith(")") and self._is_one(what) and self._is_one(reason):
            return f"{self._kept(what, depth + 1)} ({self._kept(reason, depth + 1)})"
        what, colon, reason = wording.partition(": ")
        if colon and all(map(self._is_one, self._reasons(tuple(reason.split(_BETWEEN))))):
            return f"{what}{colon}{self._kept(reason, depth + 1)}"
        for joint, times in JOINTS:
            if joint in wording:
                parts = wording.split(joint, times)
                return joint.join(self._kept(one, depth + 1) for one in parts)
        return wording

    def _reasons(self, parts: tuple[str, ...]) -> list[str]:
        """The reasons that a text joins, each of one or more parts; the text where it is none."""
        whole = _BETWEEN.join(parts)
        if len(parts) == 1 or len(parts) > _MOST_PARTS or self._is_one(whole):
            return [whole]
        for n in range(len(parts) - 1, 0, -1):
            head = _BETWEEN.join(parts[:n])
            rest = self._reasons(parts[n:]) if self._is_one(head) else []
            if rest and all(map(self._is_one, rest)):
                return [head, *rest]
        return [whole]

    def _is_one(self, wording: str) -> bool:
        """A pattern fits, and no field but a reason holds what stands between two reasons."""
        return wording in self._whole or any(
            not any(_BETWEEN in value for name, value in fields.items() if name not in NESTED)
            for _, fields in self.found(wording)
        )
