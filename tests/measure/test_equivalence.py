"""Equivalence: what "no effect" may be called."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.measure.coverage import simulated
from servebook.measure.equivalence import equivalence
from servebook.measure.ratio import ratio


@pytest.mark.parametrize(
    ("first", "second", "finding"),
    [
        ([100.0, 100.2, 99.8], [100.1, 99.9, 100.0], "same within the margin"),
        ([102.0, 102.2, 101.8], [100.1, 99.9, 100.0], "different, yet within the margin"),
        ([150.0, 151.0, 149.0], [100.1, 99.9, 100.0], "different"),
        ([100.0, 110.0, 90.0], [103.0, 95.0, 108.0], "undecided"),
        ([100.0], [100.0, 101.0], "not testable"),
    ],
)
def test_findings(first: list[float], second: list[float], finding: str) -> None:
    assert equivalence(first, second).finding == finding


def test_the_margin_is_a_parameter() -> None:
    arms = ([102.0, 102.2, 101.8], [100.1, 99.9, 100.0])
    assert equivalence(*arms, margin=0.01).finding == "different"
    assert equivalence(*arms, margin=0.50).finding == "different, yet within the margin"
    with pytest.raises(ValueError, match="above 0"):
        equivalence(*arms, margin=0.0)


_ARM = st.lists(st.floats(90.0, 115.0), min_size=2, max_size=6).filter(
    lambda v: np.ptp(np.log(v)) > 1e-3
)


@given(_ARM, _ARM, st.floats(0.01, 0.3))
def test_two_one_sided_tests_are_a_90_percent_interval_inside_the_margin(
    a: list[float], b: list[float], margin: float
) -> None:
    found = equivalence(a, b, margin)
    narrow = ratio(a, b, 0.90)
    inside = 1 / (1 + margin) < narrow.low and narrow.high < 1 + margin
    if abs(found.p_value - 0.05) > 1e-9:
        assert (found.p_value < 0.05) == inside
    assert (found.largest < margin) == inside
    assert found.largest >= max(narrow.value, 1 / narrow.value) - 1


@pytest.mark.parametrize("n", [3, 5])
def test_a_true_effect_as_large_as_the_margin_is_called_the_same_in_at_most_5_percent(
    n: int,
) -> None:
    first, second = simulated(
        n, n, campaigns=600, seed=3, truth=1.05, scatter_first=0.01, scatter_second=0.01
    )
    same = [
        equivalence(np.exp(a).tolist(), np.exp(b).tolist()).p_value < 0.05
        for a, b in zip(first, second, strict=True)
    ]
    assert np.mean(same) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 600)
