"""Real runs of SGLang's client against the figures that it printed itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from servebook.measure.native import compare
from servebook.measure.runs import run_metrics
from servebook.read.discover import read_tree
from servebook.tables import Tables
from tests.read.test_sglang import FIXTURES


def fixtures() -> Iterator[Tables]:
    yield from (read_tree(folder) for folder in sorted(FIXTURES.iterdir()))


def test_real_runs_meet_the_clients_own() -> None:
    figures = []
    for tables in fixtures():
        for row in compare(tables, run_metrics(tables)).to_dict("records"):
            if row["same_definition"]:
                assert row["deviation"] == pytest.approx(0, abs=1e-5), row
                figures.append(row["metric"])
            elif "summary" not in row["reason"]:
                # The usage message comes less than 0.1 ms after the last token there.
                assert abs(row["native"] - row["ours"]) < 0.1, row
    assert len(figures) > 25
    assert {"itl_p99_ms", "ttft_p99_ms", "input_throughput_tok_s"} <= set(figures)


def test_appended_summaries_are_runs_of_their_own() -> None:
    runs = read_tree(FIXTURES / "appended").runs.to_pylist()
    assert [(r["run_id"], r["concurrency"], r["level"]) for r in runs] == [
        ("appended", 2, "summary"),
        ("appended#2", 4, "summary"),
    ]
