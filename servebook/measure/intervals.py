"""From counter readings to intervals: bytes between two readings, and what is wrong with them.

Differences are taken per counter over its own time stamps, never over a nominal interval. A value
that falls is a reset, or a wrap where the counter's width says so (2^32, or 2^53 for
snmp_exporter, which takes counters modulo 2^53); never a wrap at 2^64, which would take years.
Where a device renews its counters more slowly than it is read, values repeat and then jump:
``refreshes`` finds such devices, and differences are taken between renewals only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from servebook.measure.counter_series import Series, categories, series_of
from servebook.measure.once import once

__all__ = ["COLUMNS", "EXCLUDED", "flag_sets", "flagged", "good", "intervals", "refreshes"]

Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.uint64]

COLUMNS = (
    "source",  # first file of the series
    "format",
    "device",
    "interface",
    "scope",
    "direction",
    "t0_ns",
    "t1_ns",
    "bytes",
    "packets",
    "rate_bps",  # bit/s, layer 2 as the counter counts it
    "speed_bps",
    "util_fraction",
    "source_kind",
    "flags",
)
#: Intervals with one of these flags say nothing about a usual or highest rate.
EXCLUDED = frozenset({"reset", "gap", "over_speed"})

_FLAGS = ("gap", "grid", "over_speed", "reset", "sticky_merged", "wrap")
_FLAG_SETS = np.empty(1 << len(_FLAGS), dtype=object)
for _code in range(len(_FLAG_SETS)):
    _FLAG_SETS[_code] = [name for place, name in enumerate(_FLAGS) if _code >> place & 1]
_NAMES = ("source", "format", "device", "interface", "scope", "direction", "source_kind")
_ORDER = ("device", "interface", "scope", "direction", "source")
_LINK_SCOPES = ("port", "rdma")
_GAP_FACTOR = 3.0  # longer than this many usual spacings: nobody watched
_SPEED_SLACK = 1.02  # clocks are not better than this
_WRAP_53, _WRAP_32 = 1 << 53, 1 << 32
_NEAR = 0.9  # a wrap starts above this share of the width
_MIN_RENEWALS = 8  # fewer changes do not show a pattern
_STICKY_SHARE = 0.8  # changes that follow a repeated value
_REGULAR_SHARE = 0.7  # spacings of changes within one reading of the usual one
_PAUSE = 1.75  # renewal spacings without a change that show an idle link (two, less jitter)


@once
def intervals(samples: pa.Table, ports: pa.Table) -> pd.DataFrame:
    """One row per pair of neighbouring readings of a byte counter (or per reading of a rate).

    ``samples`` and ``ports`` have the schemas of those names. Returns the columns ``COLUMNS``,
    ordered by device, interface, scope, direction, source and time. ``bytes`` (exact below 2^53)
    and ``packets`` are NaN where a reset hides them; for ``source_kind`` "rate" bytes are rate x
    time. ``util_fraction`` is bytes x 8 / time / speed (layer 2), NaN without a speed from the
    manifest or the device. ``flags`` is a sorted list of sticky_merged (several readings between
    two renewals), wrap, reset, gap (longer than 3 usual spacings), over_speed (above 1.02 x speed)
    and grid (times are a query's grid, not the readings'). Files of one format that follow each
    other in time are one series; files that overlap stay apart and are never added up.
    """
    frame = _frame(samples)
    speeds = _speeds(frame, ports)
    restarts = _restarts(frame)
    parts = []
    names: list[tuple[str, ...]] = []
    for (form, device), stream, rows, packets in _streams(frame):
        series = dict(series_of(rows))
        packets_of = dict(series_of(packets))
        moved = [_moves(one) for key, one in series.items() if key[-1] == "counter"]
        renewed = refreshes(moved)
        for key, values in series.items():
            interface, scope, direction, kind = key
            if kind == "counter":
                restart = restarts.get((stream, device))
                part = _counter(values, packets_of.get(key), renewed, restart)
            elif kind == "rate":
                part = _rate(values)
            else:
                continue
            parts.append(_finish(part, speeds.get((device, interface), np.nan)))
            names.append((stream, form, device, interface, scope, direction, kind))
    if not parts:
        return _empty()
    return _joined(parts, names)


def _joined(parts: list[dict[str, npt.NDArray[Any]]], names: list[tuple[str, ...]]) -> pd.DataFrame:
    """All parts as one frame, in order; ``names`` are those of each part, by ``_NAMES``."""
    columns: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0]
    }
    # Rows with the same flags share one list: many thousand of them have the same few.
    columns["flags"] = _FLAG_SETS[columns["flags"]]
    part = np.repeat(np.arange(len(parts)), [len(one["t0_ns"]) for one in parts])
    for place, name in enumerate(_NAMES):
        known = sorted({own[place] for own in names})
        codes = np.array([known.index(own[place]) for own in names], dtype=np.int64)
        columns[name] = pd.Categorical.from_codes(codes[part], dtype=pd.CategoricalDtype(known))
    order = [_NAMES.index(name) for name in _ORDER]
    keys = [tuple(own[place] for place in order) for own in names]
    rank = {key: place for place, key in enumerate(sorted(set(keys)))}
    rows = np.lexsort((columns["t0_ns"], np.array([rank[key] for key in keys])[part]))
    return pd.DataFrame({name: columns[name][rows] for name in COLUMNS})


def flag_sets(flags: pd.Series) -> tuple[list[list[str]], Ints]:
    """The lists of a column ``flags``, each object once, and the place there of each row's."""
    values = flags.to_numpy()
    place, ids = pd.factorize(np.fromiter(map(id, values), dtype=np.int64, count=len(values)))
    first = np.empty(len(ids), dtype=np.int64)
    first[place[::-1]] = np.arange(len(values))[::-1]
    return list(values[first]), place


