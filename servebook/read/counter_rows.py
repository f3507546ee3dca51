"""Readings on their way to the ``samples`` table: exact values, set-aside records, names.

Every counter reader fills one ``Rows``. It keeps a counter as an exact integer, applies the
manifest's ``device`` and ``interface`` options, and counts what it does not use.
"""

from __future__ import annotations

import dataclasses
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.errors import DumpError
from servebook.read.counter_names import Meaning
from servebook.read.counter_points import Points
from servebook.read.counter_table import Stamp, samples
from servebook.read.source import Source, printable, relative
from servebook.read.times import YEAR_2100
from servebook.tables import Tables, table

__all__ = ["Rows", "number", "whole"]

_NUMBER = re.compile(r"\+?\d+(\.\d*)?([eE][+-]?\d{1,3})?", re.ASCII)
_ADDRESS = re.compile(
    r"[\d.]+(:\d+)?|[\da-fA-F:\[\]]*:[\da-fA-F:\[\]]*|.*://.*|.*:\d+"
    r"|(?:[\w-]+\.)+[A-Za-z]{2,}\.?"  # a host name with its domain
    r"|0x[\da-fA-F]{8,}"  # a GUID
)
_LONGEST_KEY = 120  # a name from a dump, in a sentence
Bools = npt.NDArray[np.bool_]
_SERIES = ("device", "interface", "metric", "scope", "index", "direction")
_MEANING = ("kind", "bits", "window_s", "smoothing")


def whole(text: str, factor: int = 1) -> int:
    """The exact value of a counter as printed (``18446744073709551615``, ``2.846642e+06``).

    ``factor`` brings it to canonical units.

    Raises ValueError, in words, for what cannot be a counter: not a number, NaN, infinite,
    negative, a fraction, or above 64 bits.
    """
    if len(text) < 19 and text.isdigit() and text.isascii() and factor < 10:
        return int(text) * factor  # most of all readings are below 10**18
    text = text.strip()
    if text.isascii() and text.isdigit():
        value = int(text) if len(text) <= 20 else 1 << 64
    else:
        if text.lstrip("+-").lower() in {"nan", "inf", "infinity"}:
            raise ValueError("the value is NaN or infinite")
        if text.startswith("-"):
            raise ValueError("a counter cannot be negative")
        if not _NUMBER.fullmatch(text):
            raise ValueError("the value is not a number")
        exact = Decimal(text)
        if exact.adjusted() > 20:
            value = 1 << 64
        elif exact != exact.to_integral_value():
            raise ValueError("the value has a fraction, so it is a rate and not a counter")
        else:
            value = int(exact)
    value *= factor
    if value >= 1 << 64:
        raise ValueError("the value is above 64 bits")
    return value


def number(text: str) -> float:
    """A finite rate or gauge as printed; raises ValueError, in words, for anything else."""
    text = text.strip()
    if text.lstrip("+-").lower() in {"nan", "inf", "infinity"}:
        raise ValueError("the value is NaN or infinite")
    if not _NUMBER.fullmatch(text.removeprefix("-")):
        raise ValueError("the value is not a number")
    if not math.isfinite(value := float(text)):
        raise ValueError("the value is out of range")
    return value


