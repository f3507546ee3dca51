"""How far runs of one and the same condition lie apart: the yardstick for every difference.

Per condition (``conditions``: configuration, client, workload, lengths, concurrency) and metric,
over the runs: the coefficient of variation is taken from the standard deviation of the
logarithms; its interval comes from the chi-square distribution and shows how little three runs
know about their own scatter. The interval of the mean is Student's t on the log scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.ratio import CONFIDENCE

__all__ = ["COLUMNS", "elsewhere", "spread"]

COLUMNS = (
    "series",
    "configuration",
    "client",
    "workload",
    "isl",
    "osl",
    "concurrency",
    "metric",
    "n_runs",
    "runs",
    "values",
    "mean",
    "mean_low",
    "mean_high",
    "cv",
    "cv_low",
    "cv_high",
    "range",
)


def spread(
    by_condition: pd.DataFrame,
    run_metrics: pd.DataFrame,
    metrics: Sequence[str],
    confidence: float = CONFIDENCE,
) -> pd.DataFrame:
    """One row per condition with at least two runs, and metric that all of them have above 0.

    ``by_condition`` is ``conditions``, ``run_metrics`` the runs behind it. Columns: ``COLUMNS``;
    values and runs are tuples in one order; mean is the geometric mean over runs with its interval
    mean_low, mean_high; cv is the standard deviation of the logarithms (a fraction) with its
    interval cv_low, cv_high; range is highest / lowest - 1. Sorted as the conditions come.
    """
    from scipy import stats  # a second to import, of which many campaigns have no need

    values = run_metrics.set_index("run_id")
    rows: list[dict[str, Any]] = []
    for condition in by_condition.to_dict("records"):
        runs = list(condition["runs"])
        for metric in metrics:
            own = values.loc[runs, metric].to_numpy(dtype=np.float64)
            if len(own) < 2 or not (own > 0).all():
                continue
            logs = np.log(own)
            n, error = len(own), float(stats.sem(logs))
            half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * error
            sd, tails = float(logs.std(ddof=1)), ((1 + confidence) / 2, (1 - confidence) / 2)
            low, high = (sd * np.sqrt((n - 1) / stats.chi2.ppf(q, n - 1)) for q in tails)
            rows.append(
                {name: condition[name] for name in COLUMNS[:7]}
                | {
                    "metric": metric,
                    "n_runs": n,
                    "runs": tuple(runs),
                    "values": tuple(float(v) for v in own),
                    "mean": float(np.exp(logs.mean())),
                    "mean_low": float(np.exp(logs.mean() - half)),
                    "mean_high": float(np.exp(logs.mean() + half)),
                    "cv": sd,
                    "cv_low": float(low),
                    "cv_high": float(high),
                    "range": float(own.max() / own.min() - 1),
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def elsewhere(spreads: pd.DataFrame, metric: str, workload: str) -> pd.Series[Any] | None:
    """The repeated condition that tells most about this metric: the same workload, most runs.

    A row of ``spread``, of the same workload if there is one, else of any; None without repeats.
    """
    found = spreads[spreads["metric"] == metric]
    same = found[found["workload"] == workload]
    found = same if len(same) else found
    if found.empty:
        return None
    ordered = found.sort_values(["n_runs", "range"], ascending=False, kind="stable")
    row: pd.Series[Any] = ordered.iloc[0]
    return row
