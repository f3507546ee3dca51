"""The client's summary against ours: same definitions agree, others say why and are recomputed."""

import math
from typing import Any

import pytest
from by_hand import request, run

from servebook.measure.native import compare, native
from servebook.measure.runs import run_metrics
from servebook.tables import Tables, table

AIPERF = {
    "duration": "valid_only",
    "throughput": "valid_only",
    "n_ok": "stream_errors_count_as_ok",
    "n_failed": "includes_cancelled",
    "ttft": "stream_errors_count_as_ok",
    "e2e": "stream_errors_count_as_ok",
    "itl": "stream_errors_count_as_ok",
    "tpot": "mean_of_requests",
}
VLLM = {"duration": "stopwatch_with_failures", "throughput": "stopwatch_with_failures"}

CLEAN = [request("a", 0, ttft=10, gaps=[10, 10]), request("b", 0, ttft=20, gaps=[80])]


def compared(tables: Tables) -> dict[str, dict[Any, Any]]:
    rows = compare(tables, run_metrics(tables)).to_dict("records")
    return {str(row["metric"]): row for row in rows}


def test_a_clean_run_shares_every_definition() -> None:
    own = {
        "duration_s": 0.1,
        "n_ok": 2,
        "n_failed": 0,
        "request_throughput_req_s": 20.0,
        "output_throughput_tok_s": 50.0,
        "ttft_mean_ms": 15.0,
        "tpot_mean_ms": 45.0,
        "itl_max_ms": 80.0,
    }
    rows = compared(run("r", CLEAN, native=own | {"_definition": AIPERF}))
    assert set(rows) == set(own)
    for row in rows.values():
        assert row["same_definition"] is True
        assert row["reason"] == ""
        assert row["deviation"] == pytest.approx(0, abs=1e-12)


def test_a_wrong_figure_of_the_client_stays_visible() -> None:
    # Same definition, other number: the flag must not follow the number.
    rows = compared(run("r", CLEAN, native={"ttft_mean_ms": 30.0, "_definition": AIPERF}))
    assert rows["ttft_mean_ms"]["same_definition"] is True
    assert rows["ttft_mean_ms"]["deviation"] == pytest.approx(-0.5)


def test_a_phase_window_is_another_definition_of_throughput_alone() -> None:
    own = {
        "duration_s": 0.1,
        "n_ok": 2,
        "request_throughput_req_s": 2 / 0.125,
        "output_throughput_tok_s": 5 / 0.125,
    }
    rows = compared(run("r", CLEAN, native=own | {"_definition": AIPERF}))
    assert rows["duration_s"]["same_definition"] is True
    row = rows["output_throughput_tok_s"]
    assert row["same_definition"] is False
    assert "phase of 0.125 s" in row["reason"]
    assert row["ours"] == pytest.approx(50)
    assert row["theirs_recomputed"] == pytest.approx(40)
    assert row["theirs_deviation"] == pytest.approx(0)
    # The window that the output throughput tells: 5 tokens / 40 tokens/s.
    assert rows["request_throughput_req_s"]["theirs_recomputed"] == pytest.approx(16)
    del own["output_throughput_tok_s"]
    rows = compared(run("r", CLEAN, native=own | {"_definition": AIPERF}))
    # Inferred from itself it would prove nothing.
    assert math.isnan(rows["request_throughput_req_s"]["theirs_recomputed"])


FAILURES = [
    *CLEAN,
    request("x", 10, end=200, status="failed", error="http_500"),
    request("y", 10, end=60, status="cancelled", error="cancelled"),
    request("z", 0, ttft=60, gaps=[60], status="failed", error="stream_error", osl=None),
]


