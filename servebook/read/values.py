"""Values of foreign JSON, taken for what they are and bounded by what a table can hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.read.source import printable

__all__ = [
    "LONGEST_NS",
    "LONGEST_S",
    "MAX_TOKENS",
    "MAX_WHOLE",
    "boolean",
    "gap_list_ns",
    "gaps",
    "model_name",
    "number",
    "object_of",
    "objects_in",
    "text",
    "time_ns",
    "token_count",
    "whole",
]

#: Whole numbers up to here are exact in a float too; no count or length comes near.
MAX_WHOLE = 2**53
#: Three years: no request takes longer, and sums stay far inside 64 bits.
LONGEST_NS = 10**17
LONGEST_S = LONGEST_NS / 1e9
#: No request reads or writes as many tokens.
MAX_TOKENS = 10**9


def number(value: Any) -> float | None:
    """A finite number; None for anything else, "inf", NaN and true included."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        if not math.isfinite(value):
            return None
    except OverflowError:
        return None
    return value if abs(value) < 2**63 else float(value)  # a column holds 64 bits


def whole(value: Any) -> int | None:
    """A whole number of zero or more (4.0 is 4); None for anything else."""
    found = number(value)
    if found is None or not 0 <= found <= MAX_WHOLE or found != int(found):
        return None
    return int(found)


def gaps(values: list[Any], ns_per_unit: float) -> npt.NDArray[np.int64]:
    """Gaps between chunks in whole ns; raises ValueError, in words, for a list of anything else."""
    try:
        found = np.asarray(values)
    except (ValueError, OverflowError):  # lists of different lengths; a number beyond 64 bits
        raise ValueError("others") from None
    if found.ndim != 1 or found.dtype.kind not in "iuf":
        raise ValueError("others")
    with np.errstate(over="ignore"):  # infinite is caught below
        found = found.astype(np.float64) * ns_per_unit
    if not np.isfinite(found).all() or found.min() < 0:
        raise ValueError("others")
    if found.sum() >= LONGEST_NS:
        raise ValueError("a sum of years")
    return np.rint(found).astype(np.int64)


def time_ns(
    value: Any, name: str, ns_per_unit: float = 1e9, *, what: str = "seconds"
) -> int | None:
    """Whole ns of a span; None where there is none (0 is none: clients write it for a missing one).

    Raises ValueError, naming the field ``name`` and ``what`` it should hold, for anything else.
    """
    if value is None:
        return None
    found = number(value)
    if found is None or not 0 <= found * ns_per_unit < LONGEST_NS:
        raise ValueError(f"expected {what} of zero or more in '{name}', found another value")
    return round(found * ns_per_unit) or None


def token_count(value: Any, name: str) -> int | None:
    """A count of tokens; None where there is none; raises ValueError, naming the field."""
    if value is None:
        return None
    tokens = whole(value)
    if tokens is None or tokens >= MAX_TOKENS:
        raise ValueError(f"expected a token count in '{name}', found another value")
    return tokens


def gap_list_ns(value: Any, name: str) -> npt.NDArray[np.int64] | None:
    """Whole ns of a list of gaps in seconds; None where there is none, or the list is empty.

    Raises ValueError, naming the field ``name``, for anything else.
    """
    if value is None or value == []:
        return None
    if not isinstance(value, list):
        raise ValueError(f"expected a list of seconds in '{name}', found another value")
    try:
        return gaps(value, 1e9)
    except ValueError as error:
        raise ValueError(f"expected gaps of zero or more in '{name}', found {error}") from None


def boolean(value: Any) -> bool | None:
    """True or false, or the words for them; None for anything else."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def text(value: Any) -> str | None:
    """A text that can be stored and shown; None for anything else and for the empty text."""
    return printable(value) if isinstance(value, str) and value else None


#: A model in the cache of Hugging Face's hub: ``models--OWNER--NAME/snapshots/HASH``.
_CACHED = re.compile(r"(?:.*[/\\])?models--([^/\\]+?)--([^/\\]+)(?:[/\\]snapshots[/\\][^/\\]+)?")


def model_name(value: Any) -> str | None:
    """A model's name; of a path only the last part, because a path names a machine's folders.

    Of a path into the hub's cache, where the last part is a hash, the name that it was loaded by.
    """
    name = (text(value) or "").rstrip("/\\")
    if cached := _CACHED.fullmatch(name):
        return f"{cached[1]}/{cached[2]}"
    if name.startswith(("/", "~", ".")) or "://" in name or "\\" in name:
        name = name.replace("\\", "/").rpartition("/")[2]
    return name or None


def object_of(value: Any) -> dict[str, Any]:
    """The JSON object, or an empty one."""
    return value if isinstance(value, dict) else {}


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """The JSON objects of a list; nothing for anything else."""
    return (v for v in value if isinstance(v, dict)) if isinstance(value, list) else iter(())
