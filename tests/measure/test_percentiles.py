"""Floors and percentiles against their definitions, computed another way."""

import numpy as np
import pytest
from scipy.stats import binom

from servebook.measure.percentiles import (
    CONFIDENCE,
    FLOORS,
    below_floor,
    floor,
    percentile,
    percentile_name,
    quantile_of,
    rests_on,
)


@pytest.mark.parametrize(("q", "n"), [(50, 11), (90, 64), (95, 130), (99, 662), (99.9, 6636)])
def test_floor_is_the_first_sample_with_two_values_above_the_quantile(q: float, n: int) -> None:
    assert FLOORS[q] == n
    above = 1 - q / 100
    assert binom.sf(1, n, above) >= CONFIDENCE  # P(at least two of n above the quantile)
    assert binom.sf(1, n - 1, above) < CONFIDENCE


def test_floor_holds_in_simulation() -> None:
    rng = np.random.default_rng(1)
    draws = rng.random((40_000, FLOORS[95]))
    held = ((draws > 0.95).sum(axis=1) >= 2).mean()
    assert held == pytest.approx(0.99, abs=0.003)


@pytest.mark.parametrize("q", [0, 100, -1, 101])
def test_floor_refuses_what_is_no_percentile(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 100"):
        floor(q)


@pytest.mark.parametrize(
    ("q", "n", "too_few", "name"),
    [
        (99, 661, True, "p99 (max of 661)"),
        (99, 662, False, "p99"),
        (99.9, 662, True, "p99.9 (max of 662)"),
        (50, 10, True, "median of 10"),
        (50, 11, False, "median"),
        (99, float("nan"), True, "p99 (max of nan)"),
    ],
)
def test_below_floor(q: float, n: float, too_few: bool, name: str) -> None:
    assert below_floor(q, n) is too_few
    assert percentile_name(q, n) == name


@pytest.mark.parametrize(
    ("values", "q", "expected"),
    [
        ([1, 2, 3, 4], 50, 2.5),
        ([1, 2, 3, 4], 90, 3.7),  # position 2.7 of 0..3
        ([10], 99, 10),
        ([1, float("nan"), 3], 50, 2),
        ([], 50, float("nan")),
    ],
)
def test_percentile(values: list[float], q: float, expected: float) -> None:
    assert percentile(values, q) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("metric", "q", "n"),
    [
        ("ttft_p99_ms", 99.0, "n_ttft"),
        ("itl_p999_ms", 99.9, "n_gaps"),
        ("tpot_p50_ms", 50.0, "n_tpot"),
        ("e2e_mean_ms", None, "n_e2e"),
        ("output_throughput_tok_s", None, None),
        ("itl_p99_over_p50", 99.0, "n_gaps"),
    ],
)
def test_what_a_metrics_name_tells(metric: str, q: float | None, n: str | None) -> None:
    assert quantile_of(metric) == q
    assert rests_on(metric) == n
