"""The steady part of a run: what is measured without ramp-up and drain.

Rule: in a closed loop the window begins when the set concurrency is in flight for the first time
and ends when it is in flight for the last time. Between the two the client sends a new request
whenever one ends; before it fills, after it drains. Where the set concurrency was never in flight
the most that was counts, and ``reached`` is false. A run without a set concurrency (open loop,
or unknown) or without a common clock has no window.

Figures of the window: tokens whose arrival lies in it over its length (a request's prompt counts
when its first token comes), TTFT and TPOT of the requests whose first token lies in it, gaps that
end in it; percentiles below their floor are left out. A shift moves both ends by a share of the
window's length; what leaves the run is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from servebook.measure.conditions import without_concurrency
from servebook.measure.gap_values import GapValues, values_by_run
from servebook.measure.gaps_in_time import GapsInTime
from servebook.measure.limits import SHIFT
from servebook.measure.runs import request_metrics
from servebook.measure.trust import LEAST_WAVES
from servebook.tables import Tables

__all__ = ["METRICS", "SHIFT", "Window", "in_flight", "steady", "window", "windows"]

METRICS = (
    "input_throughput_tok_s",
    "output_throughput_tok_s",
    "ttft_mean_ms",
    "tpot_mean_ms",
    "itl_p50_ms",
    "itl_p99_ms",
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """The steady window of one run, in ns of the run's clock."""

    t0_ns: int
    t1_ns: int
    first_ns: int  # of the run
    last_ns: int
    level: int  # requests in flight that bound it
    reached: bool  # whether that is the set concurrency

    @property
    def ramp_s(self) -> float:
        """From the run's first request to the window."""
        return (self.t0_ns - self.first_ns) / 1e9

    @property
    def drain_s(self) -> float:
        """From the window to the run's last end."""
        return (self.last_ns - self.t1_ns) / 1e9

    @property
    def share(self) -> float:
        """The window's share of the run."""
        return (self.t1_ns - self.t0_ns) / max(1, self.last_ns - self.first_ns)

    def shifted(self, by: float) -> tuple[int, int]:
        """Both ends moved by this share of the window's length, cut to the run."""
        move = round(by * (self.t1_ns - self.t0_ns))
        return max(self.t0_ns + move, self.first_ns), min(self.t1_ns + move, self.last_ns)


