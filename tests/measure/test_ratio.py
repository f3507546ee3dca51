"""Ratios of runs: Welch on the log scale by hand, its symmetry, what it can find."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.measure.coverage import simulated
from servebook.measure.ratio import detectable, log_interval, ratio, runs_needed


@pytest.mark.parametrize(
    ("first", "second", "value", "half", "df"),
    [
        # logs 0.1, 0.3 and 0, 0.2: standard errors 0.1 each, df 2, t 4.30265 x sqrt(0.02)
        ((0.1, 0.3), (0.0, 0.2), 0.1, 4.302653 * math.sqrt(0.02), 2.0),
        # three runs against two: df = (1/300 + 1/100)^2 / ((1/300)^2 / 2 + (1/100)^2)
        ((0.0, 0.1, 0.2), (0.0, 0.2), 0.0, None, 1.684210526),
    ],
)
def test_welch_by_hand(
    first: tuple[float, ...],
    second: tuple[float, ...],
    value: float,
    half: float | None,
    df: float,
) -> None:
    found = ratio(np.exp(first), np.exp(second))
    assert found.value == pytest.approx(math.exp(value))
    assert found.df == pytest.approx(df)
    if half is not None:
        assert found.low == pytest.approx(math.exp(value - half), rel=1e-5)
        assert found.high == pytest.approx(math.exp(value + half), rel=1e-5)
    assert found.known
    assert found.n == f"{len(first)} and {len(second)} runs"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([10.0], [11.0], "one run on each side"),
        ([10.0], [11.0, 12.0, 13.0], "one run on one side"),
        ([10.0, 10.0], [11.0, 11.0], "equal to the last digit"),
    ],
)
def test_without_scatter_there_is_no_interval(
    first: list[float], second: list[float], words: str
) -> None:
    found = ratio(first, second)
    assert words in found.why
    assert found.value == pytest.approx(math.exp(np.log(first).mean() - np.log(second).mean()))
    assert math.isnan(found.low)
    assert math.isnan(found.detectable)
    assert not found.beyond_noise


def test_one_side_without_scatter_leaves_the_other_sides_degrees_of_freedom() -> None:
    found = ratio([10.0, 10.0, 10.0], [11.0, 12.0, 13.0])
    assert found.known
    assert found.df == pytest.approx(2.0)


@pytest.mark.parametrize("bad", [[0.0, 1.0], [-1.0, 1.0], [math.nan, 1.0], [math.inf, 1.0], []])
def test_what_has_no_logarithm_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match=r"above 0|without runs"):
        ratio(bad, [1.0, 2.0])


_ARM = st.lists(st.floats(1.0, 1e6), min_size=2, max_size=6).filter(
    lambda v: np.ptp(np.log(v)) > 1e-3
)


@given(_ARM, _ARM)
def test_the_inverse_ratio_has_the_inverse_interval(a: list[float], b: list[float]) -> None:
    one, other = ratio(a, b), ratio(b, a)
    assert one.low == pytest.approx(1 / other.high, rel=1e-9)
    assert one.detectable == pytest.approx(other.detectable, rel=1e-9)
    assert one.low <= one.value <= one.high


@pytest.mark.parametrize("n", [5, 10])
def test_the_detectable_effect_is_found_in_four_of_five_campaigns(n: int) -> None:
    scatter = 0.04
    effect = detectable(scatter * math.sqrt(2 / n), 2 * n - 2)
    arms = simulated(
        n, n, campaigns=4000, seed=7, truth=math.exp(effect),
        scatter_first=scatter, scatter_second=scatter,
    )  # fmt: skip
    low, high, _ = log_interval(*arms)
    assert ((low > 0) | (high < 0)).mean() == pytest.approx(0.80, abs=0.03)


def test_more_scatter_needs_more_runs() -> None:
    assert [runs_needed(cv, 0.05) for cv in (0.001, 0.0128, 0.036)] == [2, 3, 10]
    assert runs_needed(5.0, 0.001) is None
