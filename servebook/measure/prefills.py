"""Where prefills ran on an engine's clock: seen by first tokens, or only by the time they took.

A request decodes from its first step on, so its prompt was prefilled between that step and the one
before it, however late the client saw its first token. Requests without a token (cancelled,
broken, cut off at the end of the run) were prefilled too: each is looked for in the steps after
its start that took a prefill's time too long. Without such a request no slow step is called one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from servebook.measure.tokens import RunTokens

__all__ = ["Prefills", "find_prefills", "prefill_style"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: First tokens this share of a decode step apart came out of one step.
_SAME = 0.1
#: A first token followed by its next one this soon was delivered late and says nothing of its step.
_PROMPT = 0.7
#: Late deliveries bring first tokens together as well; only nearly all of them tell of batches.
_TOGETHER = 0.9
#: An unseen prefill takes at least this share of a seen one's time.
_LEAST_ROOM = 0.5
#: Prompts so much shorter or longer than the typical one are not told apart by their time.
_SIZES = (0.25, 4.0)
#: Requests come in groups: a step that other prompts ran ahead of is the likelier by this much.
_COMPANY = 0.1
#: One step later weighs as much as this share of a prefill's time.
_LATER = 0.05


@dataclass(frozen=True)
class Prefills:
    """One entry per prefilled request, in the order of the engine's work.

    ``request`` is its number in the run, -1 for one without a record; ``step`` the decode step
    that its prefill ran ahead of; ``batch`` numbers the prefill steps, equal where several
    prompts shared one; ``end`` when its first token was seen (NaN where it was not). A part of a
    prompt that is not its last has no request; ``final`` is the step that the last one ran ahead
    of, and ``step`` itself for all others.
    """

    request: Ints
    step: Ints
    batch: Ints
    end: Floats
    final: Ints

    @property
    def part(self) -> Bools:
        """Whether each entry is a part of a prompt that did not end with it."""
        return np.asarray(self.final != self.step)

    def prompt_tokens(self, isl: Floats) -> Floats:
        """Prompt tokens of each entry, NaN where unknown; ``isl`` is per request of the run.

        A prompt counts where it ended, so its earlier parts have 0.
        """
        return np.where(self.part, 0.0, np.append(isl, np.nan)[self.request])


def prefill_style(
    first: Floats, step: Ints, ends: Floats, joined: Bools, scale: float, late: Floats
) -> str:
    """Name "shared" where first tokens come out with running requests' tokens, else "separate".

    ``late`` is how long after their step's end the running requests' tokens came. "" where no
    request got its first token while others were running. A first token that came with the others
    came as late as they did; one out of a step of its own came later by its prefill, and the decode
    step that it held up took that much longer.
    """
    beside = joined[step]
    if not beside.any():
        return ""
    apart = first[beside] - ends[step[beside] - 1]
    if (np.abs(apart) <= _SAME * scale).mean() > 0.5:
        return "shared"
    late = late[~np.isnan(late)]
    usual = float(np.median(late)) if len(late) else 0.0
    # Of several prompts ahead of one step only the last one ended when all were done.
    at, last = np.unique(step[beside], return_inverse=True)
    done = np.full(len(at), -np.inf)
    np.maximum.at(done, last, first[beside])
    length = np.diff(ends, prepend=np.nan)
    plain = joined.copy()
    plain[step] = False
    spare = length[at] - (np.median(length[plain]) if plain.any() else scale)
    with_them = usual + max(0.5 * float(np.median(spare)), _SAME * scale)
    return "shared" if float(np.median(done - ends[at - 1])) <= with_them else "separate"


def find_prefills(
    run: RunTokens,
    step_of_request: Ints,
    engine: Ints,
    ends: Floats,
    joined: Bools,
    decode: Floats,
    lost: bool,
    parts: tuple[Ints, Ints],
) -> Prefills:
    """The prefills of a run whose prompts have steps of their own.

    ``step_of_request`` is each request's first decode step (-1: none); ``engine``, ``ends``,
    ``joined`` and ``decode`` (the usual length) are per step; ``lost`` says that requests without
    a record exist; ``parts`` are those that ``servebook.measure.prompt_parts`` found.
    """
    seen = np.flatnonzero(step_of_request >= 0)
    step = step_of_request[seen]
    length = np.concatenate([[np.nan], np.diff(ends)]) if len(ends) else ends
    excess = np.where(joined, length - decode, np.nan)
    count = np.bincount(step, minlength=len(ends)).astype(np.int64)
    alone = (count > 0) & joined
    usual = float(np.median(excess[alone] / count[alone])) if alone.any() else np.nan
    request, at, end = seen, step, run.first[seen]
    need = np.zeros(len(run.first) + 1)
    if usual > 0:
        need = _need(run, seen, usual)
        spent: Floats = np.bincount(step, need[seen], minlength=len(ends)).astype(np.float64)
        left = excess - spent
        left[parts[0]] = np.nan  # not spare
        extra_request, extra_step, extra_end = _unseen(
            run, step_of_request, engine, ends, left, count, need, lost
        )
        request = np.concatenate([request, extra_request])
        at = np.concatenate([at, extra_step])
        end = np.concatenate([end, extra_end])
    final = np.concatenate([at, parts[1]])
    request = np.concatenate([request, np.full(len(parts[0]), -1, dtype=np.int64)])
    at = np.concatenate([at, parts[0]])
    end = np.concatenate([end, np.full(len(parts[0]), np.nan)])
    # A first token that came late with others says less than the order of the requests' starts.
    begun = np.where(request >= 0, run.start[request], np.inf)
    close = np.round(np.where(np.isnan(end), ends[at], end) / (_SAME * run.scale))
    order = np.lexsort((begun, close, at))
    request, at, end, final = request[order], at[order], end[order], final[order]
    return Prefills(request, at, _batches(run, at, end, ends, decode, need[request]), end, final)


def _batches(
    run: RunTokens, at: Ints, end: Floats, ends: Floats, decode: Floats, need: Floats
) -> Ints:
    """Number the prefill steps: first tokens that came on time and together shared one.

    Where prompts come in batches, neither does one tell of a further batch that came late, nor one
    that came too soon after the one before it: a step in between takes the prompt's ``need``.
    """
    if not len(at):
        return np.empty(0, dtype=np.int64)
    pair = (at[1:] == at[:-1]) & ~np.isnan(end[1:]) & ~np.isnan(end[:-1])
    apart = np.abs(end[1:] - end[:-1])
    same = pair & (apart <= _SAME * run.scale)
    prompt = ends[at[1:]] - end[1:] >= _PROMPT * decode[at[1:]]
    on_time = pair & prompt
    together = bool(on_time.any() and same[on_time].mean() >= _TOGETHER)
    soon = pair & ((apart <= _LEAST_ROOM * need[1:]) | ~prompt)
    joint = (same | soon) if together else np.zeros(len(same), dtype=bool)
    return np.concatenate([[0], np.cumsum(~joint)]).astype(np.int64)


def _unseen(
    run: RunTokens,
    step_of_request: Ints,
    engine: Ints,
    ends: Floats,
    left: Floats,
    count: Ints,
    need: Floats,
    lost: bool,
) -> tuple[Ints, Ints, Floats]:
    """Steps that a request without decode steps of its own was prefilled ahead of."""
    send = _sent(run)
    waits = (run.first - run.start)[run.ok & (step_of_request >= 0)]
    waits = waits[~np.isnan(waits)]
    longest = float(np.percentile(waits, 95)) if len(waits) else float(need[-1])
    missing = np.flatnonzero(~np.isnan(send) & (step_of_request < 0))
    # Refused at once: the engine never saw it.
    served = ~np.isnan(run.first[missing]) | (run.end - run.start > 0.5 * need[:-1])[missing]
    who = missing[served]
    seen, begin = run.first[who], send[who]
    until = np.where(np.isnan(seen), begin + longest, seen)
    if lost:
        tail = _unrecorded(send, run)
        begin, until = np.append(begin, tail), np.append(until, tail + longest)
        who = np.append(who, np.full(len(tail), -1))
        seen = np.append(seen, np.full(len(tail), np.nan))
    found: list[tuple[int, int, float]] = []
    rest, busy = left.copy(), count.copy()
    bounds = np.searchsorted(engine, np.arange(int(engine.max(initial=-1)) + 2))
    for number in np.argsort(begin, kind="stable"):
        time = float(need[who[number]])
        place = _where(begin[number], until[number], seen[number], bounds, ends, rest, busy, time)
        if place >= 0:
            rest[place] -= time
            busy[place] += 1
            found.append((who[number], place, seen[number]))
    if not found:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, np.empty(0)
    a, b, c = zip(*found, strict=True)
    return np.array(a, dtype=np.int64), np.array(b, dtype=np.int64), np.array(c)


def _where(
    begin: float,
    until: float,
    first: float,
    bounds: Ints,
    ends: Floats,
    rest: Floats,
    busy: Ints,
    time: float,
) -> int:
    """The step in the window whose spare time is most like that of prefills; -1 without any.

    Of two alike the earlier one: the engine takes a request as soon as it can. A first token that
    was seen names its step: the last one with room ahead of it.
    """
    best, least = -1, np.inf
    for start, stop in pairwise(bounds.tolist()):
        own = ends[start:stop]
        low = start + int(own.searchsorted(begin + _LEAST_ROOM * time, side="right"))
        high = min(start + int(own.searchsorted(until)) + 1, stop)
        window = slice(low, high)
        room = np.nan_to_num(rest[window], nan=0.0) / time
        later = np.arange(len(room))
        cost = np.abs(room - np.maximum(np.round(room), 1))
        cost += _LATER * (later if np.isnan(first) else later[::-1])
        cost -= _COMPANY * (busy[window] > 0)
        cost[room < _LEAST_ROOM] = np.inf
        if len(cost) and cost.min() < least:
            best, least = low + int(cost.argmin()), float(cost.min())
    return best


def _need(run: RunTokens, seen: Ints, usual: float) -> Floats:
    """What a prefill of each request takes, by its prompt's length; the last entry: unknown."""
    typical = np.nanmedian(run.isl[seen]) if (~np.isnan(run.isl[seen])).any() else np.nan
    share = np.clip(run.isl / typical, *_SIZES) if typical > 0 else np.full(len(run.isl), np.nan)
    return usual * np.append(np.where(np.isnan(share), 1.0, share), 1.0)


