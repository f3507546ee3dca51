"""Runs of one condition as one row: what is comparable, its middle and its range over repeats.

A condition is (configuration, client, workload, lengths, concurrency, whether prompts were repeated
for the prefix cache). Runs of different clients or lengths are never one condition, because their
definitions and loads differ, and a run with repeated prompts is no repeat of one without. Middles
are medians over the repeats; with one run there is no range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.metrics import METRICS, VALUES

__all__ = [
    "FAILED_LIMIT",
    "SAME_LENGTH",
    "SERIES",
    "comparable",
    "conditions",
    "factors",
    "left_out",
    "lengths",
    "without_concurrency",
]

_VALUE_NAMES = tuple(metric.name for metric in VALUES)

#: A run in which more than this share of requests failed did other work than its condition says.
FAILED_LIMIT = 0.01

SERIES = ("configuration", "client", "workload", "isl", "osl")


#: Mean lengths within this ratio are one length where the dumps do not say what was asked for.
SAME_LENGTH = 1.1


def lengths(runs: pd.DataFrame, name: str) -> pd.Series[float]:
    """The length asked for; else the median of the means that lie close to one another.

    Close within one configuration, client and workload: sampled lengths differ from run to run.
    """
    out = runs[f"{name}_requested"].astype("Float64").to_numpy(np.float64, na_value=np.nan)
    length = pd.Series(out, index=runs.index)
    unknown = runs[length.isna() & runs[f"{name}_mean"].notna()]
    for _, part in unknown.groupby(["configuration", "client", "workload"], sort=True):
        means = part[f"{name}_mean"].sort_values(kind="stable")
        cluster = (means > SAME_LENGTH * means.shift()).cumsum()
        for _, close in means.groupby(cluster):
            length.loc[close.index] = float(round(close.median()))
    return length


def without_concurrency(run: Mapping[Any, Any]) -> str:
    """Why a run has no concurrency: it was sent at a rate, or nobody says how it was loaded."""
    rate = run.get("request_rate")
    known = rate is not None and not pd.isna(rate)
    return "open loop: no set concurrency" if known else "neither a concurrency nor a rate is known"


def left_out(metrics: pd.DataFrame) -> pd.DataFrame:
    """The runs that no comparison uses, with the first reason that holds: run_id, reason."""
    rows = []
    for run in metrics.to_dict("records"):
        reason = ""
        bad = (run["n_failed"] or 0) / run["n_requests"] if run["n_requests"] else 0.0
        if pd.isna(run["configuration"]):
            reason = "the manifest gives no configuration"
        elif run["level"] != "records":
            reason = "a summary without records: nothing to recompute"
        elif not run["n_ok"] > 0:
            reason = "no request succeeded"
        elif bad > FAILED_LIMIT:
            reason = f"{run['n_failed']:,.0f} of {run['n_requests']:,.0f} requests failed"
        elif pd.isna(run["concurrency"]):
            reason = without_concurrency(run)
        if reason:
            rows.append({"run_id": run["run_id"], "reason": reason})
    return pd.DataFrame(rows, columns=["run_id", "reason"])


def comparable(metrics: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``run_metrics`` that comparisons use, with isl, osl and the key ``series``.

    isl and osl are the lengths asked for, else the rounded means (see ``SAME_LENGTH``). ``reuse``
    is whether the run is known to repeat prompts for the prefix cache: the column ``cache_reuse``
    where ``metrics`` has it, else False. Sorted by series, concurrency, run_id.
    """
    kept = metrics[~metrics["run_id"].isin(left_out(metrics)["run_id"])].copy()
    kept["workload"] = kept["workload"].fillna("other")
    kept["client"] = kept["client"].fillna("unknown client")
    for name in ("isl", "osl"):
        kept[name] = lengths(kept, name)
    kept["reuse"] = kept["cache_reuse"].eq(True).fillna(False) if "cache_reuse" in kept else False
    kept["series"] = [
        " | ".join([*(str(value) for value in key), *(["cache reuse"] if reuse else [])])
        for *key, reuse in zip(*(kept[name] for name in SERIES), kept["reuse"], strict=True)
    ]
    return kept.sort_values(["series", "concurrency", "run_id"], kind="stable", ignore_index=True)


