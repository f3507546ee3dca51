"""Steps of their own that earlier parts of a prompt took, where an engine decodes in between.

An engine may cut a long prompt into parts, give each part a step and decode once between two of
them. Only the last part brings a first token. The parts before it show as steps that are too long
while somebody waits for a first token. They are believed only where the step just before a first
token's own is too long as a rule: an engine that takes a prompt in one piece decodes there, however
late its client reads, and only where it is about as long as that last step: a server that is busy
with a request's arrival decodes a little slower. What this cannot tell: parts in a run in which
somebody always waits, and parts that take less time than the client's delays.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servebook.measure.tokens import RunTokens

__all__ = ["LEAST_STEPS", "decode_line", "prompt_parts", "waiting"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Fewer steps in which nobody waits tell nothing.
LEAST_STEPS = 20
#: The slope is the median over pairs of steps; of more than this, evenly spaced ones serve.
_MOST_STEPS = 1000
#: A part takes longer than this percentile of the plain steps, by this share of a decode step at
#: least, and half of what the typical part takes.
_PERCENTILE, _LONGER, _OF_TYPICAL = 95, 0.1, 0.5
#: The typical part takes this share of what the typical last part does, at least.
_OF_LAST = 0.8
#: So many prompts must tell, and so large a share of the longer ones must have a part before the
#: last one; by chance one in twenty has.
_LEAST_PROMPTS, _AS_A_RULE = 5, 0.3


def waiting(start: Floats, first: Floats, ends: Floats, length: Floats) -> Bools:
    """Whether some request waited for its first token during each step.

    ``start`` and ``first`` are per request, ``ends`` and ``length`` (NaN: unknown) per step.
    """
    known = ~np.isnan(start) & ~np.isnan(first)
    begun, done = np.sort(start[known]), np.sort(first[known])
    before = ends - np.nan_to_num(length)
    return np.searchsorted(begun, ends) > np.searchsorted(done, before, side="right")


def decode_line(length: Floats, running: Floats) -> np.polynomial.Polynomial:
    """The length of a plain step over the requests that decode in it: a line that never falls."""
    from scipy.stats import theilslopes  # a second to import, of which many campaigns have no need

    pick = np.unique(np.linspace(0, len(length) - 1, min(len(length), _MOST_STEPS)).astype(int))
    slope = 0.0
    if len(np.unique(running[pick])) > 1:
        with np.errstate(invalid="ignore"):  # an interval of many ties, which nobody asks for
            slope = max(float(theilslopes(length[pick], running[pick]).slope), 0.0)
    return np.polynomial.Polynomial([float(np.median(length - slope * running)), slope])


def prompt_parts(
    run: RunTokens,
    step_of_request: Ints,
    engine: Ints,
    ends: Floats,
    decoded: Ints,
    joined: Bools,
) -> tuple[Ints, Ints]:
    """The decode steps that a part other than the last ran ahead of, and each prompt's last step.

    For runs whose prompts have steps of their own. ``step_of_request`` is each request's first
    decode step (-1: none); the rest is per step. Both results are empty where prompts are taken
    in one piece, or where nothing tells.
    """
    nothing = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    first = np.zeros(len(ends), dtype=bool)
    first[step_of_request[step_of_request >= 0]] = True
    length = np.where(joined, np.diff(ends, prepend=np.nan), np.nan)
    waits = waiting(run.start, run.first, ends, length)
    plain = joined & ~waits & ~first
    if plain.sum() < LEAST_STEPS:
        return nothing
    running = decoded.astype(np.float64)
    usual = decode_line(length[plain], running[plain])(running)
    excess = length - usual
    limit = np.maximum(np.percentile(excess[plain], _PERCENTILE), _LONGER * usual)
    seen = np.flatnonzero(step_of_request >= 2)
    before = step_of_request[seen] - 1
    # Its prompt was there when the step began, and no other prompt's last part ran ahead of it.
    told = joined[before] & ~first[before] & (run.start[seen] <= ends[before - 1])
    seen, before = seen[told], before[told]
    isl = run.isl[seen]
    if (~np.isnan(isl)).any():
        before = before[isl >= np.nanmedian(isl)]
    cut = excess[before] > limit[before]
    if len(before) < _LEAST_PROMPTS or cut.mean() < _AS_A_RULE:
        return nothing
    typical = float(np.median(excess[before][cut]))
    # The last part of a prompt is no longer than the parts before it, which fill the budget.
    if typical < _OF_LAST * float(np.nanmedian(excess[first])):
        return nothing
    limit = np.maximum(limit, _OF_TYPICAL * typical)
    part = np.flatnonzero(joined & waits & ~first & (excess > limit))
    last = np.flatnonzero(first)
    place = np.searchsorted(last, part)
    part, place = part[place < len(last)], place[place < len(last)]
    same = engine[last[place]] == engine[part]
    return part[same], last[place[same]]
