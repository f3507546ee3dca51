"""Where a line of text may break: labels in charts, numbers and their units on the page."""

from __future__ import annotations

import re
import textwrap

__all__ = ["unbroken", "wrapped"]

_MOST_LINES = 5


def wrapped(text: str, width: int = 18) -> str:
    r"""A label broken at blanks into lines of at most ``width`` characters where words allow.

    A word of more than twice the width is cut, and so is a label of more than five lines: it must
    leave room for the picture. The tables have it whole.

    >>> wrapped("one node · NVFP4 · TP8/DP1")
    'one node · NVFP4 ·\nTP8/DP1'
    >>> wrapped("x" * 300, 10)
    'xxxxxxxxxx\nxxxxxxxxx…'
    """
    most = 2 * width
    short = " ".join(
        f"{word[:width]} {word[width : most - 1]}…" if len(word) > most else word
        for word in text.split()
    )
    lines = textwrap.wrap(short, width, break_long_words=False, break_on_hyphens=False)
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"{lines[_MOST_LINES - 1][: width - 1]}…"]
    return "\n".join(lines)


_BOUND = re.compile(
    # a number and what counts it: "7.8 %", "400 Gbit/s", "128 in flight", "4 SETTINGS", "n = 12"
    r"(?<=\d) (?=(?:%|[kMGT]?bit/s|[kMGT]?B|[mµn]?s|min|h|in|out|slots?|runs?|times|tokens/s|GPUs?|"
    r"[A-Z]{4,})(?:$|[\s.,;:)]))"
    r"|(?<=\bn) (?==)|(?<==) (?=\d)| (?=·)"
)


def unbroken(text: str) -> str:
    """The text with no-break spaces between a number and its unit, so that no line parts them.

    >>> unbroken("at most 7.8 % of 400 Gbit/s, n = 12").replace(chr(160), "_")
    'at most 7.8_% of 400_Gbit/s, n_=_12'
    """
    return _BOUND.sub("\u00a0", text)
