"""Fit one run's recipe to the figures that were printed for its condition.

Each printed figure is met by the free parameter that moves it: the decode step sets the median
ITL (or the TPOT of a decode run), the prefill rate sets the tail, the spread of the decode steps
the mean that is left, the pause between requests the throughput, the delay before the engine the
TTFT. Discrete settings (prompts per batch, ramp, jitter, waves) are tried in a fixed order; the
continuous ones are solved by least squares on the logarithms of the figures, and the candidate
with the smallest worst deviation wins, fewer catch-all seconds deciding between equals. Where
whole prompts need more spread than an engine's own, prompts may span steps instead, without any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.explain.reconstruct.condition import Condition, Recipe, figures, replay

__all__ = ["Fit", "fit"]

Floats = npt.NDArray[np.float64]
GOOD = 2e-4  # worst relative deviation at which the search stops
PLAIN_SPREAD = 0.3  # largest spread of decode steps that passes for an engine's own
# Step of the finite differences: the model is piecewise smooth, so that tiny steps see nothing.
_STEP = {"decode_s": 2e-3, "prefill_tok_s": 2e-3, "spread_up": 1e-2, "slow_start": 1e-2}
_SECONDS_STEP = 0.05
_LOGARITHMIC = ("decode_s", "prefill_tok_s")


@dataclass(frozen=True)
class Fit:
    """A recipe, the figures that it yields, and the parameters that were free."""

    condition: Condition
    recipe: Recipe
    figures: dict[str, float]
    free: tuple[str, ...]

    @classmethod
    def of(cls, condition: Condition, recipe: Recipe, free: tuple[str, ...]) -> Fit:
        """What the recipe yields under the condition."""
        return cls(condition, recipe, figures(replay(condition, recipe)), free)

    @property
    def worst(self) -> float:
        """Largest relative deviation from a printed figure; 0 where none was printed."""
        return max(
            (abs(self.figures[k] / v - 1) for k, v in self.condition.targets.items()), default=0.0
        )


def fit(condition: Condition, start: Recipe, *, based: bool = False) -> Fit:
    """The recipe that meets the condition's printed figures, from ``start``.

    ``based``: the start is the fit of a like run, whose discrete settings are kept.
    """
    free = _free(condition) if condition.targets else ()
    if start.pause_s == 0 and "pause_s" in free:
        start = replace(start, pause_s=_idle_s(condition) or 1.0)
    if start.delay_s == 0 and "delay_s" in free:
        start = replace(start, delay_s=condition.targets["ttft_mean_s"] / 2)
    best: Fit | None = None
    if based and start.full_step_s > 0:
        free = tuple(name for name in free if name != "spread_up")
    elif not based:
        start = replace(start, full_step_s=0.0)
    for candidate in (start,) if based else _candidates(condition, start):
        found = _solve(condition, candidate, free)
        if best is None or _better(found, best):
            best = found
        if best.worst < GOOD and best.recipe.spread_up < PLAIN_SPREAD:
            break
    assert best is not None
    tailed = {"itl_median_ms", "itl_p99_ms"} <= set(condition.targets)
    if not based and tailed and best.recipe.spread_up >= PLAIN_SPREAD:
        best = _spanning(condition, start, best)
    if free == ("pause_s",) and best.worst > GOOD:  # faster than its model without any pause
        return _solve(condition, replace(start, pause_s=0.0), ("decode_s",))
    return best


def _spanning(condition: Condition, start: Recipe, best: Fit) -> Fit:
    """Prompts that span steps, where whole prompts leave more spread than an engine's own.

    A full step then takes what p99 lies above the median, so that the prefill rate is free to
    meet the mean. The best of a fixed grid, unless it misses what the spread meets.
    """
    tail = condition.targets["itl_p99_ms"] - condition.targets["itl_median_ms"]
    free = tuple(name for name in best.free if name != "spread_up")
    for jitter, ramp, rate, pause in product((1.0, 0.5), (1.0, 0.0), (0.8, 0.65, 1.0), (1.0, 4.0)):
        candidate = replace(
            start,
            full_step_s=tail / 1e3,
            spread_up=0.0,
            prefill_tok_s=best.recipe.prefill_tok_s * rate,
            pause_jitter=jitter,
            ramp=ramp,
            pause_s=pause if "pause_s" in free else 0.0,
        )
        found = _solve(condition, candidate, free)
        if found.worst < 5e-4 and _better(found, best):
            best = found
        if best.recipe.full_step_s > 0 and best.worst < GOOD:
            break
    return best


def _unexplained(recipe: Recipe) -> tuple[float, float]:
    return max(recipe.spread_up, PLAIN_SPREAD), recipe.catch_all_s()


def _idle_s(condition: Condition) -> float:
    """Seconds of a closed-loop cycle that the printed figures leave over: where pauses start."""
    tokens = {
        "input_throughput": condition.isl,
        "output_throughput": condition.osl,
        "total_throughput": condition.isl + condition.osl,
    }
    printed = condition.targets
    cycles = [condition.concurrency * n / printed[k] for k, n in tokens.items() if k in printed]
    if not cycles:
        return 0.0
    decode = (condition.osl - 1) * printed.get("tpot_mean_ms", 0.0) / 1e3
    slots = min(1.0, condition.max_num_seqs * condition.replicas / condition.concurrency)
    return max(0.0, slots * cycles[0] - decode - printed.get("ttft_mean_s", 0.0)) / 2


def _better(one: Fit, other: Fit) -> bool:
    if max(one.worst, other.worst) < 5e-4:
        return _unexplained(one.recipe) < _unexplained(other.recipe)
    return one.worst < other.worst


def _free(condition: Condition) -> tuple[str, ...]:
    """The parameters that the printed figures pin down."""
    printed = set(condition.targets)
    throughput = printed & {"input_throughput", "output_throughput", "total_throughput"}
    if condition.workload == "prefill":
        return ("prefill_tok_s",) + (("pause_s",) if "ttft_mean_s" in printed else ())
    queued = condition.concurrency > condition.replicas * condition.max_num_seqs
    if condition.workload == "decode":
        # with all slots taken a pause hides in the queue: only time in the slot costs throughput
        second = ("prefill_tok_s",) if queued else ("pause_s",)
        third = ("slow_start",) if "tpot_p99_ms" in printed else ()
        return ("decode_s", *(second if "tpot_mean_ms" in printed else ()), *third)
    if "itl_median_ms" not in printed:
        latency = "ttft_mean_s" in printed
        if latency and queued:  # the queue sets the TTFT; a pause shortens it
            return ("decode_s", "pause_s")
        return ("decode_s", "prefill_tok_s", "delay_s") if latency else ("pause_s",)
    names = ("decode_s", "prefill_tok_s", "spread_up")
    return (*names, "pause_s") if throughput else names


def _candidates(condition: Condition, start: Recipe) -> Iterator[Recipe]:
    if condition.workload == "prefill":
        for waves in (4, 8, 12, 16, 20, 24):
            yield replace(start, waves=waves)
        return
    if condition.workload == "decode":
        yield start
        return
    tail = condition.targets.get("itl_p99_ms")
    middle = condition.targets.get("itl_median_ms", 0)
    # a queue needs more waves to fill: its first requests did not wait
    stretch = (1, 2) if tail is None and "ttft_mean_s" in condition.targets else (1,)
    choices = product((1.0, 0.0, 0.5), (0.5, 0.1, 0.25), stretch, range(1, 7))
    for ramp, jitter, longer, batch in choices:
        rate = start.prefill_tok_s
        if tail and tail > 3 * middle:
            rate = batch * condition.isl / ((tail - middle) / 1e3)
        yield replace(
            start,
            prompts_per_batch=batch,
            ramp=ramp,
            pause_jitter=jitter,
            prefill_tok_s=rate,
            waves=start.waves * longer,
        )


def _solve(condition: Condition, start: Recipe, free: tuple[str, ...]) -> Fit:
    """Least squares over the free parameters; rates and steps on a log scale, the rest linear."""
    from scipy.optimize import least_squares  # a second to import, of which pages have no need

    def recipe(point: Floats) -> Recipe:
        values: dict[str, Any] = {
            name: getattr(start, name) * float(np.exp(x)) if name in _LOGARITHMIC else float(x)
            for name, x in zip(free, point, strict=True)
        }
        return replace(start, **values)

    def residuals(point: Floats) -> Floats:
        found = figures(replay(condition, recipe(point)))
        miss = [log(found[name] / value) for name, value in condition.targets.items()]
        return np.array([*miss, *(1e-6 * point)])

    def slopes(point: Floats) -> Floats:
        here = residuals(point)
        columns = []
        for i, name in enumerate(free):
            step = _STEP.get(name, _SECONDS_STEP)
            there = point.copy()
            there[i] += step
            columns.append((residuals(there) - here) / step)
        return np.array(columns).T

    if free and condition.targets:
        low = np.array([-3.0 if name in _LOGARITHMIC else 0.0 for name in free])
        high = np.array([3.0 if name in _LOGARITHMIC else 1e4 for name in free])
        first = np.array([0.0 if n in _LOGARITHMIC else getattr(start, n) for n in free])
        first = np.clip(first, low + 1e-3, high - 1e-3)
        answer = least_squares(
            residuals, first, jac=slopes, bounds=(low, high), x_scale="jac", max_nfev=25
        )
        start = recipe(answer.x)
    return Fit.of(condition, start, free)