def flagged(flags: pd.Series, about: Callable[[list[str]], bool]) -> npt.NDArray[np.bool_]:
    """What ``about`` says of the flags of each row; it is asked once per list."""
    sets, place = flag_sets(flags)
    # An explicit dtype: an empty list would select columns, not rows.
    return np.array([about(one) for one in sets], dtype=bool)[place]


def good(frame: pd.DataFrame) -> pd.DataFrame:
    """The intervals whose rate can be trusted: none of the flags in ``EXCLUDED``."""
    return frame[flagged(frame["flags"], EXCLUDED.isdisjoint)]


def refreshes(stamps: Sequence[tuple[Ints, npt.NDArray[np.bool_]]]) -> tuple[Ints, int] | None:
    """When a device renewed its counters, where it does so more slowly than it is read.

    ``stamps`` holds, per counter of the device, the times of its readings and whether the value
    changed there. Returns the times of the renewals and their usual spacing in ns, or None where
    values do not repeat in a regular way: then a repeated value is an idle link. Renewals must be
    at least 8, at least 80 % of them must follow a reading without any change, and 70 % of
    their spacings must be within one reading of the usual one, which is at least two readings.
    """
    every = np.unique(np.concatenate([at for at, _ in stamps] or [np.empty(0, np.int64)]))
    changed = np.unique(
        np.concatenate([at[moved] for at, moved in stamps] or [np.empty(0, np.int64)])
    )
    if len(changed) < _MIN_RENEWALS:
        return None
    places = np.searchsorted(every, changed)
    spacings = np.diff(places)
    usual = float(np.median(spacings))
    after_repeat = np.mean(spacings > 1)
    regular = np.mean(np.abs(spacings - usual) <= 1)
    if usual < 2 or after_repeat < _STICKY_SHARE or regular < _REGULAR_SHARE:
        return None
    return changed, int(np.median(np.diff(changed)))


def _frame(samples: pa.Table) -> pd.DataFrame:
    """The samples of links, with exact counts as uint64 and values as float.

    A queue or priority is a part of its port, and PCIe or NVLink no link of the network.
    """
    samples = samples.filter(pc.is_in(samples["scope"], pa.array(_LINK_SCOPES)))
    named = ("source", "format", "device", "interface", "metric", "scope", "direction")
    columns: dict[str, Any] = {
        name: categories(samples[name]) for name in (*named, "kind", "ts_kind")
    }
    columns["value"] = samples["value"].to_numpy()
    columns["ts_ns"] = samples["ts_ns"].to_numpy()
    columns["bits"] = samples["bits"].fill_null(64).to_numpy()
    columns["count"] = samples["count"].fill_null(0).to_numpy()
    return pd.DataFrame(columns)


