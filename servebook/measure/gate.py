"""Whether two sides of a ratio may be compared: the manifest's settings and what the dumps tell.

``servebook.measure.settings`` compares what the manifest states. The dumps add the client and its
version, the model, the lengths, the concurrency and the reuse of a cache, which are settings of
the measurement; and what the load became of them: the running batch and failed requests, which are
no settings but say that the two engines did not do the same work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.conditions import FAILED_LIMIT, SAME_LENGTH
from servebook.measure.settings import Comparison, compare
from servebook.read.manifest import Configuration

__all__ = ["BATCH_TOLERANCE", "Gate", "gate"]

#: Mean running batches that lie further apart than this did not load the engines alike.
BATCH_TOLERANCE = 0.05

#: column of ``run_metrics``: what it is called.
_NAMED: Mapping[str, str] = {
    "client": "client",
    "client_version": "client version",
    "model": "model",
    "cache_reuse": "cache reuse",
    "itl_basis": "what a gap is",
    "concurrency": "concurrency",
}
_LENGTHS: Mapping[str, str] = {"isl": "input length", "osl": "output length"}


@dataclass(frozen=True)
class Gate:
    """The comparison of two sides, and how their load differed in words (empty: alike)."""

    comparison: Comparison
    from_dumps: tuple[str, ...]  # the names in ``comparison.differ`` that the dumps tell
    load: tuple[str, ...] = field(default=())

    @property
    def mark(self) -> str:
        """SINGLE VARIABLE, n SETTINGS or UNKNOWN."""
        return self.comparison.mark

    @property
    def single(self) -> bool:
        """Whether the ratio has one stated cause, and the load was alike."""
        return self.mark == "SINGLE VARIABLE" and not self.load

    @property
    def words(self) -> str:
        """The mark as a sentence, and the load where it differed."""
        text = self.comparison.words
        return f"{text} Not alike under load: {'; '.join(self.load)}." if self.load else text


def gate(first: Configuration, second: Configuration, runs: pd.DataFrame) -> Gate:
    """Compares the runs of two configurations that a ratio is formed of.

    ``runs`` are the rows of ``run_metrics`` (or ``comparable``) on both sides, with configuration,
    client, client_version, model, concurrency, itl_basis, isl_mean, osl_mean, n_failed,
    n_requests, running_batch; columns that it lacks are not compared. Raises ValueError where a
    side has no run.
    """
    sides = [runs[runs["configuration"] == c.name] for c in (first, second)]
    if any(side.empty for side in sides):
        raise ValueError(f"no run of {first.name} or of {second.name} to compare")
    stated = compare(first, second)
    differ, one_sided = [], list(stated.one_sided)
    for column, name in _NAMED.items():
        if column not in runs:
            continue
        left, right = (set(side[column].dropna()) - {""} for side in sides)
        if bool(left) != bool(right):
            one_sided.append(name)
        elif left != right:
            differ.append(name)
    for column, name in _LENGTHS.items():
        lengths = [_length(side, column) for side in sides]
        unknown = np.isnan(lengths)
        if unknown.any() and not unknown.all():
            one_sided.append(name)
        elif max(lengths) > SAME_LENGTH * min(lengths):  # false where neither is known
            differ.append(name)
    comparison = Comparison((*stated.differ, *differ), tuple(one_sided), stated.unstated)
    return Gate(comparison, tuple(differ), _load(sides))


def _length(side: pd.DataFrame, column: str) -> float:
    name = column if column in side else f"{column}_mean"
    known = side[name].dropna() if name in side else side.iloc[:0, 0]
    return float(known.astype("float64").median()) if len(known) else float("nan")


def _load(sides: list[pd.DataFrame]) -> tuple[str, ...]:
    told = []
    if "running_batch" in sides[0]:
        batches = [float(side["running_batch"].median()) for side in sides]
        if not np.isnan(batches).any() and min(batches) > 0:
            apart = max(batches) / min(batches) - 1
            if apart > BATCH_TOLERANCE:
                told.append(f"running batch {batches[0]:.3g} against {batches[1]:.3g}")
    if "n_failed" in sides[0]:
        shares = [_failed(side) for side in sides]
        if max(shares) > FAILED_LIMIT:
            told.append(f"failed requests {shares[0]:.1%} against {shares[1]:.1%}")
    return tuple(told)


def _failed(side: pd.DataFrame) -> float:
    total: Any = side["n_requests"].sum()
    return float(side["n_failed"].fillna(0).sum() / total) if total else 0.0
