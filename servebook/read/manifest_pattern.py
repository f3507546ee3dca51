"""Match patterns of the manifest: globs that also take fields out of folder names.

``raw/aiperf/mixed_c{concurrency}*`` matches ``raw/aiperf/mixed_c8_repeat2`` and says that its
concurrency is 8. ``*`` and ``?`` stay inside one folder name, ``**`` crosses folders, ``[`` and
``]`` are themselves. The standard library's globs have no named fields, hence this module.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["COUNTER_FIELDS", "RUN_FIELDS", "Pattern", "PatternError", "compile_pattern", "nearest"]

_WHOLE, _NUMBER, _NAME = r"[0-9]{1,12}", r"[0-9]{1,12}(?:\.[0-9]{1,9})?", r"[A-Za-z0-9._-]+?"

RUN_FIELDS: Mapping[str, str] = {
    "concurrency": _WHOLE,
    "request_rate": _NUMBER,
    "isl": _WHOLE,
    "osl": _WHOLE,
    "repeat": _WHOLE,
    "configuration": _NAME,
    "workload": "prefill|decode|mixed|other",
}
COUNTER_FIELDS: Mapping[str, str] = {"device": _NAME, "interface": _NAME}

_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\{([^{}]*)\}|([{}])")
_FREE = re.compile(r"\*|\{(?:configuration|device|interface)\}")  # fields of any length too
_MAX_LENGTH = 1000
# A regex engine tries all ways to share a name among its wildcards: few of them, few ways.
_MAX_IN_A_NAME, _MAX_CROSSING = 3, 2


class PatternError(ValueError):
    """A pattern that cannot be used: ``expected``, ``found`` and ``way_out`` in words."""

    def __init__(self, expected: str, found: str, way_out: str) -> None:
        self.expected, self.found, self.way_out = expected, found, way_out
        super().__init__(f"expected {expected}, found {found}; {way_out}")


@dataclass(frozen=True)
class Pattern:
    """A compiled match pattern and the names of the fields that it takes out of a path."""

    text: str
    fields: tuple[str, ...]
    regex: re.Pattern[str]

    def match(self, path: str) -> dict[str, str] | None:
        """The captured fields if the whole path matches, else None."""
        found = self.regex.fullmatch(path)
        return None if found is None else found.groupdict()


def nearest(word: str, known: Iterable[str]) -> str:
    """``did you mean `x`?`` or the list of what is known."""
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else "known: " + ", ".join(known)


def compile_pattern(text: str, fields: Mapping[str, str]) -> Pattern:
    """Compile a pattern relative to the campaign folder.

    Raises PatternError for one that leaves the folder, is absolute or too long, or that names an
    unknown field or one twice.
    """
    path = text.rstrip("/")
    if not path:
        raise PatternError("a path pattern", "an empty text", "name a folder: raw/**")
    if path.startswith(("/", "~")) or re.match(r"[A-Za-z]:", path) or "\\" in path:
        raise PatternError(
            "a path relative to the campaign folder, with /", repr(text), "begin it with raw/"
        )
    if ".." in path.split("/"):
        raise PatternError(
            "a path inside the campaign folder", repr(text), "copy the dumps below the campaign"
        )
    if len(path) > _MAX_LENGTH:
        raise PatternError(
            f"at most {_MAX_LENGTH} characters", f"{len(path)}", "use * for what does not matter"
        )
    _check_wildcards(path)
    names: list[str] = []
    regex, position = "", 0
    for token in _TOKEN.finditer(path):
        regex += re.escape(path[position : token.start()])
        position = token.end()
        if token[2]:
            raise PatternError("{field} with both braces", repr(text), "close the brace")
        if token[1] is None:
            regex += {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}[token[0]]
            continue
        name = token[1]
        if name not in fields:
            raise PatternError(f"a known field in {text!r}", f"{{{name}}}", nearest(name, fields))
        if name in names:
            raise PatternError(f"{{{name}}} once", "it twice", "use * for the second")
        names.append(name)
        regex += f"(?P<{name}>{fields[name]})"
    regex += re.escape(path[position:])
    return Pattern(text, tuple(names), re.compile(regex, re.DOTALL))


def _check_wildcards(path: str) -> None:
    crossing = path.count("**")
    most = max(len(_FREE.findall(name)) for name in path.replace("**", "").split("/"))
    if crossing > _MAX_CROSSING or most > _MAX_IN_A_NAME:
        raise PatternError(
            f"at most {_MAX_IN_A_NAME} wildcards in a name, and {_MAX_CROSSING} **",
            f"{most} and {crossing}",
            "use one * for all that does not matter",
        )
