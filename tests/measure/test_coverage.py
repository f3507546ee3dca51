"""Do the intervals keep their promise? Simulated campaigns with planted truth."""

from __future__ import annotations

import pytest

from servebook.measure.coverage import bootstrap_coverage, coverage, simulated

TRUTH = 1.3
CAMPAIGNS = 10_000  # standard error of a coverage: 0.2 %


def _covered(n_first: int, n_second: int, scatter_first: float, scatter_second: float) -> float:
    arms = simulated(
        n_first,
        n_second,
        campaigns=CAMPAIGNS,
        seed=20_251_129,
        truth=TRUTH,
        scatter_first=scatter_first,
        scatter_second=scatter_second,
    )
    return coverage(*arms, TRUTH)


@pytest.mark.parametrize("n_first", [3, 5, 10])
@pytest.mark.parametrize("n_second", [3, 5, 10])
@pytest.mark.parametrize(
    ("scatter_first", "scatter_second"),
    [
        (0.05, 0.05),
        (0.005, 0.005),
        (0.10, 0.05),
        (0.05, 0.10),
        (0.02, 0.10),
        (0.15, 0.05),
        (0.03, 0.02),
        (0.01, 0.20),
        (0.20, 0.01),
    ],
)
def test_95_percent_intervals_cover_93_to_97_percent(
    n_first: int, n_second: int, scatter_first: float, scatter_second: float
) -> None:
    assert 0.93 <= _covered(n_first, n_second, scatter_first, scatter_second) <= 0.97


def test_so_do_three_runs_that_scatter_more_than_thirty_others() -> None:
    """Where Satterthwaite's degrees of freedom are the most generous: 92.4 %."""
    assert 0.934 <= _covered(3, 30, 0.07, 0.05) <= 0.95


def test_two_runs_in_one_arm_may_fall_short() -> None:
    assert 0.90 <= _covered(2, 10, 0.10, 0.05) < 0.93


@pytest.mark.parametrize(("n_first", "n_second"), [(3, 3), (3, 10), (5, 10), (10, 10)])
def test_effects_that_are_not_there_are_found_in_five_percent(n_first: int, n_second: int) -> None:
    """No effect planted: the interval leaves 1 out as often as it says, and no more."""
    arms = simulated(
        n_first, n_second, campaigns=CAMPAIGNS, seed=3, truth=1.0,
        scatter_first=0.08, scatter_second=0.05,
    )  # fmt: skip
    assert 0.03 <= 1 - coverage(*arms, 1.0) <= 0.07


@pytest.mark.parametrize(
    ("n", "low", "high"), [(3, 0.77, 0.84), (5, 0.85, 0.91), (10, 0.89, 0.945)]
)
def test_a_percentile_bootstrap_over_few_runs_does_not(n: int, low: float, high: float) -> None:
    arms = simulated(n, n, campaigns=2000, seed=5, truth=TRUTH)
    assert low <= bootstrap_coverage(*arms, TRUTH, seed=6) <= high
    assert coverage(*arms, TRUTH) >= 0.93


def test_the_simulation_plants_what_it_says() -> None:
    first, second = simulated(3, 5, campaigns=40_000, seed=1, truth=2.0, scatter_first=0.2)
    assert first.shape == (40_000, 3)
    assert second.shape == (40_000, 5)
    assert first.mean() - second.mean() == pytest.approx(0.6931, abs=0.003)
    assert first.std() == pytest.approx(0.2, rel=0.02)
    assert second.std() == pytest.approx(0.05, rel=0.02)
