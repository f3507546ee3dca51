"""Stalls on an engine simulated by hand: one decode step takes 10 ms, a prefill 40 ms."""

import math
from typing import Any

import pandas as pd
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
    assert found["prefill_tokens"].tolist() == [100, 200, 100]
    assert set(found["cause"]) == {"prefill"}
    assert set(gaps.loc[~gaps["is_stall"], "cause"]) == {"none"}
    assert (gaps.loc[~gaps["is_stall"], "prefill_tokens"] == 0).all()
    assert (gaps["step_end_ns"] == gaps["end_ns"]).all()  # no token came late
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
        ("n_prefill_stalls", 3),
        ("n_link_stalls", 0),
        ("n_unexplained_stalls", 0),
        ("n_engines", 1),
        ("n_decode_steps", 198),  # a's 199 but the first
        ("n_stalled_steps", 2),
        ("stall_fraction_of_steps", 2 / 198),
        ("n_unseen_prefills", 0),
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


def long(at: int, length: float, then: float = STEP, **identity: Any) -> Tables:
    """One request whose gap ``at`` takes ``length`` ms and the one after it ``then``."""
    gaps = [STEP] * 200
    gaps[at : at + 2] = [length, then]
    return run("r", [request("a", 0, ttft=10, gaps=gaps)], concurrency=1, **identity)


@pytest.mark.parametrize(
    ("length", "then", "cause"),
    [
        (35.0, STEP, "none"),  # a slow step, as engines have
        (500.0, STEP, "unexplained"),  # the engine paused
        (500.0, 0.001, "unexplained"),  # it paused; one more token came with the late one
    ],
)
def test_a_pause_of_the_engine_is_a_stall_a_slow_step_is_not(
    length: float, then: float, cause: str
) -> None:
    gaps = gap_stalls(long(77, length, then))
    assert gaps["cause"][77] == cause
    assert gaps["is_stall"].sum() == (cause != "none")
    row = summary(long(77, length, then))
    assert row["n_unexplained_stalls"] == (cause != "none")
    assert row["n_long_unexplained"] == (cause == "none")


def test_tokens_that_the_client_read_late_are_no_stall() -> None:
    # The client slept for 50 steps and then read 50 tokens at once.
    gaps = [STEP] * 200
    gaps[60:110] = [50 * STEP, *[0.0] * 49]
    tables = run("r", [request("a", 0, ttft=10, gaps=gaps)], concurrency=1)
    found = gap_stalls(tables)
    assert not found["is_stall"].any()
    # The steps ended before; none was shorter than most of a decode step.
    ends = found["step_end_ns"].to_numpy(dtype="int64")
    assert (ends[60:110] < found["end_ns"].to_numpy(dtype="int64")[60:110]).sum() == 49
    assert min(ends[61:110] - ends[60:109]) == pytest.approx(0.85 * STEP * 1e6, rel=1e-6)


@pytest.mark.parametrize(
    ("util", "paused", "cause"),
    [(0.95, None, "link"), (0.5, None, "none"), (0.1, True, "link"), (float("nan"), False, "none")],
)
def test_a_busy_or_paused_link_explains_a_slow_step(
    util: float, paused: bool | None, cause: str
) -> None:
    tables = long(77, 40.0)
    zero = 1_700_000_000_000_000_000
    rows = tables.requests.to_pylist()
    moved = tables.gaps.to_pylist()
    for row in rows:
        for name in ("start_ns", "first_token_ns", "end_ns"):
            row[name] += zero
    for gap in moved:
        gap["end_ns"] += zero
    epoch = Tables(runs=tables.runs, requests=table("requests", rows), gaps=table("gaps", moved))
    # Gap 77 runs from 780 to 820 ms.
    links = pd.DataFrame(
        {"t0_ns": [zero + 700_000_000], "t1_ns": [zero + 800_000_000], "util_fraction": [util]}
    )
    if paused is not None:
        links["paused"] = [paused]
    assert gap_stalls(epoch, links)["cause"][77] == cause
    assert gap_stalls(epoch)["cause"][77] == "none"  # a bare path
    late = links.assign(t0_ns=zero + 850_000_000, t1_ns=zero + 900_000_000)
    assert gap_stalls(epoch, late)["cause"][77] == "none"
    # Times of a relative clock meet no counter.
    assert gap_stalls(tables, links)["cause"][77] == "none"