def _speeds(frame: pd.DataFrame, ports: pa.Table) -> dict[tuple[str, str], float]:
    """Speed per (device, interface): the manifest's, else the last that the device stated."""
    own = frame[(frame["metric"] == "speed_bps") & (frame["value"] > 0)]
    own = own.sort_values("ts_ns", kind="stable")
    speeds = {
        (str(device), str(interface)): float(speed)
        for device, interface, speed in zip(
            own["device"], own["interface"], own["value"], strict=True
        )
    }
    for row in ports.to_pylist():
        if row["speed_bps"]:
            speeds[row["device"], row["interface"]] = float(row["speed_bps"])
    return speeds


def _restarts(frame: pd.DataFrame) -> dict[tuple[str, str], Ints]:
    """Times of the first reading after a device's uptime fell, per (source, device)."""
    out = {}
    for (source, device), rows in frame[frame["metric"] == "uptime_s"].groupby(
        ["source", "device"], sort=True
    ):
        ordered = rows.sort_values("ts_ns", kind="stable")
        uptime = ordered["value"].to_numpy()
        # sysUpTime itself wraps after 497 days (2^32 ticks of 10 ms).
        fell = (uptime[1:] < uptime[:-1]) & (uptime[:-1] < _NEAR * _WRAP_32 / 100)
        out[str(source), str(device)] = ordered["ts_ns"].to_numpy()[1:][fell]
    return out


def _streams(
    frame: pd.DataFrame,
) -> Iterator[tuple[tuple[str, str], str, pd.DataFrame, pd.DataFrame]]:
    """Byte readings per device and stream, with all packet readings of the device.

    A stream is the files of one format that follow each other in time, named by its first.
    """
    usable = frame[frame["direction"].notna() & frame["interface"].notna()]
    for (form, device), rows in usable.groupby(["format", "device"], sort=True):
        values = rows[rows["metric"] == "bytes"]
        span = values.groupby("source", sort=True)["ts_ns"].agg(["min", "max"]).reset_index()
        span = span.sort_values(["min", "max", "source"], kind="stable")
        ends: list[int] = []
        names: list[str] = []
        stream_of: dict[str, str] = {}
        for source, first, last in zip(span["source"], span["min"], span["max"], strict=True):
            place = next((i for i, end in enumerate(ends) if end < first), len(ends))
            if place == len(ends):
                ends.append(last)
                names.append(source)
            ends[place] = last
            stream_of[source] = names[place]
        packets = rows[rows["metric"] == "packets"]
        if not names:
            continue
        streams = sorted(names)
        files = values["source"].cat
        # A file without a value has no stream, and no row that would ask for it.
        stream = [streams.index(stream_of.get(str(name), names[0])) for name in files.categories]
        place_of = np.array(stream, dtype=np.int64)[files.codes.to_numpy()]
        for place, name in enumerate(streams):
            yield (str(form), str(device)), name, values.loc[place_of == place], packets


def _moves(one: Series) -> tuple[Ints, npt.NDArray[np.bool_]]:
    return one.times, np.append(False, one.counts[1:] != one.counts[:-1])


def _kept(at: Ints, renewed: tuple[Ints, int] | None) -> Ints:
    """Places of the readings to difference: all, or those where the device renewed its values.

    A pause much longer than the usual spacing is an idle link: its readings stay, up to one usual
    spacing before the next change, since the traffic may lie anywhere in that last stretch.
    Readings before the first renewal that are not idle by that rule give no interval.
    """
    if renewed is None:
        return np.arange(len(at))
    times, spacing = renewed
    is_renewal = np.isin(at, times)
    following = np.searchsorted(times, at, side="left")
    until_next = np.append(times, at[-1])[following] - at
    since_last = np.where(following > 0, at - times[np.maximum(following - 1, 0)], at - at[0])
    pause = until_next + since_last > _PAUSE * spacing
    return np.flatnonzero(is_renewal | (pause & (until_next >= spacing)))


