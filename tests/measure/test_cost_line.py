"""Floor and slope of what links carry, with the regression's t intervals by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from servebook.measure.cost_line import cost_line


def test_four_conditions_by_hand() -> None:
    found = cost_line([1, 2, 3, 4], [2.1, 3.9, 6.2, 7.8])
    assert found.slope == pytest.approx(1.94)
    assert found.floor == pytest.approx(0.15)
    assert found.scatter == pytest.approx(math.sqrt(0.082 / 2))
    t = 4.302653
    half_slope, half_floor = t * math.sqrt(0.041 / 5), t * math.sqrt(0.041 * 1.5)
    assert found.slope_interval == pytest.approx((1.94 - half_slope, 1.94 + half_slope), rel=1e-5)
    assert found.floor_interval == pytest.approx((0.15 - half_floor, 0.15 + half_floor), rel=1e-5)
    assert found.why == ""
    assert found.at(10) == pytest.approx(19.55)


@pytest.mark.parametrize(
    ("x", "words", "line"),
    [
        ([1.0, 2.0, 3.0], "no interval: 3 conditions, 4 are needed", True),
        ([1.0, 2.0], "no line: 2 conditions, 3 are needed", False),
        ([1.0], "no line: 1 condition, 3 are needed", False),
        ([], "no line: 0 conditions", False),
        ([100.0, 101.0, 102.0, 103.0], "differ by 3 % only", False),
    ],
)
def test_what_is_too_little_is_said(x: list[float], words: str, line: bool) -> None:
    found = cost_line(x, [5 + 2 * v for v in x])
    assert words in found.why
    assert math.isnan(found.slope_interval[0])
    if line:
        assert (found.floor, found.slope) == (pytest.approx(5), pytest.approx(2))
    else:
        assert math.isnan(found.slope)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="2 loads with 1 rates"):
        cost_line([1, 2], [1])


def test_the_slope_intervals_cover() -> None:
    rng = np.random.default_rng(4)
    x = [300.0, 600.0, 1000.0, 1700.0]
    hit = [
        low <= 330 <= high
        for low, high in (
            cost_line(x, 2e5 + 330 * np.array(x) + rng.normal(0, 2e4, 4)).slope_interval
            for _ in range(1500)
        )
    ]
    assert 0.93 <= np.mean(hit) <= 0.97
