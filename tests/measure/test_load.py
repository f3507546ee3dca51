"""Little's law and clocks on loads made by hand."""

import math

import pytest
from by_hand import request, run

from servebook.measure.load import clocks, littles_law
from servebook.measure.runs import run_metrics
from servebook.tables import Tables


def test_littles_law_by_hand() -> None:
    # Two slots: a 0..60 then c 60..100, and b 0..80; both busy from 0 to 80.
    tables = run(
        "r",
        [
            request("a", 0, ttft=10, end=60),
            request("b", 0, ttft=10, end=80),
            request("c", 60, end=100, status="failed", error="http_500"),
        ],
        concurrency=2,
    )
    (row,) = littles_law(tables, run_metrics(tables)).to_dict("records")
    assert row["throughput_x_latency"] == pytest.approx(20 * 0.07)  # 2 ok in 0.1 s, 70 ms each
    assert row["mean_in_flight"] == pytest.approx(1.8)
    assert row["ratio"] == pytest.approx(0.9)
    assert row["full_share"] == pytest.approx(0.8)
    assert row["peak_in_flight"] == 2  # c starts when a ends: never three


def test_an_open_loop_has_no_ratio() -> None:
    tables = run("r", [request("a", 0, ttft=10, end=60)])
    (row,) = littles_law(tables, run_metrics(tables)).to_dict("records")
    assert math.isnan(row["ratio"])
    assert math.isnan(row["full_share"])
    assert row["peak_in_flight"] == 1


def test_without_a_common_clock_there_is_no_overlap() -> None:
    tables = run(
        "r", [request("a", 0, ttft=10)], concurrency=1, clock="none", native={"duration_s": 0.02}
    )
    (row,) = littles_law(tables, run_metrics(tables)).to_dict("records")
    assert row["mean_in_flight"] == pytest.approx(0.5)
    assert math.isnan(row["full_share"])
    assert math.isnan(row["peak_in_flight"])


def test_a_late_client_is_named() -> None:
    requests = [request("a", 0, ttft=10, gaps=[0, 5], scheduled=-2), request("b", 5, ttft=10)]
    tables = run("r", requests)
    (row,) = clocks(tables, run_metrics(tables)).to_dict("records")
    assert row["clock"] == "epoch"
    assert (row["n_scheduled"], row["send_delay_mean_ms"]) == (1, 2)
    assert row["late"] is True  # 2 ms of 10
    assert row["zero_gap_share"] == 0.5


@pytest.mark.parametrize(("scheduled", "late"), [(-0.5, False), (None, None)])
def test_a_punctual_or_silent_client(scheduled: float | None, late: object) -> None:
    tables = run("r", [request("a", 0, ttft=10, scheduled=scheduled)])
    (row,) = clocks(tables, run_metrics(tables)).to_dict("records")
    assert row["late"] is late


def test_nothing_measured() -> None:
    metrics = run_metrics(Tables())
    assert littles_law(Tables(), metrics).empty
    assert clocks(Tables(), metrics).empty
