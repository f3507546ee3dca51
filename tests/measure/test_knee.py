"""Saturation by three methods on curves whose truth is planted."""

from __future__ import annotations

import numpy as np
import pytest

from servebook.measure.knee import knees, over_repeats

LOADS = [1, 2, 4, 8, 16, 32, 64]


def closed_loop(top: float, loads: list[int] = LOADS) -> tuple[list[float], list[float]]:
    """Throughput and latency of a closed system: 1 s a request up to ``top`` requests/s."""
    rate = [min(float(c), top) for c in loads]
    return rate, [c / x for c, x in zip(loads, rate, strict=True)]


@pytest.mark.parametrize("top", [4, 8, 16])
def test_a_planted_knee_is_found_by_all_three(top: float) -> None:
    found = knees(LOADS, *closed_loop(top))
    assert found.kind == "plateau"
    assert found.places == (top, top, top)
    assert found.agreement == "agree"


def test_a_plateau_between_two_loads_is_placed_within_the_grid() -> None:
    found = knees(LOADS, *closed_loop(11))
    assert found.places[0] == 16
    assert found.places[1] in (8, 16)
    assert found.places[2] == pytest.approx(11)
    assert found.agreement == "agree"


def test_a_reversal_has_its_knee_before_the_peak_ends() -> None:
    rate, _ = closed_loop(8)
    rate[-1] = 5.0
    found = knees(LOADS, rate, [c / x for c, x in zip(LOADS, rate, strict=True)])
    assert found.kind == "reversal"
    assert found.places == (8, 8, pytest.approx(8))
    assert found.agreement == "agree"


@pytest.mark.parametrize(
    ("rate", "bend"),
    [
        ([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 20.0], 32),  # proportional up to the peak
        ([1.0, 2.0, 4.0, 8.0, 16.0, 9.0, 5.0], 16),  # falls over two loads
        ([4.0, 8.0, 16.0, 32.0, 3.0, 2.0, 1.0], 8),  # ends below where it began
    ],
)
def test_growth_that_ends_in_the_peak_bends_there(rate: list[float], bend: int) -> None:
    found = knees(LOADS, rate, [c / x for c, x in zip(LOADS, rate, strict=True)])
    assert found.kind == "reversal"
    assert found.places[:2] == (bend, bend)
    assert found.agreement == "agree"


def test_a_method_that_finds_no_knee_does_not_contradict_the_others() -> None:
    rate, wait = closed_loop(8)
    found = knees(LOADS, rate, [10 * w for w in wait])  # N* = 80, above what was measured
    assert found.places == (8, 8, None)
    assert found.agreement == "two agree"
    falling = knees([8, 16, 32], [9.0, 6.0, 3.0], [10.0, 20.0, 30.0])
    assert falling.kind == "reversal"
    assert falling.places == (8, None, None)  # N* = 90
    assert falling.agreement == "one alone"


def test_runs_behind_a_point_count_for_what_a_drop_says() -> None:
    rate, wait = closed_loop(8)
    rate[-1] = 7.5  # 6 % below the plateau
    assert knees(LOADS, rate, wait).kind == "plateau"
    assert knees(LOADS, rate, wait, [3] * 7).kind == "reversal"
    assert knees(LOADS, rate, wait, [3, 3, 3, 3, 3, 3, 1]).kind == "plateau"


@pytest.mark.parametrize(
    ("rate", "kind"),
    [
        ([float(c) for c in LOADS], "not saturated"),
        ([c**0.7 for c in LOADS], "not saturated"),
        ([20.0] * 7, "flat"),
        ([20.0, 20.2, 19.9, 20.1, 20.0, 20.3, 20.2], "flat"),
    ],
)
def test_no_knee_in_range_is_an_answer(rate: list[float], kind: str) -> None:
    found = knees(LOADS, rate, [c / x for c, x in zip(LOADS, rate, strict=True)])
    assert found.kind == kind
    assert found.places == (None, None, None)
    assert found.agreement == "no knee in range"


def test_two_loads_are_too_few() -> None:
    assert knees([1, 2], [1, 2], [1, 1]).kind == "too few points"


def test_methods_that_lie_apart_disagree() -> None:
    rate = [1.0, 1.9, 3.4, 5.6, 7.6, 8.9, 9.0]  # bends slowly: the plateau begins late
    found = knees(LOADS, rate, [c / x for c, x in zip(LOADS, rate, strict=True)])
    assert found.kind == "plateau"
    known = [p for p in found.places if p is not None]
    assert max(known) > 2 * min(known)
    assert found.agreement == "disagree"


def test_a_plateau_of_scattered_runs_is_not_taken_for_growth() -> None:
    rng = np.random.default_rng(3)
    found = []
    for _ in range(200):
        rate = [x * np.exp(rng.normal(0, 0.03)) for x in closed_loop(8)[0]]
        found.append(knees(LOADS, rate, [c / x for c, x in zip(LOADS, rate, strict=True)]).kind)
    assert found.count("not saturated") <= 10
    assert found.count("reversal") <= 10


def test_repeats_move_the_knee() -> None:
    rate, wait = closed_loop(8)
    rates, waits = [[x] for x in rate], [[w] for w in wait]
    rates[-1], waits[-1] = [8.0, 9.5, 6.0], [8.0, 6.7, 10.7]
    found = over_repeats(LOADS, rates, waits)
    assert len(found) == 3
    assert {k.kind for k in found} == {"plateau", "not saturated", "reversal"}
    single = over_repeats(LOADS, [[x] for x in rate], [[w] for w in wait])
    assert len(single) == 1


def test_very_many_choices_are_thinned() -> None:
    rate, wait = closed_loop(8)
    found = over_repeats(LOADS, [[x] * 4 for x in rate], [[w] * 4 for w in wait])
    assert 125 <= len(found) <= 250


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        knees([1, 2, 3], [1, 2], [1, 2, 3])
