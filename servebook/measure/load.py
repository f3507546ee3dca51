"""Was the load what it was said to be: Little's law, slots in use, clocks, the client's delays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from servebook.measure.gap_values import values_by_run
from servebook.measure.limits import LATE_SHARE
from servebook.measure.runs import request_metrics
from servebook.tables import Tables

__all__ = ["LATE_SHARE", "clocks", "littles_law"]


_RUN = ("run_id", "configuration", "workload", "concurrency")


def littles_law(tables: Tables, run_metrics: pd.DataFrame) -> pd.DataFrame:
    """Concurrency set against requests in flight; one row per run with a duration.

    Columns: run_id, configuration, workload, concurrency (null: none set, or unknown),
    throughput_x_latency (request throughput x mean latency of ok requests), mean_in_flight (all
    requests), ratio (mean_in_flight / concurrency), full_share (share of the duration with all of
    the concurrency in flight; NaN without a common clock), peak_in_flight. In a closed loop the
    ratio is 1 but for the ramp at either end and the client's pauses between requests.
    """
    requests = request_metrics(tables)
    grouped = requests.groupby("run_id", sort=False).indices
    rows = []
    for run in run_metrics.to_dict("records"):
        if np.isnan(run["duration_s"]):
            continue
        own = requests.iloc[grouped.get(run["run_id"], np.array([], dtype=np.int64))]
        known = own[own["start_ns"].notna() & own["end_ns"].notna()]
        share, peak = np.nan, np.nan
        limit = None if pd.isna(run["concurrency"]) else int(run["concurrency"])
        if run["clock"] != "none" and len(known):
            share, peak = _in_flight(
                known["start_ns"].to_numpy(dtype=np.int64),
                known["end_ns"].to_numpy(dtype=np.int64),
                limit,
            )
        rows.append(
            {name: run[name] for name in _RUN}
            | {
                "throughput_x_latency": run["request_throughput_req_s"] * run["e2e_mean_ms"] / 1e3,
                "mean_in_flight": run["mean_in_flight"],
                "ratio": run["mean_in_flight"] / limit if limit else np.nan,
                "full_share": share,
                "peak_in_flight": peak,
            }
        )
    values = ["throughput_x_latency", "mean_in_flight", "ratio", "full_share", "peak_in_flight"]
    return pd.DataFrame(rows, columns=[*_RUN, *values]).astype(dict.fromkeys(values, "float64"))


def clocks(tables: Tables, run_metrics: pd.DataFrame) -> pd.DataFrame:
    """What the times of each run can be laid over, and how late its client was; one row per run.

    Columns: run_id, configuration, workload, concurrency, clock (epoch, relative, none), meaning
    (words), n_scheduled (requests with a scheduled time), send_delay_mean_ms, send_delay_p99_ms,
    send_delay_max_ms (start minus scheduled, profiling requests), ttft_mean_ms, late (the mean
    delay exceeds 10 % of the mean TTFT; null where unknown), zero_gap_share (gaps of length 0:
    chunks that the client read at once).
    """
    requests = request_metrics(tables)
    grouped = requests.groupby("run_id", sort=False).indices
    gaps = values_by_run(tables)
    zero = {run: own.zeros() / len(own) for run, own in gaps.items()}
    rows = []
    for run in run_metrics.to_dict("records"):
        own = requests.iloc[grouped.get(run["run_id"], np.array([], dtype=np.int64))]
        delay = own["send_delay_ms"].dropna().to_numpy()
        clock = str(run["clock"]) if isinstance(run["clock"], str) else "none"
        late = (
            pd.NA
            if not len(delay) or np.isnan(run["ttft_mean_ms"])
            else bool(delay.mean() > LATE_SHARE * run["ttft_mean_ms"])
        )
        rows.append(
            {name: run[name] for name in _RUN}
            | {
                "clock": clock,
                "meaning": _MEANING.get(clock, clock),
                "n_scheduled": len(delay),
                "send_delay_mean_ms": delay.mean() if len(delay) else np.nan,
                "send_delay_p99_ms": np.percentile(delay, 99) if len(delay) else np.nan,
                "send_delay_max_ms": delay.max() if len(delay) else np.nan,
                "ttft_mean_ms": run["ttft_mean_ms"],
                "late": late,
                "zero_gap_share": zero.get(run["run_id"], np.nan),
            }
        )
    columns = [
        *_RUN,
        "clock",
        "meaning",
        "n_scheduled",
        "send_delay_mean_ms",
        "send_delay_p99_ms",
        "send_delay_max_ms",
        "ttft_mean_ms",
        "late",
        "zero_gap_share",
    ]
    return pd.DataFrame(rows, columns=columns).astype({"late": "boolean"})


_MEANING = {
    "epoch": "wall clock: requests can be laid over counters",
    "relative": "order within the run only; the manifest must give a start to lay it over counters",
    "none": "durations only: no order, no overlay on counters",
}


def _in_flight(
    start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], limit: int | None
) -> tuple[float, float]:
    """Share of the time with at least ``limit`` requests in flight, and the most at once."""
    times = np.concatenate([start, end])
    change = np.concatenate([np.ones(len(start), int), -np.ones(len(end), int)])
    order = np.lexsort((change, times))  # at one instant ends come before starts
    times, level = times[order], np.cumsum(change[order])
    length = np.diff(times)
    total = int(times[-1] - times[0])
    if limit is None or not total:
        return np.nan, float(level.max())
    return float(length[level[:-1] >= limit].sum() / total), float(level.max())
