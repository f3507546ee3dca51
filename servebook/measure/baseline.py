"""The decode-only baseline of a run: how long a gap is when the engine only decodes.

Preferred is a decode-only run of the same configuration, client and concurrency: a decode step
takes longer the more requests share it. Without one the run's own gaps serve: those in which no
request waited for its first token, or where there are too few of these, those in which none got
its first token. The source is stated wherever the baseline is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.measure.tokens import RunTokens
from servebook.tables import Tables

__all__ = [
    "LEAST_GAPS",
    "LEAST_SHARE",
    "OWN_GAPS",
    "OWN_IDLE_GAPS",
    "Baseline",
    "Baselines",
    "clean_gaps",
    "prompt_waits",
]

#: Fewer gaps than this make no baseline.
LEAST_GAPS = 100
#: Gaps while nobody waits must be this share of a run's gaps to stand for it: in a run with a
#: queue they come from its end alone, when the batch runs dry.
LEAST_SHARE = 0.25
OWN_GAPS = "own gaps without a first token in them"
OWN_IDLE_GAPS = "own gaps in which no request waited for its first token"

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Baseline:
    """Quantiles of decode-only gaps in ns; ``source`` is a run_id or one of ``OWN_*``."""

    source: str
    median_ns: float
    p95_ns: float
    p99_ns: float
    n_gaps: int


class Baselines:
    """The baselines of a campaign's runs, which are handed over one by one, decode-only runs first.

    Of each run no more is kept than the quantiles of its clean gaps.
    """

    def __init__(self, tables: Tables) -> None:
        names = ["run_id", "configuration", "client", "workload", "concurrency"]
        self._runs = {row["run_id"]: row for row in tables.runs.select(names).to_pylist()}
        self._decode: dict[str, Baseline] = {}

    def in_order(self) -> list[str]:
        """Every run_id, those of decode-only runs first, else in the order of the table."""
        return sorted(self._runs, key=lambda run: self._runs[run]["workload"] != "decode")

    def of(self, run: RunTokens, free: Bools) -> Baseline | None:
        """The baseline of a run, whose gaps without a prefill are ``free``.

        None for a run for which neither a decode-only run nor ``LEAST_GAPS`` gaps of its own exist.
        """
        row, own = self._runs[run.run_id], _quantiles(*clean_gaps(run, free))
        if row["workload"] == "decode":
            named = row["configuration"] is not None and row["concurrency"] is not None
            if own is not None and named:
                self._decode[run.run_id] = own
            return own
        same = [name for name in self._decode if self._alike(self._runs[name], row)]
        return replace(self._decode[min(same)], source=min(same)) if same else own

    @staticmethod
    def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
        return all(one[name] == other[name] for name in ("configuration", "client", "concurrency"))


def prompt_waits(run: RunTokens, slack_ns: float) -> Bools:
    """Per gap: whether some request waited for its first token all through it, give or take."""
    known = ~np.isnan(run.start) & ~np.isnan(run.first)
    start, first = np.sort(run.start[known]), np.sort(run.first[known])
    begun = np.searchsorted(start, run.gap_end - run.gap + slack_ns, side="right")
    done = np.searchsorted(first, run.gap_end - slack_ns, side="left")
    return np.asarray(begun > done)


def clean_gaps(run: RunTokens, free: Bools) -> tuple[str, Floats]:
    """What the run's clean gaps are called, and their lengths in ns: those without a prefill
    (``free``), and best while nobody waits.
    """
    # Half a typical gap: a closed-loop client sends its next request just after a token.
    idle = free & ~prompt_waits(run, 0.5 * run.scale)
    if idle.sum() >= max(LEAST_GAPS, LEAST_SHARE * len(idle)):
        return OWN_IDLE_GAPS, run.gap[idle]
    return OWN_GAPS, run.gap[free]


def _quantiles(source: str, gaps: Floats) -> Baseline | None:
    if len(gaps) < LEAST_GAPS:
        return None
    median, p95, p99 = np.percentile(gaps, [50, 95, 99])
    return Baseline(source, float(median), float(p95), float(p99), len(gaps))
