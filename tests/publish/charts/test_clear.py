"""Words beside points: where they stand, worked out by hand."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.publish.charts.clear import Place, clear_places

RIGHT_ABOVE = Place(7, -9, "left")


@pytest.mark.parametrize(
    ("lines", "rules", "expected"),
    [
        # Nothing is near: above and to the right, where it is read best.
        ([], [], RIGHT_ABOVE),
        # A line falls to the point and goes on level: the word stands above it all the same.
        ([[(0.1, 0.1), (0.5, 0.5), (0.9, 0.5)]], [], RIGHT_ABOVE),
        # It rises behind the point, through that place and the one above: level, to the right,
        # it is crossed, too, so the word stands below.
        ([[(0.1, 0.9), (0.5, 0.5), (0.6, 0.3)]], [], Place(7, 10, "left")),
        # A rule 9 px above the point (0.5 of 200 px less 9): below.
        ([], [0.455], Place(9, 0, "left")),
    ],
)
def test_a_word_stands_where_no_line_runs(
    lines: list[list[tuple[float, float]]], rules: list[float], expected: Place
) -> None:
    assert clear_places([(0.5, 0.5)], ["×1.5"], lines, 200, rules=rules) == [expected]


def test_words_of_points_on_one_another_keep_apart_and_in_order() -> None:
    points = [(0.3, 0.52), (0.3, 0.5), (0.3, 0.51)]
    places = clear_places(points, ["low", "high", "middle"], [], 200)
    heights = [y * 200 + place.dy for (_, y), place in zip(points, places, strict=True)]
    assert heights[1] < heights[2] < heights[0]


def test_words_that_stand_there_already_are_kept_clear_of() -> None:
    there = [((0.5, 0.5), RIGHT_ABOVE, "×2.0")]
    (place,) = clear_places([(0.5, 0.5)], ["peak"], [], 200, words=there)
    assert abs(place.dy - RIGHT_ABOVE.dy) >= 16 or place.align == "right"


@pytest.mark.parametrize(("x", "align"), [(0.01, "left"), (0.99, "right")])
def test_a_word_stays_inside_the_plot(x: float, align: str) -> None:
    (place,) = clear_places([(x, 0.5)], ["p99 12.2 ms"], [], 200)
    assert place.align == align


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.text(max_size=6)), max_size=8))
def test_every_word_has_a_place_and_the_same_one_each_time(
    rows: list[tuple[float, float, str]],
) -> None:
    points, texts = [(x, y) for x, y, _ in rows], [text for *_, text in rows]
    lines = [list(pair) for pair in itertools.pairwise(points)]
    places = clear_places(points, texts, lines, 200)
    assert len(places) == len(rows)
    assert places == clear_places(points, texts, lines, 200)
