"""The curve of gaps longer than x is exact at its points."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.measure.distribution import longer_than


def test_four_values_by_hand() -> None:
    curve = longer_than([4.0, 1.0, 2.0, 3.0])
    assert curve.to_numpy().tolist() == [[1.0, 1.0], [1.0, 0.75], [2.0, 0.5], [3.0, 0.25]]


@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=3000))
def test_every_point_is_the_share_of_longer_values(values: list[float]) -> None:
    curve = longer_than(values)
    assert len(curve) <= 201
    for x, share in curve.to_numpy().tolist():
        longer = sum(v > x for v in values) / len(values)
        assert share == pytest.approx(longer) or (share == 1.0 and x == min(values))


def test_no_values_no_curve() -> None:
    assert longer_than([]).empty


def test_too_few_points_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        longer_than([1.0], points=3)