def test_first_tokens_moved_elsewhere_explain_nothing() -> None:
    # Negative control: the long gaps stay, but nobody is prefilled in them any more.
    tables = separate()
    rows = tables.requests.to_pylist()
    for row in rows[1:]:
        for name in ("start_ns", "first_token_ns", "end_ns"):
            row[name] += 253_000_000
    moved = tables.gaps.to_pylist()
    for gap in moved:
        if gap["request_id"] != "a":
            gap["end_ns"] += 253_000_000
    tables = Tables(runs=tables.runs, requests=table("requests", rows), gaps=table("gaps", moved))
    found = gap_stalls(tables)
    causes = found.loc[found["request_id"] == "a", "cause"].to_numpy()
    assert (causes[[50, 120]] != "prefill").all()


def test_an_empty_chunk_ahead_of_the_first_token_changes_nothing() -> None:
    # Chat endpoints may send one: a gap more than tokens, of next to no length.
    tables = separate()
    rows, gaps = tables.requests.to_pylist(), []
    for row in rows:
        gaps.append(
            {"run_id": "r", "request_id": row["request_id"], "index": 0}
            | {"end_ns": row["first_token_ns"], "gap_ns": 20_000}
        )
        row["first_token_ns"] -= 20_000
    gaps += [gap | {"index": gap["index"] + 1} for gap in tables.gaps.to_pylist()]
    ahead = Tables(runs=tables.runs, requests=table("requests", rows), gaps=table("gaps", gaps))
    found = gap_stalls(ahead)
    stalled = found[found["is_stall"]]
    assert sorted(zip(stalled["request_id"], stalled["index"], strict=True)) == [
        ("a", 51),
        ("a", 121),
        ("c", 1),
    ]
    assert found.loc[found["index"] == 0, "cause"].eq("none").all()


def test_every_gap_has_a_row_in_table_order_also_of_warm_up_and_failed_requests() -> None:
    tables = run(
        "r",
        [
            request("w", 0, ttft=10, gaps=[STEP] * 30, phase="warmup"),
            request("f", 5, ttft=40, gaps=[STEP] * 5, status="failed", end=200),
            request("a", 400, ttft=10, gaps=[STEP] * 30),
        ],
        concurrency=2,
    )
    found = gap_stalls(tables)
    for name in ("run_id", "request_id", "index", "end_ns", "gap_ns"):
        assert found[name].tolist() == tables.gaps[name].to_pylist()
    row = summary(tables)
    assert row["n_first_gaps"] + row["n_inside_gaps"] == 30  # the ok profiling request's


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


def test_too_few_gaps_make_no_baseline_but_steps_are_told() -> None:
    row = summary(run("r", [request("a", 0, ttft=10, gaps=[STEP] * 20)], concurrency=1))
    assert row["baseline"] == ""
    assert math.isnan(row["n_long_unexplained"])
    assert row["n_stalls"] == 0
    assert row["n_gaps"] == 20


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        (run("r", [request("a", 0, ttft=10)]), "one output token per request"),
        (run("r", [request("a", 0, ttft=10, osl=9)]), "no gaps between tokens"),
        (run("r", [request("a", 0, ttft=1, gaps=[STEP] * 9)], clock="none"), "no common clock"),
    ],
)
def test_where_stalls_cannot_be_told_words_say_why(tables: Tables, why: str) -> None:
    row = summary(tables)
    assert why in row["why"]
    assert math.isnan(row["stall_fraction_of_gaps"])
    assert row["p99_sees_stalls"] is None


def test_no_runs_no_rows() -> None:
    assert gap_stalls(Tables()).empty
    assert stall_summary(Tables(), run_metrics(Tables())).empty
