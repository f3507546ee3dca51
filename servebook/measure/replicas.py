"""How many engines stand behind a run: the fewest clocks that explain its tokens.

Replicas that do not run in lockstep have step clocks of their own. A busy client that reads some
requests late together looks alike; what a prompt holds up tells the two apart. What this cannot
do: tell two replicas apart whose steps always end together, or more than ``MOST_CLOCKS``. The
first requests of a run choose while its clocks hardly differ, and may be placed on a wrong one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servebook.measure.clock import (
    EXPLAINED,
    LEAST,
    NEAR,
    Placed,
    Sequence,
    on_time,
    place,
)

__all__ = ["MOST_CLOCKS", "follows", "on_few_clocks"]

Floats = npt.NDArray[np.float64]

#: More replicas than this are not told apart.
MOST_CLOCKS = 32
#: With this share of tokens on time one clock explains the run.
_WELL = 0.85
#: Several clocks must explain so much more than one.
_GAIN = 0.1
#: Prompts that hold up the others' clocks by this share of what they hold up their own belong to
#: one engine.
_HELD = 0.5
#: A prompt is at work this share of a decode step before its first token.
_JUST = 0.25
#: A step this many decode steps long may have been an idle time.
_IDLE = 50.0


def on_few_clocks(sequences: list[Sequence], scale: float, *, most: int = MOST_CLOCKS) -> Placed:
    """Place the sequences (in the order of their first tokens) on as few clocks as explain them.

    ``scale`` is the length of a decode step, ``most`` the largest number of clocks. One clock is
    tried first. Only where it leaves many tokens late, and several clocks explain far more of them,
    may there be several: requests that a busy client reads late together look like a replica, too.
    A prompt tells the two apart: it holds up all requests of its own engine and no other one.
    """
    one = place(sequences, scale, most=1)
    share = on_time(sequences, one, scale)
    if share >= _WELL or most == 1:
        return one
    more = place(sequences, scale, most=most)
    # A clock of one request explains it for nothing: its steps count as not explained.
    gain = on_time(sequences, more, scale, alone=0.0) - on_time(sequences, one, scale)
    if gain <= _GAIN:
        return one
    held = _held_up(sequences, more, scale)
    several = share < EXPLAINED if np.isnan(held) else held < _HELD
    return more if several else one


def follows(sequences: list[Sequence], placed: Placed, scale: float) -> bool:
    """Whether the tokens bear the placing out: nearly all on time, in steps that several share."""
    return on_time(sequences, placed, scale, alone=0.0) >= _WELL


def _held_up(sequences: list[Sequence], placed: Placed, scale: float) -> float:
    """How long prompts hold up the other clocks, as a share of how long they hold up their own.

    Medians over the first tokens that came while both ran; NaN where too few did, or where prompts
    hardly hold up their own.
    """
    ends = [_ends(sequences, placed, clock) for clock in range(_count(placed))]
    usual = [float(np.median(np.diff(own))) if len(own) > 1 else scale for own in ends]
    mine: list[float] = []
    theirs: list[float] = []
    for i, one in enumerate(sequences):
        if placed.clock[i] < 0:
            continue
        # Just before its first token a request's prompt was at work, in a step of its own or not.
        took = [_around(own, one.first - _JUST * scale) for own in ends]
        excess = np.array(took) - usual
        excess[np.array(took) > _IDLE * scale] = np.nan
        others = np.delete(excess, placed.clock[i])
        if not np.isnan(excess[placed.clock[i]]) and not np.isnan(others).all():
            mine.append(float(excess[placed.clock[i]]))
            theirs.append(float(np.nanmedian(others)))
    if len(mine) < LEAST or np.median(mine) < NEAR * scale:
        return float("nan")
    return float(np.median(theirs) / np.median(mine))


def _around(ends: Floats, time: float) -> float:
    """How long the step around ``time`` took; NaN before the first and after the last one."""
    at = int(ends.searchsorted(time))
    return float(ends[at] - ends[at - 1]) if 0 < at < len(ends) else float("nan")


def _count(placed: Placed) -> int:
    return int(placed.clock.max(initial=-1)) + 1


def _ends(sequences: list[Sequence], placed: Placed, clock: int) -> Floats:
    """When the earliest token of each step of a clock came; a step without any: the next one's."""
    rows = [i for i in np.flatnonzero(placed.clock == clock) if len(placed.steps[i])]
    if not rows:
        return np.empty(0)
    step = np.concatenate([placed.steps[i] for i in rows])
    time = np.concatenate([sequences[i].times for i in rows])
    first = np.full(int(step.max()) + 1, np.inf)
    np.minimum.at(first, step, time)
    return np.asarray(np.minimum.accumulate(first[::-1])[::-1])
