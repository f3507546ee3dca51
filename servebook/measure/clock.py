"""The engine's clock from token times: which step of which engine each token came out of.

All running requests get a token at the end of the same engine step, so token k of a request came
out of step a + k for one whole number a. A client delivers tokens late, in bunches, or two at
once, but it cannot change their count: each request is placed by its whole row of tokens, and
late deliveries move none of them. Requests are placed in the order of their first tokens, each on
the clock of those placed before it; a request that fits no clock opens one (a second replica).

Where a request has fewer chunks than tokens the count says nothing; such a request is placed
token by token, each on the latest step that the tokens after it still allow.

Times are floats in ns since any common zero. What this cannot do: place a request that overlaps no
other one, or tell two replicas apart whose steps always end together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = [
    "EXPLAINED",
    "LEAST",
    "NEAR",
    "Clock",
    "Placed",
    "Sequence",
    "on_time",
    "place",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: A token this share of a decode step from its step's end counts as on time.
NEAR = 0.2
#: Below this share of tokens on time a clock does not explain a request.
EXPLAINED = 0.5
#: Residuals count at most this many decode steps, so that one pause does not outweigh a row.
_CLIP = 3.0
#: A first token before the end of the step ahead of it weighs this much: it cannot be.
_EARLY = 5.0
_Q = 3
#: A second look moves what then costs less by this factor; a cost per token below this share of a
#: decode step needs none.
_CLEARLY, _GOOD = 0.8, 0.05
#: The weight of a constant offset beside the weight of scatter: delays differ little by request.
_SHIFT = 0.3


@dataclass(frozen=True)
class Sequence:
    """One request: the time of its first token and of each later chunk.

    ``exact`` says that each chunk is one token.
    """

    first: float
    times: Floats
    exact: bool = True


@dataclass
class Clock:
    """The steps of one engine, in order: when each ended, as far as its tokens tell."""

    ends: Floats = field(default_factory=lambda: np.empty(1024))
    n: int = 0

    def reserve(self, n: int) -> None:
        """Room for ``n`` steps."""
        if n > len(self.ends):
            grown = np.empty(max(n, 2 * len(self.ends)))
            grown[: self.n] = self.ends[: self.n]
            self.ends = grown

    def take(self, steps: Ints, times: Floats, *, exact: bool) -> None:
        """The tokens of one request: known steps end no later (if exact), new ones follow."""
        self.reserve(int(steps[-1]) + 1)
        known = int(steps.searchsorted(self.n))
        if exact:
            own = self.ends[steps[:known]]
            self.ends[steps[:known]] = np.minimum(own, times[:known])
        if known < len(steps):
            # Steps that this request skipped end with its next token, until another says sooner.
            fill = np.searchsorted(steps, np.arange(self.n, steps[-1] + 1))
            self.ends[self.n : steps[-1] + 1] = times[fill]
            self.n = int(steps[-1]) + 1


@dataclass(frozen=True)
class Placed:
    """Where each sequence lies: its clock (-1: none), and the step of each of its later chunks."""

    clock: Ints
    steps: list[Ints]


def place(sequences: list[Sequence], scale: float, *, most: int) -> Placed:
    """Place the sequences, in the order of their first tokens, on at most ``most`` clocks.

    ``scale`` is the length of a decode step. ``servebook.measure.replicas`` tells how many clocks
    there are.
    """
    return _refined(sequences, _pass(sequences, scale, most), scale)


def _pass(sequences: list[Sequence], scale: float, most: int) -> Placed:
    clocks = [Clock()]
    chosen = np.full(len(sequences), -1, dtype=np.int64)
    steps = [np.empty(0, dtype=np.int64) for _ in sequences]
    # Those whose chunks can be counted first: the others go by the steps that these make.
    order = sorted(range(len(sequences)), key=lambda i: not sequences[i].exact)
    for number in order:
        one = sequences[number]
        if not len(one.times):
            continue
        best, (begin, shared, near) = _choose(clocks, one, scale, most)
        own = begin + np.arange(len(one.times), dtype=np.int64)
        if not one.exact or (shared >= LEAST and near < _MOSTLY):
            free = _by_time(clocks[best], one, scale)
            if not one.exact or _skipped(clocks[best], free, one.times, scale):
                own = free
        clocks[best].take(own, one.times, exact=one.exact)
        chosen[number] = best
        steps[number] = own
    return Placed(chosen, steps)


def _choose(
    clocks: list[Clock], one: Sequence, scale: float, most: int
) -> tuple[int, tuple[int, int, float]]:
    """The clock that fits best and its fit; a new clock where none does and one may be opened."""
    fits = [_fit(clock, one, scale) for clock in clocks]
    if most == 1:
        return 0, fits[0]
    running = [i for i, fit in enumerate(fits) if fit[1] > 0]
    if running:
        best = max(running, key=lambda i: fits[i][2])
        if fits[best][1] < LEAST or fits[best][2] >= EXPLAINED:
            return best, fits[best]
    # A clock that has run out before this request is as good as a new one.
    idle = [i for i, clock in enumerate(clocks) if i not in running]
    if idle:
        return idle[0], (clocks[idle[0]].n, 0, 0.0)
    if len(clocks) < most:
        clocks.append(Clock())
        return len(clocks) - 1, (0, 0, 0.0)
    return best, fits[best]


#: A request is preempted at most this often before its times count as late instead.
#: Each time for so many steps at least, and then most of its tokens must be on time.
_SKIPS, _SKIP_STEPS, _MOSTLY = 2, 3, 0.8
#: Chunks over which a request that skips steps is smoothed.
_SMOOTH = 7
#: So large a share of tokens that are nearest to one placing needs no closer look.
_CLEAR = 0.8
#: Fewer shared steps than this do not tell two clocks apart.
LEAST = 8


def _fit(clock: Clock, one: Sequence, scale: float) -> tuple[int, int, float]:
    """The step of the first later chunk, the number of shared steps, and the share on time."""
    ends, times, n = clock.ends[: clock.n], one.times, clock.n
    if not n or one.first > ends[-1] - 0.05 * scale:
        return n, 0, 0.0
    # Its prefill ran before the step that ended next after its first token, at the latest.
    latest = int(ends.searchsorted(one.first))
    last = max(int(times.searchsorted(ends[-1] + 0.5 * scale)), 1)
    shared = times[:last]
    right = np.minimum(ends.searchsorted(shared), n - 1)
    left = np.maximum(right - 1, 0)
    near = np.where(ends[right] - shared <= shared - ends[left], right, left)
    offset = near - np.arange(last)
    low = int(offset.min())
    votes = np.bincount(offset - low)
    best = low + int(votes.argmax())
    clear = votes.max() >= max(_CLEAR * last, LEAST) and 0 <= best <= latest
    if not clear:
        options = {best - 1, best, best + 1, int(offset[0]), int(offset[-1]), latest}
        options = {o for o in options if 0 <= o <= n}
        best = min(sorted(options), key=lambda o: _cost(ends, one, o, scale))
    m = min(n - best, len(times))
    if m <= 0:
        return best, 0, 0.0
    return best, m, _near(times[:m], ends[best : best + m], scale)


def _cost(ends: Floats, one: Sequence, begin: int, scale: float) -> float:
    times, n = one.times, len(ends)
    m = min(n - begin, len(times))
    cost = 0.0
    if begin > 0:  # the first token cannot come before the step that ran ahead of it ended
        cost += _EARLY * max(0.0, ends[begin - 1] - one.first - 0.05 * scale)
    if m > 0:
        left = times[:m] - ends[begin : begin + m]
        usual = float(np.partition(left, m // _Q)[m // _Q])
        cost += float(np.minimum(np.abs(left - usual), _CLIP * scale).sum())
        cost += _SHIFT * m * abs(usual)
    after = times[max(m, 0) : max(m, 0) + 8]
    if len(after):  # new steps come a decode step after the last known one
        bound = ends[-1] + 0.8 * scale * np.arange(1, len(after) + 1)
        cost += float(np.clip(bound - after, 0, _CLIP * scale).sum())
    return cost


def _share(clock: Clock, steps: Ints, times: Floats, scale: float) -> float:
    """The share of the chunks on known steps that are on time; 1 where there are too few."""
    known = steps < clock.n
    if known.sum() < LEAST:
        return 1.0
    return _near(times[known], clock.ends[steps[known]], scale)


def _near(times: Floats, ends: Floats, scale: float) -> float:
    return int(np.count_nonzero(np.abs(times - ends) <= NEAR * scale)) / len(times)


def _skipped(clock: Clock, steps: Ints, times: Floats, scale: float) -> bool:
    """Whether a request that skipped steps (was preempted) explains its times, and little else.

    Tokens that came late at its end look like a skip, too; so some must follow each one.
    """
    at = np.flatnonzero(np.diff(steps) > 1)
    if not 1 <= len(at) <= _SKIPS or len(times) - at[-1] <= LEAST:
        return False
    long = np.diff(steps)[at].min() >= _SKIP_STEPS
    return bool(long) and _share(clock, steps, times, scale) >= _MOSTLY


def _by_time(clock: Clock, one: Sequence, scale: float) -> Ints:
    """Each chunk on the last step that ended before it, no later than its successors allow."""
    from scipy.ndimage import (
        median_filter,  # a second to import, of which many campaigns have no need
    )

    ends, times = clock.ends[: clock.n], one.times
    if not clock.n:
        return np.arange(len(times), dtype=np.int64)
    steps = np.searchsorted(ends, times + NEAR * scale, side="right") - 1
    steps = np.maximum(steps, 0)
    beyond = times > ends[-1] + 0.5 * scale
    steps[beyond] = clock.n + np.arange(beyond.sum())
    index = np.arange(len(times))
    # One step gives a request at most one chunk.
    # A step whose other tokens all came late would drag the tokens before it along.
    skipped = median_filter(steps - index, size=_SMOOTH, mode="nearest")
    back = np.minimum.accumulate(skipped[::-1])[::-1] + index
    return np.asarray(np.maximum(back, 0), dtype=np.int64)


def _refined(sequences: list[Sequence], placed: Placed, scale: float) -> Placed:
    """Look at each request once more, now beside all others, those that came later too.

    One that fits them clearly better a step sooner or later moves.
    """
    steps = list(placed.steps)
    rows = [i for i, own in enumerate(steps) if len(own)]
    if not rows:
        return placed
    owner = np.repeat(rows, [len(steps[i]) for i in rows])
    time = np.concatenate([sequences[i].times for i in rows])
    width = max(int(steps[i][-1]) for i in rows) + 3  # room for a step beside each clock's
    base = placed.clock * width + 1
    key = np.concatenate([steps[i] for i in rows]) + base[owner]
    order = np.lexsort((time, key))
    begin = np.flatnonzero(np.diff(key[order], prepend=-1))
    several = np.diff(begin, append=len(order)) > 1
    # The earliest token of each step, whose it is, and the next one.
    first, second = (np.full((int(placed.clock.max()) + 1) * width + 2, np.nan) for _ in "ab")
    who = np.full(len(first), -1, dtype=np.int64)
    at = key[order[begin]]
    first[at], who[at] = time[order[begin]], owner[order[begin]]
    second[at[several]] = time[order[begin[several] + 1]]
    for i in rows:
        if sequences[i].exact and steps[i][-1] - steps[i][0] == len(steps[i]) - 1:
            low = int(base[i] + steps[i][0])
            near = slice(max(low - 2, 0), low + len(steps[i]) + 1)
            others = np.where(who[near] == i, second[near], first[near])
            by = _better(sequences[i], others, low - near.start, scale)
            if steps[i][0] + by >= 0:
                steps[i] = steps[i] + by
    return Placed(placed.clock, steps)


def _better(one: Sequence, others: Floats, at: int, scale: float) -> int:
    """Steps by which the request fits the others' clearly better: -1, 0 or 1."""
    n = len(one.times)
    costs = {}
    for by in (-1, 0, 1):
        if at + by < 1:
            continue
        left = one.times - others[at + by : at + by + n]
        left = left[~np.isnan(left)]
        if len(left) < LEAST:
            return 0
        usual = float(np.partition(left, len(left) // _Q)[len(left) // _Q])
        cost = float(np.minimum(np.abs(left - usual), _CLIP * scale).mean())
        cost += _SHIFT * abs(usual)
        before = others[at + by - 1]
        if not np.isnan(before):
            cost += _EARLY * max(0.0, before - one.first - 0.05 * scale) / n
        costs[by] = cost
        if by == 0 and cost < _GOOD * scale:
            return 0
    best = min(costs, key=lambda by: (costs[by], abs(by)))
    return best if costs[best] < _CLEARLY * costs[0] else 0


def on_time(
    sequences: list[Sequence], placed: Placed, scale: float, alone: float = np.nan
) -> float:
    """The share of chunks within ``NEAR`` of the earliest chunk of their step.

    A chunk alone in its step counts as ``alone``, or not at all (NaN).
    """
    rows = [i for i, own in enumerate(placed.steps) if len(own)]
    if not rows:
        return 1.0
    step = np.concatenate([placed.steps[i] for i in rows])
    clock = np.concatenate([np.full(len(placed.steps[i]), placed.clock[i]) for i in rows])
    time = np.concatenate([sequences[i].times for i in rows])
    key = clock * (step.max() + 1) + step
    count = np.bincount(key)
    first = np.full(len(count), np.inf)
    np.minimum.at(first, key, time)
    near = np.where(count[key] > 1, time - first[key] <= NEAR * scale, alone)
    near = near[~np.isnan(near)]
    return float(near.mean()) if len(near) else 1.0
