"""Which column of a table of readings is what: our names, or the manifest's map to them.

Our names: a time, ``device``, ``interface``, ``speed_bps``, and values such as ``rx_bytes`` or
``tx_gbits_per_s``. A row with several interfaces has a column for each: ``Ethernet1_rx_bytes`` in
the file, ``rx_bytes of Ethernet1`` (and ``on leaf1``) on the left of ``columns:``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from servebook.errors import DumpError
from servebook.read.counter_rows import Rows, number, whole
from servebook.read.source import printable
from servebook.read.times import ClockChangeError, NoOffsetError, printed_ns

__all__ = ["FACTORS", "Columns", "Named", "known_header", "named"]

_TIMES = ("ts_ns", "ts_us", "ts_ms", "ts", "time", "timestamp", "epoch")
_UNITS = {"ts_ns": 1, "ts_us": 10**3, "ts_ms": 10**6}
_FIELD = (
    r"(?P<direction>rx|tx)_(?:(?P<metric>bytes|octets|words|unicast_packets|packets|pkts|errors"
    r"|errs|drops|dropped|discards)(?P<rate>_per_s)?"
    r"|(?P<prefix>[kmg]?)(?P<bits>bits)(?P<bitrate>_per_s)?|(?P<short>[kmg]?)bps)"
)
_VALUE = re.compile(_FIELD)
_OF = re.compile(rf"(?:{_FIELD})(?: of (?P<interface>\S.*?)(?: on (?P<device>\S.*))?)?")
_WIDE = re.compile(rf"(?P<interface>\S.*?)[ _.:/-]{_FIELD}")
_METRICS = {
    "octets": "bytes",
    "words": "bytes",
    "pkts": "packets",
    "errs": "errors",
    "dropped": "drops",
    "discards": "drops",
}
_SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
#: What ``unit:`` may be, and bytes per unit.
FACTORS: Mapping[str, float] = {
    "bytes": 1.0,
    "bits": 0.125,
    "words": 4.0,
    **{f"{p}bit": scale / 8 for p, scale in (("k", 1e3), ("M", 1e6), ("G", 1e9))},
    **{f"{p}B": scale for p, scale in (("k", 1e3), ("M", 1e6), ("G", 1e9))},
}
_EXACT = {1.0: (1, 1), 0.125: (1, 8), 4.0: (4, 1)}
_DEVICE, _INTERFACE = "host", "unknown"


@dataclass(frozen=True)
class Named:
    """What one of our column names says; ``factor`` is None where ``unit:`` gives it."""

    metric: str
    direction: str
    rate: bool
    factor: float | None
    interface: str | None = None
    device: str | None = None


@dataclass(frozen=True)
class _Column:
    place: int
    metric: str
    direction: str | None
    kind: str
    factor: float
    interface: str | None
    device: str | None


def known_header(header: Sequence[str]) -> bool:
    """True for a time column and at least one value column in our names, in any case."""
    names = [name.strip().lower() for name in header]
    return any(name in _TIMES for name in names) and any(
        _VALUE.fullmatch(name) or _WIDE.fullmatch(name) for name in names
    )


def named(name: str) -> Named | None:
    """The meaning of ``rx_bytes``, ``tx_gbps of Ethernet1 on leaf1`` and so on; None for others."""
    match = _OF.fullmatch(name)
    return None if match is None else _meaning(match)


class Columns:
    """The columns of one table, joined with ``columns:``, ``kind:``, ``unit:`` and so on.

    Raises DumpError where a mapped column is not there, a column stands twice, there is no time or
    no column of bytes. ``line`` is the header's.
    """

    def __init__(self, rows: Rows, header: Sequence[str], line: int | None) -> None:
        self.rows, self.line = rows, line
        self.header = [name.strip() for name in header]
        self.names = self._places()
        self.time_name = self._time_name()
        self.columns = self._columns()
        zone = rows.source.options.get("time_zone")
        self.zone = None if zone is None else str(zone)
        own = "interface" in self.names or any(c.interface is not None for c in self.columns)
        self.interface = (None if own else rows.take_interface()) or _INTERFACE

    def time(self, fields: Sequence[str]) -> tuple[int, int]:
        """(epoch ns, ns of the last digit) of a row; raises ValueError, in words."""
        text = fields[self.names[self.time_name]].strip()
        if self.time_name in _UNITS and text.isascii() and text.isdigit() and len(text) < 22:
            return int(text) * _UNITS[self.time_name], _UNITS[self.time_name]
        if len(text) > 21 and text.lstrip("+-").isdigit():
            raise ValueError("a time outside of the years 1970 to 2099")
        try:
            return printed_ns(text, self.zone)
        except NoOffsetError as error:
            raise ValueError(f"{error}; write `time_zone:` in the manifest") from None
        except ClockChangeError as error:
            raise ValueError(f"no time: {error}") from None
        except ValueError:
            raise ValueError("no time that can be read") from None

    def add(self, fields: Sequence[str], ns: int, stamp: int, line: int | None) -> None:
        """The readings of one row; an empty cell says nothing and is not a zero."""
        rows, names = self.rows, self.names
        device = rows.alias(fields[names["device"]].strip()) if "device" in names else _DEVICE
        interface = (
            fields[names["interface"]].strip() if "interface" in names else self.interface
        ) or _INTERFACE
        bits = rows.source.options.get("bits")
        for column in self.columns:
            text = fields[column.place].strip()
            if not text:
                continue
            try:
                value = _value(text, column)
            except ValueError as error:
                rows.aside("reading", str(error), line)
                continue
            series = rows.series(
                rows.alias(column.device or device or _DEVICE),
                column.interface or interface,
                column.metric,
                column.direction,
                kind=column.kind,
                # Where words or bits became bytes, a wrap is no longer one of whole 2^32 bytes.
                bits=bits if isinstance(bits, int) and column.factor == 1 else 64,
            )
            rows.add(series, ns, value, stamp, line)

    def ends_in_rate(self, fields: Sequence[str]) -> bool:
        """True where the last cell is a rate, which may have lost digits without a trace."""
        rates = {column.place for column in self.columns if column.kind == "rate"}
        return bool(fields[-1].strip()) and len(fields) - 1 in rates

    def _places(self) -> dict[str, int]:
        """Our column name -> place in the table; the manifest's map wins over equal names."""
        mapping = cast("Mapping[str, str]", self.rows.source.options.get("columns") or {})
        there = {name: place for place, name in enumerate(self.header)}
        names: dict[str, int] = {}
        for place, column in enumerate(self.header):
            name = column.lower()
            used = _ours(name) and name not in mapping
            if (used and name in names) or (column in mapping.values() and there[column] != place):
                raise DumpError(
                    self.rows.where(),
                    f"one column {printable(column)}",
                    "two, and nobody can tell which counts",
                    "rename or remove one of them",
                    line=self.line,
                )
            if used:
                names[name] = place
        for ours, theirs in mapping.items():
            if theirs not in there:
                raise DumpError(
                    self.rows.where(),
                    f"a column {theirs} (for {ours}), as the manifest says",
                    f"columns {printable(', '.join(self.header))[:200]}",
                    "correct `columns:` in the manifest",
                    line=self.line,
                )
            if not _ours(ours) and not _OF.fullmatch(ours):
                raise DumpError(
                    self.rows.where(),
                    "one of our column names on the left of `columns:`",
                    printable(ours),
                    f"use {', '.join(_TIMES)}, device, interface, speed_bps, or rx_/tx_ with "
                    "bytes, packets, errors, drops, bytes_per_s or bits_per_s; `rx_bytes of NAME` "
                    "where a row has several interfaces",
                    line=self.line,
                )
            names[ours] = there[theirs]
        return names

    def _time_name(self) -> str:
        mapped = cast("Mapping[str, str]", self.rows.source.options.get("columns") or {})
        order = sorted(_TIMES, key=lambda name: name not in mapped)
        name = next((name for name in order if name in self.names), None)
        if name is None:
            raise DumpError(
                self.rows.where(),
                f"a column with the time ({', '.join(_TIMES)})",
                "none",
                "map it in the manifest: `columns: {ts: NAME}`",
                line=self.line,
            )
        return name

    def _columns(self) -> list[_Column]:
        options = self.rows.source.options
        unit = str(options.get("unit") or "bytes").removesuffix("/s")
        if unit not in FACTORS:
            raise DumpError(
                self.rows.where(),
                "`unit:` bytes, bits or words (kbit, Mbit, Gbit, kB, MB or GB for rates)",
                printable(unit),
                "correct the manifest",
            )
        rate = options.get("kind") == "rate"
        found = [(name, place, _OF.fullmatch(name)) for name, place in self.names.items()]
        out = [_Column(p, n, None, "gauge", 1.0, None, None) for n, p, _ in found if n[0] == "s"]
        values = [(m, place) for _, place, m in found if m is not None]
        if not values:
            # The interface before the name; only where no plain name could be meant.
            values = [
                (m, place)
                for place, column in enumerate(self.header)
                if (m := _WIDE.fullmatch(column)) is not None
            ]
        out += [self._column(match, place, unit, rate) for match, place in values]
        if not any(column.metric == "bytes" for column in out):
            raise DumpError(
                self.rows.where(),
                "a column of bytes (rx_bytes, tx_bytes, rx_bytes_per_s, rx_bits_per_s)",
                "none",
                "map one in the manifest: `columns: {rx_bytes: NAME}`",
                line=self.line,
            )
        return out

    def _column(self, match: re.Match[str], place: int, unit: str, rate: bool) -> _Column:
        said = _meaning(match)
        rate, metric = rate or said.rate, said.metric
        factor = FACTORS[unit] if said.factor is None else said.factor
        if not rate and factor not in _EXACT:
            raise DumpError(
                self.rows.where(),
                "a counter in bytes, bits or words of 4 bytes",
                f"one in {unit if metric == 'bytes' else metric}, which is rounded",
                "write `kind: rate` in the manifest if it is a rate, or export bytes",
                line=self.line,
            )
        kind = "rate" if rate else "counter"
        return _Column(place, metric, said.direction, kind, factor, said.interface, said.device)


def _meaning(match: re.Match[str]) -> Named:
    rate = bool(match["rate"] or match["bitrate"] or match["short"] is not None)
    metric, factor = "bytes", None
    if match["short"] is not None or match["bits"]:
        factor = _SCALES[match["short"] or match["prefix"] or ""] / 8
    else:
        metric = _METRICS.get(match["metric"], match["metric"])
        factor = None if metric == "bytes" else 1.0
        factor = 4.0 if match["metric"] == "words" else factor
    own = match.groupdict()
    return Named(metric, match["direction"], rate, factor, own.get("interface"), own.get("device"))


def _ours(name: str) -> bool:
    known = (*_TIMES, "device", "interface", "speed_bps")
    return name in known or bool(_VALUE.fullmatch(name))


def _value(text: str, column: _Column) -> int | float:
    if column.kind == "counter":
        times, by = _EXACT[column.factor]
        exact = whole(text) * times // by
        if exact >= 1 << 64:
            raise ValueError("the value is above 64 bits")
        return exact
    value = number(text) * column.factor
    if value < 0:
        raise ValueError("a rate cannot be negative")
    if column.metric == "speed_bps" and value == 0:
        raise ValueError("the device does not know its speed")
    return value
