"""Whether prefills explain the stalls: the effective prefill rate, and a control that must fail.

The unit is the engine's step, never the gap: all running requests share a stalled step, so that
gaps would count one prefill many times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from servebook.measure.steps import Timeline, timelines
from servebook.tables import Tables

__all__ = ["CONTROL_COLUMNS", "RATE_COLUMNS", "prefill_rate", "shuffled_control", "stalled_steps"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RATE_COLUMNS = (
    "level",
    "run_id",
    "configuration",
    "n_steps",
    "n_lengths",
    "rate_tok_s",
    "rate_low_tok_s",
    "rate_high_tok_s",
    "base_ms",
    "residual_p50_ms",
    "residual_p90_ms",
    "overall_tok_s",
    "why",
)
CONTROL_COLUMNS = (
    "run_id",
    "other_run_id",
    "n_steps",
    "long_fraction",
    "n_shuffled_steps",
    "shuffled_long_fraction",
    "long_share_of_time",
)

#: Fewer stalled steps make no regression.
LEAST_STEPS = 10
#: The slope is the median over pairs of steps; of more steps than this, evenly spaced ones serve.
_MOST_STEPS = 1500


def prefill_rate(tables: Tables, *, lines: Iterable[Timeline] | None = None) -> pd.DataFrame:
    """Regress the time that stalled steps lost on their prompt tokens: run by run, and pooled.

    One row per run with gaps (level "run", in table order), then one per configuration with a
    stalled step (level "configuration", run_id ""). Columns: level, run_id, configuration,
    n_steps (stalled decode steps whose prompt tokens are known), n_lengths (different token
    counts), rate_tok_s with rate_low_tok_s and rate_high_tok_s (1 / the Theil-Sen slope and its
    95 % interval, within these steps only), base_ms (intercept), residual_p50_ms and
    residual_p90_ms (absolute), overall_tok_s (all tokens / all time lost, the fixed cost of a
    prefill included), why (words where there is no rate, else ""). NaN where undefined. ``lines``:
    timelines of these tables to use instead of all, where they are at hand.
    """
    configuration = dict(
        zip(
            tables.runs["run_id"].to_pylist(),
            tables.runs["configuration"].to_pylist(),
            strict=True,
        )
    )
    rows: list[dict[str, Any]] = []
    pooled: dict[Any, list[tuple[Floats, Floats]]] = {}
    for line in timelines(tables) if lines is None else lines:
        run_id = line.tokens.run_id
        name = configuration[run_id]
        common = {"level": "run", "run_id": run_id, "configuration": name}
        if line.style == "shared":
            rows.append(common | _rate(np.empty(0), np.empty(0)) | {"why": _SHARED})
            continue
        lost, tokens = stalled_steps(line)
        rows.append(common | _rate(lost, tokens))
        pooled.setdefault(name, []).append((lost, tokens))
    for name, parts in pooled.items():
        lost, tokens = (np.concatenate(part) for part in zip(*parts, strict=True))
        if len(lost):
            common = {"level": "configuration", "run_id": "", "configuration": name}
            rows.append(common | _rate(lost, tokens))
    return pd.DataFrame(rows, columns=list(RATE_COLUMNS))


_SHARED = "prompts share steps with decodes: no step is stalled"


def stalled_steps(line: Timeline) -> tuple[Floats, Floats]:
    """Time lost in ns and prompt tokens of each stalled step of which both are known.

    Lost is what the step took beyond the usual decode step of as many requests. Steps that held
    parts of the same prompt count as one.
    """
    found, n = line.prefills, len(line.ends)
    isl = found.prompt_tokens(line.tokens.isl)
    tokens = np.bincount(found.final, isl, minlength=n)  # NaN where one is unknown
    # What the parts of a prompt lost belongs to the prompt, and so to the step of its last part.
    step, begin = np.unique(found.step, return_index=True)
    lost = np.bincount(found.final[begin], (line.length - line.decode)[step], minlength=n)
    at = np.unique(found.final)
    at = at[~np.isnan(lost[at]) & ~np.isnan(tokens[at])]
    return np.asarray(lost[at], dtype=np.float64), np.asarray(tokens[at], dtype=np.float64)


def _rate(lost: Floats, tokens: Floats) -> dict[str, Any]:
    from scipy.stats import theilslopes  # a second to import, of which many campaigns have no need

    row: dict[str, Any] = {
        "n_steps": len(lost),
        "n_lengths": len(np.unique(tokens)),
        "overall_tok_s": float(tokens.sum() / lost.sum() * 1e9) if lost.sum() > 0 else np.nan,
        "why": "",
    }
    if len(lost) < LEAST_STEPS:
        return row | {"why": f"fewer than {LEAST_STEPS} stalled steps"}
    if row["n_lengths"] < 2:
        return row | {"why": "all stalled steps hold the same number of prompt tokens"}
    pick = np.unique(np.linspace(0, len(lost) - 1, min(len(lost), _MOST_STEPS)).astype(np.int64))
    with np.errstate(invalid="ignore"):  # with many ties there is no interval
        slope, _, low, high = theilslopes(lost[pick], tokens[pick], alpha=0.95)
    if not slope > 0:
        return row | {"why": "time lost does not grow with prompt tokens"}
    base = float(np.median(lost - slope * tokens))
    residual = np.abs(lost - base - slope * tokens)
    return row | {
        "rate_tok_s": float(1e9 / slope),
        "rate_low_tok_s": float(1e9 / high),
        "rate_high_tok_s": np.inf if low <= 0 else float(1e9 / low),
        "base_ms": base / 1e6,
        "residual_p50_ms": float(np.percentile(residual, 50) / 1e6),
        "residual_p90_ms": float(np.percentile(residual, 90) / 1e6),
    }


def shuffled_control(tables: Tables, *, lines: Iterable[Timeline] | None = None) -> pd.DataFrame:
    """Attribute steps to first tokens of another run: what is left is what chance explains.

    For each run with stalled steps (prompts in steps of their own): the share of the steps with a
    first token in them that are long (above the usual decode step by more than half of what such
    steps usually lose), with the run's own first tokens and with those of the next run in order
    of run_id, stretched to the same time (of a single run: its own, mirrored in time). Columns:
    run_id, other_run_id, n_steps, long_fraction, n_shuffled_steps, shuffled_long_fraction,
    long_share_of_time (the share that points strewn at random would hit). ``lines``: timelines of
    these tables to use instead of all.
    """
    known = timelines(tables) if lines is None else lines
    chosen = sorted(
        (line for line in known if line.style != "shared" and line.joined.any()),
        key=lambda line: line.tokens.run_id,
    )
    rows = []
    for number, line in enumerate(chosen):
        stalled = np.unique(line.prefills.step)
        stalled = stalled[line.joined[stalled]]
        if not len(stalled):
            continue
        own = _hit(line, line.tokens.first)
        other = chosen[(number + 1) % len(chosen)]
        moved = _hit(line, _stretched(other, line, mirrored=other is line))
        excess = line.length - line.decode
        long = excess > 0.5 * np.median(excess[stalled])
        time = np.where(line.joined, line.length, 0.0)
        rows.append(
            {
                "run_id": line.tokens.run_id,
                "other_run_id": other.tokens.run_id,
                "n_steps": len(own),
                "long_fraction": float(long[own].mean()) if len(own) else np.nan,
                "n_shuffled_steps": len(moved),
                "shuffled_long_fraction": float(long[moved].mean()) if len(moved) else np.nan,
                "long_share_of_time": float(time[long].sum() / time.sum()),
            }
        )
    return pd.DataFrame(rows, columns=list(CONTROL_COLUMNS))


def _hit(line: Timeline, first: Floats) -> Ints:
    """The joined steps, on any engine, in which one of the times lies."""
    out = []
    for one in np.unique(line.engine):
        own = np.flatnonzero(line.engine == one)
        place = np.searchsorted(line.ends[own], first[~np.isnan(first)])
        step = own[place[place < len(own)]]
        out.append(step[line.joined[step]])
    return np.unique(np.concatenate(out)) if out else np.empty(0, dtype=np.int64)


def _stretched(other: Timeline, line: Timeline, *, mirrored: bool) -> Floats:
    first = other.tokens.first[~np.isnan(other.tokens.first)]
    begin, end = float(other.ends.min()), float(other.ends.max())
    share = (first - begin) / max(end - begin, 1.0)
    share = 1 - share if mirrored else share
    return np.asarray(line.ends.min() + share * (line.ends.max() - line.ends.min()))
