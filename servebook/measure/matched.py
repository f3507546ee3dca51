"""Two configurations at the same running batch, instead of the same client concurrency.

At one concurrency two engines may run different batches: slots are limited, or requests wait. The
time per output token depends on the batch, so it is compared at equal batch (output rate x mean
TPOT, Little's law for the decode phase). Between measured points TPOT is interpolated over the
batch, both as logarithms; outside the measured range there is no value, and no extrapolation.

Per deployment the batches are equal as they are; per GPU each batch is first divided by the GPUs
of its configuration, where the manifest states them: then each GPU carries as many requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["COLUMNS", "at_batch", "matched"]

COLUMNS = ("basis", "batch", "first", "second", "ratio", "measured", "runs")


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
) -> pd.DataFrame:
    """The metric of both sides at each batch that one measured and the other's range holds.

    ``first`` and ``second`` are conditions of one series each: running_batch, the metric, runs
    (tuples). ``gpus``: those of either configuration, None where not stated. Columns: basis
    ("deployment"; "GPU" where both state GPUs and they differ: batch is then per GPU), batch,
    first, second (values), ratio (first / second), measured ("first", "second", "both": whose
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
                values = [at_batch(f["batch"].tolist(), f[metric].tolist(), batch) for f in sides]
            except ValueError:
                continue
            both = all(np.isclose(f["batch"], batch, rtol=1e-9).any() for f in sides)
            if both and name == "second":
                continue  # told with the first
            rows.append(
                {
                    "basis": basis,
                    "batch": batch,
                    "first": values[0],
                    "second": values[1],
                    "ratio": values[0] / values[1],
                    "measured": "both" if both else name,
                    "runs": tuple(runs),
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))