@pytest.mark.parametrize(
    ("metric", "value", "ours", "theirs", "words"),
    [
        ("duration_s", 0.12, 0.2, 0.12, "2 failed or cancelled"),
        ("output_throughput_tok_s", 5 / 0.12, 25, 5 / 0.12, "valid requests only"),
        ("ttft_mean_ms", 30.0, 15, 30, "1 requests with an error inside the stream"),
        ("itl_max_ms", 80.0, 80, 80, "inside the stream"),
        ("n_ok", 3, 2, 3, "as successes"),
        ("n_failed", 2, 2, 2, "1 cancelled requests as failed"),
    ],
)
def test_failures_part_the_definitions(
    metric: str, value: float, ours: float, theirs: float, words: str
) -> None:
    tables = run("r", FAILURES, native={metric: value, "_definition": AIPERF})
    row = compared(tables)[metric]
    assert row["same_definition"] is False
    assert words in row["reason"]
    assert row["ours"] == pytest.approx(ours)
    assert row["theirs_recomputed"] == pytest.approx(theirs)
    assert row["theirs_deviation"] == pytest.approx(0)


def test_a_stream_error_that_the_client_recorded_is_no_success_of_its() -> None:
    lost = request("z", 0, end=30, status="failed", error="stream_error", osl=None)
    rows = compared(run("r", [*CLEAN, lost], native={"n_ok": 2, "_definition": AIPERF}))
    assert rows["n_ok"]["same_definition"] is True
    assert rows["n_ok"]["deviation"] == 0


def test_tpot_is_the_same_even_with_failures() -> None:
    rows = compared(run("r", FAILURES, native={"tpot_mean_ms": 45.0, "_definition": AIPERF}))
    assert rows["tpot_mean_ms"]["same_definition"] is True
    assert rows["tpot_mean_ms"]["deviation"] == pytest.approx(0)


def test_a_stopwatch_is_another_duration_and_its_throughput_follows() -> None:
    own = {"duration_s": 0.125, "output_throughput_tok_s": 40.0, "ttft_mean_ms": 15.0}
    tables = run("r", CLEAN, native=own | {"_definition": VLLM}, clock="relative", client="vLLM")
    rows = compared(tables)
    assert rows["duration_s"]["same_definition"] is False
    assert math.isnan(rows["duration_s"]["theirs_recomputed"])
    assert rows["output_throughput_tok_s"]["same_definition"] is False
    assert rows["output_throughput_tok_s"]["theirs_recomputed"] == pytest.approx(40)
    assert rows["ttft_mean_ms"]["same_definition"] is True


def test_without_a_clock_the_stopwatch_is_ours_too() -> None:
    own = {"duration_s": 0.125, "output_throughput_tok_s": 40.0}
    rows = compared(run("r", CLEAN, native=own | {"_definition": VLLM}, clock="none"))
    assert rows["duration_s"]["same_definition"] is True
    assert rows["output_throughput_tok_s"]["same_definition"] is True
    assert rows["output_throughput_tok_s"]["deviation"] == pytest.approx(0)


def test_a_zero_for_no_value_is_no_value() -> None:
    rows = compared(run("r", [request("a", 0, ttft=10)], native={"tpot_mean_ms": 0.0}))
    assert rows["tpot_mean_ms"]["same_definition"] is False
    assert "writes 0" in rows["tpot_mean_ms"]["reason"]


def test_an_unknown_code_is_not_taken_for_ours() -> None:
    own = {"tpot_mean_ms": 45.0, "_definition": {"tpot": "includes_ttft"}}
    row = compared(run("r", CLEAN, native=own))["tpot_mean_ms"]
    assert row["same_definition"] is False
    assert "includes_ttft" in row["reason"]


def test_a_summary_is_never_called_the_same() -> None:
    runs = table(
        "runs",
        [{"run_id": "s", "level": "summary", "client": "vLLM", "native": '{"ttft_mean_ms": 5}'}],
    )
    row = compared(Tables(runs=runs))["ttft_mean_ms"]
    assert row["same_definition"] is False
    assert "only vLLM's summary" in row["reason"]


@pytest.mark.parametrize("value", [None, ""])
def test_no_summary(value: str | None) -> None:
    assert native(value) == ({}, {})
    assert compared(run("r", CLEAN)) == {}
