"""Bytes counted as fsspec brings them: for a bar, and to stop where more come than may.

A module of its own, because importing fsspec takes a while, and most commands fetch nothing.
"""

from __future__ import annotations

from typing import Any

from fsspec.callbacks import Callback

from servebook.read.remote_listing import TooMuchError

__all__ = ["Counted"]


class Counted(Callback):  # type: ignore[misc]
    """Moves ``bar`` on; raises TooMuchError after ``most`` bytes of all files together.

    The server may have said the size of none of them.
    """

    def __init__(self, bar: Any, most: float) -> None:
        super().__init__()
        self.bar, self.left = bar, most

    def branched(self, path_1: str, path_2: str, **kwargs: Any) -> Callback:
        """Itself, for each of the files."""
        return self

    def relative_update(self, inc: int = 1) -> None:
        """So many bytes more."""
        self.bar.update(inc)
        self.left -= inc
        if self.left < 0:
            raise TooMuchError