def _sent(run: RunTokens) -> Floats:
    """When each request was sent, as far as its record can be trusted.

    AIPerf (0.13) stamps a cancelled request's start at its cancellation, and its end as much later
    again: the time between them goes back from the start, but not before what was scheduled.
    """
    back = np.fmax(2 * run.start - run.end, run.scheduled)
    doubtful = ~run.ok & np.isnan(run.first) & ~np.isnan(run.scheduled) & ~np.isnan(run.end)
    return np.where(doubtful, np.fmin(back, run.start), run.start)


def _unrecorded(send: Floats, run: RunTokens) -> Floats:
    """When requests without a record began: where fewer are open from then on than usual.

    A closed loop replaces each request that ends at once. Those that the client's deadline cut off
    replaced one, too, and are missing from then to the end of the run.
    """
    whole = ~np.isnan(send) & ~np.isnan(run.end)
    # A cancelled record's end is as late as its start.
    shift = np.where(run.ok, 0.0, run.start - send)[whole]
    time = np.concatenate([send[whole], run.end[whole] - shift])
    change = np.concatenate([np.ones(whole.sum()), -np.ones(whole.sum())])
    if not len(time):
        return time
    order = np.lexsort((-change, time))
    time, opened = time[order], np.cumsum(change[order])
    fewer = np.percentile(opened, 90) - opened
    lasting = np.minimum.accumulate(np.maximum(fewer, 0)[::-1])[::-1]
    return np.repeat(time[1:], np.diff(lasting).astype(np.int64))
