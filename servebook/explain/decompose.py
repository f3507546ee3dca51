"""Factors of a result between configurations: measured cells, effects, and what separates causes.

Everything is a ratio of two measured values of one condition (same client, workload, lengths and
concurrency), so that effects multiply: on a log scale they add up. For two bundles of factors with
all four cells the interaction is the ratio of the two simple effects; 1 means that one factor does
the same at both levels of the other. Effects of bundled factors (``servebook.explain.factors``)
are effects of the bundle: nothing here says which of its factors causes them.

The model behind "precision part" and "node part" is stated in ``servebook.explain.bounds``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np
import pandas as pd

from servebook.explain.factors import Bundle, differing
from servebook.measure.metrics import METRICS
from servebook.read.manifest import Configuration

__all__ = ["CONDITION", "edges", "fullest", "geometric_mean", "interaction", "separated", "shared"]

CONDITION = ("client", "isl", "osl", "concurrency")
_EDGES = ["bundle", "from_level", "to_level", "at", "from", "to", "factor"]


def shared(conditions: pd.DataFrame, workload: str, metric: str) -> pd.DataFrame:
    """The conditions of a workload, with the column ``n_configurations`` that ran each."""
    rows = conditions[
        (conditions["workload"] == workload) & conditions[metric].notna() & (conditions[metric] > 0)
    ]
    many = rows.groupby(list(CONDITION))["configuration"].transform("nunique")
    return rows.assign(n_configurations=many.astype("int64"))


def fullest(conditions: pd.DataFrame, workload: str, metric: str) -> pd.DataFrame:
    """The rows of the condition that most configurations ran; of equals the highest concurrency.

    One row per configuration; empty where the workload was not run.
    """
    rows = shared(conditions, workload, metric)
    if rows.empty:
        return rows
    keys = ["n_configurations", "concurrency", "isl", "osl", "client"]
    best = rows.sort_values(keys, kind="stable").iloc[-1]
    same = (rows[list(CONDITION)] == best[list(CONDITION)]).all(axis=1)
    return rows[same].reset_index(drop=True)


def edges(
    values: Mapping[str, float],
    configurations: Sequence[Configuration],
    bundle: Bundle,
    others: Sequence[Bundle],
    *,
    higher_is_better: bool = True,
) -> pd.DataFrame:
    """Every factor along one bundle: neighbouring levels, all other bundles equal.

    ``values`` maps configurations to a positive value. Columns: bundle (tuple of factors),
    from_level, to_level (tuples), at (levels of the others, tuple of tuples), from, to
    (configurations), factor (how many times better ``from`` is).
    """
    cell = {
        (bundle.of(c), tuple(o.of(c) for o in others)): c.name
        for c in reversed(configurations)
        if c.name in values
    }
    rows = []
    for at in dict.fromkeys(tuple(o.of(c) for o in others) for c in configurations):
        here = [lv for lv in bundle.levels if (lv, at) in cell]
        for one, two in pairwise(here):
            a, b = cell[one, at], cell[two, at]
            ratio = values[a] / values[b]
            factor = ratio if higher_is_better else 1 / ratio
            rows.append(
                dict(zip(_EDGES, (bundle.factors, one, two, at, a, b, factor), strict=True))
            )
    return pd.DataFrame(rows, columns=_EDGES)


def geometric_mean(values: Sequence[float]) -> float:
    """The middle of factors on a log scale."""
    return float(np.exp(np.mean(np.log(np.asarray(values, dtype=float)))))


def interaction(along: pd.DataFrame) -> float | None:
    """The ratio of the two simple effects of a two-by-two grid, the first over the second.

    ``along`` is ``edges`` of one bundle. None unless it holds two edges between the same levels.
    """
    steps = set(zip(along["from_level"], along["to_level"], strict=True))
    if len(along) != 2 or len(steps) != 1:
        return None
    return float(along["factor"].iloc[0] / along["factor"].iloc[1])


def separated(
    conditions: pd.DataFrame, configurations: Sequence[Configuration], metric: str, workload: str
) -> pd.DataFrame:
    """Effects of one factor alone: pairs of configurations that differ in that factor only.

    These are the measurements that a split of a confounded ratio needs. Columns: factor,
    from_level, to_level, baseline, candidate (configuration names), those of ``CONDITION``, ratio
    (how many times better the first is), runs. Sorted by factor and condition.
    """
    rows = shared(conditions, workload, metric)
    better = METRICS[metric].better
    out = []
    for a, b in combinations(configurations, 2):
        names = differing([a, b])
        if len(names) != 1:
            continue
        sides = [rows[rows["configuration"] == c.name] for c in (a, b)]
        both = sides[0].merge(sides[1], on=list(CONDITION), suffixes=("_a", "_b"))
        for pair in both.to_dict("records"):
            ratio = pair[f"{metric}_a"] / pair[f"{metric}_b"]
            out.append(
                {
                    "factor": names[0],
                    "baseline": a.name,
                    "candidate": b.name,
                    **{key: pair[key] for key in CONDITION},
                    "ratio": 1 / ratio if better == "lower" else ratio,
                    "runs": (*pair["runs_a"], *pair["runs_b"]),
                }
            )
    columns = ["factor", "baseline", "candidate", *CONDITION, "ratio", "runs"]
    frame = pd.DataFrame(out, columns=columns)
    return frame.sort_values(columns[:-2], kind="stable", ignore_index=True)
