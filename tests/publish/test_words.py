"""Formatting of numbers and lists: hand-written pairs of input and text."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.publish import words


def test_examples_in_the_docstrings_hold() -> None:
    result = doctest.testmod(words)
    assert result.attempted >= 20
    assert result.failed == 0


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (None, 3, "not known"),
        (math.nan, 3, "not known"),
        (math.inf, 3, "infinite"),
        (-math.inf, 3, "minus infinite"),
        (0.0, 3, "0"),
        (-0.0, 3, "0"),
        (1.0, 3, "1"),
        (0.5, 3, "0.500"),
        (9.996, 3, "10.0"),
        (99.96, 3, "100"),
        (999.6, 3, "1,000"),
        (0.09996, 2, "0.10"),
        (-1234.5, 3, "−1,234"),
        (-0.25, 2, "−0.25"),
        (1_234_567.8, 3, "1,234,568"),
        (2.0, 2, "2"),
        (790.5, 3, "790"),
        (790.6, 3, "791"),
    ],
)
def test_number(value: float | None, digits: int, text: str) -> None:
    assert words.number(value, digits) == text


@given(st.floats(min_value=1e-6, max_value=1e12), st.integers(1, 6))
def test_number_reads_back_within_half_a_step(value: float, digits: int) -> None:
    read = float(words.number(value, digits).replace(",", ""))
    step = min(1.0, 10.0 ** (math.floor(math.log10(value)) - digits + 1))
    assert abs(read - value) <= 0.5001 * step + value * 1e-12


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "0.400 ms"),
        (59.94, "59.9 s"),
        (119.9, "120 s"),
        (120, "2 min 0 s"),
        (7199.6, "2 h 0 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("ratio", "label", "sentence"),
    [
        (math.nan, "", "not known"),
        (1.0, "×1.00", "1 times"),
        (0.5, "×0.50", "0.50 times"),
        (1.04, "×1.04", "1.04 times"),
        (8.86, "×8.9", "8.9 times"),
        (39.2, "×39", "39 times"),
    ],
)
def test_ratios(ratio: float, label: str, sentence: str) -> None:
    assert words.factor(ratio) == label
    assert words.times(ratio) == sentence


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.01, "1 %"),
        (0.9949, "99.49 %"),
        (0.99996, "99.99 %"),
        (1.25, "125 %"),
        (0.00004, "0.0040 %"),
    ],
)
def test_percent(fraction: float, text: str) -> None:
    assert words.percent(fraction) == text


@pytest.mark.parametrize(
    "formatter",
    [
        words.number,
        words.short,
        words.milliseconds,
        words.duration,
        words.percent,
        words.deviation,
        words.times,
        words.rate,
        words.bits_per_second,
        words.bytes_size,
    ],
)
@pytest.mark.parametrize("nothing", [None, math.nan])
def test_what_is_not_known_is_said_and_never_zero(formatter: object, nothing: float | None) -> None:
    assert callable(formatter)
    assert formatter(nothing) == words.unknown()


def test_a_list_names_a_single_rest_instead_of_counting_it() -> None:
    assert words.listed("abc", most=2) == "a, b and c"
    assert words.listed([]) == ""


def test_wrapping_keeps_long_words_whole() -> None:
    assert words.wrapped("averylongsinglelabel x", 10) == "averylongsinglelabel\nx"


@given(st.text(max_size=400), st.integers(4, 40))
def test_no_label_takes_the_room_of_its_picture(text: str, width: int) -> None:
    lines = words.wrapped(text, width).split("\n")
    assert len(lines) <= 5
    assert max(len(line) for line in lines) <= 2 * width


def test_utc_does_not_depend_on_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert words.utc(1_795_976_032_999_999_999) == "2026-11-29 18:13:52 UTC"
    finally:
        monkeypatch.undo()
        time.tzset()
