"""Which mixed conditions are drawn where there are more than a chart holds."""

from __future__ import annotations

import pandas as pd

from servebook.publish.chapters.gaps import drawn

ROWS = pd.DataFrame(
    {
        "series": ["one"] * 9 + ["two"] * 9,
        "concurrency": [2**i for i in range(9)] * 2,
    }
)


def test_the_highest_loads_of_each_series_are_drawn() -> None:
    kept, note = drawn(ROWS)

    assert kept["concurrency"].tolist() == [4, 8, 16, 32, 64, 128, 256] * 2
    assert "14 of 18" in note


def test_a_condition_that_the_title_names_is_drawn_too() -> None:
    kept, _ = drawn(ROWS, (0,))

    assert 0 in kept.index
    assert len(kept) == 14
    assert kept.index.is_monotonic_increasing
