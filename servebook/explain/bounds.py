"""A confounded ratio split in two by an assumption, and the bounds that hold without it.

The published split of a prefill ratio R between two deployments that differ in precision and in
nodes: decode is bound by reading weights and crosses nodes little, so its TPOT ratio P is the part
of precision; what is left of R, R / P, is the price of crossing nodes. Two things speak against it.
Decode crosses nodes, too, and where both deployments hold the same bytes of weights per GPU, a
decode that only reads weights takes the same time in both: the assumption predicts its own P to be
that ratio of bytes. So P may lie anywhere between the ratio of bytes per GPU and the largest ratio
seen in decode, and the node part anywhere between min(R) / max(P) and max(R) / min(P). These are
bounds of the split under "effects multiply", not confidence intervals.

``slowest_mean_ms`` is arithmetic: with mean m and 99th percentile q of the gaps, the slowest 1 %
average at least (m - 0.99 q) / 0.01, because the other 99 % are at most q each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from servebook.explain.decompose import geometric_mean
from servebook.explain.memory import fit
from servebook.measure.metrics import METRICS
from servebook.read.manifest import Configuration

__all__ = ["Split", "bytes_ratio", "ratios", "slowest_mean_ms", "split", "unsaturated"]


@dataclass(frozen=True)
class Split:
    """Ranges of factors, each (low, high); the ``published`` ones rest on the assumption."""

    total: tuple[float, float]
    precision: tuple[float, float]
    rest: tuple[float, float]
    precision_centre: float
    rest_centre: float
    predicted: float | None  # TPOT ratio if decode only reads weights; None: not stated
    precision_bounds: tuple[float, float]
    rest_bounds: tuple[float, float]


def ratios(
    conditions: pd.DataFrame, workload: str, metric: str, candidate: str, baseline: str
) -> pd.DataFrame:
    """How many times better the candidate is, per shared condition of one client and length.

    Of several (client, lengths) the one with most concurrencies. Columns: client, isl, osl,
    concurrency, candidate, baseline (values), ratio, runs; by concurrency.
    """
    on = ["client", "isl", "osl", "concurrency"]
    rows = conditions[(conditions["workload"] == workload) & conditions[metric].notna()]
    sides = [rows[rows["configuration"] == n][[*on, metric, "runs"]] for n in (candidate, baseline)]
    both = sides[0].merge(sides[1], on=on, suffixes=("_c", "_b"))
    ratio = both[f"{metric}_c"] / both[f"{metric}_b"]
    out = both[on].assign(
        candidate=both[f"{metric}_c"],
        baseline=both[f"{metric}_b"],
        ratio=1 / ratio if METRICS[metric].better == "lower" else ratio,
        runs=pd.Series(
            [(*c, *b) for c, b in zip(both["runs_c"], both["runs_b"], strict=True)],
            index=both.index,
            dtype=object,
        ),
    )
    if out.empty:
        return out
    groups = [part for _, part in out.groupby(on[:3], sort=True)]
    best = max(groups, key=len).sort_values("concurrency", kind="stable")
    return pd.DataFrame(best.reset_index(drop=True))


def unsaturated(found: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``ratios`` up to the lower of the two sides' peaks (throughputs)."""
    if found.empty:
        return found
    peaks = [found["concurrency"].iloc[int(found[s].argmax())] for s in ("candidate", "baseline")]
    kept: pd.DataFrame = found[found["concurrency"] <= min(peaks)]
    return kept


def bytes_ratio(candidate: Configuration, baseline: Configuration) -> float | None:
    """Weight bytes per GPU of the baseline over the candidate's; None where not stated."""
    sides = [fit(c, 1_000_000_000).weights_per_gpu_gb for c in (baseline, candidate)]
    return sides[0] / sides[1] if sides[0] and sides[1] else None


def split(total: Sequence[float], decode: Sequence[float], predicted: float | None) -> Split:
    """Splits prefill ratios by decode TPOT ratios; see the module. Neither may be empty."""
    if not len(total) or not len(decode):
        raise ValueError("expected at least one ratio of each kind")
    low, high = min(decode), max(decode)
    bounds = (min(low, predicted), max(high, predicted)) if predicted else (low, high)
    centre = geometric_mean(decode)
    return Split(
        total=(min(total), max(total)),
        precision=(low, high),
        rest=(min(total) / centre, max(total) / centre),
        precision_centre=centre,
        rest_centre=geometric_mean([min(total), max(total)]) / centre,
        predicted=predicted,
        precision_bounds=bounds,
        rest_bounds=(min(total) / bounds[1], max(total) / bounds[0]),
    )


def slowest_mean_ms(mean_ms: float, p99_ms: float) -> float:
    """The least that the slowest 1 % of gaps average, from mean and p99 alone (ms)."""
    return (mean_ms - 0.99 * p99_ms) / 0.01
