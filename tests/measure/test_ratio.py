"""Ratios of runs: Welch on the log scale by hand, its symmetry, what it can find."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from servebook.measure.coverage import simulated
from servebook.measure.ratio import degrees, detectable, log_interval, ratio, runs_needed


@pytest.mark.parametrize(
    ("first", "second", "value", "half", "df"),
    [
        # logs 0.1, 0.3 and 0, 0.2: standard errors 0.1 each, df 2, t 4.30265 x sqrt(0.02)
        ((0.1, 0.3), (0.0, 0.2), 0.1, 4.302653 * math.sqrt(0.02), 2.0),
        # three runs against two: the first arm's share of the squared error is r = 1/4, and
        # 0.7 (1 - 1/2) r (1 - r) = 0.065625; df = 1 / ((1/16 + 0.065625) / 2 + 9/16 + 0.065625)
        ((0.0, 0.1, 0.2), (0.0, 0.2), 0.0, None, 1 / 0.6921875),
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


@given(st.floats(0, 1), st.integers(2, 40), st.integers(2, 40))
def test_degrees_of_freedom_keep_their_bounds(share: float, n: int, m: int) -> None:
    df = float(degrees(share, n, m))
    assert min(n, m) - 1 <= df * (1 + 1e-12)
    assert df <= (n + m - 2) * (1 + 1e-12)
    assert df == pytest.approx(float(degrees(1 - share, m, n)), rel=1e-9)
    satterthwaite = 1 / (share**2 / (n - 1) + (1 - share) ** 2 / (m - 1))
    assert df <= satterthwaite * (1 + 1e-12)
    if n == m:
        assert df == pytest.approx(satterthwaite)


def test_the_interval_is_welchs_where_the_arms_are_alike_in_number() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.3, 0.1, (50, 4)), rng.normal(0, 0.02, (50, 4))
    low, high, df = log_interval(a, b)
    test = stats.ttest_ind(a, b, equal_var=False, axis=-1)
    own = test.confidence_interval(0.95)
    assert low == pytest.approx(own.low)
    assert high == pytest.approx(own.high)
    assert df == pytest.approx(test.df)


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
