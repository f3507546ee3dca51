"""The decode-only baseline of a run: how long a gap is when the engine only decodes.

Preferred is a decode-only run of the same configuration, client and concurrency: a decode step
takes longer the more requests share it. Without one the run's own gaps serve: those in which no
request waited for its first token, or where there are too few of these, those in which none got
its first token. The source is stated wherever the baseline is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    "baselines",
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


def baselines(tables: Tables, clean: Mapping[str, tuple[str, Floats]]) -> dict[str, Baseline]:
    """The baseline of each run in ``clean`` (run_id: what its clean gaps are called, and the
    gaps in ns without a prefill in them).

    Runs for which neither a decode-only run nor ``LEAST_GAPS`` gaps of their own exist are absent.
    """
    rows = tables.runs.select(
        ["run_id", "configuration", "client", "workload", "concurrency"]
    ).to_pylist()
    known = {row["run_id"]: row for row in rows}
    decode = [
        row
        for row in rows
        if row["workload"] == "decode"
        and row["configuration"] is not None
        and row["concurrency"] is not None
        and row["run_id"] in clean
        and len(clean[row["run_id"]][1]) >= LEAST_GAPS
    ]
    out = {}
    for run_id, (name, own) in clean.items():
        run = known[run_id]
        same = [
            row
            for row in decode
            if row["run_id"] != run_id
            and row["configuration"] == run["configuration"]
            and row["client"] == run["client"]
            and row["concurrency"] == run["concurrency"]
        ]
        if run["workload"] != "decode" and same:
            source = min(str(row["run_id"]) for row in same)
            out[run_id] = _of(source, clean[source][1])
        elif len(own) >= LEAST_GAPS:
            out[run_id] = _of(name, own)
    return out


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


def _of(source: str, gaps: Floats) -> Baseline:
    median, p95, p99 = np.percentile(gaps, [50, 95, 99])
    return Baseline(source, float(median), float(p95), float(p99), len(gaps))
