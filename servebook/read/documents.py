"""Whole JSON and YAML files as plain values, bounded in size and depth.

Clients write NaN and Infinity, which JSON does not have; they are read here, because one such
value must not cost the file. YAML is built by PyYAML's safe loader, so that no tag runs code, on
libyaml where it is there: ten times faster.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
import yaml as pyyaml  # type: ignore[import-untyped]

from servebook.errors import DumpError
from servebook.read.codecs import DAMAGED
from servebook.read.files import MAX_TEXT_BYTES, open_bytes
from servebook.read.json_inside import Place, objects_inside

__all__ = [
    "MAX_YAML_BYTES",
    "cut_down",
    "json_value",
    "main_document",
    "read_bytes",
    "slim_document",
    "yaml",
]

#: YAML takes some fifty times the time of JSON; no client writes one of this size.
MAX_YAML_BYTES = 4 << 20
#: Levels opened at one place.
_TOO_DEEP = "YAML nested deeper than any client writes"
_DEEP = re.compile(rb"(?:[\[{]\s*|[-?]\s+){200}")


class _Loader(getattr(pyyaml, "CSafeLoader", pyyaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML in which 1e-05 is a number, as in YAML 1.2; in 1.1 it is a text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(?:\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def json_value(data: bytes) -> Any:
    """One JSON value, NaN and Infinity included; raises ValueError in words that quote nothing."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except json.JSONDecodeError as error:
        torn = error.pos >= len(error.doc.rstrip()) - 1 or "Unterminated" in error.msg
        tail = "; the file is torn there" if torn else ""
        raise ValueError(f"no valid JSON (line {error.lineno}){tail}") from None
    except RecursionError:
        raise ValueError("JSON nested deeper than any client writes") from None
    except ValueError:  # a number of thousands of digits
        raise ValueError("a number out of range") from None


def yaml(data: bytes) -> list[Any]:
    """The documents of a YAML stream; raises ValueError in words that quote nothing."""
    if len(data) > MAX_YAML_BYTES:
        raise ValueError(f"more than {MAX_YAML_BYTES >> 20} MiB of YAML")
    if _DEEP.search(data):
        raise ValueError(_TOO_DEEP)
    try:
        return list(pyyaml.load_all(data.decode("utf-8", "replace"), _Loader))
    except pyyaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" (line {mark.line + 1})"
        raise ValueError(f"no valid YAML{place}") from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError):
        # Bad dates, keys and numbers come through as Python's own errors.
        raise ValueError("YAML with a value that has no meaning") from None


def read_bytes(path: Path, limit: int = MAX_TEXT_BYTES) -> bytes:
    """The unpacked content of a file; raises ValueError for one that is too large or damaged."""
    try:
        with open_bytes(path) as stream:
            data = stream.read(limit + 1)
    except DAMAGED:
        raise ValueError("a compressed stream that is cut short or damaged") from None
    except OSError as error:
        raise ValueError(f"a file that cannot be read ({error.strerror})") from None
    if len(data) > limit:
        raise ValueError(f"more than {limit >> 20} MiB unpacked, the most that is read")
    return data


def slim_document(
    path: Path, name: str, expected: str, keep: Mapping[Place, Callable[[Any], Any]]
) -> Any:
    """As ``main_document``, with the elements of the lists in ``keep`` cut down as they are read.

    So a document of many requests takes the memory of what is kept of them. One that is no whole
    JSON value, or has a key twice, is read as ever.
    """
    with contextlib.suppress(DumpError):
        found = list(itertools.islice(objects_inside(path, keep, unique=True), 2))
        if len(found) == 1 and found[0][2] is None:
            return found[0][1]
    value = main_document(path, name, expected)
    for place, cut in keep.items():
        cut_down(value, place, cut)
    return value


def cut_down(value: Any, place: Place, cut: Callable[[Any], Any]) -> None:
    """Put in place of each element of the lists at ``place`` what ``cut`` keeps of it."""
    for one in value if isinstance(value, list) else [value]:
        inner = one.get(place[0]) if isinstance(one, dict) else None
        if len(place) > 1:
            cut_down(inner, place[1:], cut)
        elif isinstance(inner, list):
            inner[:] = map(cut, inner)


def main_document(path: Path, name: str, expected: str) -> Any:
    """The JSON value of a dump's main file; raises DumpError for what is none."""
    try:
        return json_value(read_bytes(path))
    except ValueError as error:
        raise DumpError(name, expected, str(error), "copy the file again") from None
