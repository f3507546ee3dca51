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
_PORT = ["interface", "scope", "direction", "kind"]
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
    for (form, device), stream, rows, packets in _streams(frame):
        renewed = refreshes(_stamps(rows))
        packets_of = dict(iter(packets.groupby(_PORT, sort=True)))
        for key, values in rows.groupby(_PORT, sort=True):
            interface, scope, direction, kind = (str(part) for part in key)
            if kind == "counter":
                own = packets_of.get(key, packets.head(0))
                part = _counter(values, own, renewed, restarts.get((stream, device)))
            elif kind == "rate":
                part = _rate(values)
            else:
                continue
            part = _finish(part, speeds.get((device, interface), np.nan))
            names = (stream, form, device, interface, scope, direction, kind)
            for column, name in zip(_NAMES, names, strict=True):
                part[column] = name
            parts.append(part)
    if not parts:
        return _empty()
    order = ["device", "interface", "scope", "direction", "source", "t0_ns"]
    out = pd.concat(parts, ignore_index=True)
    # Rows with the same flags share one list: many thousand of them have the same few.
    out["flags"] = pd.Series(_FLAG_SETS[out["flags"].to_numpy(dtype=np.int64)], dtype=object)
    return out[list(COLUMNS)].sort_values(order, kind="stable", ignore_index=True)


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
    columns = {
        name: samples[name].combine_chunks().to_pandas()
        for name in ("source", "format", "device", "interface", "metric", "scope", "direction")
    }
    columns |= {name: samples[name].to_pandas() for name in ("kind", "ts_kind", "value")}
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
        for stream, part in values.groupby(values["source"].map(stream_of), sort=True):
            yield (str(form), str(device)), str(stream), part, packets


def _ordered(series: pd.DataFrame) -> pd.DataFrame:
    """In time order; of several readings at one instant the first in the file."""
    ordered = series.sort_values("ts_ns", kind="stable")
    return ordered.drop_duplicates("ts_ns", keep="first")


def _stamps(rows: pd.DataFrame) -> list[tuple[Ints, npt.NDArray[np.bool_]]]:
    out = []
    for _, series in rows[rows["kind"] == "counter"].groupby(_PORT, sort=True):
        ordered = _ordered(series)
        at, count = ordered["ts_ns"].to_numpy(), ordered["count"].to_numpy()
        out.append((at, np.append(False, count[1:] != count[:-1])))
    return out


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
    values: pd.DataFrame,
    packets: pd.DataFrame,
    renewed: tuple[Ints, int] | None,
    restarts: Ints | None,
) -> pd.DataFrame:
    ordered = _ordered(values)
    at = ordered["ts_ns"].to_numpy()
    kept = _kept(at, renewed)
    if len(kept) < 2:
        return _empty()[["t0_ns", "t1_ns", "bytes", "packets", "flags"]]
    at = at[kept]
    count = ordered["count"].to_numpy()[kept]
    grid = (ordered["ts_kind"] == "grid").to_numpy()[kept]
    moved, wrap, reset = _differences(count, ordered["bits"].to_numpy()[kept][1:])
    if restarts is not None and len(restarts):
        reset |= np.searchsorted(restarts, at[1:], "right") > np.searchsorted(
            restarts, at[:-1], "right"
        )
    moved[reset] = np.nan
    return pd.DataFrame(
        {
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
    )


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


def _lookup(packets: pd.DataFrame, at: Ints) -> npt.NDArray[np.float64]:
    """Packets between the times ``at``; NaN where there is no reading or the counter fell."""
    if packets.empty:
        return np.full(len(at) - 1, np.nan)
    ordered = _ordered(packets)
    times, count = ordered["ts_ns"].to_numpy(), ordered["count"].to_numpy()
    place = np.minimum(np.searchsorted(times, at), len(times) - 1)
    there = times[place] == at
    moved, _, reset = _differences(count[place], ordered["bits"].to_numpy()[place][1:])
    return np.where(there[1:] & there[:-1] & ~reset, moved, np.nan)


def _rate(values: pd.DataFrame) -> pd.DataFrame:
    """Each reading of a rate stands for the time since the reading before."""
    ordered = _ordered(values)
    at = ordered["ts_ns"].to_numpy()
    seconds = np.diff(at) / 1e9
    return pd.DataFrame(
        {
            "t0_ns": at[:-1],
            "t1_ns": at[1:],
            "bytes": ordered["value"].to_numpy()[1:] * seconds,
            "packets": np.full(len(seconds), np.nan),
            "flags": _flags(grid=(ordered["ts_kind"] == "grid").to_numpy()[1:]),
        }
    )


def _finish(part: pd.DataFrame, speed: float) -> pd.DataFrame:
    """Adds the rate, the utilisation and the flags that need them."""
    if part.empty:
        return part.assign(rate_bps=np.nan, speed_bps=speed, util_fraction=np.nan)
    span = (part["t1_ns"] - part["t0_ns"]).to_numpy()
    rate = part["bytes"].to_numpy() * 8e9 / span
    gap = span > _GAP_FACTOR * np.median(span)
    over = rate > _SPEED_SLACK * speed
    extra = _flags(gap=gap, over_speed=over)
    part["flags"] |= extra
    return part.assign(rate_bps=rate, speed_bps=speed, util_fraction=rate / speed)


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
