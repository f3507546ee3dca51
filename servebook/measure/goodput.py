"""Goodput: the requests per second that meet every limit of the manifest.

A request meets the limits if it is ok and each limited latency of it is at most its limit; a
failed or cancelled request meets none, and so does one that was sent but left no record. Goodput
is their number / duration, the attainment their share of all requests (the terms are those of
DistServe, Zhong et al., OSDI 2024, which calls goodput the highest rate at which an attainment,
there 90 %, still holds). A limit on a statistic (``ttft_p99_ms``) counts as one on each request's
own value; for ITL, where a request has many gaps, on that statistic of its own gaps, and ``itl_ms``
on their mean.

What is not known is not met and not missed: a run in which one ok request does not tell a limited
latency has no goodput, and the reason in words. TPOT and ITL of a request of one output token are
undefined, and their limits do not bind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from servebook.measure.gap_values import lengths_by_request
from servebook.measure.runs import request_metrics, run_metrics
from servebook.read.manifest_gates import slo_parts
from servebook.tables import Tables

__all__ = ["ATTAINED", "goodput"]

#: The share of requests that must meet the limits for a load to count as served (DistServe).
ATTAINED = 0.9

_LABELS = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "request latency"}
_Q = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
Floats = npt.NDArray[np.float64]


def goodput(tables: Tables, slos: Mapping[str, float]) -> pd.DataFrame:
    """One row per run of ``tables.runs``, in its order.

    Columns: run_id, n_sent (requests with a record, and lost ones), n_within (NaN where unknown),
    goodput_fraction (the attainment), goodput_req_s (requests/s), per limit ``met_<name>`` (share
    of the ok requests that meet it alone), why (words where there is no goodput; empty where there
    is). ``slos`` are limits in ms by the manifest's names; without any there is no goodput.
    """
    runs = run_metrics(tables)
    requests = request_metrics(tables)
    known, met = _judged(tables, requests, slos)
    by_run = requests.groupby("run_id", sort=False).indices
    rows = []
    for run in runs.to_dict("records"):
        row: dict[str, Any] = {"run_id": run["run_id"], "why": ""}
        at = by_run.get(run["run_id"])
        if not slos:
            row["why"] = "the manifest states no limits"
        elif run["level"] != "records" or at is None:
            row["why"] = "a summary without records: no request can be judged"
        else:
            row |= _of_run(run, requests["status"].to_numpy()[at], known, met, at)
        rows.append(row)
    columns = ["run_id", "n_sent", "n_within", "goodput_fraction", "goodput_req_s"]
    columns += [*(f"met_{name}" for name in slos), "why"]
    out = pd.DataFrame(rows, columns=columns)
    numbers = columns[1:-1]
    out[numbers] = out[numbers].astype("float64")
    return out


def _of_run(
    run: Mapping[Any, Any],
    status: npt.NDArray[Any],
    known: dict[str, npt.NDArray[np.bool_]],
    met: dict[str, npt.NDArray[np.bool_]],
    at: Any,
) -> dict[str, Any]:
    ok = status == "ok"
    lost = run["n_lost"] if pd.notna(run["n_lost"]) else 0
    row: dict[str, Any] = {"n_sent": len(status) + lost}
    for name, flags in met.items():
        unknown = int((ok & ~known[name][at]).sum())
        if unknown:
            family = _LABELS[slo_parts(name)[0]]
            row["why"] = f"{unknown:,} of {int(ok.sum()):,} ok requests do not tell their {family}"
            return row
        row[f"met_{name}"] = float(flags[at][ok].mean()) if ok.any() else np.nan
    within = ok.copy()
    for flags in met.values():
        within &= flags[at]
    row["n_within"] = int(within.sum())
    row["goodput_fraction"] = row["n_within"] / row["n_sent"] if row["n_sent"] else np.nan
    if run["duration_s"] > 0:
        row["goodput_req_s"] = row["n_within"] / run["duration_s"]
    else:
        row["why"] = "the run's duration is not known"
    return row


def _judged(
    tables: Tables, requests: pd.DataFrame, slos: Mapping[str, float]
) -> tuple[dict[str, npt.NDArray[np.bool_]], dict[str, npt.NDArray[np.bool_]]]:
    """Per limit and request: whether it can be judged, and whether it is met."""
    short = requests["osl"].to_numpy() < 2  # NaN compares false: an unknown length is not short
    known, met = {}, {}
    for name, limit in slos.items():
        family, statistic = slo_parts(name)
        if family == "itl":
            values = _own_gaps(tables, requests, statistic or "mean")
        else:
            values = requests[f"{family}_ms"].to_numpy(dtype=np.float64)
        free = short if family in ("tpot", "itl") else np.zeros(len(requests), dtype=bool)
        known[name] = ~np.isnan(values) | free
        with np.errstate(invalid="ignore"):
            met[name] = (values <= limit) | free
    return known, met


def _own_gaps(tables: Tables, requests: pd.DataFrame, statistic: str) -> Floats:
    """That statistic of each ok request's own gaps in ms; NaN for a request without gaps."""
    out = np.full(len(requests), np.nan)
    ok = requests["status"].to_numpy() == "ok"
    for request, gap_ns in lengths_by_request(tables, requests, ok):
        by_request = pd.Series(gap_ns / 1e6).groupby(request, sort=True)
        if statistic in _Q:
            found = by_request.quantile(_Q[statistic] / 100)
        else:
            found = by_request.mean() if statistic == "mean" else by_request.max()
        out[found.index.to_numpy(dtype=np.int64)] = found.to_numpy(dtype=np.float64)
    return out
