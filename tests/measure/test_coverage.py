"""Do the intervals keep their promise? Simulated campaigns with planted truth."""

from __future__ import annotations

import pytest

from servebook.measure.coverage import bootstrap_coverage, coverage, simulated

TRUTH = 1.3
CAMPAIGNS = 20_000  # standard error of a coverage: 0.15 %


def _welch(n_first: int, n_second: int, scatter_first: float, scatter_second: float) -> float:
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


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize(
    "scatters", [(0.05, 0.05), (0.05, 0.10), (0.02, 0.10), (0.15, 0.05), (0.005, 0.005)]
)
def test_95_percent_intervals_cover_93_to_97_percent(n: int, scatters: tuple[float, float]) -> None:
    assert 0.93 <= _welch(n, n, *scatters) <= 0.97


@pytest.mark.parametrize(
    ("n_first", "n_second", "scatter_first", "scatter_second"),
    [
        (3, 5, 0.05, 0.05),
        (3, 5, 0.05, 0.15),
        (5, 3, 0.05, 0.10),
        (3, 10, 0.05, 0.05),
        (10, 3, 0.10, 0.05),
        (5, 10, 0.05, 0.05),
        (5, 10, 0.02, 0.10),
        (10, 5, 0.02, 0.10),
    ],
)
def test_they_do_so_for_unequal_numbers_and_scatters_of_runs(
    n_first: int, n_second: int, scatter_first: float, scatter_second: float
) -> None:
    assert 0.93 <= _welch(n_first, n_second, scatter_first, scatter_second) <= 0.97


def test_the_known_worst_case_falls_short_by_little() -> None:
    """Three runs that scatter more than ten others: Satterthwaite is a little too generous."""
    assert 0.92 <= _welch(3, 10, 0.10, 0.05) < 0.94


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