def in_flight(start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    """The steps of the number of requests in flight: times, sorted, and the level from each on.

    At one instant ends come before starts, and only the last level of an instant is kept.
    """
    times = np.concatenate([start_ns, end_ns])
    change = np.concatenate([np.ones(len(start_ns), int), -np.ones(len(end_ns), int)])
    order = np.lexsort((change, times))
    times, level = times[order], np.cumsum(change[order])
    last = np.append(times[1:] != times[:-1], True)
    return times[last], level[last]


def window(start_ns: Ints, end_ns: Ints, concurrency: int) -> Window | None:
    """The steady window of requests with these starts and ends; None where it has no length."""
    if not len(start_ns):
        return None
    times, level = in_flight(start_ns, end_ns)
    bound = min(concurrency, int(level.max()))
    full = np.flatnonzero(level >= bound)
    after = min(int(full[-1]) + 1, len(times) - 1)
    t0, t1 = int(times[full[0]]), int(times[after])
    if t1 <= t0:
        return None
    return Window(t0, t1, int(times[0]), int(times[-1]), bound, bound == concurrency)


def windows(tables: Tables, run_metrics: pd.DataFrame) -> tuple[dict[str, Window], dict[str, str]]:
    """The window of each run by run_id, and in words why the other runs have none."""
    requests = request_metrics(tables)
    grouped = requests.groupby("run_id", sort=False).indices
    found: dict[str, Window] = {}
    why: dict[str, str] = {}
    for run in run_metrics.to_dict("records"):
        name = str(run["run_id"])
        own = requests.iloc[grouped.get(name, np.array([], dtype=np.int64))]
        known = own[own["start_ns"].notna() & own["end_ns"].notna()]
        if run["clock"] not in ("epoch", "relative") or known.empty:
            why[name] = "its requests have no common clock"
        elif pd.isna(run["concurrency"]):
            why[name] = without_concurrency(run)
        else:
            one = window(
                known["start_ns"].to_numpy(dtype=np.int64),
                known["end_ns"].to_numpy(dtype=np.int64),
                int(run["concurrency"]),
            )
            if one is None:
                why[name] = "no time passed between ramp-up and drain"
            else:
                found[name] = one
    return found, why


def steady(tables: Tables, run_metrics: pd.DataFrame, shift: float = SHIFT) -> pd.DataFrame:
    """What the window changes, one row per run with a window and metric that the run has.

    Columns: run_id, configuration, workload, concurrency, metric, whole (of ``run_metrics``),
    window, change (window / whole - 1), low, high (least and most over the window and its shifts
    by -shift and +shift), sensitivity ((high - low) / window), ramp_s, drain_s, window_s, share (of
    the run), reached, n_window (requests with their first token in it), n_gaps_window, waves (of
    these requests per concurrency), few_waves (below ``LEAST_WAVES``).
    """
    found, _ = windows(tables, run_metrics)
    requests = request_metrics(tables)
    gaps = values_by_run(tables, requests, requests["status"].to_numpy() == "ok")
    grouped = requests.groupby("run_id", sort=False).indices
    rows: list[dict[str, Any]] = []
    for run in run_metrics.to_dict("records"):
        name = str(run["run_id"])
        if name not in found:
            continue
        one = found[name]
        own = requests.iloc[grouped[name]]
        arrived = _Arrivals.of(own[own["status"] == "ok"], gaps.get(name, GapValues()))
        spans = [one.shifted(by) for by in (0.0, -shift, shift)]
        inside = [arrived.between(*span) for span in spans]
        waves = inside[0]["n"] / one.level
        for metric in METRICS:
            values = [figures[metric] for figures in inside]
            if np.isnan(values[0]) or np.isnan(run[metric]) or not run[metric]:
                continue
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
            rows.append(
                {k: run[k] for k in ("run_id", "configuration", "workload", "concurrency")}
                | {
                    "metric": metric,
                    "whole": float(run[metric]),
                    "window": values[0],
                    "change": values[0] / float(run[metric]) - 1,
                    "low": low,
                    "high": high,
                    "sensitivity": (high - low) / values[0] if values[0] else np.nan,
                    "ramp_s": one.ramp_s,
                    "drain_s": one.drain_s,
                    "window_s": (one.t1_ns - one.t0_ns) / 1e9,
                    "share": one.share,
                    "reached": one.reached,
                    "n_window": int(inside[0]["n"]),
                    "n_gaps_window": int(inside[0]["n_gaps"]),
                    "waves": waves,
                    "few_waves": waves < LEAST_WAVES,
                }
            )
    return pd.DataFrame(rows, columns=list(_COLUMNS))


_COLUMNS = (
    "run_id",
    "configuration",
    "workload",
    "concurrency",
    "metric",
    "whole",
    "window",
    "change",
    "low",
    "high",
    "sensitivity",
    "ramp_s",
    "drain_s",
    "window_s",
    "share",
    "reached",
    "n_window",
    "n_gaps_window",
    "waves",
    "few_waves",
)


@dataclass(frozen=True)
class _Arrivals:
    """When the prompts, tokens and gaps of one run's ok requests were done."""

    first_ns: Ints
    isl: Floats
    ttft_ms: Floats
    tpot_ms: Floats
    gaps: GapsInTime
    tokens_known: bool  # one gap per token after the first

    @classmethod
    def of(cls, ok: pd.DataFrame, gaps: GapValues) -> _Arrivals:
        placed = ok[ok["first_token_ns"].notna()]
        timed = GapsInTime(gaps)
        later = float((placed["osl"] - 1).clip(lower=0).sum())
        return cls(
            placed["first_token_ns"].to_numpy(dtype=np.int64),
            placed["isl"].to_numpy(dtype=np.float64),
            placed["ttft_ms"].to_numpy(dtype=np.float64),
            placed["tpot_ms"].to_numpy(dtype=np.float64),
            timed,
            bool(len(placed) == len(ok) and abs(timed.n - later) <= 0.05 * max(later, 1.0)),
        )

    def between(self, t0_ns: int, t1_ns: int) -> dict[str, float]:
        """The figures of what arrived after t0 and until t1; NaN where nothing did."""
        inside = (self.first_ns > t0_ns) & (self.first_ns <= t1_ns)
        n_gaps, (median, p99) = self.gaps.within(t0_ns, t1_ns, (50, 99))
        seconds = (t1_ns - t0_ns) / 1e9
        nan = float("nan")
        tpot = self.tpot_ms[inside]
        tpot = tpot[~np.isnan(tpot)]
        ttft = self.ttft_ms[inside]
        return {
            "n": float(inside.sum()),
            "n_gaps": float(n_gaps),
            "input_throughput_tok_s": float(self.isl[inside].sum() / seconds),
            "output_throughput_tok_s": (
                float(inside.sum() + n_gaps) / seconds if self.tokens_known else nan
            ),
            "ttft_mean_ms": float(ttft.mean()) if ttft.size else nan,
            "tpot_mean_ms": float(tpot.mean()) if tpot.size else nan,
            "itl_p50_ms": median,
            "itl_p99_ms": p99,
        }
