"""Readings of engines on their way to the table ``engine``: aliases, bounds, set-aside records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servebook.read.engine_names import identity, meaning
from servebook.read.records import Aside, set_aside
from servebook.read.source import Source, relative
from servebook.read.times import YEAR_2001, YEAR_2100
from servebook.tables import Tables, table

__all__ = ["EngineRows"]

_MOST = 1e15


class EngineRows:
    """Collects one source's readings; ``tables()`` gives them and what was set aside."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._path = relative(source.main, source.root)
        self._run = source.options.get("run_id")
        self._rows: list[dict[str, Any]] = []
        self._aside: dict[str, Aside] = {}
        self._counted: dict[tuple[str, str, str], list[int | None]] = {}
        self._engines: dict[tuple[Any, ...], str] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        name: str,
        labels: Mapping[str, str],
        value: Any,
        *,
        start_ns: int | None,
        end_ns: int | None = None,
        ts_kind: str | None,
        endpoint: str = "",
        statistic: str = "reading",
        line: int | None = None,
        path: Path | None = None,
    ) -> None:
        """One value of a series; series that are not read are passed over.

        A value that no gauge or counter can have, and a time outside of the years 2001 to 2099,
        are set aside: one row per series and reason, with their number.
        """
        found = meaning(name, labels)
        if found is None:
            return
        end_ns = start_ns if end_ns is None else end_ns
        wrong = _wrong(found.metric, value) or _wrong_time(start_ns) or _wrong_time(end_ns)
        if wrong:
            self.aside_once(found.metric, wrong, line, path)
            return
        key = (endpoint, identity(labels))
        self._rows.append(
            {
                "source": self._path if path is None else relative(path, self.source.root),
                "line": line,
                "format": self.source.format,
                "run_id": self._run,
                "engine": self._engines.setdefault(key, f"engine {len(self._engines) + 1}"),
                "start_ns": start_ns,
                "end_ns": end_ns,
                "ts_kind": ts_kind,
                "metric": found.metric,
                "kind": found.kind,
                "statistic": statistic,
                "value": float(value) * found.factor,
            }
        )

    def aside(
        self, record: str, reason: str, line: int | None = None, path: Path | None = None
    ) -> None:
        """One record that is not used, and why; never its content."""
        self._aside.setdefault(self._where(path), []).append((line, record, reason))

    def aside_once(
        self, record: str, reason: str, line: int | None = None, path: Path | None = None
    ) -> None:
        """The same for many records of one reason: the first line, and their number."""
        entry = self._counted.setdefault((self._where(path), record, reason), [line, 0])
        entry[1] = (entry[1] or 0) + 1

    def _where(self, path: Path | None) -> str:
        return self._path if path is None else relative(path, self.source.root)

    def tables(self) -> Tables:
        """Tables ``engine`` and ``set_aside``."""
        for (where, record, reason), (line, n) in self._counted.items():
            many = f" ({n:,} readings)" if (n or 0) > 1 else ""
            self._aside.setdefault(where, []).append((line, record, f"{record}: {reason}{many}"))
        self._counted = {}
        parts = [Tables(engine=table("engine", self._rows))]
        parts += [Tables(set_aside=set_aside(where, rows)) for where, rows in self._aside.items()]
        return Tables.concat(parts)


def _wrong(metric: str, value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "the value is not a number"
    try:
        value = float(value)
    except OverflowError:
        return "the value is out of range"
    if not math.isfinite(value):
        return "the value is NaN or infinite"
    if metric == "cache_hit_fraction" and value == -1:
        return "the engine says that it has no value yet (-1)"
    if value < 0 or value > _MOST:
        return "the value is out of range"
    if metric.endswith("_fraction") and value > 1.0001:
        return "a fraction above 1"
    return None


def _wrong_time(ns: int | None) -> str | None:
    if ns is None or (type(ns) is int and YEAR_2001 <= ns < YEAR_2100):
        return None
    return "a time outside of the years 2001 to 2099"
