"""Two clients on one condition: how far their measurements of the same thing lie apart.

A pair is two runs of different clients with the same configuration, workload and concurrency,
whose measured lengths lie within ``LENGTH_TOLERANCE`` of each other. Both runs are measured by our
definitions, so a deviation is the clients' and the runs' own, not that of their arithmetic; where
a definition still parts them (chunk gaps against token gaps), the row says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.percentiles import below_floor, quantile_of, rests_on
from servebook.measure.trust import LENGTH_TOLERANCE

__all__ = ["PAIR_METRICS", "pairs"]

PAIR_METRICS = (
    "input_throughput_tok_s",
    "output_throughput_tok_s",
    "ttft_mean_ms",
    "ttft_p50_ms",
    "ttft_p99_ms",
    "tpot_mean_ms",
    "tpot_p50_ms",
    "itl_p50_ms",
    "itl_p99_ms",
    "e2e_mean_ms",
)

_COLUMNS = [
    "configuration",
    "workload",
    "concurrency",
    "isl_mean",
    "osl_mean",
    "client_a",
    "run_a",
    "client_b",
    "run_b",
    "metric",
    "value_a",
    "value_b",
    "n_a",
    "n_b",
    "deviation",
    "same_definition",
    "reason",
]


def pairs(run_metrics: pd.DataFrame, metrics: Sequence[str] = PAIR_METRICS) -> pd.DataFrame:
    """One row per pair of runs and metric that both have, pairs sorted by condition and run_id.

    Columns: configuration, workload, concurrency, isl_mean and osl_mean (of run a), client_a,
    run_a, client_b, run_b, metric, value_a, value_b, n_a, n_b (what the value rests on: requests,
    or gaps), deviation (b / a - 1), same_definition, reason (words where not). Percentiles of
    fewer values than their floor on either side are left out. Clients are in alphabetic order.
    Runs without a configuration or a concurrency, and summaries, pair with nothing.
    """
    usable = run_metrics[
        run_metrics["configuration"].notna()
        & run_metrics["concurrency"].notna()
        & (run_metrics["level"] == "records")
    ]
    rows = []
    keys = ["configuration", "workload", "concurrency"]
    for _, group in usable.groupby(keys, sort=True):
        records = sorted(group.to_dict("records"), key=lambda r: (str(r["client"]), r["run_id"]))
        for a, b in combinations(records, 2):
            if a["client"] != b["client"] and _same_lengths(a, b):
                rows += [_row(a, b, metric) for metric in metrics if _both(a, b, metric)]
    return pd.DataFrame(rows, columns=_COLUMNS).astype({"same_definition": bool})


def _row(a: dict[Any, Any], b: dict[Any, Any], metric: str) -> dict[str, Any]:
    reason = ""
    if metric.startswith("itl_") and a["itl_basis"] != b["itl_basis"]:
        reason = f"{a['client']} has {a['itl_basis']} gaps, {b['client']} {b['itl_basis']} gaps"
    if "_throughput_" in metric and a["duration_from"] != b["duration_from"]:
        reason = "one duration is from records, the other the client's stopwatch"
    return {name: a[name] for name in _COLUMNS[:5]} | {
        "client_a": a["client"],
        "run_a": a["run_id"],
        "client_b": b["client"],
        "run_b": b["run_id"],
        "metric": metric,
        "value_a": a[metric],
        "value_b": b[metric],
        "n_a": _n(a, metric),
        "n_b": _n(b, metric),
        "deviation": b[metric] / a[metric] - 1 if a[metric] else np.nan,
        "same_definition": not reason,
        "reason": reason,
    }


def _same_lengths(a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    return all(abs(b[n] - a[n]) <= LENGTH_TOLERANCE * a[n] for n in ("isl_mean", "osl_mean"))


def _n(run: dict[Any, Any], metric: str) -> int:
    return int(run[rests_on(metric) or "n_ok"])


def _both(a: dict[Any, Any], b: dict[Any, Any], metric: str) -> bool:
    if np.isnan(a[metric]) or np.isnan(b[metric]):
        return False
    q = quantile_of(metric)
    return q is None or not below_floor(q, min(_n(a, metric), _n(b, metric)))
