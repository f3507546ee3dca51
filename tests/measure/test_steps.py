"""Recovered steps by hand: a decode step takes 10 ms, a prefill 40 ms."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from by_hand import MS, request, run
from test_stalls import PREFILL, STEP, separate, shared

from servebook.measure.runs import run_metrics
from servebook.measure.stalls import stall_summary
from servebook.measure.step_quality import step_quality
from servebook.measure.steps import STEP_COLUMNS, steps, timelines
from servebook.read.discover import read_tree
from servebook.tables import Tables

SPREAD = Path(__file__).parents[2] / "data" / "loopback" / "raw" / "aiperf" / "spread"


def test_prompts_with_steps_of_their_own() -> None:
    found = steps(separate())
    assert tuple(found.columns) == STEP_COLUMNS
    assert found["step"].tolist() == list(range(len(found)))
    assert found["end_ns"].is_monotonic_increasing
    prefill = found[found["n_first_tokens"] > 0]
    assert prefill["prefill_requests"].tolist() == [("a",), ("b",), ("c",), ("d",)]
    assert prefill["prefill_tokens"].tolist() == [100] * 4
    assert (prefill["n_decoded"] == 0).all()
    # a waited 100 ms from its start on an idle engine; the others took a prefill's time.
    assert prefill["duration_ns"].tolist() == [100 * MS, *[PREFILL * MS] * 3]
    decode = found[found["n_decoded"] > 0]
    assert len(decode) == 199
    # The first decode step follows a's prefill; all others follow a step of a's.
    assert decode["duration_ns"].tolist() == [STEP * MS] * 199
    assert decode["n_decoded"].sum() == 259
    assert decode["n_decoded"].max() == 3


def test_prompts_that_share_steps() -> None:
    found = steps(shared())
    assert len(found[found["n_decoded"] == 0]) == 1  # a's prefill on an idle engine
    with_b = found[found["prefill_requests"].map(lambda ones: "b" in ones)].iloc[0]
    assert with_b["n_decoded"] == 1
    assert with_b["prefill_tokens"] == 100
    assert with_b["duration_ns"] == 20 * MS


def test_after_an_idle_time_a_step_has_no_length_of_its_own() -> None:
    tables = run(
        "r",
        [
            request("a", 0, ttft=40, gaps=[STEP] * 30),
            request("b", 1_000, ttft=40, gaps=[STEP] * 30, isl=None),
        ],
        concurrency=1,
    )
    found = steps(tables)
    b = found[found["prefill_requests"].map(lambda ones: "b" in ones)].iloc[0]
    assert b["duration_ns"] == 40 * MS  # from its start, not from a's last token
    assert b["prefill_tokens"] is pd.NA
    assert found["duration_ns"].max() == 40 * MS


def test_one_run_of_many_and_runs_without_times() -> None:
    tables = Tables.concat(
        [
            run("x", [request("a", 0, ttft=40, gaps=[STEP] * 30)]),
            run("y", [request("a", 0, ttft=40, gaps=[STEP] * 20)]),
            run("z", [request("a", 0, ttft=40, gaps=[STEP] * 20)], clock="none"),
        ]
    )
    assert steps(tables)["run_id"].value_counts().to_dict() == {"x": 31, "y": 21}
    assert len(steps(tables, "y")) == 21
    assert steps(tables, "z").empty
    assert steps(Tables()).empty


def test_quality_says_how_well_the_clock_fits() -> None:
    late = [STEP] * 50
    late[20], late[21] = STEP + 4, STEP - 4  # one token of fifty came 4 ms late
    tables = run(
        "r",
        [
            request("a", 0, ttft=40, gaps=[STEP] * 50),
            request("b", 0, ttft=40, gaps=late),
        ],
        concurrency=2,
    )
    row = step_quality(timelines(tables)).iloc[0]
    assert row["n_engines"] == 1
    assert row["n_steps"] == 50
    assert row["n_tokens"] == 100
    assert row["on_time_fraction"] == pytest.approx(0.99)
    assert row["jitter_ms"] == 0
    assert row["jitter_p99_ms"] > 0


@pytest.mark.parametrize("name", ["mixed_c2", "mixed_c4", "mixed_c8", "mixed_c16", "mixed_c24"])
def test_real_runs_have_one_clock_that_explains_their_tokens(name: str) -> None:
    tables = read_tree(SPREAD / name)
    row = step_quality(timelines(tables)).iloc[0]
    assert row["n_engines"] == 1
    assert row["prefill_style"] == "separate"
    assert row["on_time_fraction"] > 0.85
    assert row["jitter_ms"] < 0.3
    found = steps(tables)
    # Every request was prefilled once, and every token after its first came out of a decode step.
    assert found["n_first_tokens"].sum() == tables.requests.num_rows
    assert found["n_decoded"].sum() == tables.gaps.num_rows
    assert (found["duration_ns"].dropna() > 0).all()
    config = json.dumps(stall_summary(tables, run_metrics(tables)).iloc[0].to_dict(), default=str)
    assert "NaN" not in config.replace('"configuration": NaN', "")


def test_a_chunked_run_shares_steps() -> None:
    row = step_quality(timelines(read_tree(SPREAD / "chunk256_mixed_c8"))).iloc[0]
    assert row["prefill_style"] == "shared"
    assert row["on_time_fraction"] > 0.9


@pytest.mark.parametrize(
    ("counted_by", "gap", "steps_known"),
    [("client", STEP, True), ("server", STEP, True), ("server", 2.3 * STEP, False)],
)
def test_a_client_that_recounts_tokens_does_not_hide_the_steps(
    counted_by: str, gap: float, steps_known: bool
) -> None:
    # Its own tokenizer finds a token more or less. A server's count is exact: there chunks of
    # several tokens are steps only if they follow one clock.
    tables = run(
        "r",
        [
            request("a", 0, ttft=40, gaps=[STEP] * 60, osl=60),
            request("b", 0, ttft=40, gaps=[gap] * 60, osl=63),
        ],
        tokens_counted_by=counted_by,
    )
    assert steps(tables).empty is not steps_known


def test_the_same_input_gives_the_same_steps_whatever_the_order_of_rows() -> None:
    tables = separate()
    order = np.arange(tables.gaps.num_rows)[::-1]
    turned = Tables(
        runs=tables.runs,
        requests=tables.requests.take(np.arange(tables.requests.num_rows)[::-1]),
        gaps=tables.gaps.take(order),
    )
    pd.testing.assert_frame_equal(steps(tables), steps(turned))
