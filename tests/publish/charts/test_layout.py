"""Ticks are round, labels do not overlap."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.publish.charts.layout import (
    LINE_PX,
    counts_axis,
    label_positions,
    log_range,
    log_ticks,
    spread_out,
)


@pytest.mark.parametrize(
    ("inside", "ticks"),
    [
        ((7, 130), [10, 20, 50, 100]),
        ((0.004, 0.15), [0.005, 0.01, 0.02, 0.05, 0.1]),
        ((1, 1e6), [1, 10, 100, 1000, 10000, 100000, 1000000]),
        ((28000, 62000), [30000, 40000, 50000, 60000]),
    ],
)
def test_log_ticks(inside: tuple[float, float], ticks: list[float]) -> None:
    assert log_ticks(inside) == ticks


def test_twelve_decades_still_have_few_ticks() -> None:
    assert len(log_ticks((1e-6, 1e6))) <= 7


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([2, 4, 8, 16, 24], [2, 4, 8, 16, 24]),
        ([8.0, 8.0], [8]),
        (range(1, 33), [1, 2, 4, 8, 16, 32]),
        ([1.9, 3.7], [2, 3]),
    ],
)
def test_counts_axis(values: list[float], ticks: list[float]) -> None:
    assert counts_axis(values)[1] == ticks


@pytest.mark.parametrize("values", [[], [0.0], [math.nan], [-1.0]])
def test_a_range_exists_without_a_positive_value(values: list[float]) -> None:
    assert log_range(values) == (1.0, 10.0)


def test_labels_that_are_apart_stay_where_they_want() -> None:
    assert spread_out([10, 100, 50], [10, 10, 10], 0, 200) == [10, 100, 50]


def test_two_labels_at_one_place_share_the_room_around_it() -> None:
    assert spread_out([50, 50], [10, 10], 0, 200) == [45, 55]


@given(st.lists(st.tuples(st.floats(0, 300), st.integers(1, 4)), max_size=8))
def test_no_two_labels_overlap(labels: list[tuple[float, int]]) -> None:
    wanted = [w for w, _ in labels]
    sizes = [LINE_PX * n for _, n in labels]
    placed = spread_out(wanted, sizes, 0, 600)
    edges = sorted((p - s / 2, p + s / 2) for p, s in zip(placed, sizes, strict=True))
    for (_, bottom), (top, _) in itertools.pairwise(edges):
        assert bottom <= top + 1e-6
    assert all(top >= -1e-6 and bottom <= 600 + 1e-6 for top, bottom in edges)


def test_the_first_of_two_lines_stands_above_the_point() -> None:
    one, two = (label_positions([10.0], [t], (1, 100), 200)[0] for t in ("a", "a\nb"))
    assert one == pytest.approx(10.0)
    assert two > one
