"""The steady window of a run by hand."""

from __future__ import annotations

import numpy as np
import pytest
from by_hand import MS, request, run

from servebook.measure.runs import run_metrics
from servebook.measure.steady import in_flight, steady, window, windows

STARTS = np.array([0, 10, 60, 100]) * MS
ENDS = np.array([100, 60, 110, 150]) * MS


def test_requests_in_flight_step_up_and_down() -> None:
    times, level = in_flight(STARTS, ENDS)
    assert (times // MS).tolist() == [0, 10, 60, 100, 110, 150]
    assert level.tolist() == [1, 2, 2, 2, 1, 0]


@pytest.mark.parametrize(
    ("concurrency", "t0", "t1", "level", "reached"),
    [(2, 10, 110, 2, True), (1, 0, 150, 1, True), (4, 10, 110, 2, False)],
)
def test_the_window_lies_between_the_first_and_last_full_load(
    concurrency: int, t0: int, t1: int, level: int, reached: bool
) -> None:
    found = window(STARTS, ENDS, concurrency)
    assert found is not None
    assert (found.t0_ns // MS, found.t1_ns // MS) == (t0, t1)
    assert (found.level, found.reached) == (level, reached)
    assert found.ramp_s == pytest.approx(t0 / 1e3)
    assert found.drain_s == pytest.approx((150 - t1) / 1e3)
    assert found.share == pytest.approx((t1 - t0) / 150)


def test_a_shift_moves_both_ends_and_stays_in_the_run() -> None:
    found = window(STARTS, ENDS, 2)
    assert found is not None
    assert tuple(t // MS for t in found.shifted(0.2)) == (30, 130)
    assert tuple(t // MS for t in found.shifted(-0.2)) == (0, 90)
    assert tuple(t // MS for t in found.shifted(0.9)) == (100, 150)


def test_no_requests_have_no_window() -> None:
    assert window(np.array([], dtype=np.int64), np.array([], dtype=np.int64), 2) is None


def three() -> object:
    """Two in flight from 10 ms to 110 ms; the third request drains to 150 ms."""
    return run(
        "r",
        [
            request("a", 0, ttft=20, gaps=[10] * 9),  # 0 to 110, tokens at 20, 30, ... 110
            request("b", 10, ttft=20, gaps=[10] * 12),  # 10 to 150, tokens at 30, ... 150
        ],
        concurrency=2,
        configuration="x",
        workload="mixed",
    )


def test_figures_of_the_window_by_hand() -> None:
    tables = three()
    found = steady(tables, run_metrics(tables)).set_index("metric")  # type: ignore[arg-type]
    # Window 10 to 110 ms. First tokens at 20 and 30 ms, gaps that end until 110 ms: 9 and 8.
    rate = found.loc["output_throughput_tok_s"]
    assert rate["window"] == pytest.approx((2 + 9 + 8) / 0.1)
    assert rate["whole"] == pytest.approx(23 / 0.15)
    assert rate["change"] == pytest.approx(190 / (23 / 0.15) - 1)
    assert found.loc["input_throughput_tok_s", "window"] == pytest.approx(200 / 0.1)
    assert found.loc["ttft_mean_ms", "window"] == pytest.approx(20)
    assert found.loc["itl_p50_ms", "window"] == pytest.approx(10)
    assert rate["n_gaps_window"] == 17
    assert rate["waves"] == 1
    assert rate["few_waves"]
    # Shifted to 30-130 ms: no first token after 30, gaps that end in (30, 130]: 8 + 10.
    # Shifted to 0-90 ms (cut at the start): 2 first tokens, gaps until 90: 7 + 6.
    assert rate["low"] == pytest.approx(min(190, 15 / 0.09, 18 / 0.1))
    assert rate["high"] == pytest.approx(190)


def test_a_tail_below_its_floor_is_left_out() -> None:
    tables = three()
    assert "itl_p99_ms" not in set(steady(tables, run_metrics(tables))["metric"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ({"concurrency": None, "request_rate": 2.0}, "open loop"),
        ({"concurrency": None}, "neither a concurrency nor a rate is known"),
        ({"concurrency": 2, "clock": "none"}, "no common clock"),
    ],
)
def test_why_a_run_has_no_window(identity: dict[str, object], words: str) -> None:
    tables = run("r", [request("a", 0, ttft=20, gaps=[10] * 9)], **identity)
    found, why = windows(tables, run_metrics(tables))
    assert not found
    assert words in why["r"]
    assert steady(tables, run_metrics(tables)).empty
