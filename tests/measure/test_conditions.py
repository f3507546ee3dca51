"""Runs of one condition become one row; others never do."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from servebook.measure.conditions import beyond_lowest, comparable, conditions, factors, left_out


def run(name: str, **settings: Any) -> dict[str, Any]:
    return {
        "run_id": name,
        "configuration": "a",
        "client": "AIPerf",
        "workload": "mixed",
        "concurrency": 8,
        "isl_requested": 768,
        "osl_requested": 128,
        "isl_mean": 768.0,
        "osl_mean": 127.0,
        "level": "records",
        "n_requests": 100.0,
        "n_ok": 100.0,
        "n_failed": 0.0,
        "n_gaps": 1000.0,
        "ttft_p50_ms": 40.0,
        "output_throughput_tok_s": 800.0,
    } | settings


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    whole = ["concurrency", "isl_requested", "osl_requested"]
    return table.astype(dict.fromkeys(whole, "Int64"))


VALUES = ("ttft_p50_ms", "output_throughput_tok_s")


def test_repeats_give_a_median_and_a_range() -> None:
    table = frame(*(run(f"r{i}", ttft_p50_ms=v) for i, v in enumerate((50.0, 40.0, 90.0))))
    row = conditions(table, VALUES).iloc[0]
    assert (row["ttft_p50_ms"], row["ttft_p50_ms_low"], row["ttft_p50_ms_high"]) == (50, 40, 90)
    assert row["n_runs"] == 3
    assert row["n_ok"] == 300
    assert row["runs"] == ("r0", "r1", "r2")


def test_one_run_has_no_range() -> None:
    row = conditions(frame(run("r")), VALUES).iloc[0]
    assert row["ttft_p50_ms"] == 40
    assert math.isnan(row["ttft_p50_ms_low"])


@pytest.mark.parametrize(
    "other",
    [{"client": "vLLM"}, {"isl_requested": 512}, {"configuration": "b"}, {"workload": "decode"}],
)
def test_runs_of_different_conditions_stay_apart(other: dict[str, Any]) -> None:
    found = conditions(frame(run("r"), run("s", **other)), VALUES)
    assert found["n_runs"].tolist() == [1, 1]
    assert len(set(found["series"])) == 2


def test_sampled_lengths_close_together_are_one_length() -> None:
    lengths = {"r": 120.0, "s": 128.0, "t": 135.0, "u": 256.0}
    table = frame(
        *(run(name, osl_requested=None, osl_mean=v, concurrency=8) for name, v in lengths.items())
    )
    found = conditions(table, VALUES)
    assert found[["osl", "n_runs"]].to_numpy().tolist() == [[128, 3], [256, 1]]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"configuration": None}, "the manifest gives no configuration"),
        ({"level": "summary"}, "a summary without records: nothing to recompute"),
        ({"n_ok": 0.0, "n_failed": 100.0}, "no request succeeded"),
        ({"n_ok": 98.0, "n_failed": 2.0}, "2 of 100 requests failed"),
        ({"concurrency": None, "request_rate": 2.0}, "open loop: no set concurrency"),
        ({"concurrency": None}, "neither a concurrency nor a rate is known"),
        (
            {"concurrency": None, "request_rate": math.nan},
            "neither a concurrency nor a rate is known",
        ),
    ],
)
def test_what_is_left_out_has_a_reason(settings: dict[str, Any], reason: str) -> None:
    table = frame(run("r"), run("bad", **settings))
    assert left_out(table).to_numpy().tolist() == [["bad", reason]]
    assert comparable(table)["run_id"].tolist() == ["r"]


def test_one_failure_in_a_hundred_is_kept() -> None:
    assert left_out(frame(run("r", n_ok=99.0, n_failed=1.0))).empty


def test_factors_know_which_direction_is_better() -> None:
    table = conditions(
        frame(
            run("r", ttft_p50_ms=40.0, output_throughput_tok_s=800.0),
            run("s", configuration="b", ttft_p50_ms=80.0, output_throughput_tok_s=200.0),
        ),
        VALUES,
    )
    assert factors(table, "ttft_p50_ms", "a", "b")["factor"].tolist() == [2.0]
    assert factors(table, "output_throughput_tok_s", "a", "b")["factor"].tolist() == [4.0]
    assert factors(table, "output_throughput_tok_s", "b", "a")["factor"].tolist() == [0.25]
    assert math.isnan(factors(table, "ttft_p50_ms", "a", "b")["factor_low"].iloc[0])


def test_factors_range_over_the_repeats_of_both_sides() -> None:
    table = conditions(
        frame(
            run("r0", output_throughput_tok_s=800.0),
            run("r1", output_throughput_tok_s=1000.0),
            run("s", configuration="b", output_throughput_tok_s=200.0),
        ),
        VALUES,
    )
    row = factors(table, "output_throughput_tok_s", "a", "b").iloc[0]
    assert (row["factor"], row["factor_low"], row["factor_high"]) == (4.5, 4.0, 5.0)
    assert row["runs"] == ("r0", "r1", "s")


def test_factors_of_another_client_or_length_do_not_exist() -> None:
    table = conditions(
        frame(
            run("r"),
            run("s", configuration="b", client="vLLM"),
            run("t", configuration="b", isl_requested=9),
        ),
        VALUES,
    )
    assert factors(table, "ttft_p50_ms", "a", "b").empty


def test_share_beyond_the_lowest_concurrency() -> None:
    table = conditions(
        frame(
            run("r", concurrency=1, ttft_p50_ms=25.0), run("s", concurrency=8, ttft_p50_ms=100.0)
        ),
        VALUES,
    )
    share = beyond_lowest(table, "ttft_p50_ms").tolist()
    assert math.isnan(share[0])
    assert share[1] == 0.75
