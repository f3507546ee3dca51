"""Run metrics against values computed by hand."""

import math

import pandas as pd
import pytest
from by_hand import request, run
from hypothesis import given, settings
from hypothesis import strategies as st

from servebook.measure.metrics import COUNTS, VALUES
from servebook.measure.runs import request_metrics, run_metrics
from servebook.tables import Tables, table


@pytest.fixture
def two_requests() -> Tables:
    # a: 0..10 first, gaps 5 5 10 -> end 30; b: 10..30 first, gap 40 -> end 70.
    # Warm-up and a failure that ends last are there too.
    return run(
        "r",
        [
            request("w", -500, ttft=1, gaps=[1], phase="warmup", osl=9),
            request("a", 0, ttft=10, gaps=[5, 5, 10], isl=100, scheduled=-2),
            request("b", 10, ttft=20, gaps=[40], isl=300, scheduled=6, flags=["short_output"]),
            request("c", 20, end=100, status="failed", error="http_500", isl=None),
        ],
        n_lost=3,
        concurrency=2,
    )


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("duration_s", 0.1),  # 0 to the failure's end at 100 ms
        ("n_requests", 3),
        ("n_ok", 2),
        ("n_failed", 1),
        ("n_cancelled", 0),
        ("n_lost", 3),
        ("n_short_output", 1),
        ("n_gaps", 4),
        ("input_throughput_tok_s", 4000),  # 400 tokens in 0.1 s
        ("output_throughput_tok_s", 60),  # 4 + 2 tokens
        ("total_throughput_tok_s", 4060),
        ("request_throughput_req_s", 20),
        ("ttft_mean_ms", 15),
        ("ttft_p50_ms", 15),
        ("ttft_max_ms", 20),
        ("ttft_p90_ms", 19),
        ("tpot_mean_ms", (20 / 3 + 40) / 2),
        ("n_tpot", 2),
        ("e2e_mean_ms", (30 + 60) / 2),
        ("itl_mean_ms", 15),
        ("itl_p50_ms", 7.5),
        ("itl_max_ms", 40),
        ("itl_p99_ms", 40 - 0.03 * 30),  # position 2.97 of 5 5 10 40
        ("itl_p99_over_p50", 39.1 / 7.5),
        ("gaps_per_output_token", 1),
        ("mean_in_flight", (30 + 60 + 80) / 100),
        ("running_batch", 60 * (20 / 3 + 40) / 2 / 1000),
        ("output_per_user_tok_s", 1000 / ((20 / 3 + 40) / 2)),
        ("stall_share_estimate", 1 - 7.5 / ((20 / 3 + 40) / 2)),
        ("send_delay_mean_ms", 3),  # 2 and 4; the failure has no schedule
        ("send_delay_max_ms", 4),
        ("ttft_from_scheduled_mean_ms", 18),
        ("isl_mean", 200),
        ("osl_mean", 3),
    ],
)
def test_by_hand(two_requests: Tables, metric: str, expected: float) -> None:
    (row,) = run_metrics(two_requests).to_dict("records")
    assert row[metric] == pytest.approx(expected)


def test_identity_is_kept_and_marked(two_requests: Tables) -> None:
    (row,) = run_metrics(two_requests).to_dict("records")
    assert row["run_id"] == "r"
    assert row["concurrency"] == 2
    assert row["duration_from"] == "records"
    assert row["itl_basis"] == "token"


def test_one_output_token_leaves_tpot_and_itl_undefined() -> None:
    (row,) = run_metrics(run("r", [request("a", 0, ttft=10)])).to_dict("records")
    assert row["n_tpot"] == row["n_gaps"] == 0
    for name in ("tpot_mean_ms", "itl_p50_ms", "running_batch", "stall_share_estimate"):
        assert math.isnan(row[name])
    assert row["ttft_mean_ms"] == row["e2e_mean_ms"] == 10


def test_chunks_of_several_tokens_are_called_chunk_gaps() -> None:
    tables = run("r", [request("a", 0, ttft=10, gaps=[30, 30], osl=17)])
    (row,) = run_metrics(tables).to_dict("records")
    assert row["itl_basis"] == "chunk"
    assert row["gaps_per_output_token"] == 2 / 16
    assert row["tpot_mean_ms"] == 60 / 16
    assert math.isnan(row["stall_share_estimate"])  # a chunk gap is no token time


def test_gaps_of_failed_and_warm_up_requests_are_left_out() -> None:
    tables = run(
        "r",
        [
            request("a", 0, ttft=10, gaps=[5]),
            request("b", 0, ttft=10, gaps=[500], status="failed", error="stream_broken"),
            request("c", 0, ttft=10, gaps=[900], phase="warmup"),
        ],
    )
    (row,) = run_metrics(tables).to_dict("records")
    assert row["n_gaps"] == 1
    assert row["itl_max_ms"] == 5


