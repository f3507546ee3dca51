"""The text of a stream that is read piece by piece, for what looks for values in it.

How far is read at once, and what damage means, is for each such module to say (``more``).
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod

__all__ = ["StreamText"]


class StreamText(ABC):
    """The text from ``at`` on, read as far as needed; what was used is let go."""

    def __init__(self, space: re.Pattern[str]) -> None:
        self._space = space
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.text, self.at, self.ended = "", 0, False
        self.line = 1  # that of ``at``

    @abstractmethod
    def more(self) -> None:
        """Read on: ``text`` begins at ``at`` then, or nothing follows and it has ``ended``."""

    def go(self, upto: int) -> None:
        """Go on to a place in ``text``."""
        self.line += self.text.count("\n", self.at, upto)
        self.at = upto

    def next_character(self) -> str:
        """The next character that is no space, now at ``at``; empty at the end."""
        while True:
            found = self._space.match(self.text, self.at)
            self.go(found.end() if found else self.at)
            if self.at < len(self.text) or self.ended:
                return self.text[self.at : self.at + 1]
            self.more()
