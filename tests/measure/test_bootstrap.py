"""Block bootstrap within one run: what it covers, and what it refuses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from servebook.measure.bootstrap import LEAST_BLOCKS, blocks, within_run

TIMES = np.arange(600) / 10.0  # a value every 0.1 s for a minute


def swinging(rng: np.random.Generator, n: int = 600, keep: float = 0.9) -> npt.NDArray[np.float64]:
    """Values around 100 that hang together over about ten neighbours."""
    noise = rng.normal(0, 1, n)
    out = np.empty(n)
    level = noise[0] / np.sqrt(1 - keep**2)
    for k in range(n):
        level = keep * level + noise[k] if k else level
        out[k] = 100 + level
    return out


def test_blocks_are_equal_stretches_of_time() -> None:
    assert blocks(np.array([5.0, 5.5, 6.9, 7.0, 9.0]), 1.0).tolist() == [0, 0, 1, 2, 4]


def test_whole_blocks_cover_where_single_values_do_not() -> None:
    rng = np.random.default_rng(11)
    held = {"blocks": 0, "shuffled": 0}
    for _ in range(150):
        values = swinging(rng)
        found = within_run(values, TIMES, 2.5)
        held["blocks"] += found.low <= 100 <= found.high
        # Shuffled in time nothing hangs together any more, as if all values were independent.
        loose = within_run(values, rng.permutation(TIMES), 2.5)
        held["shuffled"] += loose.low <= 100 <= loose.high
    assert held["blocks"] / 150 > 0.82
    assert held["shuffled"] / 150 < 0.60


def test_the_same_run_gives_the_same_interval() -> None:
    values = swinging(np.random.default_rng(1))
    assert within_run(values, TIMES, 1.0) == within_run(values, TIMES, 1.0)


def test_it_says_that_it_holds_within_the_run_only() -> None:
    found = within_run(swinging(np.random.default_rng(1)), TIMES, 1.0)
    assert found.scope == "within this run only"
    assert found.n_blocks >= LEAST_BLOCKS
    assert found.low < found.value < found.high


def test_a_percentile_has_one_too() -> None:
    values = swinging(np.random.default_rng(2))
    found = within_run(values, TIMES, 2.0, q=90)
    assert found.value == np.percentile(values, 90)
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize(
    ("values", "times", "dependence", "words"),
    [
        (np.ones(600), TIMES, 10.0, "too short: 5 blocks"),
        (np.ones(3), np.zeros(3), 0.0, "too short: 0 blocks"),
        ([], [], 1.0, "no values"),
    ],
)
def test_short_runs_have_none(
    values: npt.ArrayLike, times: npt.ArrayLike, dependence: float, words: str
) -> None:
    found = within_run(values, times, dependence)
    assert words in found.why
    assert np.isnan(found.low)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="2 values with 1 times"):
        within_run([1.0, 2.0], [0.0], 1.0)
