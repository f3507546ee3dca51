"""Which manifest entry a dump belongs to: the first whose pattern matches one of its paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from servebook.read.manifest import CounterEntry, RunEntry
from servebook.read.manifest_pattern import compile_pattern

__all__ = ["Hit", "Matcher"]

E = TypeVar("E", RunEntry, CounterEntry)


@dataclass(frozen=True)
class Hit(Generic[E]):
    """The entry that matched, its number, and the fields that its pattern took out of the path."""

    entry: E
    index: int
    fields: Mapping[str, str]


class Matcher(Generic[E]):
    """The entries of ``runs:`` or ``counters:``; remembers which of them matched."""

    def __init__(self, entries: Sequence[E], fields: Mapping[str, str]) -> None:
        self.entries: Sequence[E] = entries
        self._patterns = [compile_pattern(entry.match, fields) for entry in entries]
        self._won: dict[int, int] = {}
        self._shadowed: dict[int, int] = {}

    def match(self, paths: Iterable[str]) -> Hit[E] | None:
        """The first entry that matches any of the ``paths`` by which a dump can be named."""
        paths = [path for path in paths if path]
        hit: Hit[E] | None = None
        for index, pattern in enumerate(self._patterns):
            found = next((f for p in paths if (f := pattern.match(p)) is not None), None)
            if found is None:
                continue
            if hit is None:
                hit = Hit(self.entries[index], index, found)
                self._won[index] = self._won.get(index, 0) + 1
            else:
                self._shadowed.setdefault(index, hit.index)
        return hit

    @property
    def any_matched(self) -> bool:
        """Whether any entry has matched so far."""
        return bool(self._won)

    def count(self, index: int) -> int:
        """How many dumps the entry of that number has taken."""
        return self._won.get(index, 0)

    def unused(self, section: str, what: str) -> list[str]:
        """A finding for each entry that took nothing, with the reason."""
        findings = []
        for index, entry in enumerate(self.entries):
            if index in self._won:
                continue
            place = f"campaign.yaml:{entry.line}: `{section}[{index}]` ({entry.match})"
            earlier = self._shadowed.get(index)
            findings.append(
                f"{place} matches no {what}"
                if earlier is None
                else f"{place} takes nothing: what it matches is taken by the earlier "
                f"`{section}[{earlier}]` ({self.entries[earlier].match})"
            )
        return findings
