"""Two configurations at the same running batch, instead of the same client concurrency.

At one concurrency two engines may run different batches: slots are limited, or requests wait. The
time per output token depends on the batch, so it is compared at equal batch (output rate x mean
TPOT, Little's law for the decode phase). Between measured points TPOT is interpolated over the
batch, both as logarithms; outside the measured range there is no value, and no extrapolation.

Where every point that a ratio rests on was run at least twice, the ratio has an interval: Student's
t on the logarithms, the variances of the points weighted as the interpolation weighs them, degrees
of freedom after Satterthwaite. The running batch is taken as it was measured, without error.

Per deployment the batches are equal as they are; per GPU each batch is first divided by the GPUs
of its configuration, where the manifest states them: then each GPU carries as many requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.ratio import CONFIDENCE

__all__ = ["COLUMNS", "at_batch", "matched"]

COLUMNS = ("basis", "batch", "first", "second", "ratio", "low", "high", "measured", "runs")


def at_batch(batches: Sequence[float], values: Sequence[float], batch: float) -> float:
    """The value at a batch, interpolated on the log scale between measured batches.

    Raises ValueError outside the measured range, and where fewer than one point is measured.
    """
    x, y = np.asarray(batches, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if not x.size or not x.min() <= batch <= x.max():
        span = f"{x.min():.3g} to {x.max():.3g}" if x.size else "nothing"
        raise ValueError(f"a running batch of {batch:.3g} was not measured (measured: {span})")
    order = np.argsort(x, kind="stable")
    return float(np.exp(np.interp(np.log(batch), np.log(x[order]), np.log(y[order]))))


def matched(
    first: pd.DataFrame,
    second: pd.DataFrame,
    gpus: tuple[float | None, float | None] = (None, None),
    metric: str = "tpot_mean_ms",
    values: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """The metric of both sides at each batch that one measured and the other's range holds.

    ``first`` and ``second`` are conditions of one series each: running_batch, the metric, runs
    (tuples). ``gpus``: those of either configuration, None where not stated. ``values``: the
    metric of each run, for intervals. Columns: basis
    ("deployment"; "GPU" where both state GPUs and they differ: batch is then per GPU), batch,
    first, second (values), ratio (first / second) with its 95 % interval low, high (NaN
    without repeats of every point that it rests on), measured ("first", "second", "both": whose
    point it is; the other's value is interpolated), runs. Empty where the ranges do not meet.
    """
    rows: list[dict[str, Any]] = []
    bases: list[tuple[str, float, float]] = [("deployment", 1.0, 1.0)]
    if gpus[0] and gpus[1] and gpus[0] != gpus[1]:
        bases.append(("GPU", float(gpus[0]), float(gpus[1])))
    for basis, *per in bases:
        known = [f[(f["running_batch"] > 0) & (f[metric] > 0)] for f in (first, second)]
        sides = [f.assign(batch=f["running_batch"] / n) for f, n in zip(known, per, strict=True)]
        points = [
            (float(row["batch"]), name, row["runs"])
            for name, frame in zip(("first", "second"), sides, strict=True)
            for row in frame.to_dict("records")
        ]
        for batch, name, runs in sorted(points):
            try:
                told = [at_batch(f["batch"].tolist(), f[metric].tolist(), batch) for f in sides]
            except ValueError:
                continue
            both = all(np.isclose(f["batch"], batch, rtol=1e-9).any() for f in sides)
            if both and name == "second":
                continue  # told with the first
            half = _half(sides, batch, values) if values else float("nan")
            ratio = told[0] / told[1]
            rows.append(
                {
                    "basis": basis,
                    "batch": batch,
                    "first": told[0],
                    "second": told[1],
                    "ratio": ratio,
                    "low": ratio * float(np.exp(-half)),
                    "high": ratio * float(np.exp(half)),
                    "measured": "both" if both else name,
                    "runs": tuple(runs),
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _half(sides: Sequence[pd.DataFrame], batch: float, values: Mapping[str, float]) -> float:
    """Half of the interval of the ratio's logarithm; NaN where a point has a single run."""
    from scipy import stats  # a second to import, of which many campaigns have no need

    parts = [part for side in sides for part in _variances(side, batch, values)]
    total = sum(variance for variance, _ in parts)
    if not total > 0 or any(df < 1 for _, df in parts):
        return float("nan")
    df = total**2 / sum(variance**2 / df for variance, df in parts)
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, df) * np.sqrt(total))


def _variances(
    side: pd.DataFrame, batch: float, values: Mapping[str, float]
) -> list[tuple[float, int]]:
    """Variance and degrees of freedom that each point next to the batch adds to its logarithm."""
    side = side.sort_values("batch", kind="stable")
    x = np.log(side["batch"].to_numpy(dtype=np.float64))
    above = min(int(np.searchsorted(x, np.log(batch))), len(x) - 1)
    below = max(above - 1, 0)
    weight = (np.log(batch) - x[below]) / (x[above] - x[below]) if x[above] > x[below] else 1.0
    out = []
    for place, share in ((below, 1 - weight), (above, weight)):
        if share > 1e-9:
            logs = np.log([values[str(run)] for run in side["runs"].iloc[place]])
            variance = float(logs.var(ddof=1)) / len(logs) if len(logs) > 1 else float("nan")
            out.append((share**2 * variance, len(logs) - 1))
    return out