def _counter(
    values: Series,
    packets: Series | None,
    renewed: tuple[Ints, int] | None,
    restarts: Ints | None,
) -> dict[str, npt.NDArray[Any]]:
    kept = _kept(values.times, renewed)
    at = values.times[kept]
    count, grid = values.counts[kept], values.grid[kept]
    moved, wrap, reset = _differences(count, values.bits[kept][1:])
    if restarts is not None and len(restarts):
        reset |= np.searchsorted(restarts, at[1:], "right") > np.searchsorted(
            restarts, at[:-1], "right"
        )
    moved[reset] = np.nan
    return {
        "t0_ns": at[:-1],
        "t1_ns": at[1:],
        "bytes": moved,
        "packets": _lookup(packets, at),
        "flags": _flags(
            sticky_merged=np.diff(kept) > 1,
            wrap=wrap & ~reset,
            reset=reset,
            grid=grid[1:] | grid[:-1],
        ),
    }


def _differences(
    count: Counts, bits: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Increase, whether the counter wrapped, and whether it was reset, per pair of readings."""
    old, new = count[:-1], count[1:]
    fell = new < old
    narrow = fell & (bits == 32)
    limit = np.uint64(int(_NEAR * _WRAP_53))
    wide = fell & (bits == 53) & (old > limit) & (old < np.uint64(_WRAP_53))
    # Unsigned differences are exact also where both values are above 2^53.
    moved = (new - old).astype(np.float64)
    moved[narrow] = (new[narrow] + np.uint64(_WRAP_32) - old[narrow]).astype(np.float64)
    moved[wide] = (new[wide] + np.uint64(_WRAP_53) - old[wide]).astype(np.float64)
    return moved, narrow | wide, fell & ~narrow & ~wide


def _lookup(packets: Series | None, at: Ints) -> npt.NDArray[np.float64]:
    """Packets between the times ``at``; NaN where there is no reading or the counter fell."""
    if packets is None:
        return np.full(max(len(at) - 1, 0), np.nan)
    place = np.minimum(np.searchsorted(packets.times, at), len(packets.times) - 1)
    there = packets.times[place] == at
    moved, _, reset = _differences(packets.counts[place], packets.bits[place][1:])
    return np.where(there[1:] & there[:-1] & ~reset, moved, np.nan)


def _rate(values: Series) -> dict[str, npt.NDArray[Any]]:
    """Each reading of a rate stands for the time since the reading before."""
    seconds = np.diff(values.times) / 1e9
    return {
        "t0_ns": values.times[:-1],
        "t1_ns": values.times[1:],
        "bytes": values.value[1:] * seconds,
        "packets": np.full(len(seconds), np.nan),
        "flags": _flags(grid=values.grid[1:]),
    }


def _finish(part: dict[str, npt.NDArray[Any]], speed: float) -> dict[str, npt.NDArray[Any]]:
    """Adds the rate, the utilisation and the flags that need them."""
    span = part["t1_ns"] - part["t0_ns"]
    rate = part["bytes"] * 8e9 / span
    gap = span > _GAP_FACTOR * np.median(span) if len(span) else np.zeros(0, dtype=bool)
    part["flags"] |= _flags(gap=gap, over_speed=rate > _SPEED_SLACK * speed)
    stated = np.full(len(span), speed)
    return part | {"rate_bps": rate, "speed_bps": stated, "util_fraction": rate / speed}


def _flags(**marks: npt.NDArray[np.bool_]) -> Ints:
    """Which flags each row has, as a sum of powers of two by their place in ``_FLAGS``."""
    codes = np.zeros(len(next(iter(marks.values()))), dtype=np.int64)
    for name, there in marks.items():
        codes |= there.astype(np.int64) << _FLAGS.index(name)
    return codes


def _empty() -> pd.DataFrame:
    numbers = ("bytes", "packets", "rate_bps", "speed_bps", "util_fraction")
    types = dict.fromkeys(numbers, "float64") | {"t0_ns": "int64", "t1_ns": "int64"}
    return pd.DataFrame({name: pd.Series([], dtype=types.get(name, "object")) for name in COLUMNS})
