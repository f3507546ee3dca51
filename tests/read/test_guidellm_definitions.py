"""guidellm's own definitions: worked out by hand, and met on real runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servebook.measure.native import compare
from servebook.measure.runs import run_metrics
from servebook.read.discover import read_tree
from servebook.tables import Tables
from tests.read.guidellm_samples import (
    FIXTURES,
    OK,
    START,
    benchmark,
    distribution,
    layout_0_3,
    old_entry,
    report,
)


def read(tmp_path: Path, content: Any) -> Tables:
    (tmp_path / "benchmarks.json").write_text(json.dumps(content))
    return read_tree(tmp_path)


def compared(tables: Tables) -> dict[str, dict[Any, Any]]:
    rows = compare(tables, run_metrics(tables)).to_dict("records")
    return {f"{row['metric']}@{row['variant']}".rstrip("@"): row for row in rows}


def test_its_definitions_by_hand(tmp_path: Path) -> None:
    """Two requests: 3 and 5 tokens, TTFT 10 and 20 ms, 10 and 40 ms from first to last token."""
    own = {
        "time_to_first_token_ms": distribution(mean=15.0, percentiles={"p50": 10.0, "p99": 20.0}),
        "inter_token_latency_ms": distribution(mean=50 / 6, percentiles={"p50": 10.0}),
        "time_per_output_token_ms": distribution(mean=10.0, percentiles={"p50": 12.0}, max=12.0),
        "request_latency": distribution(mean=0.041, percentiles={"p50": 0.021}, max=0.061),
        "requests_per_second": distribution(mean=8.0),
        "output_tokens_per_second": distribution(mean=32.0),
        "prompt_tokens_per_second": distribution(mean=128.0),
    }
    rows = compared(read(tmp_path, report(benchmark(OK, metrics=own))))
    expected = {
        "ttft_mean_ms": (15.0, None),
        "ttft_p50_ms": (15.0, 10.0),
        "tpot_mean_ms": (7.5, 50 / 6),  # (5 + 10) / 2 against (10 + 40) / (2 + 4)
        "tpot_p50_ms": (7.5, 10.0),  # four of the six weights stand at 10
        "tpot_mean_ms@time_per_output_token_ms": (7.5, 10.0),  # (20 + 60) / (3 + 5)
        "tpot_max_ms@time_per_output_token_ms": (10.0, 12.0),
        "e2e_mean_ms": (40.0, 41.0),
        "e2e_p50_ms": (40.0, 21.0),
        "request_throughput_req_s": (2 / 0.16, 2 / 0.25),
        "output_throughput_tok_s": (8 / 0.16, 8 / 0.25),
        "input_throughput_tok_s": (32 / 0.16, 32 / 0.25),
    }
    for name, (ours, theirs) in expected.items():
        row = rows[name]
        assert row["ours"] == pytest.approx(ours, rel=1e-4), name
        if theirs is None:
            assert row["same_definition"], name
        else:
            assert row["theirs_recomputed"] == pytest.approx(theirs, rel=1e-4), name
            assert row["theirs_deviation"] == pytest.approx(0, abs=1e-4), name


def test_what_lies_outside_the_window_is_not_counted_by_it(tmp_path: Path) -> None:
    # The window ends at 140 ms: the second response has not, and two of its tokens have come
    # (at 120, 130, 140 of 120 to 160 ms: three), so 3 + 3 tokens and one response.
    own = {
        "requests_per_second": distribution(mean=1 / 0.14),
        "output_tokens_per_second": distribution(mean=6 / 0.14),
    }
    one = benchmark(OK, metrics=own, end_time=START + 0.14, duration=0.14)
    rows = compared(read(tmp_path, report(one)))
    for name in ("request_throughput_req_s", "output_throughput_tok_s"):
        assert rows[name]["theirs_deviation"] == pytest.approx(0, abs=1e-4), name


def test_a_tpot_of_0_3_leaves_the_ttft_out(tmp_path: Path) -> None:
    done = [old_entry(0.0, 0.010, 0.010, 3), old_entry(0.1, 0.020, 0.040, 5)]
    own = {"time_per_output_token_ms": distribution(mean=50 / 8)}
    row = compared(read(tmp_path, layout_0_3(done, metrics=own)))[
        "tpot_mean_ms@time_per_output_token_ms"
    ]
    assert "from the first to the last token" in row["reason"]
    assert row["theirs_recomputed"] == pytest.approx(50 / 8, rel=1e-4)


def test_a_requests_own_figures_tell_which_tpot_it_is(tmp_path: Path) -> None:
    # 10 ms + 2 x 5 ms: without the TTFT 10 / 3.
    first = OK[0] | {
        "time_to_first_token_ms": 10.0,
        "inter_token_latency_ms": 5.0,
        "time_per_output_token_ms": 10 / 3,
    }
    own = {"time_per_output_token_ms": distribution(mean=10 / 3)}
    rows = compared(read(tmp_path, report(benchmark([first], metrics=own))))
    row = rows["tpot_mean_ms@time_per_output_token_ms"]
    assert row["theirs_recomputed"] == pytest.approx(10 / 3, rel=1e-4)


def test_real_runs_meet_the_clients_own() -> None:
    tables = read_tree(FIXTURES)
    rows = compare(tables, run_metrics(tables))
    same = rows[rows["same_definition"]]
    assert same["deviation"].abs().max() < 1e-5
    assert {"ttft_mean_ms", "tpot_max_ms", "n_ok"} <= set(same["metric"])
    other = rows[~rows["same_definition"] & rows["theirs_recomputed"].notna()]
    assert other["theirs_deviation"].abs().max() < 1e-3
    # One run ends 1 ms before its last two responses: its request rate is 5.6 % lower than ours.
    rate = other[other["metric"] == "request_throughput_req_s"].set_index("run_id")
    assert rate.loc["mixed#2", "deviation"] == pytest.approx(0.0591, abs=1e-3)
    assert len(other) > 50
