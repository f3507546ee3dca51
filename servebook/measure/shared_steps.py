"""Which steps carried prompt tokens beside their decodes (chunked prefill): slower, and no stalls.

A step that brings a first token carried the last part of its prompt. The parts before it fill the
step's budget, so that their steps are longer by about as much each. A step in which nobody waits
for a first token only decodes; such steps tell how long decoding takes with so many requests. A
step that takes much longer while somebody waits carried a part of a prompt. What this cannot tell:
anything but first tokens in a run in which somebody always waits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import theilslopes

from servebook.measure.steps import Timeline

__all__ = ["slow_steps", "waited"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: Fewer steps in which nobody waits tell nothing.
_LEAST_STEPS = 20
#: A step carried prompt tokens if it is longer by this share of a decode step, longer than this
#: percentile of the plain steps, and by half of what the longest tenth of steps is longer.
_LONGER, _PERCENTILE, _FULL = 0.1, 95, 90
#: The slope is the median over pairs of steps; of more than this, evenly spaced ones serve.
_MOST_STEPS = 1000


def waited(line: Timeline) -> Bools:
    """Whether some request waited for its first token in each step."""
    known = ~np.isnan(line.tokens.start) & ~np.isnan(line.tokens.first)
    start, first = np.sort(line.tokens.start[known]), np.sort(line.tokens.first[known])
    before = line.ends - np.nan_to_num(line.length)
    return np.searchsorted(start, line.ends) > np.searchsorted(first, before, side="right")


def slow_steps(line: Timeline) -> Bools | None:
    """Per step of a run whose prompts share steps, whether it carried a part of one.

    None where too few steps are known to be without.
    """
    waiting = waited(line)
    plain = line.joined & ~waiting
    if plain.sum() < _LEAST_STEPS:
        return None
    usual = _decode(line.length[plain], line.decoded[plain].astype(np.float64))
    excess = line.length - usual(line.decoded.astype(np.float64))
    spread = max(float(np.percentile(excess[plain], _PERCENTILE)), 0.0)
    with_it = line.joined & waiting
    full = float(np.percentile(excess[with_it], _FULL)) if with_it.any() else 0.0
    limit = np.maximum(max(spread, 0.5 * full), _LONGER * (line.length - excess))
    last = np.zeros(len(line.ends), dtype=bool)
    last[np.maximum(line.prefills.step - 1, 0)] = True
    return np.asarray(line.joined & (last | (waiting & (excess > limit))))


def _decode(length: Floats, running: Floats) -> np.polynomial.Polynomial:
    """The length of a plain step over the requests that decode in it: a line that never falls."""
    pick = np.unique(np.linspace(0, len(length) - 1, min(len(length), _MOST_STEPS)).astype(int))
    slope = 0.0
    if len(np.unique(running[pick])) > 1:
        with np.errstate(invalid="ignore"):  # an interval of many ties, which nobody asks for
            slope = max(float(theilslopes(length[pick], running[pick]).slope), 0.0)
    return np.polynomial.Polynomial([float(np.median(length - slope * running)), slope])
