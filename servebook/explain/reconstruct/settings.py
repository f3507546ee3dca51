"""``reconstruction.yaml``: when a reconstructed campaign begins and how its leaf is polled.

The file is a plan that somebody wrote, so every value is checked before anything is made from it;
what is wrong is told with the key, what was expected, what was found and the way out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from servebook.errors import DumpError
from servebook.explain.reconstruct.wire_files import WRITERS

__all__ = ["SETTINGS", "Settings", "read_settings"]

SETTINGS = "reconstruction.yaml"
_WAY = "compare it with the file of a campaign that is shipped"
_NUMBERS = {  # key: (least, most), words
    "idle_s": (1, 86_400, "seconds from 1 to 86,400"),
    "poll_s": (0.1, 3_600, "seconds from 0.1 to 3,600"),
    "rails": (1, 64, "a whole number from 1 to 64"),
    "speed_bps": (1e6, 1e14, "bit/s from 1e6 to 1e14"),
    "skew": (1, 10, "highest over lowest rail, from 1 to 10"),
}
_KEYS = ("start", "model", "counters", "device", "watched", "reset", *_NUMBERS)


@dataclass(frozen=True)
class Settings:
    """When and how: times in seconds, speeds in bit/s, the rail skew as highest over lowest."""

    start_ns: int
    idle_s: float
    poll_s: float
    model: str
    counters: str  # a form of ``WRITERS``
    device: str
    watched: tuple[str, ...]  # configurations that cross the leaf
    rails: int
    speed_bps: float
    skew: float
    reset: tuple[str, str]  # interface, and the run in whose middle it is cleared


def read_settings(campaign: Path) -> Settings:
    """The campaign's settings; raises DumpError for a file that lacks or garbles one."""
    path = campaign / SETTINGS
    found = _mapping(path)
    for key in found:
        if key not in _KEYS:
            raise _wrong(path, f"one of {', '.join(sorted(_KEYS))}", f"the key {key!r}"[:80])
    numbers = {key: _number(path, found, key) for key in _NUMBERS}
    watched = found.get("watched")
    if not (isinstance(watched, list) and watched and all(isinstance(n, str) for n in watched)):
        raise _wrong(path, "'watched' as a list of configurations", _kind(watched))
    reset = found.get("reset")
    if not isinstance(reset, dict):
        raise _wrong(path, "'reset' with 'interface' and 'run'", _kind(reset))
    form = _text(path, found, "counters")
    if form not in WRITERS:
        raise _wrong(path, f"'counters' as one of {', '.join(WRITERS)}", f"{form!r}"[:80])
    return Settings(
        start_ns=_start_ns(path, found.get("start")),
        idle_s=numbers["idle_s"],
        poll_s=numbers["poll_s"],
        model=_text(path, found, "model"),
        counters=form,
        device=_text(path, found, "device"),
        watched=tuple(watched),
        rails=int(numbers["rails"]),
        speed_bps=numbers["speed_bps"],
        skew=numbers["skew"],
        reset=(_text(path, reset, "interface"), _text(path, reset, "run")),
    )


def _mapping(path: Path) -> Mapping[str, Any]:
    try:
        value = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DumpError(
            path,
            "the settings of a reconstruction",
            "no such file",
            "only a campaign with a plan (reconstruction.yaml, recipes.csv, published.csv) can be "
            "reconstructed; raw dumps that were measured need none",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        found = getattr(error, "strerror", None) or "bytes that are not UTF-8"
        raise _wrong(path, "a YAML file", found) from None
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise DumpError(path, "YAML", "text that is not", _WAY, line=line) from None
    if not isinstance(value, dict):
        raise _wrong(path, "keys with values", _kind(value))
    return value


def _number(path: Path, found: Mapping[str, Any], key: str) -> float:
    low, high, words = _NUMBERS[key]
    value = found.get(key)
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    number = float(value) if fits and value is not None else math.nan
    if not low <= number <= high or (key == "rails" and number != int(number)):
        raise _wrong(path, f"'{key}' as {words}", _kind(value))
    return number


def _text(path: Path, found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str) or not value.isprintable() or not value:
        raise _wrong(path, f"'{key}' as a text", _kind(value))
    return value


def _start_ns(path: Path, value: object) -> int:
    expected = "'start' as a moment with its UTC offset, from 2001 to 2099"
    try:
        start = datetime.fromisoformat(str(value))
    except ValueError:
        raise _wrong(path, expected, _kind(value)) from None
    if start.tzinfo is None or not 2001 <= start.year <= 2099:
        raise _wrong(path, expected, _kind(value))
    return round(start.timestamp()) * 10**9


def _wrong(path: Path, expected: str, found: str) -> DumpError:
    return DumpError(path, expected, found, _WAY)


def _kind(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, int | float | str):
        return ascii(value)[:60]
    kinds: Mapping[type, str] = {dict: "a mapping", list: "a list"}
    return kinds.get(type(value), "another kind of value")
