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

from servebook.tables import Tables

__all__ = ["LEAST_GAPS", "LEAST_SHARE", "OWN_GAPS", "OWN_IDLE_GAPS", "Baseline", "baselines"]

#: Fewer gaps than this make no baseline.
LEAST_GAPS = 100
#: Gaps while nobody waits must be this share of a run's gaps to stand for it: in a run with a
#: queue they come from its end alone, when the batch runs dry.
LEAST_SHARE = 0.25
OWN_GAPS = "own gaps without a first token in them"
OWN_IDLE_GAPS = "own gaps in which no request waited for its first token"

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Baseline:
    """Quantiles of decode-only gaps in ns; ``source`` is a run_id or one of ``OWN_*``."""

    source: str
    median_ns: float
    p95_ns: float
    p99_ns: float
    n_gaps: int


def baselines(tables: Tables, clean: Mapping[str, tuple[str, Ints]]) -> dict[str, Baseline]:
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


def _of(source: str, gaps: Ints) -> Baseline:
    median, p95, p99 = np.percentile(gaps, [50, 95, 99])
    return Baseline(source, float(median), float(p95), float(p99), len(gaps))
