"""The distribution of the pooled gaps as a short curve: the share of gaps longer than x.

The curve is exact at its points; between them it is thinned for drawing: evenly in the body, and
evenly on a log scale in the tail, where single gaps matter. All gaps are used.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pandas as pd

from servebook.measure.gap_values import values_by_run
from servebook.measure.runs import request_metrics
from servebook.tables import Tables

__all__ = ["POINTS", "longer_than", "pooled_gaps_ms"]

POINTS = 200


def pooled_gaps_ms(
    tables: Tables, runs: Collection[str] | None = None
) -> dict[str, npt.NDArray[np.float64]]:
    """The gaps (ms) of the ok profiling requests of each run, sorted; runs without gaps absent.

    ``runs``: of these alone.
    """
    requests = request_metrics(tables)
    wanted = requests["status"].to_numpy() == "ok"
    if runs is not None:
        wanted &= requests["run_id"].isin(list(runs)).to_numpy()
    return {
        name: np.sort(np.concatenate(list(own.pieces())) / 1e6)
        for name, own in sorted(values_by_run(tables, requests, wanted).items())
    }


def longer_than(values: npt.ArrayLike, points: int = POINTS) -> pd.DataFrame:
    """At most ``points`` rows x, share: the share of the values that are longer than x.

    From just below the smallest value (share 1) to the second largest (share 1/n); the largest
    itself has share 0, which a log axis cannot show. Raises ValueError for fewer than four points.
    """
    if points < 4:
        raise ValueError(f"expected at least 4 points, found {points}")
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    if n == 0:
        return pd.DataFrame({"x": [], "share": []}, dtype="float64")
    longer = np.unique(
        np.concatenate(
            [
                np.geomspace(1, n, points // 2).round(),  # the tail, counted from its end
                np.linspace(1, n, points // 2).round(),
            ]
        )
    ).astype(np.int64)
    # The value that exactly ``k`` others exceed, where values do not tie.
    index = n - longer - 1
    x = np.where(index >= 0, ordered[np.maximum(index, 0)], ordered[0])
    share = (n - np.searchsorted(ordered, x, side="right")) / n
    frame = pd.DataFrame({"x": x, "share": np.where(index >= 0, share, 1.0)})
    frame = frame[frame["share"] > 0]
    return frame.drop_duplicates().sort_values(
        ["x", "share"], ascending=[True, False], kind="stable", ignore_index=True
    )
