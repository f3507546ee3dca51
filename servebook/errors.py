"""Errors a user can act on: where, what was expected, what was found, the way out.

Every error of a user's file is one of these; the command line prints its text alone, never a
Python traceback.
"""

from __future__ import annotations

__all__ = ["BuildError", "DumpError", "ManifestError", "ServebookError"]


class ServebookError(Exception):
    """Base of all errors that are shown to the user as one sentence."""

    exit_code = 2


class _LocatedError(ServebookError):
    def __init__(
        self, where: object, expected: str, found: str, way_out: str, *, line: int | None = None
    ) -> None:
        self.where = str(where)
        self.line = line
        self.expected = expected
        self.found = found
        self.way_out = way_out
        place = self.where if line is None else f"{self.where}:{line}"
        super().__init__(f"{place}: expected {expected}, found {found}; {way_out}")

    @property
    def reason(self) -> str:
        """The sentence without the file name, for tables that have a column for it."""
        return f"expected {self.expected}, found {self.found}; {self.way_out}"


class DumpError(_LocatedError):
    """A dump (or one record of it) that cannot be used.

    ``DumpError("run/profile_export.jsonl", "one JSON object a line", "a torn last line",
    "copy the file again after the client has ended", line=118)``
    """


class ManifestError(_LocatedError):
    """A campaign manifest that does not say what it must."""


class BuildError(ServebookError):
    """A page that could not be built; the last good one stays."""

    exit_code = 1
