"""A run's metrics are the same whether its gaps are a table, parts in memory, or read in pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.gap_table import GapTable, InFile
from servebook.measure import gap_values
from servebook.measure.client_records import client_records
from servebook.measure.gap_values import gap_positions
from servebook.measure.load import clocks
from servebook.measure.runs import gap_metrics, request_metrics, run_metrics
from servebook.measure.steps import steps
from servebook.measure.tokens import run_tokens
from servebook.read import records
from servebook.read.discover import read_tree
from servebook.tables import Tables

FIXTURES = Path(__file__).parent.parent / "fixtures" / "runs"


@pytest.fixture(params=["in memory", "in files"])
def packed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Tables:
    monkeypatch.setenv("SERVEBOOK_CACHE", str(tmp_path))
    monkeypatch.setattr(records, "_PART", 100)
    if request.param == "in files":
        monkeypatch.setattr(records, "_MOST_IN_MEMORY", 0)
    tables = read_tree(FIXTURES)
    assert isinstance(tables.gaps, GapTable)
    some = [isinstance(part.data, InFile) for part in tables.gaps.parts]
    assert any(some) == (request.param == "in files")
    return tables


def test_every_measure_of_gaps(packed: Tables) -> None:
    built = Tables(runs=packed.runs, requests=packed.requests, gaps=packed.gaps.table)
    metrics = run_metrics(built)
    pd.testing.assert_frame_equal(run_metrics(packed), metrics, check_exact=True)
    pd.testing.assert_frame_equal(clocks(packed, metrics), clocks(built, metrics), check_exact=True)
    requests = request_metrics(built)
    for status in ("ok", "failed"):
        pd.testing.assert_frame_equal(
            gap_metrics(packed, requests, status), gap_metrics(built, requests, status)
        )
    pd.testing.assert_frame_equal(steps(packed), steps(built))
    run_id = packed.gaps.run_ids()[0]
    pd.testing.assert_frame_equal(steps(packed, run_id), steps(built, run_id))
    for one, other in zip(run_tokens(packed), run_tokens(built), strict=True):
        for name, value in vars(one).items():
            np.testing.assert_equal(value, getattr(other, name))
    for run in packed.runs["run_id"].to_pylist():
        one, other = client_records(packed)(run), client_records(built)(run)
        for name, value in vars(one).items():
            np.testing.assert_equal(value, getattr(other, name))


def test_a_long_run_is_read_in_pieces(packed: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run_metrics(packed)
    monkeypatch.setattr(gap_values, "MOST_AT_ONCE", 10)
    monkeypatch.setattr(gap_values, "_PIECE", 33)
    again = Tables(runs=packed.runs, requests=packed.requests, gaps=packed.gaps)
    found = run_metrics(again)
    means = [name for name in found if str(name).startswith("itl_mean")]
    pd.testing.assert_frame_equal(
        found.drop(columns=means), expected.drop(columns=means), check_exact=True
    )
    np.testing.assert_allclose(found[means], expected[means], rtol=1e-14)


names = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y", "z", None]))


@given(st.lists(names, max_size=8), st.lists(names, max_size=8, unique=True), st.integers(1, 4))
def test_positions_are_those_of_the_requests(
    gaps: list[tuple[str | None, str | None]],
    requests: list[tuple[str | None, str | None]],
    size: int,
) -> None:
    def table(rows: list[tuple[str | None, str | None]]) -> pa.Table:
        columns = list(zip(*rows, strict=True)) or [(), ()]
        built = pa.table([pa.array(c, pa.string()) for c in columns], ["run_id", "request_id"])
        return pa.Table.from_batches(built.to_batches(size), built.schema)

    for asked in (gaps, requests, [row for row in requests if row[0] == "a"]):
        expected = [requests.index(r) if None not in r and r in requests else -1 for r in asked]
        assert gap_positions(table(asked), table(requests)).tolist() == expected
