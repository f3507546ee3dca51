"""Stalls on an engine simulated by hand: one decode step takes 10 ms, a prefill 40 ms."""

import math
from typing import Any

import pytest
from by_hand import request, run

from servebook.measure.baseline import OWN_GAPS, OWN_IDLE_GAPS
from servebook.measure.runs import run_metrics
from servebook.measure.stalls import gap_stalls, stall_summary
from servebook.tables import Tables, table

STEP, PREFILL = 10.0, 40.0


def separate(**identity: Any) -> Tables:
    """A long request runs; b and c are prefilled in steps of their own at its gaps 50 and 120.

    b comes alone; c and d come one after the other, so that c's first gap holds d's prefill.
    """
    gaps = [STEP] * 199
    gaps[50] = PREFILL + STEP
    gaps[120] = 2 * PREFILL + STEP
    begin = 100.0  # a's first token
    at_50 = begin + 50 * STEP + PREFILL
    at_120 = begin + 119 * STEP + PREFILL + STEP + PREFILL
    return run(
        "r",
        [
            request("a", 0, ttft=begin, gaps=gaps),
            request("b", at_50 - PREFILL, ttft=PREFILL, gaps=[STEP] * 20),
            request("c", at_120 - PREFILL, ttft=PREFILL, gaps=[PREFILL + STEP] + [STEP] * 19),
            request("d", at_120 - PREFILL, ttft=2 * PREFILL, gaps=[STEP] * 20),
        ],
        **({"concurrency": 4} | identity),
    )


def shared() -> Tables:
    """The same with b's prompt in four chunks: four steps of 20 ms, first token with the last."""
    gaps = [STEP] * 199
    gaps[50:54] = [20.0] * 4
    start = 100 + 50 * STEP
    return run(
        "r",
        [
            request("a", 0, ttft=100, gaps=gaps),
            request("b", start + 1, ttft=79.5, gaps=[STEP + 0.5] + [STEP] * 19),
        ],
        concurrency=2,
    )


def summary(tables: Tables) -> dict[Any, Any]:
    (row,) = stall_summary(tables, run_metrics(tables)).to_dict("records")
    return row


def test_each_gap_with_a_prefill_in_it_is_a_stall() -> None:
    gaps = gap_stalls(separate())
    found = gaps[gaps["is_stall"]]
    assert list(zip(found["request_id"], found["index"], strict=True)) == [
        ("a", 50),
        ("a", 120),
        ("c", 0),
    ]
    assert found["n_first_tokens"].tolist() == [1, 2, 1]
    assert set(gaps["prefill_style"]) == {"separate"}
    assert not gaps["is_slow"].any()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("n_gaps", 259),
        ("n_first_gaps", 4),
        ("n_inside_gaps", 255),
        ("n_stalls", 3),
        ("n_first_stalls", 1),
        ("n_inside_stalls", 2),
        ("stall_fraction_of_gaps", 3 / 259),
        ("first_stall_fraction", 1 / 4),
        ("inside_stall_fraction", 2 / 255),
        ("longest_stall_ms", 90),
        ("median_stall_ms", 50),
        # Beyond the median of 10: 40 + 80 + 40; all gaps: 256 x 10 + 50 + 90 + 50.
        ("stall_share_of_decode_time", 160 / 2750),
        ("n_first_tokens", 4),
        ("n_prefill_batches", 3),  # a; b; c with d
        ("prefill_batch_mean", 4 / 3),
        ("running_peak", 3),
        ("baseline_median_ms", STEP),
        ("n_long_unexplained", 0),
        ("n_slow_gaps", 0),
    ],
)
def test_summary_by_hand(name: str, expected: float) -> None:
    assert summary(separate())[name] == pytest.approx(expected)


def test_expectation_uses_the_batches_seen() -> None:
    row = summary(separate())
    osl = (200 + 21 + 21 + 21) / 4
    k = 4 / 3
    assert row["expected_stall_frequency"] == pytest.approx((3 - k) / (k * (osl - 1)))


@pytest.mark.parametrize(("extra", "seen"), [(0, True), (60, False)])
def test_the_one_percent_line(extra: int, seen: bool) -> None:
    # 3 stalls in 259 gaps are above 1 %; with 60 gaps more they are not.
    tables = separate()
    more = run("r", [request("e", 5_000, ttft=PREFILL, gaps=[STEP] * extra)])
    tables = Tables(
        runs=tables.runs,
        requests=Tables.concat([tables, more]).requests,
        gaps=Tables.concat([tables, more]).gaps,
    )
    assert summary(tables)["p99_sees_stalls"] is seen


