"""Thin a long series for drawing so that its peaks survive: minimum, median and maximum per bin.

A picture of 640 px cannot show more than some hundred points, and a mean per bin would hide the
short bursts that a network engineer looks for. Envelopes keep every extreme. No library of ours
thins intervals with gaps between them, hence this module.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.intervals import flagged

__all__ = ["LIMIT", "envelope", "segments", "steps", "without"]

LIMIT = 300  # a curve is some 550 px wide
_PORT = ("source", "device", "interface", "scope", "direction")
_BREAKS = frozenset({"gap", "reset"})


def without(intervals: pd.DataFrame, flags: Collection[str]) -> pd.DataFrame:
    """The intervals that carry none of ``flags``."""
    unwanted = frozenset(flags)
    return intervals[flagged(intervals["flags"], unwanted.isdisjoint)]


def segments(intervals: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The intervals that a line may join, with the column ``segment`` (0, 1, ... per series).

    Intervals flagged ``gap`` or ``reset`` are left out, and a new segment begins after them and
    wherever time is not covered. ``by`` names the columns of one series; where several ports share
    a series, time is covered if one of them covers it. Sorted by series, t0_ns, t1_ns.
    """
    usable = without(intervals, _BREAKS)
    ties = [c for c in _PORT if c not in by and c in usable]
    usable = usable.sort_values([*by, "t0_ns", "t1_ns", *ties], kind="stable", ignore_index=True)
    numbers = np.zeros(len(usable), dtype=np.int64)
    if len(usable):
        for rows in usable.groupby(list(by), sort=True, observed=True).indices.values():
            t0 = usable["t0_ns"].to_numpy()[rows]
            covered = np.maximum.accumulate(usable["t1_ns"].to_numpy()[rows])
            numbers[rows[1:]] = np.cumsum(t0[1:] > covered[:-1])
    return usable.assign(segment=numbers)


def envelope(
    segmented: pd.DataFrame, by: Sequence[str], value: str, limit: int = LIMIT
) -> pd.DataFrame:
    """At most ``limit`` rows per series, plus one per segment, with the extremes of ``value``.

    Takes the result of ``segments``; returns ``by``, segment, t0_ns, t1_ns, low, mid (median),
    high, n (intervals in the row). A series that is short enough keeps its intervals as they are.
    Others are cut into bins of equal time; an interval belongs to the bin that holds its
    middle, and no bin crosses a segment. NaN values are left out. Raises ValueError for a limit
    below 1.
    """
    if limit < 1:
        raise ValueError(f"expected a limit of at least 1, found {limit}")
    keys = [*by, "segment", "t0_ns", "t1_ns"]
    ports = [c for c in _PORT if c not in by and c in segmented]
    known = segmented.dropna(subset=[value])
    parts = []
    for name, series in known.groupby(list(by), sort=True, observed=True):
        t0, t1 = series["t0_ns"].to_numpy(), series["t1_ns"].to_numpy()
        moments, position = np.unique(t0, return_inverse=True)
        longest = int(series.groupby(ports, sort=False).size().max()) if ports else len(series)
        if len(moments) <= min(limit, longest):
            bins = position
        else:
            # Ports of one series that are not read at the same instant share bins of equal time.
            start, end = int(t0.min()), int(t1.max())
            middle = (t0 - start) + (t1 - t0) // 2
            bins = middle * min(limit, longest) // max(1, end - start)
        grouped = series.assign(bin=bins).groupby(["segment", "bin"], sort=True)
        rows = grouped.agg(
            t0_ns=("t0_ns", "min"),
            t1_ns=("t1_ns", "max"),
            low=(value, "min"),
            mid=(value, "median"),
            high=(value, "max"),
            n=(value, "size"),
        ).reset_index()
        labels: dict[str, Any] = dict(zip(by, name, strict=True))
        parts.append(rows.assign(**labels))
    columns = [*keys, "low", "mid", "high", "n"]
    if not parts:
        return pd.DataFrame({c: pd.Series(dtype="float64") for c in columns})
    return pd.concat(parts, ignore_index=True)[columns]


def steps(enveloped: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The envelope as points of a step line: each row at its t0_ns, and one that closes a segment.

    Adds the column t_ns. A rate holds over its whole interval, so a line drawn "step-after"
    through these points is exact where nothing was thinned. Points that repeat the one before
    them are left out, which changes nothing of the line.
    """
    if enveloped.empty:
        return enveloped.assign(t_ns=pd.Series(dtype="float64"))
    series = [*by, "segment"]
    points = enveloped.assign(t_ns=enveloped["t0_ns"], _closing=0)
    last = points.groupby(series, sort=True, observed=True).tail(1)
    last = last.assign(t_ns=last["t1_ns"], _closing=1)
    together = pd.concat([points, last], ignore_index=True)
    together = together.sort_values([*series, "t_ns", "_closing"], kind="stable", ignore_index=True)
    shape = [*series, "low", "mid", "high"]
    repeats = (together[shape] == together[shape].shift()).all(axis="columns")
    kept = together[~repeats | (together["_closing"] == 1)]
    return kept.drop(columns="_closing").reset_index(drop=True)
