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

from servebook.measure.prompt_parts import LEAST_STEPS, decode_line, waiting
from servebook.measure.steps import Timeline

__all__ = ["slow_steps", "waited"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

#: A step carried prompt tokens if it is longer by this share of a decode step, longer than this
#: percentile of the plain steps, and by half of what the longest tenth of steps is longer.
_LONGER, _PERCENTILE, _FULL = 0.1, 95, 90


def waited(line: Timeline) -> Bools:
    """Whether some request waited for its first token in each step."""
    return waiting(line.tokens.start, line.tokens.first, line.ends, line.length)


def slow_steps(line: Timeline) -> Bools | None:
    """Per step of a run whose prompts share steps, whether it carried a part of one.

    None where too few steps are known to be without.
    """
    waiting = waited(line)
    plain = line.joined & ~waiting
    if plain.sum() < LEAST_STEPS:
        return None
    usual = decode_line(line.length[plain], line.decoded[plain].astype(np.float64))
    excess = line.length - usual(line.decoded.astype(np.float64))
    spread = max(float(np.percentile(excess[plain], _PERCENTILE)), 0.0)
    with_it = line.joined & waiting
    full = float(np.percentile(excess[with_it], _FULL)) if with_it.any() else 0.0
    limit = np.maximum(max(spread, 0.5 * full), _LONGER * (line.length - excess))
    last = np.zeros(len(line.ends), dtype=bool)
    last[np.maximum(line.prefills.step - 1, 0)] = True
    return np.asarray(line.joined & (last | (waiting & (excess > limit))))