def test_chunked_prefill_is_slower_and_no_stall() -> None:
    row = summary(shared())
    assert row["prefill_style"] == "shared"
    assert row["n_stalls"] == 0
    assert row["stall_fraction_of_gaps"] == 0
    assert row["n_slow_gaps"] == 4
    assert row["slow_share_of_decode_time"] == pytest.approx(40 / (195 * 10 + 80 + 10.5 + 190))
    assert row["p99_sees_stalls"] is True  # 4 slow gaps of 219


def test_a_long_gap_without_a_prefill_is_unexplained_and_no_stall() -> None:
    gaps = [STEP] * 200
    gaps[77] = 500.0
    row = summary(run("r", [request("a", 0, ttft=10, gaps=gaps)], concurrency=1))
    assert row["n_stalls"] == 0
    assert row["n_long_unexplained"] == 1


def test_first_tokens_moved_elsewhere_explain_nothing() -> None:
    # Negative control: the long gaps stay, but nobody is prefilled in them any more.
    tables = separate()
    rows = tables.requests.to_pylist()
    for row in rows[1:]:
        for name in ("start_ns", "first_token_ns", "end_ns"):
            row[name] += 250_000_000
    moved = tables.gaps.to_pylist()
    for gap in moved:
        if gap["request_id"] != "a":
            gap["end_ns"] += 250_000_000
    tables = Tables(runs=tables.runs, requests=table("requests", rows), gaps=table("gaps", moved))
    found = gap_stalls(tables)
    assert not found.loc[found["request_id"] == "a", "is_stall"].any()
    assert summary(tables)["n_long_unexplained"] == 2


def test_first_tokens_at_one_instant_stall_nobody() -> None:
    tables = run(
        "r", [request(name, 0, ttft=100, gaps=[STEP] * 100) for name in "abc"], concurrency=3
    )
    row = summary(tables)
    assert row["n_stalls"] == 0
    assert row["n_prefill_batches"] == 1
    assert row["prefill_batch_mean"] == 3
    assert row["expected_stall_frequency"] == 0


def test_the_decode_only_run_of_the_same_condition_is_the_baseline() -> None:
    decode = run(
        "d",
        [request("x", 0, ttft=5, gaps=[9.0] * 150)],
        workload="decode",
        configuration="one",
        concurrency=4,
    )
    mixed = separate(workload="mixed", configuration="one")
    tables = Tables.concat([decode, mixed])
    rows = stall_summary(tables, run_metrics(tables)).set_index("run_id")
    assert rows.loc["r", "baseline"] == "d"
    assert rows.loc["r", "baseline_median_ms"] == 9
    assert rows.loc["r", "n_stalls"] == 3
    assert rows.loc["d", "baseline"] == OWN_IDLE_GAPS


def test_with_a_queue_all_through_gaps_without_a_first_token_serve() -> None:
    tables = run(
        "r",
        [
            request("a", 0, ttft=10, gaps=[STEP] * 150),
            request("q", 5, ttft=1_600, gaps=[STEP] * 3),  # waits for a's slot all the while
        ],
        concurrency=2,
    )
    assert summary(tables)["baseline"] == OWN_GAPS


def test_without_a_common_clock_nothing_is_called_a_stall() -> None:
    tables = separate(clock="none", native={"duration_s": 3.0})
    row = summary(tables)
    assert row["n_gaps"] == 259
    assert math.isnan(row["n_stalls"])
    assert row["p99_sees_stalls"] is None
    assert gap_stalls(tables)["is_stall"].isna().all()


def test_too_few_gaps_make_no_baseline() -> None:
    row = summary(run("r", [request("a", 0, ttft=10, gaps=[STEP] * 20)], concurrency=1))
    assert math.isnan(row["n_stalls"])
    assert row["n_gaps"] == 20


def test_prefill_only_and_empty() -> None:
    row = summary(run("r", [request("a", 0, ttft=10)], concurrency=1))
    assert row["n_gaps"] == 0
    assert math.isnan(row["stall_fraction_of_gaps"])
    assert gap_stalls(Tables()).empty
    assert stall_summary(Tables(), run_metrics(Tables())).empty
