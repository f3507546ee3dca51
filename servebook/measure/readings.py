"""What the counter readings can and cannot tell: do two sources agree, what could a poll hide?

The definitions are plain arithmetic on ``intervals``; no library of ours has them.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa

from servebook.measure.fabric import LINK
from servebook.measure.thin import without

__all__ = ["agreement", "polls"]


def polls(intervals: pd.DataFrame) -> pd.DataFrame:
    """How often each link was read, and the longest burst that one reading could hide.

    Columns: ``LINK``, n_intervals, poll_s (median length), longest_s,
    burst_s. A mean use of u over dt seconds may be one burst at line rate of u x dt seconds;
    ``burst_s`` is the largest such value, NaN where no speed is known. Intervals flagged ``gap``,
    ``reset`` or ``over_speed`` take no part.
    """
    usable = without(intervals, ("gap", "reset", "over_speed"))
    length = (usable["t1_ns"] - usable["t0_ns"]) / 1e9
    timed = usable.assign(length_s=length, burst_s=usable["util_fraction"] * length)
    found = timed.groupby(LINK, sort=True).agg(
        n_intervals=("length_s", "size"),
        poll_s=("length_s", "median"),
        longest_s=("length_s", "max"),
        burst_s=("burst_s", "max"),
    )
    return found.reset_index()


def agreement(intervals: pd.DataFrame, ports: pa.Table) -> pd.DataFrame:
    """Bytes that two sources counted on one interface over the time that both cover.

    Two series are of one interface where device and name are the same, or where the manifest gives
    both the role ``host``, the same node and the same name. Columns: interface, scope, direction,
    device, source, other_device, other_source, t0_ns, t1_ns (the common window), bytes,
    other_bytes, deviation (other over the first, minus 1; NaN where the first counted nothing),
    edge_fraction (the longest reading over the window: how far the edges alone may move the
    deviation). Intervals at the edges count with the share of them that lies inside the window.
    """
    names = {
        (row["device"], row["interface"]): row["node"]
        for row in ports.select(["device", "interface", "role", "node"]).to_pylist()
        if row["role"] == "host" and row["node"] is not None
    }
    series: dict[tuple[str, ...], list[pd.DataFrame]] = {}
    named = ["device", "source", "interface", "scope", "direction"]
    for key, frame in intervals.groupby(named, sort=True):
        device, _, *rest = (str(part) for part in key)
        node = names.get((device, rest[0]))
        owner = f"device {device}" if node is None else f"node {node}"
        series.setdefault((owner, *rest), []).append(frame)
    rows = []
    for (_, interface, scope, direction), frames in sorted(series.items(), key=lambda s: s[0]):
        for one, other in combinations(frames, 2):
            row = _compare(one, other)
            if row is not None:
                rows.append(
                    {
                        "interface": interface,
                        "scope": scope,
                        "direction": direction,
                        "device": one["device"].iloc[0],
                        "source": one["source"].iloc[0],
                        "other_device": other["device"].iloc[0],
                        "other_source": other["source"].iloc[0],
                        **row,
                    }
                )
    columns = ["interface", "scope", "direction", "device", "source", "other_device"]
    columns += ["other_source", "t0_ns", "t1_ns", "bytes", "other_bytes", "deviation"]
    return pd.DataFrame(rows, columns=[*columns, "edge_fraction"])


def _compare(one: pd.DataFrame, other: pd.DataFrame) -> dict[str, float] | None:
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
