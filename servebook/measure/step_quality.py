"""How well the recovered steps of an engine explain the tokens that the client saw."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from servebook.measure.clock import NEAR
from servebook.measure.steps import Timeline

__all__ = ["on_time_fraction", "step_quality"]


def on_time_fraction(line: Timeline) -> float:
    """The share of tokens within a fifth of a decode step of their step's end; NaN without any.

    Of tokens in steps with several.
    """
    late = _late(line)
    return float((late <= NEAR * line.tokens.scale).mean()) if len(late) else float("nan")


def _late(line: Timeline) -> npt.NDArray[np.float64]:
    known = line.step_of_gap >= 0
    return np.asarray(line.late[known & (line.decoded[line.step_of_gap] > 1)])


def step_quality(lines: Iterable[Timeline]) -> pd.DataFrame:
    """How well the recovered clock explains each run's tokens; one row per timeline.

    Columns: run_id, prefill_style, n_engines, n_steps (that decoded), n_prefill_steps, n_tokens
    (after the first of each request), on_time_fraction (within a fifth of a decode step of the
    step's end, of tokens in steps with several), jitter_ms (median delay after the step's end of
    the same tokens), jitter_p99_ms.
    """
    rows = []
    for line in lines:
        known = line.step_of_gap >= 0
        late = _late(line)
        some = len(late) > 0
        rows.append(
            {
                "run_id": line.tokens.run_id,
                "prefill_style": line.style,
                "n_engines": int(line.engine.max(initial=-1)) + 1,
                "n_steps": int((line.decoded > 0).sum()),
                "n_prefill_steps": len(np.unique(line.prefills.batch)),
                "n_tokens": int(known.sum()),
                "on_time_fraction": on_time_fraction(line),
                "jitter_ms": float(np.median(late)) / 1e6 if some else np.nan,
                "jitter_p99_ms": float(np.percentile(late, 99)) / 1e6 if some else np.nan,
            }
        )
    return pd.DataFrame(
        rows,
        columns=[
            "run_id",
            "prefill_style",
            "n_engines",
            "n_steps",
            "n_prefill_steps",
            "n_tokens",
            "on_time_fraction",
            "jitter_ms",
            "jitter_p99_ms",
        ],
    )
