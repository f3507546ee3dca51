"""When the stalls of a run are not to be relied on: the recovered steps checked against themselves.

Nothing in a dump proves an attribution, but some runs show that theirs fails: tokens that follow no
clock, steps put down to a prompt that took no longer than the others, prompts too short to tell
one engine's from its neighbour's. Planted truth (``tests/measure/test_stalls_planted.py``) says
how far each matters: precision and recall fall below 0.95 only in runs that are told of here. The
reverse does not hold: a client that reads very late is told of, too, and often right all the same.
"""

from __future__ import annotations

import numpy as np

from servebook.measure.step_quality import on_time_fraction
from servebook.measure.steps import Timeline

__all__ = ["doubts"]

#: Below this share of tokens on time the clock may be wrong.
_ON_TIME = 0.8
#: So large a share of the steps put down to prompts must be long: by half of what such a step
#: usually loses. Fewer steps than this tell nothing.
_LONG, _HALF, _LEAST_STEPS = 0.7, 0.5, 10
#: On several engines a prompt must take this share of a decode step to be told from a neighbour's,
#: and so many requests must run on each to show whose clock a request follows.
_SHORT, _LEAST_RUNNING = 0.5, 6


def doubts(line: Timeline) -> tuple[str, ...]:
    """Reasons to doubt which steps of the run were stalled; empty where its own checks pass."""
    told = []
    share = on_time_fraction(line)
    if share < _ON_TIME:
        told.append(
            f"only {100 * share:.0f} % of the tokens came together with the others of their step "
            "(replicas with clocks of their own that cannot be told apart, or a client that reads "
            "late)"
        )
    if line.style != "separate":
        return tuple(told)
    n = len(line.ends)
    prompts = np.bincount(line.prefills.step, minlength=n)
    stalled = (prompts > 0) & line.joined & ~np.isnan(line.length)
    count = int(stalled.sum())
    if count < _LEAST_STEPS:
        return tuple(told)
    excess = (line.length - line.decode)[stalled]
    usual = float(np.median(excess / prompts[stalled]))
    long = float((excess > _HALF * usual).mean()) if usual > 0 else 0.0
    if long < _LONG:
        told.append(
            f"only {100 * long:.0f} % of the {count:,} steps put down to prompts took clearly "
            "longer than an ordinary step"
        )
    engines = int(line.engine.max(initial=-1)) + 1
    running = float(np.median(line.decoded[line.decoded > 0]))
    if engines > 1 and running < _LEAST_RUNNING:
        told.append(
            f"each of {engines} engines with clocks of their own decodes about {running:.0f} "
            "requests at a time, too few to place every prompt on its own engine"
        )
    if engines > 1 and usual < _SHORT * float(np.median(line.decode)):
        told.append(
            f"prompts take less than half a decode step on {engines} engines with clocks of their "
            "own, so some may be put down to a neighbour's step"
        )
    return tuple(told)
