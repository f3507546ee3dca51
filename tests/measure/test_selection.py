"""Percentiles of numbers in pieces are those of numpy on all of them, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.measure.selection import order_statistics, percentiles, ranked, summary

whole = st.integers(0, 2**31 - 1) | st.integers(0, 2**62) | st.sampled_from([0, 1, 65535, 65536])
Q = [0.0, 1.0, 50.0, 90.0, 95.0, 99.0, 99.9, 100.0]


def cut(numbers: list[int], cuts: list[int]) -> list[np.ndarray]:
    kind = np.int32 if max(numbers) < 2**31 else np.int64
    return np.split(np.array(numbers, kind), sorted(c % (len(numbers) + 1) for c in cuts))


@given(st.lists(whole, min_size=1, max_size=60), st.lists(st.integers(0, 99), max_size=3))
def test_as_numpy(numbers: list[int], cuts: list[int]) -> None:
    pieces = cut(numbers, cuts)
    about = summary(lambda: pieces)
    assert (about.n, about.total, about.largest) == (len(numbers), sum(numbers), max(numbers))
    found = order_statistics(lambda: pieces, range(len(numbers)), about.largest)
    assert found == sorted(numbers)
    expected = np.percentile(np.array(numbers) / 1e6, Q).tolist()
    assert percentiles(lambda: pieces, Q, about, 1e6) == expected


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("of", ["spread", "equal", "few"])
def test_many_numbers(kind: type, of: str) -> None:
    rng = np.random.default_rng(7)
    numbers = {
        "spread": rng.gamma(2.0, 3e6, 200_000),
        "equal": np.full(200_000, 6_123_456),
        "few": rng.choice([5, 6_000_000, 2_000_000_000], 200_000, p=[0.5, 0.4, 0.1]),
    }[of].astype(kind)
    pieces = np.array_split(numbers, 7)
    about = summary(lambda: pieces)
    expected = np.percentile(numbers / 1e6, Q).tolist()
    assert percentiles(lambda: pieces, Q, about, 1e6) == expected
    assert about.total == int(numbers.sum(dtype=np.int64))


def test_as_many_passes_as_its_numbers_have_bits() -> None:
    passes = []

    def pieces() -> list[np.ndarray]:
        passes.append(1)
        return [np.array([3, 2**31 - 1, 7], np.int32)]

    assert order_statistics(pieces, [1], 2**31 - 1) == [7]
    assert len(passes) == 2


@pytest.mark.parametrize("step", [1, 70_001, 2**40])
def test_many_places_and_how_many_are_no_larger(step: int) -> None:
    rng = np.random.default_rng(3)
    numbers = rng.integers(0, 500, 20_000) * step
    pieces = np.array_split(numbers, 3)
    ranks = list(range(0, len(numbers), 97))
    found = ranked(lambda: pieces, ranks, int(numbers.max()))
    ordered = np.sort(numbers)
    assert [value for value, _ in found] == ordered[ranks].tolist()
    upto = np.searchsorted(ordered, ordered[ranks], side="right")
    assert [n for _, n in found] == upto.tolist()
