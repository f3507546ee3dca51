"""What the counter readings can and cannot tell: do two sources agree, what could a poll hide?

The definitions are plain arithmetic on ``intervals``; no library of ours has them.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa

from servebook.measure.thin import without

__all__ = ["agreement", "polls"]

_LINK = ["device", "interface", "direction"]


def polls(intervals: pd.DataFrame) -> pd.DataFrame:
    """How often each link was read, and the longest burst that one reading could hide.

    Columns: device, interface, direction, n_intervals, poll_s (median length), longest_s,
    burst_s. A mean use of u over dt seconds may be one burst at line rate of u x dt seconds;
    ``burst_s`` is the largest such value, NaN where no speed is known. Intervals flagged ``gap``,
    ``reset`` or ``over_speed`` take no part.
    """
    usable = without(intervals, ("gap", "reset", "over_speed"))
    length = (usable["t1_ns"] - usable["t0_ns"]) / 1e9
    timed = usable.assign(length_s=length, burst_s=usable["util_fraction"] * length)
    found = timed.groupby(_LINK, sort=True).agg(
        n_intervals=("length_s", "size"),
        poll_s=("length_s", "median"),
        longest_s=("length_s", "max"),
        burst_s=("burst_s", "max"),
    )
    return found.reset_index()


def agreement(intervals: pd.DataFrame, ports: pa.Table) -> pd.DataFrame:
    """Bytes that two sources counted on one interface over the time that both cover.

    Two readings are of one interface where the manifest gives both the role ``host``, the same
    node and the same interface name under different devices. Columns: node, interface, direction,
    device, other, t0_ns, t1_ns (the common window), bytes, other_bytes, deviation (other over the
    first, minus 1; NaN where the first counted nothing), edge_fraction (the longer reading over
    the window: how far the edges alone may move the deviation). Intervals at the edges count
    with the share of them that lies inside the window.
    """
    stated = ports.select(["device", "interface", "role", "node"]).to_pandas()
    hosts = stated[(stated["role"] == "host") & stated["node"].notna()]
    rows = []
    for (node, interface), group in hosts.groupby(["node", "interface"], sort=True):
        for device, other in combinations(sorted(set(group["device"])), 2):
            for direction in ("rx", "tx"):
                pair = [_series(intervals, d, str(interface), direction) for d in (device, other)]
                row = _compare(pair[0], pair[1])
                if row is not None:
                    rows.append(
                        {
                            "node": node,
                            "interface": interface,
                            "direction": direction,
                            "device": device,
                            "other": other,
                            **row,
                        }
                    )
    columns = ["node", "interface", "direction", "device", "other", "t0_ns", "t1_ns"]
    columns += ["bytes", "other_bytes", "deviation", "edge_fraction"]
    return pd.DataFrame(rows, columns=columns)


def _series(intervals: pd.DataFrame, device: str, interface: str, direction: str) -> pd.DataFrame:
    return intervals[
        (intervals["device"] == device)
        & (intervals["interface"] == interface)
        & (intervals["direction"] == direction)
    ]


def _compare(one: pd.DataFrame, other: pd.DataFrame) -> dict[str, float] | None:
    if one.empty or other.empty:
        return None
    t0 = max(int(one["t0_ns"].min()), int(other["t0_ns"].min()))
    t1 = min(int(one["t1_ns"].max()), int(other["t1_ns"].max()))
    if t1 <= t0:
        return None
    first, second = _within(one, t0, t1), _within(other, t0, t1)
    longest = max(
        float((f["t1_ns"] - f["t0_ns"])[(f["t0_ns"] < t1) & (f["t1_ns"] > t0)].max())
        for f in (one, other)
    )
    return {
        "t0_ns": t0,
        "t1_ns": t1,
        "bytes": first,
        "other_bytes": second,
        "deviation": second / first - 1 if first > 0 else np.nan,
        "edge_fraction": longest / (t1 - t0),
    }


def _within(series: pd.DataFrame, t0: int, t1: int) -> float:
    start, end = series["t0_ns"].to_numpy(), series["t1_ns"].to_numpy()
    inside = np.clip(np.minimum(end, t1) - np.maximum(start, t0), 0, None)
    return float(np.nansum(series["bytes"].to_numpy(dtype=float) * inside / (end - start)))
