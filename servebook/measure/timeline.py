"""The time axis of the counters: stretches that were watched, the runs inside them, the breaks.

Counters are often taken in several sittings, hours apart. One axis over all of them would show
nothing, so the axis is cut where neither a counter was read nor a run went on.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pandas as pd

from servebook.measure.intervals import flagged

__all__ = ["bands", "breaks", "outside", "stretches"]

PAUSE_S = 300.0
_BREAKS = frozenset({"gap", "reset"})


def stretches(
    intervals: pd.DataFrame, phases: pd.DataFrame, pause_s: float = PAUSE_S
) -> pd.DataFrame:
    """The stretches of time that the counters cover, cut at pauses longer than ``pause_s``.

    A phase that overlaps a stretch belongs to it whole. Columns: stretch (0, 1, ...), t0_ns,
    t1_ns, n_phases.
    """
    ordered = np.argsort(intervals["t0_ns"].to_numpy(), kind="stable")
    starts = intervals["t0_ns"].to_numpy()[ordered]
    reach = np.maximum.accumulate(intervals["t1_ns"].to_numpy()[ordered])
    cuts = np.flatnonzero(starts[1:] - reach[:-1] > pause_s * 1e9) + 1
    firsts = [0, *cuts.tolist()] if len(starts) else []
    rows = []
    for number, (first, after) in enumerate(pairwise([*firsts, len(starts)])):
        t0, t1 = int(starts[first]), int(reach[after - 1])
        inside = phases[(phases["t0_ns"] < t1) & (phases["t1_ns"] > t0)]
        rows.append(
            {
                "stretch": number,
                "t0_ns": min([t0, *inside["t0_ns"]]),
                "t1_ns": max([t1, *inside["t1_ns"]]),
                "n_phases": len(inside),
            }
        )
    return pd.DataFrame(rows, columns=["stretch", "t0_ns", "t1_ns", "n_phases"])


def bands(phases: pd.DataFrame, watched: pd.DataFrame) -> pd.DataFrame:
    """The phases inside the stretches, and which neighbours share a label.

    Columns: those of ``phases`` plus stretch and ``group`` (0, 1, ... along time; consecutive
    phases of one configuration and workload in one stretch are one group). Sorted by time.
    """
    parts = []
    for number, row in enumerate(watched.itertuples()):
        inside = phases[(phases["t0_ns"] < row.t1_ns) & (phases["t1_ns"] > row.t0_ns)]
        parts.append(inside.assign(stretch=number))
    found = pd.concat(parts, ignore_index=True) if parts else phases.head(0).assign(stretch=0)
    found = found.sort_values(["stretch", "t0_ns", "t1_ns", "run_id"], kind="stable")
    found = found.reset_index(drop=True)
    labels = found[["stretch", "configuration", "workload"]].to_numpy(dtype=object)
    keys = [tuple("" if pd.isna(v) else v for v in row) for row in labels]
    changed = [before != here for before, here in pairwise(keys)]
    return found.assign(group=list(accumulate(changed, initial=0))[: len(found)])


def breaks(intervals: pd.DataFrame) -> pd.DataFrame:
    """Intervals that no line may cross, one row each: device, interface, direction, t0_ns, t1_ns,
    what ("gap" or "reset"); an interval that is both is a reset.
    """
    columns = ["device", "interface", "direction", "t0_ns", "t1_ns", "what"]
    broken = intervals[~flagged(intervals["flags"], _BREAKS.isdisjoint)]
    found = broken.assign(what=["reset" if "reset" in f else "gap" for f in broken["flags"]])
    found = found.astype({"what": "str"})[columns]
    return found.sort_values(columns, kind="stable", ignore_index=True)


def outside(phases: pd.DataFrame, intervals: pd.DataFrame) -> pd.DataFrame:
    """The phases during which no counter was read at all."""
    seen = [
        bool(((intervals["t0_ns"] < p.t1_ns) & (intervals["t1_ns"] > p.t0_ns)).any())
        for p in phases.itertuples()
    ]
    return phases[~np.array(seen, dtype=bool)].reset_index(drop=True)
