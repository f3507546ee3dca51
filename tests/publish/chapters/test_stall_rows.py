"""Which conditions are drawn where there are too many: what the title names is among them."""

from __future__ import annotations

import pandas as pd

from servebook.publish.chapters.stall_rows import most


def rows(n: int) -> pd.DataFrame:
    return pd.DataFrame({"series": "a", "concurrency": [2**i for i in range(n)]})


def test_the_highest_concurrencies_are_drawn_and_the_rest_is_told() -> None:
    assert most(rows(12))[1] == ()
    drawn, (note,) = most(rows(15))
    assert list(drawn.index) == list(range(3, 15))
    assert "12" in note
    assert "15" in note


def test_what_the_title_names_is_drawn_in_any_case() -> None:
    drawn, _ = most(rows(15), (0, 14))
    assert list(drawn.index) == [0, *range(4, 15)]