class Rows:
    """Collects the readings of one source; ``tables()`` gives its samples and set-aside rows."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._series: dict[tuple[Any, ...], int] = {}
        self._points = Points()
        self._where: dict[Path, str] = {}
        self._stamps: dict[Stamp, int] = {}
        self._at_least_ns: int | None = None
        self._aside: list[dict[str, Any]] = []
        self._grouped: dict[tuple[str, str, str, str], list[Any]] = {}
        self._torn: dict[str, int] = {}
        self._aliases: dict[str, str] = {}
        self.renamed: dict[str, str] = {}  # interface names that became known later

    def where(self, path: Path | None = None) -> str:
        """A file's path below the inspected root."""
        path = path or self.source.main
        if path not in self._where:
            self._where[path] = relative(path, self.source.root)
        return self._where[path]

    def series(
        self,
        device: str,
        interface: str | None,
        metric: str,
        direction: str | None,
        *,
        scope: str = "port",
        index: int | None = None,
        kind: str = "counter",
        bits: int | None = 64,
        window_s: float | None = None,
        smoothing: str | None = None,
        rank: int = 0,
    ) -> int:
        """The number of a series, for ``add``; the same words give the same number.

        Of series that are alike but for their ``rank`` the lowest is used, the others are set
        aside: a file may hold the kernel's view of a port beside the port's own.
        """
        width = bits if kind == "counter" else None
        device = printable(device)
        interface = None if interface is None else printable(interface)
        name = (device, interface, metric, scope, index, direction)
        key = (*name, kind, width, window_s, smoothing, rank)
        if key not in self._series:
            self._series[key] = len(self._series)
            self._points.series(counter=kind == "counter")
        return self._series[key]

    def meant(
        self,
        meaning: Meaning,
        device: str,
        interface: str | None,
        *,
        index: int | None = None,
        **more: Any,
    ) -> int:
        """``series`` for a counter or gauge whose meaning is known by its name.

        ``index`` is for a name that stands for all queues or priorities.
        """
        return self.series(
            device,
            interface,
            meaning.metric,
            meaning.direction,
            scope=meaning.scope,
            index=meaning.index if index is None else index,
            kind=meaning.kind,
            bits=meaning.bits,
            **more,
        )

    def take_interface(self) -> str | None:
        """The manifest's name for the one interface of a source that does not name it.

        The option then picks no interface any more.
        """
        option = self.source.options.get("interface")
        if not isinstance(option, str):
            return None
        left = {key: value for key, value in self.source.options.items() if key != "interface"}
        self.source = dataclasses.replace(self.source, options=left)
        return option

    def stamp(self, ts_kind: str, ts_error_ns: int | None, path: Path | None = None) -> int:
        """What is known about the times of one file, for ``add``."""
        return self._stamps.setdefault((self.where(path), ts_kind, ts_error_ns), len(self._stamps))

    def rounded(self, step_ns: int) -> None:
        """All times are multiples of this, so none is known better."""
        self._at_least_ns = step_ns

    def add(
        self, series: int, ts_ns: int, value: int | float, stamp: int, line: int | None = None
    ) -> None:
        """One reading; set aside where its time cannot be one."""
        if 0 < ts_ns < YEAR_2100:
            self._points.add(series, ts_ns, value, line, stamp)
        else:
            path = self.source.root / list(self._stamps)[stamp][0]
            self.aside("reading", "a time outside of the years 1970 to 2099", line, path)

    def aside(
        self, record: str, reason: str, line: int | None = None, path: Path | None = None
    ) -> None:
        """One record that is not used, and why; never its content."""
        self._aside.append(
            {"path": self.where(path), "line": line, "record": record, "reason": reason}
        )

    def aside_once(
        self,
        key: str,
        reason: str,
        line: int | None = None,
        path: Path | None = None,
        n: int = 1,
    ) -> None:
        """``n`` readings of one series that are not used: one row, with their number."""
        self._group("series", printable(key)[:_LONGEST_KEY], reason, line, path, n)

    def aside_port(
        self,
        interface: str,
        reason: str,
        line: int | None = None,
        path: Path | None = None,
        what: str = "",
    ) -> None:
        """As ``aside_once``, of an interface that may have no reading; ``what`` of it is not used.

        Such a row has the record "interface", and its reason begins with the name and ": ", by
        which ``servebook.read.privacy`` knows a name that no sample has.
        """
        name = printable(interface)[:_LONGEST_KEY].replace(": ", ":")
        self._group("interface", f"{name}: {what}" if what else name, reason, line, path, 1)

    def _group(
        self, record: str, key: str, reason: str, line: int | None, path: Path | None, n: int
    ) -> None:
        entry = self._grouped.setdefault((self.where(path), record, key, reason), [line, 0])
        entry[1] += n

    def torn(self, line: int, path: Path | None = None) -> None:
        """The file ends inside this line, so its numbers may have lost their last digits."""
        self._torn[self.where(path)] = line

    def complete(self, path: Path | None = None) -> None:
        """What the file ends with is whole after all: a JSON value that closes."""
        self._torn.pop(self.where(path), None)

    def is_torn(self, line: int, path: Path | None = None) -> bool:
        """Whether the file ends inside this line."""
        return self._torn.get(self.where(path)) == line

    def alias(self, device: str) -> str:
        """The device's name, or "device N" where that is an address, URL or full host name."""
        if not _ADDRESS.fullmatch(device):
            return device
        return self._aliases.setdefault(device, f"device {len(self._aliases) + 1}")

    def unusable(self, none: str) -> str:
        """``none``, and why: the first record that was set aside, where there is one."""
        grouped = [(line, reason) for (*_, reason), (line, _) in self._grouped.items()]
        asides = [(row["line"], row["reason"]) for row in self._aside] + grouped
        if not asides:
            return none
        line, reason = asides[0]
        return f"{none} (line {line}: {reason})" if line is not None else f"{none} ({reason})"

    def __len__(self) -> int:
        return len(self._points)

    def tables(self) -> Tables:
        """The samples (``counter_table``), and the set-aside records.

        Raises DumpError where the options ask for an interface that is not there, or give one
        device name to readings of several devices.
        """
        kept = self._preferred(self._without_torn())
        names = list(self._series)
        columns: dict[str, list[Any]] = {
            name: [key[at] for key in names] for at, name in enumerate(_SERIES + _MEANING)
        }
        columns["interface"] = [self.renamed.get(name, name) for name in columns["interface"]]
        columns["device"] = self._devices(columns["device"], list(kept))
        chosen = self._chosen(list(kept), columns["interface"])
        columns["format"] = [self.source.format] * len(names)
        found = samples(
            self._points, {number: kept[number] for number in chosen}, columns, self._told()
        )
        for (path, record, key, reason), (line, n) in self._grouped.items():
            self._aside.append(
                {
                    "path": path,
                    "line": line,
                    "record": record,
                    "reason": f"{key}: {reason} ({n:,} reading{'s' if n > 1 else ''})",
                }
            )
        self._grouped = {}
        return Tables(samples=found, set_aside=table("set_aside", self._aside))

    def _told(self) -> list[Stamp]:
        least = self._at_least_ns
        return [
            (path, kind, error if least is None else max(error or 0, least))
            for path, kind, error in self._stamps
        ]

    def _without_torn(self) -> dict[int, Bools | None]:
        """The series, each with which of its readings are kept.

        One of a torn last line is not, where it does not fit the reading before.
        """
        kept: dict[int, Bools | None] = dict.fromkeys(self._points.used())
        torn = np.array([self._torn.get(path, -1) for path, _, _ in self._stamps], np.int64)
        dropped: list[int] = []  # stamps
        for number in kept if self._torn else ():
            own = self._points.of(number)
            stamps, (lines, without) = own.stamps(), own.lines()
            doubted = np.flatnonzero((lines == torn[stamps]) & ~without)
            if not len(doubted):
                continue
            keep, values, before = np.ones(len(own), bool), own.values(), -1
            for at in doubted.tolist():
                if at and keep[at - 1]:
                    before = at - 1
                # One that lost a digit is below a tenth of what it was, so it falls, or its
                # counter grew tenfold since the reading before.
                value = values[at].item()
                last = values[before].item() if before >= 0 else np.inf
                keep[at] = last <= value and (value == 0 or value < 10 * last)
            kept[number] = keep
            dropped += stamps[~keep].tolist()
        for path, _, _ in (list(self._stamps)[stamp] for stamp in sorted(dropped)):
            reason = "the file ends inside this line; the number may lack digits"
            self.aside("reading", reason, self._torn[path], self.source.root / path)
        return {number: keep for number, keep in kept.items() if keep is None or keep.any()}

    def _preferred(self, kept: dict[int, Bools | None]) -> dict[int, Bools | None]:
        """The series without those that a lower rank of the same kind replaces."""
        keys = list(self._series)
        if not any(key[-1] for key in keys):
            return kept
        alike = [(*key[: len(_SERIES)], key[len(_SERIES)]) for key in keys]
        best: dict[tuple[Any, ...], int] = {}
        for number in kept:
            best[alike[number]] = min(best.get(alike[number], keys[number][-1]), keys[number][-1])
        worse = [number for number in kept if keys[number][-1] > best[alike[number]]]
        paths = [path for path, _, _ in self._stamps]
        places = dict(self._points.places()) if worse and self._points.in_order else {}
        found = []  # file, place or line of its first reading there, series, line, how many
        for number in worse:
            own, keep = self._points.of(number), kept[number]
            at = np.arange(len(own)) if keep is None else np.flatnonzero(keep)
            lines, stamps = own.lines()[0], own.stamps()[at]
            told = np.unique(stamps, return_index=True, return_counts=True)
            for stamp, first, n in zip(*(one.tolist() for one in told), strict=True):
                line = int(lines[at[first]])
                place = int(places[number][at[first]]) if places else line
                found.append((stamp, place, number, line, n))
        for stamp, _, number, line, n in sorted(found):
            device, interface, metric, *_ = keys[number]
            reason = "the same port has a counter that is nearer to the wire"
            key = f"{metric} of {interface or device}"
            entry = (paths[stamp], "series", key, reason)
            self._grouped.setdefault(entry, [line if line >= 0 else None, 0])[1] += n
        return {number: keep for number, keep in kept.items() if number not in set(worse)}

    def _devices(self, aliases: list[str], used: list[int]) -> list[str]:
        option = self.source.options.get("device")
        if option is None:
            return aliases
        found = sorted({aliases[i] for i in used})
        if len(found) > 1:
            raise DumpError(
                self.where(),
                "readings of one device, as `device:` in the manifest says",
                f"{len(found)} devices ({', '.join(found)})",
                "leave `device:` out here and use these names in `ports:`, or export one target "
                "per file",
            )
        return [str(option)] * len(aliases)

    def _chosen(self, used: list[int], interfaces: list[str | None]) -> list[int]:
        only = self.source.options.get("interfaces") or self.source.options.get("interface")
        if not only:
            return used
        wanted = {str(name) for name in (only if isinstance(only, list | tuple) else [only])}
        found = sorted({str(interfaces[i]) for i in used if interfaces[i] is not None})
        missing = sorted(wanted - set(found))
        if missing:
            lo = (
                "; node_exporter may leave lo out: --collector.netdev.device-include=lo"
                if "lo" in missing
                else ""
            )
            raise DumpError(
                self.where(),
                f"readings of {', '.join(missing)}, as the manifest asks",
                f"interfaces {', '.join(found) or 'none'}",
                f"correct the interface in the manifest{lo}",
            )
        return [i for i in used if interfaces[i] is None or interfaces[i] in wanted]
