"""Stalls: gaps between tokens in which the engine did something other than decode.

Two witnesses, both from the client's own times. (b) Another request of the run got its first
token inside the gap, some share of a decode step (``EDGE``) after its start, so a prompt was
prefilled in it. (a) The gap is longer than a typical gap of a decode-only baseline. A gap with
both is a stall. (Length alone is a poor witness: see ``n_long_unexplained``.)

Where the engine works on prompts inside its decode steps (chunked prefill), most first tokens come
out together with tokens of the running requests, not a decode step before them. Such steps are
slower but decode goes on: they are counted as slow gaps (above the baseline's p95 while a request
waited for its first token), never as stalls, and ``prefill_style`` says "shared" for the run.

What this cannot see: prefills of requests that never got a first token (cancelled, broken), gaps
of runs without a common clock, and a client that delivers tokens late (such a gap is long without
a prefill, and is counted as long and unexplained).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.compute as pc

from servebook.measure.baseline import (
    LEAST_GAPS,
    LEAST_SHARE,
    OWN_GAPS,
    OWN_IDLE_GAPS,
    Baseline,
    baselines,
)
from servebook.measure.runs import gap_metrics, request_metrics
from servebook.tables import Tables

__all__ = ["EDGE", "ONE_PERCENT", "gap_stalls", "stall_summary"]

#: Share of the baseline's median gap within which two times count as the same engine step.
EDGE = 0.1
#: The same inside requests, where no token of one prefill batch can be taken for the next one's.
INSIDE_EDGE = 0.02
#: The frequency below which a p99 over gaps cannot see stalls.
ONE_PERCENT = 0.01

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_SUMMARY = [
    "run_id",
    "configuration",
    "workload",
    "concurrency",
    "n_gaps",
    "n_first_gaps",
    "n_inside_gaps",
    "n_requests_with_gaps",
    "prefill_style",
    "baseline",
    "baseline_median_ms",
    "baseline_p99_ms",
    "n_stalls",
    "n_first_stalls",
    "n_inside_stalls",
    "stall_fraction_of_gaps",
    "first_stall_fraction",
    "inside_stall_fraction",
    "p99_sees_stalls",
    "stall_share_of_decode_time",
    "median_stall_ms",
    "longest_stall_ms",
    "n_slow_gaps",
    "slow_fraction_of_gaps",
    "slow_share_of_decode_time",
    "n_long_unexplained",
    "stall_share_estimate",
    "n_first_tokens",
    "n_prefill_batches",
    "prefill_batch_mean",
    "running_peak",
    "expected_stall_frequency",
]


@dataclass(frozen=True)
class _Run:
    """The times of one run: gaps of ok requests in table order, first tokens of all requests."""

    start: Ints
    end: Ints
    gap: Ints
    index: Ints
    first_tokens: Ints  # sorted; warm-up, failed and cancelled requests too
    waiting: Ints  # sorted starts of the same requests


def gap_stalls(tables: Tables) -> pd.DataFrame:
    """One row per gap of the ok profiling requests, in the order of the table ``gaps``.

    Columns: run_id, request_id, index (0 = first gap), end_ns, gap_ns, n_first_tokens (of other
    requests inside the gap), is_long (above the baseline's p99), is_stall, is_slow (long, in a
    step shared with a prompt). The flags are null (``boolean``) where the run has no common clock
    or no baseline.
    """
    requests = request_metrics(tables)
    gaps = gap_metrics(tables, requests)
    frame = pd.DataFrame(
        {
            "run_id": requests["run_id"].to_numpy()[gaps["request"]],
            "request_id": requests["request_id"].to_numpy()[gaps["request"]],
            "index": gaps["index"],
            "end_ns": gaps["end_ns"],
            "gap_ns": gaps["gap_ns"],
        }
    )
    parts = []
    for _, rows, found in _classified(tables, requests, gaps):
        flags = pd.DataFrame(index=rows)
        for name in ("n_first_tokens", "is_long", "is_stall", "is_slow"):
            flags[name] = found[name] if found else pd.NA
        flags["prefill_style"] = found["style"] if found else ""
        parts.append(flags)
    flags = pd.concat(parts).sort_index() if parts else pd.DataFrame(index=frame.index)
    frame["n_first_tokens"] = _column(flags, "n_first_tokens").astype("Int64")
    for name in ("is_long", "is_stall", "is_slow"):
        frame[name] = _column(flags, name).astype("boolean")
    frame["prefill_style"] = _column(flags, "prefill_style").astype("object")
    return frame


def _column(flags: pd.DataFrame, name: str) -> pd.Series[Any]:
    return flags[name] if name in flags else pd.Series(index=flags.index, dtype="object")


def stall_summary(tables: Tables, run_metrics: pd.DataFrame) -> pd.DataFrame:
    """One row per run of ``run_metrics`` (its order): how often, how long, of what.

    Columns, counts and fractions as floats (NaN where unknown): run_id, configuration, workload,
    concurrency; n_gaps, n_first_gaps, n_inside_gaps, n_requests_with_gaps; prefill_style
    ("separate", "shared", "" unknown); baseline (a run_id or words), baseline_median_ms,
    baseline_p99_ms; n_stalls, n_first_stalls, n_inside_stalls, stall_fraction_of_gaps,
    first_stall_fraction, inside_stall_fraction, p99_sees_stalls (stalls or slow gaps above 1 % of
    gaps; null where unknown); stall_share_of_decode_time, median_stall_ms, longest_stall_ms;
    n_slow_gaps, slow_fraction_of_gaps, slow_share_of_decode_time; n_long_unexplained (above the
    baseline's p99 without a prefill); stall_share_estimate (the published estimate);
    n_first_tokens, n_prefill_batches, prefill_batch_mean (k), running_peak (c, the most requests
    that decoded at once), expected_stall_frequency ((c - k) / (k (OSL - 1))).
    """
    requests = request_metrics(tables)
    gaps = gap_metrics(tables, requests)
    details = {run_id: (rows, found) for run_id, rows, found in _classified(tables, requests, gaps)}
    rows = []
    for run in run_metrics.to_dict("records"):
        run_id = str(run["run_id"])
        row: dict[str, Any] = {
            name: run[name]
            for name in ("run_id", "configuration", "workload", "concurrency", "n_gaps")
        } | {"prefill_style": "", "baseline": "", "p99_sees_stalls": pd.NA}
        row["stall_share_estimate"] = run["stall_share_estimate"]
        positions, found = details.get(run_id, (np.array([], dtype=np.int64), None))
        own = gaps.iloc[positions]
        index = own["index"].to_numpy()
        row["n_first_gaps"] = int((index == 0).sum())
        row["n_inside_gaps"] = int((index > 0).sum())
        row["n_requests_with_gaps"] = own["request"].nunique()
        if found:
            row |= _counted(own["gap_ns"].to_numpy(), index, found)
            row |= _batches(requests, run_id, found, float(run["osl_mean"]))
        rows.append(row)
    out = pd.DataFrame(rows, columns=_SUMMARY)
    words = ("run_id", "configuration", "workload", "prefill_style", "baseline")
    for name in _SUMMARY:
        if name == "p99_sees_stalls":
            out[name] = out[name].astype("boolean")
        elif name == "concurrency":
            out[name] = out[name].astype("Int64")
        elif name not in words:
            out[name] = out[name].astype("float64")
    return out


def _classified(
    tables: Tables, requests: pd.DataFrame, gaps: pd.DataFrame
) -> list[tuple[str, Ints, dict[str, Any] | None]]:
    """For each run with gaps: its run_id, the row positions of its gaps, and what was found."""
    run_of_gap = requests["run_id"].to_numpy()[gaps["request"].to_numpy()]
    grouped = pd.Series(np.arange(len(gaps))).groupby(run_of_gap, sort=False).indices
    rows_of = {str(run_id): np.asarray(rows, dtype=np.int64) for run_id, rows in grouped.items()}
    clock = dict(
        zip(tables.runs["run_id"].to_pylist(), tables.runs["clock"].to_pylist(), strict=True)
    )
    times = {
        # Without a common clock each request's times count from its own start.
        run_id: None if clock[run_id] == "none" else _times(tables, gaps, run_id, rows)
        for run_id, rows in rows_of.items()
    }
    clean = {run_id: _clean(run) for run_id, run in times.items() if run is not None}
    base = baselines(tables, clean)
    out: list[tuple[str, Ints, dict[str, Any] | None]] = []
    for run_id, rows in rows_of.items():
        run = times[run_id]
        known = run is not None and run_id in base
        out.append((run_id, rows, _classify(run, base[run_id]) if run and known else None))
    return out


def _times(tables: Tables, gaps: pd.DataFrame, run_id: str, rows: Ints) -> _Run | None:
    own = gaps.iloc[rows]
    if own["end_ns"].isna().any():
        return None  # gap lengths without times
    every = tables.requests.filter(pc.equal(tables.requests["run_id"], run_id)).select(
        ["start_ns", "first_token_ns"]
    )
    known = every.drop_null()
    first = np.sort(known["first_token_ns"].to_numpy())
    end = own["end_ns"].to_numpy(dtype=np.int64)
    gap = own["gap_ns"].to_numpy(dtype=np.int64)
    return _Run(
        start=end - gap,
        end=end,
        gap=gap,
        index=own["index"].to_numpy(dtype=np.int64),
        first_tokens=first,
        waiting=np.sort(known["start_ns"].to_numpy()),
    )


def _witness(run: _Run, edge_ns: int | Ints, until_ns: int = 0) -> tuple[Bools, Ints]:
    """Whether another request's first token lies in (start + edge, end + until], and how many."""
    # A first gap starts at the request's own first token: half-open at the start leaves it out.
    after = np.searchsorted(run.first_tokens, run.start + edge_ns, side="right")
    upto = np.searchsorted(run.first_tokens, run.end + until_ns, side="right")
    count = np.maximum(upto - after, 0)
    return count > 0, count


def _prompt_waits(run: _Run, slack_ns: float) -> Bools:
    """Whether some request was waiting for its first token all through the gap (give or take)."""
    begun = np.searchsorted(run.waiting, run.start + int(slack_ns), side="right")
    done = np.searchsorted(run.first_tokens, run.end - int(slack_ns), side="left")
    return begun > done


def _clean(run: _Run) -> tuple[str, Ints]:
    """Gaps of the run without a prefill: best while nobody waits, else without a first token."""
    # Half a typical gap: a closed-loop client sends its next request just after a token.
    idle = ~_prompt_waits(run, 0.5 * float(np.median(run.gap))) & ~_witness(run, 0)[0]
    if idle.sum() >= max(LEAST_GAPS, LEAST_SHARE * len(idle)):
        return OWN_IDLE_GAPS, run.gap[idle]
    return OWN_GAPS, run.gap[~_witness(run, 0)[0]]


def _style(run: _Run, edge_ns: float) -> str:
    """Name "shared" if first tokens come out with running requests' tokens, else "separate".

    With a step of its own a prefill ends one decode step before the next tokens and at least its
    own length after the last ones. "" where no request got its first token beside running ones.
    """
    tokens = np.sort(run.end)
    first = run.first_tokens[(run.first_tokens > tokens[0]) & (run.first_tokens < tokens[-1])]
    if not len(first):
        return ""
    place = np.clip(np.searchsorted(tokens, first), 1, len(tokens) - 1)
    near = np.minimum(np.abs(first - tokens[place - 1]), np.abs(tokens[place] - first)) <= edge_ns
    return "shared" if near.mean() >= 0.5 else "separate"


def _classify(run: _Run, base: Baseline) -> dict[str, Any]:
    edge = EDGE * base.median_ns
    style = _style(run, edge)
    shared = style == "shared"
    begin = np.where((run.index > 0) & (not shared), INSIDE_EDGE * base.median_ns, edge)
    prefilled, count = _witness(run, begin.astype(np.int64), int(edge) if shared else 0)
    long = run.gap > base.p99_ns
    nothing = np.zeros(len(run.gap), dtype=bool)
    stall = nothing if shared else prefilled & (run.gap > base.median_ns)
    slow = nothing
    if shared:
        slow = (run.gap > base.p95_ns) & _prompt_waits(run, 0.5 * base.median_ns)
    return {
        "n_first_tokens": count,
        "is_long": long,
        "is_stall": stall,
        "is_slow": slow,
        "unexplained": long & ~slow & ~prefilled,
        "style": style,
        "base": base,
        "run": run,
    }


def _counted(gap_ns: Ints, index: Ints, found: dict[str, Any]) -> dict[str, Any]:
    stall, slow = found["is_stall"], found["is_slow"]
    base: Baseline = found["base"]
    first, total, median = index == 0, gap_ns.sum(), np.median(gap_ns)
    excess = np.maximum(gap_ns - median, 0)

    def share(part: Bools, whole: Bools | None = None) -> float:
        n = len(part) if whole is None else whole.sum()
        hits = part.sum() if whole is None else (part & whole).sum()
        return float(hits / n) if n else np.nan

    return {
        "prefill_style": found["style"],
        "baseline": base.source,
        "baseline_median_ms": base.median_ns / 1e6,
        "baseline_p99_ms": base.p99_ns / 1e6,
        "n_stalls": int(stall.sum()),
        "n_first_stalls": int((stall & first).sum()),
        "n_inside_stalls": int((stall & ~first).sum()),
        "stall_fraction_of_gaps": share(stall),
        "first_stall_fraction": share(stall, first),
        "inside_stall_fraction": share(stall, ~first),
        "p99_sees_stalls": bool(share(stall | slow) > ONE_PERCENT),
        "stall_share_of_decode_time": float(excess[stall].sum() / total) if total else np.nan,
        "median_stall_ms": float(np.median(gap_ns[stall]) / 1e6) if stall.any() else np.nan,
        "longest_stall_ms": float(gap_ns[stall].max() / 1e6) if stall.any() else np.nan,
        "n_slow_gaps": int(slow.sum()),
        "slow_fraction_of_gaps": share(slow),
        "slow_share_of_decode_time": float(excess[slow].sum() / total) if total else np.nan,
        "n_long_unexplained": int(found["unexplained"].sum()),
    }


def _batches(
    requests: pd.DataFrame, run_id: str, found: dict[str, Any], osl: float
) -> dict[str, float]:
    """Prefill batches: first tokens between which no running request got a token."""
    run: _Run = found["run"]
    mine = requests[(requests["run_id"] == run_id) & requests["first_token_ns"].notna()]
    first = np.sort(mine["first_token_ns"].to_numpy(dtype=np.int64))
    if not len(first):
        return {}
    edge = int(EDGE * found["base"].median_ns)
    tokens = np.sort(run.end)
    apart = np.diff(np.searchsorted(tokens, first, side="right")) > 0
    new = np.concatenate([[True], apart & (np.diff(first) > edge)])
    batches = int(new.sum())
    k = len(first) / batches
    decoding = mine[mine["end_ns"].notna()]
    begin = np.sort(decoding["first_token_ns"].to_numpy(dtype=np.int64))
    finish = np.sort(decoding["end_ns"].to_numpy(dtype=np.int64))
    # Just after each first token: those begun less those finished.
    running = np.arange(1, len(begin) + 1) - np.searchsorted(finish, begin, side="left")
    c = float(running.max(initial=0))
    expected = max(c - k, 0.0) / (k * (osl - 1)) if osl > 1 else np.nan
    return {
        "n_first_tokens": len(first),
        "n_prefill_batches": batches,
        "prefill_batch_mean": k,
        "running_peak": c,
        "expected_stall_frequency": expected,
    }
