"""Isolation, failures, accounting, lengths and flags on runs made by hand."""

import math
from typing import Any

import pandas as pd
import pytest
from by_hand import request, run

from servebook.measure import trust
from servebook.measure.runs import run_metrics
from servebook.tables import Tables, table


def row(frame: pd.DataFrame, **where: Any) -> dict[Any, Any]:
    for name, value in where.items():
        frame = frame[frame[name] == value]
    (only,) = frame.to_dict("records")
    return only


def decode(*osl: int, asked: int | None = 3) -> Tables:
    requests = [request(str(i), i, ttft=1, gaps=[1] * (n - 1)) for i, n in enumerate(osl)]
    return run("d", requests, workload="decode", osl_requested=asked)


@pytest.mark.parametrize(
    ("tables", "expected", "found", "holds"),
    [
        (run("p", [request("a", 0, ttft=9)], workload="prefill"), 0, 0, True),
        (run("p", [request("a", 0, ttft=9, gaps=[1])], workload="prefill"), 0, 1, False),
        (decode(3, 3), 6, 6, True),
        (decode(3, 2), 6, 5, False),
    ],
)
def test_isolation(tables: Tables, expected: float, found: float, holds: bool) -> None:
    (one,) = trust.isolation(tables, run_metrics(tables)).to_dict("records")
    assert (one["expected_value"], one["found_value"]) == (expected, found)
    assert one["holds"] is holds


def test_isolation_counts_what_each_request_asked_for() -> None:
    tables = decode(3, 5)
    requests = [r | {"osl_requested": r["osl"]} for r in tables.requests.to_pylist()]
    tables = Tables(runs=tables.runs, requests=table("requests", requests), gaps=tables.gaps)
    (one,) = trust.isolation(tables, run_metrics(tables)).to_dict("records")
    assert (one["expected_value"], one["holds"]) == (8, True)


def test_isolation_is_unknown_where_nothing_was_asked_for() -> None:
    tables = decode(3, asked=None)
    (one,) = trust.isolation(tables, run_metrics(tables)).to_dict("records")
    assert one["holds"] is None


def test_mixed_runs_are_not_isolated() -> None:
    tables = run("m", [request("a", 0, ttft=9, gaps=[1])], workload="mixed")
    assert trust.isolation(tables, run_metrics(tables)).empty


FAILING = run(
    "f",
    [
        request("a", 0, ttft=9, flags=["short_output"]),
        request("b", 0, end=1, status="failed", error="http_500"),
        request("c", 0, end=1, status="failed", error="http_500"),
        request("d", 0, end=1, status="failed", error="stream_error"),
        request("e", 0, end=1, status="failed"),
        request("f", 0, end=1, status="cancelled", error="cancelled"),
        request("w", 0, end=1, status="failed", error="timeout", phase="warmup"),
    ],
    n_lost=2,
)


@pytest.mark.parametrize(
    ("kind", "n", "share", "counted_as"),
    [
        ("http_500", 2, 2 / 6, "failed"),
        ("stream_error", 1, 1 / 6, "failed"),
        ("other", 1, 1 / 6, "failed"),
        ("cancelled", 1, 1 / 6, "cancelled"),
        ("short_output", 1, 1 / 6, "ok"),
        ("lost", 2, math.nan, "lost"),
    ],
)
def test_failures_are_told_apart(kind: str, n: int, share: float, counted_as: str) -> None:
    found = trust.failures(FAILING, run_metrics(FAILING))
    assert len(found) == 6
    one = row(found, kind=kind)
    assert (one["n"], one["counted_as"]) == (n, counted_as)
    assert one["share"] == pytest.approx(share, nan_ok=True)
    assert one["meaning"]


def test_failures_of_a_summary_are_counted_without_a_kind() -> None:
    runs = [{"run_id": "s", "level": "summary", "n_requests": 10, "n_ok": 8, "n_failed": 2}]
    tables = Tables(runs=table("runs", runs))
    (one,) = trust.failures(tables, run_metrics(tables)).to_dict("records")
    assert (one["kind"], one["n"], one["share"]) == ("other", 2, 0.2)


def test_records_in_are_records_used_and_set_aside() -> None:
    aside = [
        {"path": "f", "line": 9, "record": "request", "reason": "torn"},
        {"path": "f", "line": 10, "record": "request", "reason": "torn"},
        {"path": "empty.jsonl", "line": 1, "record": "request", "reason": "no start"},
    ]
    tables = Tables(
        runs=FAILING.runs,
        requests=FAILING.requests,
        gaps=FAILING.gaps,
        set_aside=table("set_aside", aside),
    )
    found = trust.accounting(tables)
    one = row(found, path="f")
    assert (one["n_used"], one["n_profiling"], one["n_warmup"]) == (7, 6, 1)
    assert (one["n_set_aside"], one["n_in"]) == (2, 9)
    assert one["reasons"] == ("2 x torn",)
    assert one["run_ids"] == ("f",)
    assert row(found, path="empty.jsonl")["n_in"] == 1


def test_accounting_adds_up_over_the_runs_of_one_file() -> None:
    tables = Tables.concat(
        [
            run("x", [request("a", 0, ttft=1)], path="x.json"),
            run("x#2", [request("a", 0, ttft=1), request("b", 0, ttft=1)], path="x.json"),
        ]
    )
    (one,) = trust.accounting(tables).to_dict("records")
    assert one["run_ids"] == ("x", "x#2")
    assert one["n_in"] == 3


def test_lengths_off_by_more_than_two_percent() -> None:
    tables = run(
        "r", [request("a", 0, ttft=1, gaps=[1] * 96, isl=101)], isl_requested=100, osl_requested=100
    )
    found = trust.lengths(run_metrics(tables))
    assert row(found, side="isl")["off"] is False
    assert row(found, side="osl")["off"] is True
    assert row(found, side="osl")["deviation"] == pytest.approx(-0.03)


def test_short_runs_and_few_waves() -> None:
    few = run("r", [request(str(i), 0, ttft=1, end=31_000) for i in range(5)], concurrency=2)
    (one,) = trust.run_flags(run_metrics(few)).to_dict("records")
    assert (one["waves"], one["short"], one["few_waves"]) == (2.5, False, True)
    open_loop = run("r", [request("a", 0, ttft=1)])
    (one,) = trust.run_flags(run_metrics(open_loop)).to_dict("records")
    assert one["short"] is True
    assert one["few_waves"] is None


def test_nothing_measured() -> None:
    metrics = run_metrics(Tables())
    assert trust.isolation(Tables(), metrics).empty
    assert trust.failures(Tables(), metrics).empty
    assert trust.accounting(Tables()).empty
    assert trust.lengths(metrics).empty
    assert trust.run_flags(metrics).empty
