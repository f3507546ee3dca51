"""Configurations against headline metrics: which condition each row stands at, and who is ahead.

A run of ``one_run`` has n requests one second apart, each with its first token after 10 ms and
then its gaps, so that two requests with nine gaps of g ms end at 1.010 s + 9 g.
"""

from __future__ import annotations

import pytest
from small import campaign

from servebook.publish.chapters import overview
from servebook.publish.spec import specification


def slow(gap_ms: float, **settings: object) -> dict[str, object]:
    return {"gaps_ms": (gap_ms,) * 9, "concurrency": 2, **settings}


def texts(figure: object) -> list[str]:
    spec = specification(figure.chart, figure.alt)  # type: ignore[attr-defined]
    rows = [row for rows in spec["datasets"].values() for row in rows]
    return [row["text"] for row in rows if "text" in row]


def test_a_row_stands_at_the_condition_that_most_configurations_ran() -> None:
    book = campaign(
        {
            "a2": slow(5.0),
            "a4": slow(5.0, concurrency=4),  # a higher load, but of one configuration only
            "b2": slow(100.0, configuration="b"),
        }
    )
    figure = overview.glance(book)
    assert figure.table is not None
    rate = figure.table[figure.table["metric"] == "Output throughput"].set_index("configuration")
    assert rate["requests in flight"].to_list() == [2, 2]
    assert rate.loc["A", "value"] == pytest.approx(20 / 1.055)
    assert rate.loc["B", "value"] == pytest.approx(20 / 1.910)
    assert figure.title == "Ahead by more than 5 %: A in mixed rate"
    assert figure.runs == ("a2", "b2")


def test_nobody_is_ahead_within_five_percent() -> None:
    # 20 tokens in 1.055 s against 20 in 1.100 s: 4.3 %.
    figure = overview.glance(campaign({"a": slow(5.0), "b": slow(10.0, configuration="b")}))
    assert figure.title.startswith("No configuration is ahead of all others by more than 5 %")


def test_what_a_configuration_did_not_run_is_said_and_not_drawn_as_zero() -> None:
    book = campaign(
        {
            "a2": slow(5.0),
            "b2": slow(5.0, configuration="b"),
            "p": {"workload": "prefill", "concurrency": 8, "isl": 2000},
            "d2": slow(5.0, workload="decode"),
            "d4": slow(5.0, workload="decode", configuration="b", concurrency=4),
        }
    )
    found = texts(overview.glance(book))
    assert found.count("not run") == 1  # prefill of B
    assert found.count("other load") == 1  # decode of A: of two lone conditions the higher load
    assert "0" not in found


def test_one_configuration_has_no_bars_and_no_winner() -> None:
    figure = overview.glance(campaign({"a": slow(5.0)}))
    # 20 tokens in 1.055 s.
    assert figure.title == "A: mixed rate 19.0 output tokens/s, each at its highest load"
    assert "bold" not in figure.subtitle


def test_a_campaign_without_comparable_runs_says_so() -> None:
    figure = overview.glance(campaign({"a": slow(5.0, status="failed")}))
    assert figure.chart is None
    assert "no run that can be compared" in figure.missing
