"""What a reader must know about the counters, in sentences: overlap, clocks, flags, speeds."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa

from servebook.measure.fabric_nodes import one_source
from servebook.measure.intervals import flag_sets

__all__ = ["findings"]

_FLAG_WORDS = {
    "reset": "a counter fell, so {n:,} of {of:,} intervals have no value (reset or restart)",
    "wrap": "{n:,} of {of:,} intervals span a wrap of the counter and were corrected",
    "gap": "{n:,} of {of:,} intervals are longer than three usual ones; nobody watched there",
    "over_speed": "{n:,} of {of:,} intervals lie above the link's speed and are left out of peaks",
    "sticky_merged": "the device renews its counters more slowly than they are read: differences "
    "are taken between renewals ({n:,} of {of:,} intervals)",
    "grid": "times are those of a query, not of the readings; each may be up to one scrape older",
}


def findings(intervals: pd.DataFrame, phases: pd.DataFrame, runs: pa.Table) -> tuple[str, ...]:
    """Sentences on counters that overlap no run, runs without counters or clock, and flags.

    ``phases`` is what ``fabric.phases`` gives for ``runs``. Sorted by subject, the same for the
    same tables.
    """
    return (
        *_apart(intervals, phases),
        *_uncovered(intervals, phases, runs),
        *_flagged(intervals),
        *_without_speed(intervals),
        *one_source(intervals)[1],
    )


def _apart(intervals: pd.DataFrame, phases: pd.DataFrame) -> list[str]:
    runs = [(int(a), int(b)) for a, b in zip(phases["t0_ns"], phases["t1_ns"], strict=True)]
    out = []
    for source, frame in intervals.groupby("source", sort=True):
        start, end = int(frame["t0_ns"].min()), int(frame["t1_ns"].max())
        if runs and not any(t0 < end and t1 > start for t0, t1 in runs):
            near = min(start - t1 if t1 <= start else t0 - end for t0, t1 in runs)
            out.append(
                f"{source}: read from {_utc(start)} to {_utc(end)}, which overlaps no run; the "
                f"nearest is {near / 1e9:,.0f} s away (a clock offset or time zone goes into the "
                "manifest)"
            )
    return out


def _uncovered(intervals: pd.DataFrame, phases: pd.DataFrame, runs: pa.Table) -> list[str]:
    out = []
    placed = set(phases["run_id"])
    unplaced = [name for name in runs["run_id"].to_pylist() if name not in placed]
    if unplaced:
        out.append(
            f"{len(unplaced)} of {runs.num_rows} runs have no position beside the counters, since "
            f"their dumps hold no wall clock: {_some(unplaced)}"
        )
    start, end = intervals["t0_ns"].to_numpy(), intervals["t1_ns"].to_numpy()
    unwatched = [
        name
        for name, t0, t1 in zip(phases["run_id"], phases["t0_ns"], phases["t1_ns"], strict=True)
        if not ((start < t1) & (end > t0)).any()
    ]
    if unwatched:
        n = "1 run" if len(unwatched) == 1 else f"{len(unwatched)} runs"
        out.append(f"{n} went on while no counter was read: {_some(unwatched)}")
    return out


def _flagged(intervals: pd.DataFrame) -> list[str]:
    out = []
    for (source, device), frame in intervals.groupby(["source", "device"], sort=True):
        counts: Counter[str] = Counter()
        sets, place = flag_sets(frame["flags"])
        for flags, n in zip(sets, np.bincount(place, minlength=len(sets)).tolist(), strict=True):
            counts.update(dict.fromkeys(flags, n))
        out += [
            f"{source} ({device}): " + words.format(n=counts[flag], of=len(frame))
            for flag, words in _FLAG_WORDS.items()
            if counts[flag]
        ]
    return out


def _without_speed(intervals: pd.DataFrame) -> list[str]:
    missing = intervals[intervals["speed_bps"].isna()]
    links = sorted(
        {f"{d} {i}" for d, i in zip(missing["device"], missing["interface"], strict=True)}
    )
    if not links:
        return []
    return [f"no speed is stated for {_some(links)}; their use is given in bytes, not in percent"]


def _some(names: list[str], limit: int = 4) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def _utc(ns: int) -> str:
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
