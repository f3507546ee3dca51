"""Stalls per run: how often, how long, of what, and whether a p99 over gaps can see them.

What a stall is, and what cannot be told, stands in ``servebook.measure.stalled_gaps``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.compute as pc

from servebook.measure.certainty import doubts
from servebook.measure.stalled_gaps import CAUSES, ClassifiedRun, classify, gap_stalls
from servebook.measure.steps import Timeline
from servebook.tables import Tables

__all__ = ["ONE_PERCENT", "SUMMARY_COLUMNS", "gap_stalls", "in_part", "stall_summary"]

#: The frequency below which a p99 over gaps cannot see stalls.
ONE_PERCENT = 0.01

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SUMMARY_COLUMNS = (
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
    "n_prefill_stalls",
    "n_link_stalls",
    "n_unexplained_stalls",
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
    "n_engines",
    "n_decode_steps",
    "n_stalled_steps",
    "stall_fraction_of_steps",
    "n_unseen_prefills",
    "n_told_gaps",
    "n_run_gaps",
    "told_s",
    "doubt",
    "why",
)

_WORDS = ("run_id", "configuration", "workload", "prefill_style", "baseline", "doubt", "why")


def stall_summary(
    tables: Tables,
    run_metrics: pd.DataFrame,
    links: pd.DataFrame | None = None,
    *,
    classified: Iterable[ClassifiedRun] | None = None,
) -> pd.DataFrame:
    """One row per run of ``run_metrics`` (its order), over the gaps of its ok profiling requests.

    Columns, counts and fractions as floats (NaN where unknown): run_id, configuration, workload,
    concurrency; n_gaps, n_first_gaps, n_inside_gaps, n_requests_with_gaps; prefill_style
    ("separate", "shared", "" unknown); baseline (a run_id or words), baseline_median_ms,
    baseline_p99_ms; n_stalls, n_first_stalls, n_inside_stalls, by cause n_prefill_stalls,
    n_link_stalls, n_unexplained_stalls; stall_fraction_of_gaps, first_stall_fraction,
    inside_stall_fraction, p99_sees_stalls (stalls or slow gaps above 1 % of gaps; null where
    unknown); stall_share_of_decode_time, median_stall_ms, longest_stall_ms; n_slow_gaps,
    slow_fraction_of_gaps, slow_share_of_decode_time; n_long_unexplained (above the baseline's p99,
    neither stalled nor slow); stall_share_estimate (the published estimate); n_first_tokens,
    n_prefill_batches, prefill_batch_mean (k), running_peak (c, the most requests that decoded at
    once), expected_stall_frequency ((c - k) / (k (OSL - 1))); n_engines, n_decode_steps (that
    follow another one of a running request), n_stalled_steps (of these, those after a stall),
    stall_fraction_of_steps, n_unseen_prefills (without a first token in the dump); n_told_gaps (of
    any phase and status, in which stalls were looked for), n_run_gaps (all of these), told_s (from
    the run's start to the end of what was looked at; of a run too long to be looked at whole all
    other figures are of this part, but for n_gaps and stall_share_estimate: ``in_part``); doubt
    (why the run's stalls are uncertain, by ``servebook.measure.certainty``, else ""); why (words
    where stalls cannot be told, else ""). ``links``, ``classified``: see ``gap_stalls``.
    """
    phase = pc.fill_null(pc.equal(tables.requests["phase"], "profiling"), False).to_numpy()
    osl = dict(zip(run_metrics["run_id"], run_metrics["osl_mean"], strict=True))
    found = {}
    for one in classify(tables, links) if classified is None else classified:
        run_id = one.tokens.run_id
        if run_id in osl:
            found[run_id] = _told(one, phase[one.tokens.request_row], float(osl[run_id]))
        del one  # before the next run is made
    clock = dict(
        zip(tables.runs["run_id"].to_pylist(), tables.runs["clock"].to_pylist(), strict=True)
    )
    rows = []
    for run in run_metrics.to_dict("records"):
        row: dict[str, Any] = {
            name: run[name]
            for name in ("run_id", "configuration", "workload", "concurrency", "n_gaps")
        } | {"prefill_style": "", "baseline": "", "p99_sees_stalls": pd.NA, "doubt": "", "why": ""}
        row["stall_share_estimate"] = run["stall_share_estimate"]
        row |= found.get(str(run["run_id"])) or {"why": _why(run, clock.get(run["run_id"]))}
        rows.append(row)
    out = pd.DataFrame(rows, columns=list(SUMMARY_COLUMNS))
    for name in SUMMARY_COLUMNS:
        if name == "p99_sees_stalls":
            out[name] = out[name].astype("boolean")
        elif name == "concurrency":
            out[name] = out[name].astype("Int64")
        elif name not in _WORDS:
            out[name] = out[name].astype("float64")
    return out


def _told(one: ClassifiedRun, counted: Bools, osl: float) -> dict[str, Any]:
    run = one.tokens
    row = _counted(one, counted & run.ok) | _batches(one, counted, osl) | _steps(one.line)
    told_ns = (float(run.gap_end.max()) if run.timed else np.nan) if run.cut is None else run.cut
    return row | {"n_told_gaps": len(run.gap), "n_run_gaps": run.n_run, "told_s": told_ns / 1e9}


def in_part(summary: pd.DataFrame) -> pd.Series:
    """Of which runs of a ``stall_summary`` stalls were looked for in the beginning only."""
    return (summary["n_told_gaps"] < summary["n_run_gaps"]) & summary["told_s"].notna()


def _why(run: dict[Any, Any], clock: str | None) -> str:
    if not run["n_gaps"] > 0:
        if run["osl_mean"] <= 1:
            return "one output token per request: no gaps, so nothing can stall"
        return "the dump holds no gaps between tokens"
    if clock == "none":
        return "the requests have no common clock, so no prefill can be placed in a gap"
    return "the dump says how long the gaps were, but not when"


def _counted(one: ClassifiedRun, counted: Bools) -> dict[str, Any]:
    rows = counted[one.tokens.request]
    gap, first = one.tokens.gap[rows], one.tokens.index[rows] == 0
    stall, slow, cause = one.stall[rows], one.slow[rows], one.cause[rows]
    total = gap.sum()
    excess = np.maximum(gap - np.median(gap), 0) if len(gap) else gap

    def share(part: Bools, whole: Bools | None = None) -> float:
        n = len(part) if whole is None else whole.sum()
        hits = part.sum() if whole is None else (part & whole).sum()
        return float(hits / n) if n else np.nan

    known = one.base is not None
    row: dict[str, Any] = {
        "n_first_gaps": int(first.sum()),
        "n_inside_gaps": int((~first).sum()),
        "n_requests_with_gaps": len(np.unique(one.tokens.request[rows])),
        "prefill_style": one.style,
        "n_stalls": int(stall.sum()),
        "n_first_stalls": int((stall & first).sum()),
        "n_inside_stalls": int((stall & ~first).sum()),
        "stall_fraction_of_gaps": share(stall),
        "first_stall_fraction": share(stall, first),
        "inside_stall_fraction": share(stall, ~first),
        "p99_sees_stalls": bool(share(stall | slow) > ONE_PERCENT) if len(gap) else pd.NA,
        "stall_share_of_decode_time": float(excess[stall].sum() / total) if total else np.nan,
        "median_stall_ms": float(np.median(gap[stall]) / 1e6) if stall.any() else np.nan,
        "longest_stall_ms": float(gap[stall].max() / 1e6) if stall.any() else np.nan,
    }
    for number, name in enumerate(CAUSES[1:], start=1):
        row[f"n_{name}_stalls"] = int((cause == number).sum())
    if one.base is not None:
        row |= {
            "baseline": one.base.source,
            "baseline_median_ms": one.base.median_ns / 1e6,
            "baseline_p99_ms": one.base.p99_ns / 1e6,
            "n_long_unexplained": int((one.long[rows] & ~stall & ~slow).sum()),
        }
    if known or one.style != "shared":
        row |= {
            "n_slow_gaps": int(slow.sum()),
            "slow_fraction_of_gaps": share(slow),
            "slow_share_of_decode_time": float(excess[slow].sum() / total) if total else np.nan,
        }
    return row


def _batches(one: ClassifiedRun, counted: Bools, osl: float) -> dict[str, float]:
    """Prefill batches: first tokens between which no running request got a token."""
    run = one.tokens
    mine = np.flatnonzero(counted & ~np.isnan(run.first))
    if one.line:
        place = np.full(len(run.first), -1, dtype=np.int64)
        known = one.line.prefills.request >= 0
        place[one.line.prefills.request[known]] = one.line.prefills.step[known]
        mine = mine[place[mine] >= 0]
        batches = len(np.unique(place[mine]))
    else:
        tokens = np.searchsorted(np.sort(run.gap_end), np.sort(run.first[mine]), side="right")
        batches = len(np.unique(tokens))
    if not batches:
        return {}
    k = len(mine) / batches
    whole = mine[~np.isnan(run.end[mine])]
    begin, finish = np.sort(run.first[whole]), np.sort(run.end[whole])
    # Just after each first token: those begun less those finished.
    running = np.arange(1, len(begin) + 1) - np.searchsorted(finish, begin, side="left")
    c = float(running.max(initial=0))
    return {
        "n_first_tokens": len(mine),
        "n_prefill_batches": batches,
        "prefill_batch_mean": k,
        "running_peak": c,
        "expected_stall_frequency": max(c - k, 0.0) / (k * (osl - 1)) if osl > 1 else np.nan,
    }


def _steps(line: Timeline | None) -> dict[str, Any]:
    if line is None:
        return {}
    stalled = np.zeros(len(line.ends), dtype=bool)
    if line.style != "shared":
        stalled[line.prefills.step] = True
    n = int(line.joined.sum())
    hit = int((stalled & line.joined).sum())
    return {
        "n_engines": int(line.engine.max(initial=-1)) + 1,
        "n_decode_steps": n,
        "n_stalled_steps": hit,
        "stall_fraction_of_steps": hit / n if n else np.nan,
        "doubt": "; ".join(doubts(line)),
        "n_unseen_prefills": int(
            (np.isnan(line.prefills.end) & ~line.prefills.part).sum()
            if line.style != "shared"
            else 0
        ),
    }
