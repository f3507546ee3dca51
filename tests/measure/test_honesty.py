"""Verdict words on the load."""

from __future__ import annotations

from typing import Any

import pytest
from by_hand import request, run

from servebook.measure.honesty import honesty
from servebook.measure.runs import run_metrics


def words(requests: list[dict[str, Any]], **identity: Any) -> tuple[str, str, str]:
    tables = run("r", requests, **identity)
    row = honesty(tables, run_metrics(tables)).iloc[0]
    return row["load"], row["sending"], row["reading"]


def both(
    scheduled: float | None = 0.0, gaps: tuple[float, ...] = (10.0,) * 9
) -> list[dict[str, Any]]:
    return [
        request(f"q{k}", 5, ttft=20, gaps=gaps, scheduled=None if scheduled is None else scheduled)
        for k in range(2)
    ]


@pytest.mark.parametrize(
    ("requests", "identity", "expected"),
    [
        (both(4.0), {"concurrency": 2}, ("held", "on time", "one by one")),
        (both(4.0), {"concurrency": 3}, ("below", "on time", "one by one")),
        (both(0.0), {"concurrency": 2}, ("held", "late", "one by one")),  # 5 ms of a TTFT of 20
        (both(4.0, (10.0, 0.0, 10.0)), {"concurrency": 2}, ("held", "on time", "bunched")),
        (both(None), {"concurrency": None}, ("not set", "not told", "one by one")),
        (both(None, ()), {"concurrency": 2}, ("held", "not told", "not told")),
    ],
)
def test_words(
    requests: list[dict[str, Any]], identity: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert words(requests, **identity) == expected


def test_values_stand_beside_the_words() -> None:
    tables = run("r", both(0.0), concurrency=2)
    row = honesty(tables, run_metrics(tables)).iloc[0]
    assert row["achieved"] == pytest.approx(1.0)
    assert row["send_delay_mean_ms"] == pytest.approx(5.0)
    assert row["delay_share"] == pytest.approx(0.25)
    assert row["zero_gap_share"] == 0.0