def test_unknown_token_counts_make_a_sum_unknown() -> None:
    tables = run("r", [request("a", 0, ttft=10, isl=None), request("b", 0, ttft=10, isl=5)])
    (row,) = run_metrics(tables).to_dict("records")
    assert math.isnan(row["input_throughput_tok_s"])
    assert row["output_throughput_tok_s"] == pytest.approx(200)


def test_without_a_common_clock_the_duration_is_the_clients() -> None:
    tables = run(
        "r",
        [request("a", None, osl=3, status="ok"), request("b", 0, ttft=10, gaps=[10, 10])],
        clock="none",
        native={"duration_s": 2.0},
    )
    (row,) = run_metrics(tables).to_dict("records")
    assert row["duration_s"] == 2.0
    assert row["duration_from"] == "client"
    assert row["output_throughput_tok_s"] == 3.0
    assert row["ttft_mean_ms"] == 10


def test_without_a_common_clock_and_a_stopwatch_there_is_no_duration() -> None:
    (row,) = run_metrics(run("r", [request("a", 0, ttft=10)], clock="none")).to_dict("records")
    assert math.isnan(row["duration_s"])
    assert math.isnan(row["output_throughput_tok_s"])
    assert row["duration_from"] == ""


def test_a_summary_gives_counts_and_no_values() -> None:
    tables = Tables(
        runs=table(
            "runs",
            [
                {
                    "run_id": "s",
                    "level": "summary",
                    "n_requests": 40,
                    "n_ok": 39,
                    "n_failed": 1,
                    "native": '{"duration_s": 3.0, "ttft_mean_ms": 5.0}',
                }
            ],
        )
    )
    (row,) = run_metrics(tables).to_dict("records")
    assert (row["n_requests"], row["n_ok"], row["n_failed"]) == (40, 39, 1)
    assert math.isnan(row["duration_s"])
    assert math.isnan(row["ttft_mean_ms"])
    assert math.isnan(row["n_lost"])  # the dump does not say


def test_a_failure_that_ended_at_once_still_bounds_the_duration() -> None:
    tables = run(
        "r",
        [
            request("a", 0, ttft=10),
            request("x", 50, status="failed", error="http_500"),  # no end at all
            request("y", -50, end=-50, status="failed", error="http_500"),
        ],
    )
    (row,) = run_metrics(tables).to_dict("records")
    assert row["duration_s"] == pytest.approx(0.1)


def test_an_all_failed_run_has_a_duration_and_no_latency() -> None:
    tables = run("r", [request("a", 0, end=10, status="failed", error="http_500")])
    (row,) = run_metrics(tables).to_dict("records")
    assert row["duration_s"] == pytest.approx(0.01)
    assert row["output_throughput_tok_s"] == 0
    assert math.isnan(row["ttft_mean_ms"])


def test_runs_are_kept_apart_when_request_ids_repeat() -> None:
    tables = Tables.concat(
        [
            run("one", [request("a", 0, ttft=10, gaps=[5])]),
            run("two", [request("a", 0, ttft=30, gaps=[7, 9])]),
        ]
    )
    metrics = run_metrics(tables).set_index("run_id")
    assert metrics["itl_mean_ms"].to_dict() == {"one": 5, "two": 8}
    assert metrics["ttft_mean_ms"].to_dict() == {"one": 10, "two": 30}


def test_epoch_times_lose_no_nanosecond() -> None:
    start = 1_795_973_870_695_903_341
    tables = run("r", [request("a", 0, ttft=10)])
    requests = tables.requests.to_pylist()
    requests[0] |= {"start_ns": start, "first_token_ns": start + 1, "end_ns": start + 3}
    moved = Tables(runs=tables.runs, requests=table("requests", requests))
    row = request_metrics(moved).iloc[0]
    assert row["ttft_ms"] == 1e-6
    assert row["e2e_ms"] == 3e-6


def test_no_runs() -> None:
    metrics = run_metrics(Tables())
    assert isinstance(metrics, pd.DataFrame)
    assert metrics.empty


@given(
    shift=st.integers(-(10**15), 10**15),
    gaps=st.lists(st.lists(st.integers(1, 500), max_size=6), min_size=1, max_size=5),
)
@settings(max_examples=25, deadline=None)
def test_values_do_not_depend_on_when_the_run_took_place_or_on_row_order(
    shift: int, gaps: list[list[int]]
) -> None:
    requests = [request(str(i), 7 * i, ttft=10, gaps=given) for i, given in enumerate(gaps)]
    tables = run("r", requests)
    rows = [
        {
            k: v + shift if k in ("start_ns", "first_token_ns", "end_ns") else v
            for k, v in row.items()
        }
        for row in tables.requests.to_pylist()
    ]
    moved = Tables(
        runs=tables.runs,
        requests=table("requests", rows[::-1]),
        gaps=table("gaps", tables.gaps.to_pylist()[::-1]),
    )
    names = [m.name for m in (*VALUES, *COUNTS)]
    pd.testing.assert_frame_equal(
        run_metrics(tables)[names], run_metrics(moved)[names], rtol=1e-12, atol=0
    )
