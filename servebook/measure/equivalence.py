"""Whether two configurations are the same within a stated margin: two one-sided tests (TOST).

That a difference was not found says nothing where the runs could not have shown it. Equivalence
is the claim that can be tested: the ratio lies between 1 / (1 + margin) and 1 + margin. It holds
if both one-sided Welch tests on the log scale reject at ``ALPHA`` (D. J. Schuirmann, Journal of
Pharmacokinetics and Biopharmaceutics 15, 1987), which is the same as a 90 % interval inside the
margin. ``largest`` turns it round: the smallest margin for which the runs at hand are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from servebook.measure.limits import MARGIN
from servebook.measure.ratio import Ratio, ratio

__all__ = ["ALPHA", "MARGIN", "Equivalence", "equivalence"]

ALPHA = 0.05


@dataclass(frozen=True)
class Equivalence:
    """What the runs say about "no effect".

    ``finding``: "same within the margin", "different" (the interval leaves 1 out), "different,
    yet within the margin" (both hold), "undecided" (neither does) or "not testable".
    ``p_value`` of the two tests (the larger one) and ``largest`` ("no effect larger than": a
    fraction) are NaN where nothing can be tested.
    """

    ratio: Ratio
    margin: float
    p_value: float
    largest: float
    finding: str


def equivalence(
    first: Sequence[float], second: Sequence[float], margin: float = MARGIN
) -> Equivalence:
    """Tests first / second against the margin; both hold one value per run.

    Raises ValueError for a margin that is not above 0, and as ``ratio`` does.
    """
    from scipy import stats  # a second to import; constants are wanted without

    if not margin > 0:
        raise ValueError(f"a margin lies above 0, not at {margin}")
    found = ratio(first, second)
    if not found.known:
        nan = float("nan")
        return Equivalence(found, margin, nan, nan, "not testable")
    apart, bound = float(np.log(found.value)), float(np.log1p(margin))
    p_value = max(
        float(stats.t.sf((apart + bound) / found.error, found.df)),
        float(stats.t.cdf((apart - bound) / found.error, found.df)),
    )
    reach = abs(apart) + float(stats.t.ppf(1 - ALPHA, found.df)) * found.error
    largest = float(np.expm1(reach))
    same = p_value < ALPHA
    finding = (
        "different, yet within the margin"
        if same and found.beyond_noise
        else "same within the margin"
        if same
        else "different"
        if found.beyond_noise
        else "undecided"
    )
    return Equivalence(found, margin, p_value, largest, finding)
