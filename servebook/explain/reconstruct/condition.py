"""One published condition, the engine settings that its run is made with, and what they yield.

A condition says what was measured and which figures were printed for it. A recipe holds the free
parameters of one run: those of the engine model and of its client, and the catch-all seconds that
no part of the model explains. ``replay`` turns both into a run; ``figures`` computes the run's
figures by the definitions of ``servebook.measure`` (duration from the first start to the last end,
TPOT per request, ITL pooled), so that a recipe can be fitted without writing a dump.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from servebook.explain.engine import Client, Engine, Run, simulate

__all__ = ["GOLDEN", "Condition", "Recipe", "even", "figures", "replay"]

Floats = npt.NDArray[np.float64]
GOLDEN = (5**0.5 - 1) / 2


def even(n: int) -> Floats:
    """``n`` numbers in [0, 1) that fill it evenly in any stretch: spread without chance."""
    return np.asarray((np.arange(1, n + 1) * GOLDEN) % 1, np.float64)


@dataclass(frozen=True)
class Condition:
    """What one run measured: lengths in tokens, the engine's layout, the printed figures.

    ``targets`` maps a figure's short name (see ``figures``) to its printed value.
    """

    run: str
    configuration: str
    workload: str
    isl: int
    osl: int
    concurrency: int
    replicas: int
    max_num_seqs: int
    targets: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """The free parameters of one run; times in seconds, rates in tokens per second and replica."""

    decode_s: float = 0.03  # one decode step
    prefill_tok_s: float = 10_000.0
    prompts_per_batch: int = 4  # prefill budget in prompts of this run's ISL
    full_step_s: float = 0.0  # prefill budget in seconds, prompts may span steps; 0: whole prompts
    spread_up: float = 0.0  # relative spread of decode steps above their median
    slow_start: float = 0.0  # catch-all: relative extra length of the first wave's decode steps
    pause_s: float = 0.0  # catch-all: between a request's end and the next one's start
    pause_jitter: float = 0.0  # relative spread of the pause, 0 to 1
    delay_s: float = 0.0  # catch-all: between a request's start and its arrival at the engine
    ramp: float = 0.0  # share of one request's time over which the first requests start
    waves: int = 4  # requests per unit of concurrency

    def budget_tok(self, isl: int) -> int:
        """Prompt tokens that one step may take."""
        if self.full_step_s > 0:
            return max(1, round(self.full_step_s * self.prefill_tok_s))
        return self.prompts_per_batch * isl

    def catch_all_s(self) -> float:
        """Seconds per request that no part of the engine model explains."""
        return self.pause_s + self.delay_s


def replay(condition: Condition, recipe: Recipe) -> Run:
    """The run that the recipe yields under the condition; no random numbers."""
    total = condition.concurrency * recipe.waves
    engine = Engine(
        decode_base_s=recipe.decode_s,
        prefill_rate_tok_s=recipe.prefill_tok_s,
        prefill_budget_tok=recipe.budget_tok(condition.isl),
        chunked=recipe.full_step_s > 0,
        max_num_seqs=condition.max_num_seqs,
        replicas=condition.replicas,
    )
    pause = recipe.pause_s * (1 + recipe.pause_jitter * (2 * even(total) - 1)) + recipe.delay_s
    alone = condition.isl / recipe.prefill_tok_s + condition.osl * recipe.decode_s
    run = simulate(
        engine,
        Client(
            isl=[condition.isl] * total,
            osl=[condition.osl] * total,
            concurrency=condition.concurrency,
            overhead_s=list(pause),
            ramp_s=recipe.ramp * alone,
        ),
    )
    if recipe.spread_up or recipe.slow_start:
        run = _stretch(run, recipe)
    return replace(run, start_s=run.start_s - recipe.delay_s) if recipe.delay_s else run


def _stretch(run: Run, recipe: Recipe) -> Run:
    """Lengthen decode steps beyond the model's one length, and carry every time along.

    Steps that carry prompt tokens keep their length. ``spread_up`` gives the decode steps evenly
    spread ranks and lengthens those above the rank that is the median of the pooled gaps, so that
    it moves the mean and the tail of the ordinary gaps, not their median. ``slow_start`` lengthens
    all decode steps that end before the first wave of requests has ended.
    """
    begin = np.concatenate([[0.0], run.step_end_s[:-1]])
    plain = run.step_prefill_tok == 0
    # between steps the engine may idle: a decode step is never longer than the model's
    length = np.where(plain, np.minimum(run.step_end_s - begin, recipe.decode_s), 0.0)
    gaps = float(run.step_running.sum())
    stalled = float(run.step_running[~plain].sum()) / gaps if gaps else 0.0
    middle = min(0.5 / max(1 - stalled, 0.5), 0.999)
    rank = np.zeros(len(plain))
    rank[plain] = even(int(plain.sum()))
    first_wave = run.step_end_s <= np.sort(run.end_s)[len(run.end_s) // recipe.waves - 1]
    factor = recipe.spread_up * np.clip((rank - middle) / (1 - middle), 0, None)
    factor = factor + recipe.slow_start * first_wave
    shift = np.cumsum(length * factor)
    old = np.concatenate([[0.0], run.step_end_s])
    new = np.concatenate([[0.0], run.step_end_s + shift])

    def carry(times: Floats) -> Floats:
        moved: Floats = np.interp(times, old, new) + np.maximum(times - old[-1], 0)
        return moved

    return replace(
        run,
        start_s=carry(run.start_s),
        admitted_s=carry(run.admitted_s),
        first_token_s=carry(run.first_token_s),
        end_s=carry(run.end_s),
        step_end_s=new[1:],
    )


def figures(run: Run) -> dict[str, float]:
    """The run's figures: throughputs in tokens/s, ``ttft_s``, and ``*_ms``; NaN where undefined.

    Keys: duration_s, input_throughput, output_throughput, total_throughput, ttft_mean_s,
    tpot_mean_ms, tpot_p99_ms, itl_median_ms, itl_mean_ms, itl_p99_ms.
    """
    duration = float(run.end_s.max() - run.start_s.min())
    inputs, outputs = float(run.isl.sum()), float(run.osl.sum())
    found = {
        "duration_s": duration,
        "input_throughput": inputs / duration,
        "output_throughput": outputs / duration,
        "total_throughput": (inputs + outputs) / duration,
        "ttft_mean_s": float((run.first_token_s - run.start_s).mean()),
    }
    gaps = run.gaps_s()
    if len(gaps):
        tpot = (run.end_s - run.first_token_s)[run.osl > 1] / (run.osl[run.osl > 1] - 1)
        found |= {
            "tpot_mean_ms": float(tpot.mean()) * 1e3,
            "tpot_p99_ms": float(np.quantile(tpot, 0.99)) * 1e3,
            "itl_median_ms": float(np.median(gaps)) * 1e3,
            "itl_mean_ms": float(gaps.mean()) * 1e3,
            "itl_p99_ms": float(np.quantile(gaps, 0.99)) * 1e3,
        }
    return found