def conditions(metrics: pd.DataFrame, values: Sequence[str] = _VALUE_NAMES) -> pd.DataFrame:
    """One row per condition, sorted by series and concurrency.

    Columns: series, those of ``SERIES``, reuse, concurrency (int), n_runs, runs (tuple of run_id),
    n_ok and n_gaps (sums over the runs), n_ok_least and n_gaps_least (of the run with the fewest),
    and for each metric its median over the runs as ``m``, its range as ``m_low`` and ``m_high``
    (NaN with one run). Metrics that ``metrics`` does not have are left out.
    """
    kept = comparable(metrics)
    values = [name for name in values if name in kept]
    rows: list[dict[str, Any]] = []
    for _, part in kept.groupby(["series", "concurrency"], sort=True):
        row: dict[str, Any] = {k: part[k].iloc[0] for k in ("series", *SERIES, "reuse")}
        row |= {
            "concurrency": int(part["concurrency"].iloc[0]),
            "n_runs": len(part),
            "runs": tuple(part["run_id"]),
            "n_ok": part["n_ok"].sum(),
            "n_gaps": part["n_gaps"].sum(),
            "n_ok_least": part["n_ok"].min(),
            "n_gaps_least": part["n_gaps"].min(),
        }
        for name in values:
            known = part[name].dropna()
            row[name] = known.median() if len(known) else np.nan
            several = len(known) > 1
            row[f"{name}_low"] = known.min() if several else np.nan
            row[f"{name}_high"] = known.max() if several else np.nan
        rows.append(row)
    columns = ["series", *SERIES, "reuse", "concurrency", "n_runs", "runs"]
    columns += ["n_ok", "n_gaps", "n_ok_least", "n_gaps_least"]
    columns += [f"{name}{end}" for name in values for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=columns)


def factors(by_condition: pd.DataFrame, metric: str, baseline: str, candidate: str) -> pd.DataFrame:
    """How many times better the baseline is, for each condition that both configurations ran.

    Same client, workload, lengths, reuse and concurrency only. Columns: client, workload, isl, osl,
    reuse, concurrency, baseline, candidate (values), factor (above 1: the baseline is better in the
    metric's direction), factor_low, factor_high (extremes over the repeats; NaN where neither side
    has repeats), n_baseline, n_candidate (runs), runs.
    """
    on = ["client", "workload", "isl", "osl", "reuse", "concurrency"]
    columns = [metric, f"{metric}_low", f"{metric}_high", "n_runs", "runs"]
    sides = [
        by_condition[by_condition["configuration"] == name][[*on, *columns]]
        for name in (baseline, candidate)
    ]
    both = sides[0].merge(sides[1], on=on, suffixes=("_b", "_c"), validate="1:1")
    both = both.dropna(subset=[f"{metric}_b", f"{metric}_c"])
    higher = METRICS[metric].better != "lower"
    top, bottom = ("b", "c") if higher else ("c", "b")

    def end(side: str, which: str) -> pd.Series[float]:
        return both[f"{metric}_{which}_{side}"].fillna(both[f"{metric}_{side}"])

    repeats = (both["n_runs_b"] > 1) | (both["n_runs_c"] > 1)
    runs = [(*b, *c) for b, c in zip(both["runs_b"], both["runs_c"], strict=True)]
    out = both[on].assign(
        baseline=both[f"{metric}_b"],
        candidate=both[f"{metric}_c"],
        factor=both[f"{metric}_{top}"] / both[f"{metric}_{bottom}"],
        factor_low=(end(top, "low") / end(bottom, "high")).where(repeats),
        factor_high=(end(top, "high") / end(bottom, "low")).where(repeats),
        n_baseline=both["n_runs_b"],
        n_candidate=both["n_runs_c"],
        runs=pd.Series(runs, index=both.index, dtype=object),
    )
    return out.sort_values(on, kind="stable", ignore_index=True)


def beyond_lowest(by_condition: pd.DataFrame, metric: str) -> pd.Series[float]:
    """The share of a metric that its series did not have at its lowest concurrency.

    1 - (value at the lowest concurrency / value), per row of ``conditions``; for TTFT an estimate
    of the share spent waiting for others. NaN at the lowest concurrency itself, and below 0 where
    the metric fell.
    """
    ordered = by_condition.dropna(subset=[metric]).sort_values("concurrency", kind="stable")
    lowest = ordered.groupby("series")[metric].first()
    first = ordered.groupby("series")["concurrency"].first()
    share = 1 - by_condition["series"].map(lowest) / by_condition[metric]
    return share.where(by_condition["concurrency"] > by_condition["series"].map(first))
