"""Whole JSON and YAML files as plain values, bounded in size and depth.

Clients write NaN and Infinity, which JSON does not have; they are read here, because one such
value must not cost the file. YAML is built from ruamel's safe loader, so that no tag runs code.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import orjson
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from servebook.errors import DumpError
from servebook.read.codecs import DAMAGED
from servebook.read.files import MAX_TEXT_BYTES, open_bytes

__all__ = ["MAX_YAML_BYTES", "json_value", "main_document", "read_bytes", "yaml"]

#: YAML takes about a hundred times the time of JSON; no client writes one of this size.
MAX_YAML_BYTES = 8 << 20


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
    loader = YAML(typ="safe")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # re-used anchors are legal
            return list(loader.load_all(data.decode("utf-8", "replace")))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" (line {mark.line + 1})"
        raise ValueError(f"no valid YAML{place}") from None
    except RecursionError:
        raise ValueError("YAML nested deeper than any client writes") from None
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError):
        # ruamel's constructors let bad dates, keys and numbers through as Python's own errors.
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


def main_document(path: Path, name: str, expected: str) -> Any:
    """The JSON value of a dump's main file; raises DumpError for what is none."""
    try:
        return json_value(read_bytes(path))
    except ValueError as error:
        raise DumpError(name, expected, str(error), "copy the file again") from None
