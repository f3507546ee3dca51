"""What figures need of a classified run, without its gaps: so much is kept while others are read.

Arrays per step and per request stay (33 bytes a step); those per gap go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from servebook.measure.lanes import busiest_step, lanes
from servebook.measure.stalled_gaps import CAUSES, ClassifiedRun
from servebook.measure.steps import Timeline
from servebook.measure.tokens import RunTokens
from servebook.tables import Tables

__all__ = ["SURROUNDINGS_NS", "StallDigest", "digest"]

#: So much time around its busiest step is kept of a run.
SURROUNDINGS_NS = 2e9

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StallDigest:
    """One run. ``line`` has no arrays per gap, and is None where steps cannot be recovered.

    ``around``: the ``busiest_step``, None without one; ``middle_ns`` its time, else the middle of
    the run; ``segments``: the ``lanes`` of ``SURROUNDINGS_NS`` there. ``paused_ms``: time lost in
    each step that took too long without a prompt. ``n_gaps`` of ``n_run`` were looked at, up to
    ``cut`` ns (None: all).
    """

    run_id: str
    style: str
    line: Timeline | None
    n_stalls: int
    n_requests: int
    around: dict[str, Any] | None
    middle_ns: float
    segments: pd.DataFrame
    paused_ms: Floats
    n_gaps: int
    n_run: int
    cut: float | None


def digest(tables: Tables, one: ClassifiedRun) -> StallDigest:
    """The digest of a run of these tables."""
    run = one.tokens
    around = busiest_step(one)
    starts = run.start[~np.isnan(run.start)]
    middle = around["end_ns"] if around else float(np.median(starts)) if starts.size else 0.0
    begin = max(0.0, middle - SURROUNDINGS_NS / 2)
    return StallDigest(
        run.run_id,
        one.style,
        None if one.line is None else _light(one.line),
        int(one.stall.sum()),
        int(run.isl.size),
        around,
        middle,
        lanes(tables, one, begin, begin + SURROUNDINGS_NS),
        _paused_ms(one),
        len(run.gap),
        run.n_run,
        run.cut,
    )


def _paused_ms(one: ClassifiedRun) -> Floats:
    line = one.line
    if line is None:
        return np.empty(0)
    hit = (one.cause == CAUSES.index("unexplained")) & (line.step_of_gap >= 0)
    at = np.unique(line.step_of_gap[hit])
    return np.asarray((line.length - line.decode)[at] / 1e6)


def _light(line: Timeline) -> Timeline:
    whole, part, no = np.empty(0, np.int64), np.empty(0), np.empty(0, np.bool_)
    tokens: RunTokens = replace(
        line.tokens,
        gap_row=whole,
        request=whole,
        index=whole,
        gap_end=part,
        gap=part,
        leading=no,
    )
    return replace(line, tokens=tokens, step_of_gap=whole, late=part)
