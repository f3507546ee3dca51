"""When links were congested or paused, as far as counters tell.

Congestion shows as the share of a link's speed that its bytes took in an interval; a pause as
pause frames (IEEE 802.3x, or priority flow control) counted in it. What this cannot tell: bursts
and pauses shorter than an interval by their own time; links without a counter; links without a
known speed, unless they count pauses.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from servebook.measure.intervals import good, intervals

__all__ = ["LINK_COLUMNS", "links", "watched"]

LINK_COLUMNS = ("t0_ns", "t1_ns", "util_fraction", "paused")
_PORT = ["source", "device", "interface", "scope", "index", "direction"]


def links(samples: pa.Table, ports: pa.Table) -> pd.DataFrame:
    """The intervals in which counters say how busy a link was, or whether it was paused.

    ``samples`` and ``ports`` have the schemas of those names; without a manifest ``ports`` is
    empty, and speeds are those that the devices told. Columns: t0_ns, t1_ns (int64),
    util_fraction (NaN where the row is of a pause counter), paused (bool). Sorted by time.
    """
    spans = intervals(samples, ports)
    if len(spans):
        spans = good(spans)
        spans = spans[spans["util_fraction"].notna()]
    use = spans[["t0_ns", "t1_ns", "util_fraction"]].assign(paused=False)
    parts = [part for part in (use, _pauses(samples)) if len(part)]
    if not parts:
        return use.head(0)[list(LINK_COLUMNS)]
    out = pd.concat(parts, ignore_index=True)[list(LINK_COLUMNS)]
    return out.sort_values(list(LINK_COLUMNS), kind="stable", ignore_index=True)


def _pauses(samples: pa.Table) -> pd.DataFrame:
    """Per pair of neighbouring readings of a pause counter, whether it rose between the two."""
    counted = samples.filter(
        pc.and_(pc.equal(samples["metric"], "pause_frames"), pc.equal(samples["kind"], "counter"))
    )
    # Exact: a count of 64 bits is no float.
    told = pc.cast(pc.floor(counted["value"]), pa.uint64(), safe=False)
    counted = counted.append_column("frames", pc.coalesce(counted["count"], told))
    frame = counted.select([*_PORT, "ts_ns", "frames"]).to_pandas(
        types_mapper={pa.uint64(): pd.UInt64Dtype(), pa.int64(): pd.Int64Dtype()}.get
    )
    frame = frame.dropna(subset=["ts_ns", "frames"])
    frame = frame.sort_values([*_PORT, "ts_ns"], kind="stable", ignore_index=True)
    before = frame.groupby(_PORT, dropna=False, sort=False)[["ts_ns", "frames"]].shift()
    # A counter that fell was reset: it says nothing of the time between.
    usable = (frame["frames"] >= before["frames"]).fillna(False).to_numpy(dtype=bool)
    begin, end = before[usable], frame[usable]
    return pd.DataFrame(
        {
            "t0_ns": begin["ts_ns"].astype("int64"),
            "t1_ns": end["ts_ns"].astype("int64"),
            "util_fraction": np.nan,
            "paused": (end["frames"] > begin["frames"]).to_numpy(dtype=bool),
        }
    )


def watched(runs: pa.Table, found: pd.DataFrame) -> tuple[str, ...]:
    """The run_ids of the table ``runs`` that a row of ``links`` meets in time, in table order."""
    begin = found["t0_ns"].to_numpy(dtype=np.int64)
    end = found["t1_ns"].to_numpy(dtype=np.int64)
    rows = runs.select(["run_id", "clock", "start_ns", "end_ns"]).to_pylist()
    return tuple(
        str(row["run_id"])
        for row in rows
        if row["clock"] == "epoch"
        and row["start_ns"] is not None
        and row["end_ns"] is not None
        and ((begin < row["end_ns"]) & (end > row["start_ns"])).any()
    )
