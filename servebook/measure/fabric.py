"""Link use per run: usual, peak, floor; bytes per token; what idle costs.

Definitions (see "link utilisation" and "network cost per token" in docs): of a run's time the
middle 90 % is looked at, so that ramps at both ends stay out. There, intervals that lie wholly
inside and carry none of the flags in ``EXCLUDED`` are *inside*; those whose rate is above the idle
level by at least a tenth of the way to the highest are the *plateau*. Usual is the median over the
plateau, peak its highest interval (with its length, since a longer one hides bursts), floor its
lowest. Directions are those of the device that counts: what a switch port receives, a server sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from servebook.measure.intervals import good
from servebook.measure.intervals import intervals as read_intervals
from servebook.measure.once import once
from servebook.measure.run_bytes import above_idle

__all__ = [
    "LINK",
    "MIN_COVERAGE",
    "MIN_INTERVALS",
    "TIMED",
    "USAGE",
    "Columns",
    "attributed",
    "bytes_per_token",
    "columns_of",
    "idle",
    "idle_of",
    "link_use",
    "phases",
    "usage",
    "usage_of",
]

#: What names a link as one source saw it; rows of different sources are never added up.
LINK = ["source", "device", "interface", "scope", "direction"]

#: Intervals of one link as arrays by column, and the columns that ``link_use`` needs.
Columns: TypeAlias = dict[str, npt.NDArray[Any]]
TIMED = ("t0_ns", "t1_ns", "rate_bps", "speed_bps")

#: The columns in which ``usage`` and ``node_usage`` state link use.
USAGE = (
    "usual_bps",
    "peak_bps",
    "floor_bps",
    "usual_util",
    "peak_util",
    "floor_util",
    "speed_bps",
    "peak_window_s",
    "peak_t0_ns",
    "n_intervals",
    "n_inside",
    "active_share",
    "coverage",
    "why",
)
MIN_INTERVALS = 3  # fewer readings inside a run do not show what is usual
MIN_COVERAGE = 0.9  # of a run's time, for bytes per token
_TRIM = 0.05  # of a run's time, at each end
_ABOVE_IDLE = 0.1  # of the way from idle to the highest rate
_MARGIN_NS = 2 * 10**9  # around a run, where a client starts and ends
_BASIS = {"prefill": "input", "decode": "output"}

Floats = npt.NDArray[np.float64]


def phases(runs: pa.Table, requests: pa.Table | None = None) -> pd.DataFrame:
    """When the runs with a wall clock went on: one row per run, ordered by time.

    Columns: run_id, configuration, workload, concurrency, t0_ns, t1_ns (of the profiling
    requests), busy0_ns, busy1_ns (warm-up included, where ``requests`` is given). Runs whose clock
    is not "epoch" have no position beside counters and are left out:
    ``fabric_words.findings`` tells them in words.
    """
    frame = runs.select(
        ["run_id", "configuration", "workload", "concurrency", "start_ns", "end_ns", "clock"]
    ).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    placed = (frame["clock"] == "epoch") & frame["start_ns"].notna() & frame["end_ns"].notna()
    frame = frame[placed.to_numpy(dtype=bool)].rename(
        columns={"start_ns": "t0_ns", "end_ns": "t1_ns"}
    )
    frame = frame.drop(columns="clock").astype({"t0_ns": "int64", "t1_ns": "int64"})
    frame["busy0_ns"], frame["busy1_ns"] = frame["t0_ns"], frame["t1_ns"]
    if requests is not None:
        times = requests.select(["run_id", "start_ns", "end_ns"]).to_pandas(
            types_mapper={pa.int64(): pd.Int64Dtype()}.get
        )
        span = times.groupby("run_id", sort=True).agg({"start_ns": "min", "end_ns": "max"})
        first = frame["run_id"].map(span["start_ns"]).fillna(frame["t0_ns"]).astype("int64")
        last = frame["run_id"].map(span["end_ns"]).fillna(frame["t1_ns"]).astype("int64")
        frame["busy0_ns"] = np.minimum(frame["busy0_ns"], first)
        frame["busy1_ns"] = np.maximum(frame["busy1_ns"], last)
    order = ["t0_ns", "t1_ns", "run_id"]
    ordered: pd.DataFrame = frame.sort_values(order, kind="stable", ignore_index=True)
    return ordered


def idle(intervals: pd.DataFrame, phases: pd.DataFrame) -> pd.DataFrame:
    """The rate of each link outside of all runs (2 s around each run are left out, too).

    Columns: ``LINK``, idle_bps (median, NaN below ``MIN_INTERVALS`` intervals), low_bps, high_bps
    (10th and 90th percentile), n_intervals, seconds, steady (low and high lie within half of
    low, or within 1 % of the link's highest rate: else something else used the link, too).
    """
    starts = phases["busy0_ns"].to_numpy() - _MARGIN_NS
    ends = phases["busy1_ns"].to_numpy() + _MARGIN_NS
    rows = []
    for link, frame in _links(good(intervals)):
        t0, t1 = frame["t0_ns"].to_numpy(), frame["t1_ns"].to_numpy()
        order = np.argsort(starts, kind="stable")
        reach = np.maximum.accumulate(ends[order]) if len(ends) else ends
        before = np.searchsorted(starts[order], t1, "left")  # runs that begin before it ends
        quiet = (before == 0) | (np.append(reach, 0)[before - 1] <= t0)
        rate = frame["rate_bps"].to_numpy()[quiet]
        low, middle, high = _percentiles(rate, (10, 50, 90))
        within = max(low / 2, 0.01 * float(frame["rate_bps"].max()))
        rows.append(
            {
                **link,
                "idle_bps": middle if len(rate) >= MIN_INTERVALS else np.nan,
                "low_bps": low,
                "high_bps": high,
                "n_intervals": len(rate),
                "seconds": float((t1 - t0)[quiet].sum()) / 1e9,
                "steady": bool(len(rate) >= MIN_INTERVALS and high - low <= within),
            }
        )
    columns = [*LINK, "idle_bps", "low_bps", "high_bps", "n_intervals", "seconds", "steady"]
    return pd.DataFrame(rows, columns=columns)


def usage(
    intervals: pd.DataFrame, phases: pd.DataFrame, levels: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Usual, peak and floor of each link in each run that it was watched in.

    ``levels`` is what ``idle`` gives (computed where absent). Columns: run_id, configuration,
    workload, concurrency, ``LINK``, usual_bps, peak_bps, floor_bps, their shares of the speed
    usual_util, peak_util, floor_util (NaN without a speed), speed_bps, peak_window_s,
    peak_t0_ns (Int64), n_intervals (plateau), n_inside, active_share (plateau / inside), coverage
    (share of the run's time that usable intervals cover), why (empty, or in words why the values
    are NaN). Only pairs of run and link that overlap are listed.
    """
    known = _level_of(idle(intervals, phases) if levels is None else levels)
    rows = []
    times = _times(phases)
    for link, frame in _links(good(intervals)):
        level = known.get(tuple(link.values()), np.nan)
        for phase, near in _inside(frame, times):
            rows.append({**phase, **link, **link_use(near, phase["_t0"], phase["_t1"], level)})
    return _table(
        rows,
        list(USAGE),
    ).astype({"peak_t0_ns": "Int64"})


@once
def idle_of(samples: pa.Table, ports: pa.Table, runs: pa.Table, requests: pa.Table) -> pd.DataFrame:
    """``idle`` of a campaign's tables, measured once while they live."""
    return idle(read_intervals(samples, ports), phases(runs, requests))


@once
def usage_of(
    samples: pa.Table, ports: pa.Table, runs: pa.Table, requests: pa.Table
) -> pd.DataFrame:
    """``usage`` of a campaign's tables, measured once while they live."""
    levels = idle_of(samples, ports, runs, requests)
    return usage(read_intervals(samples, ports), phases(runs, requests), levels)


def columns_of(frame: pd.DataFrame, names: Iterable[str] = TIMED) -> Columns:
    """The columns as arrays: slicing a frame per run and link costs more than measuring it."""
    return {name: frame[name].to_numpy() for name in names}


def link_use(near: Columns, t0: int, t1: int, idle_bps: float) -> dict[str, Any]:
    """The columns ``USAGE`` of one link (or a sum of links) in one run from t0 to t1 (ns).

    ``near``: the intervals that overlap the run, with t0_ns, t1_ns, rate_bps, speed_bps. An
    ``idle_bps`` of NaN counts as 0.
    """
    trim = int((t1 - t0) * _TRIM)
    start, end = near["t0_ns"], near["t1_ns"]
    inside = (start >= t0 + trim) & (end <= t1 - trim)
    n_inside = int(inside.sum())
    base = 0.0 if np.isnan(idle_bps) else idle_bps
    top = near["rate_bps"][inside].max(initial=base)
    plateau = np.flatnonzero(inside & (near["rate_bps"] > base + _ABOVE_IDLE * (top - base)))
    out: dict[str, Any] = {
        "speed_bps": near["speed_bps"][0],
        "n_intervals": len(plateau),
        "n_inside": n_inside,
        "active_share": len(plateau) / n_inside if n_inside else np.nan,
        "coverage": float(_overlap(near, t0, t1).sum()) / max(1, t1 - t0),
        "why": "",
        "peak_t0_ns": None,
    }
    if len(plateau) < MIN_INTERVALS:
        spacing = float(np.median(end - start)) / 1e9
        out["why"] = (
            f"{len(plateau)} of {n_inside} readings inside the run show traffic; "
            f"{MIN_INTERVALS} are needed (readings every {spacing:.3g} s, run of "
            f"{(t1 - t0) / 1e9:.3g} s)"
        )
        return out
    values = near["rate_bps"][plateau]
    peak = int(values.argmax())
    at0, at1 = int(start[plateau[peak]]), int(end[plateau[peak]])
    out |= {"peak_window_s": (at1 - at0) / 1e9, "peak_t0_ns": at0}
    for name, value in (
        ("usual", float(np.median(values))),
        ("peak", float(values[peak])),
        ("floor", float(values.min())),
    ):
        out |= {f"{name}_bps": value, f"{name}_util": value / out["speed_bps"]}
    return out


def attributed(intervals: pd.DataFrame, phases: pd.DataFrame) -> pd.DataFrame:
    """The bytes of each link that belong to each run, by the share of time that overlaps.

    Columns: run_id, configuration, workload, concurrency, ``LINK``, bytes, packets (NaN where
    none are counted), covered_s, run_s, coverage, edge_share (share of the bytes from intervals
    that reach over the run's ends, whose split is a guess). Intervals with a flag of ``EXCLUDED``
    count as not covered.
    """
    rows = []
    times = _times(phases)
    for link, frame in _links(good(intervals)):
        for phase, near in _inside(frame, times):
            t0, t1 = phase["_t0"], phase["_t1"]
            shared = _overlap(near, t0, t1)
            length = near["t1_ns"] - near["t0_ns"]
            part = near["bytes"] * shared / length
            total = float(part.sum())
            edge = float(part[shared < length].sum())
            rows.append(
                {
                    **phase,
                    **link,
                    "bytes": total,
                    "packets": float((near["packets"] * shared / length).sum()),
                    "covered_s": float(shared.sum()) / 1e9,
                    "run_s": (t1 - t0) / 1e9,
                    "coverage": float(shared.sum()) / max(1, t1 - t0),
                    "edge_share": edge / total if total else 0.0,
                }
            )
    return _table(rows, ["bytes", "packets", "covered_s", "run_s", "coverage", "edge_share"])


def bytes_per_token(
    intervals: pd.DataFrame,
    phases: pd.DataFrame,
    run_metrics: pd.DataFrame,
    levels: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Link bytes per token of each run, gross and net of idle, per link and direction.

    ``run_metrics`` needs run_id, duration_s, input_throughput_tok_s, output_throughput_tok_s;
    ``levels`` is what ``idle`` gives (computed where absent). Adds to ``attributed``: idle_bytes
    (idle rate x covered time), input_tokens, output_tokens (of ok requests), basis (input for
    prefill, output for decode, total else), tokens, gross_bytes_per_token, net_bytes_per_token
    (NaN without an idle level), idle_steady, why (empty, or in words why gross is NaN: less than
    ``MIN_COVERAGE`` of the run was watched, or there are no tokens). Net can be negative where
    the idle level lies above the run's rate.
    """
    levels = idle(intervals, phases) if levels is None else levels
    known = _level_of(levels)
    frame = attributed(intervals, phases)
    steady = dict(zip(_keys(levels), levels["steady"], strict=True))
    keys = _keys(frame)
    rate = np.array([known.get(key, np.nan) for key in keys], dtype=float)
    frame["idle_bytes"] = rate / 8 * frame["covered_s"]
    frame["idle_steady"] = [bool(steady.get(key, False)) for key in keys]
    metrics = run_metrics.drop_duplicates("run_id").set_index("run_id")
    for side in ("input", "output"):
        tokens = metrics[f"{side}_throughput_tok_s"] * metrics["duration_s"]
        frame[f"{side}_tokens"] = frame["run_id"].map(tokens).astype(float)
    frame["basis"] = [_BASIS.get(str(name), "total") for name in frame["workload"]]
    both = frame["input_tokens"] + frame["output_tokens"]
    frame["tokens"] = both.where(frame["basis"] == "total", frame["input_tokens"])
    output = frame["basis"] == "output"
    frame["tokens"] = frame["tokens"].where(~output, frame["output_tokens"])
    countable = frame["tokens"] > 0
    watched = frame["coverage"] >= MIN_COVERAGE
    tokens = frame["tokens"].where(countable & watched)
    frame["gross_bytes_per_token"] = frame["bytes"] / tokens
    pairs = zip(frame["bytes"].astype(float), frame["idle_bytes"], strict=True)
    frame["net_bytes_per_token"] = np.array([above_idle(*pair) for pair in pairs]) / tokens
    frame["why"] = [
        ""
        if c and w
        else "the run has no tokens to divide by"
        if w
        else f"the counters cover {100 * share:.0f} % of the run, "
        f"{100 * MIN_COVERAGE:.0f} % are needed"
        for c, w, share in zip(countable, watched, frame["coverage"], strict=True)
    ]
    return frame


def _links(intervals: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    for key, frame in intervals.groupby(LINK, sort=True):
        yield dict(zip(LINK, (str(part) for part in key), strict=True)), frame


def _times(phases: pd.DataFrame) -> list[dict[str, Any]]:
    """Which run each phase is, and when it went on."""
    names = ["run_id", "configuration", "workload", "concurrency"]
    return [
        {name: row[name] for name in names} | {"_t0": int(row["t0_ns"]), "_t1": int(row["t1_ns"])}
        for row in phases.to_dict("records")
    ]


def _inside(
    frame: pd.DataFrame, times: Sequence[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], Columns]]:
    """Each run that the link was read in, with the intervals that overlap it."""
    columns = columns_of(frame, [*TIMED, "bytes", "packets"])
    start, end = columns["t0_ns"], columns["t1_ns"]
    firsts = np.searchsorted(end, [phase["_t0"] for phase in times], "right")
    lasts = np.searchsorted(start, [phase["_t1"] for phase in times], "left")
    for phase, first, last in zip(times, firsts.tolist(), lasts.tolist(), strict=True):
        if first < last:
            yield phase, {name: values[first:last] for name, values in columns.items()}


def _overlap(near: Columns, t0: int, t1: int) -> npt.NDArray[np.int64]:
    start = np.maximum(near["t0_ns"], t0)
    shared: npt.NDArray[np.int64] = np.minimum(near["t1_ns"], t1) - start
    return np.maximum(shared, 0)


def _percentiles(values: Floats, at: Sequence[float]) -> list[float]:
    if not len(values):
        return [np.nan] * len(at)
    return [float(value) for value in np.percentile(values, at)]


def _keys(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    return [tuple(str(part) for part in key) for key in frame[LINK].to_numpy()]


def _level_of(levels: pd.DataFrame) -> dict[tuple[str, ...], float]:
    return dict(zip(_keys(levels), (float(v) for v in levels["idle_bps"]), strict=True))


def _table(rows: list[dict[str, Any]], values: list[str]) -> pd.DataFrame:
    names = ["run_id", "configuration", "workload", "concurrency", *LINK, *values]
    return pd.DataFrame(rows, columns=names)
