"""What is measured in pieces of a long run is what is measured of it at once."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from servebook.gap_table import GapTable
from servebook.measure import distribution, gap_values, gaps_in_time, stall_report
from servebook.measure.attribution import prefill_rate
from servebook.measure.distribution import gap_pools
from servebook.measure.goodput import goodput
from servebook.measure.run_gaps import run_gaps
from servebook.measure.runs import request_metrics, run_metrics
from servebook.measure.stall_report import stalls
from servebook.measure.stalled_gaps import classify, gap_stalls, stalls_of_run
from servebook.measure.stalls import stall_summary
from servebook.measure.steady import steady
from servebook.measure.tokens import run_tokens
from servebook.measure.within import within_gaps
from servebook.read.discover import read_tree
from servebook.tables import Tables, of_run

RAW = Path(__file__).resolve().parents[2] / "data" / "loopback" / "raw" / "aiperf" / "spread"
RUN = "mixed_c8"


@pytest.fixture(scope="module")
def tables() -> Tables:
    """A mixed run with warm-up and a decode-only run at the same concurrency."""
    return Tables.concat([read_tree(RAW / name) for name in (RUN, "decode_c8")])


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no more than a few hundred gaps could be held."""
    monkeypatch.setattr(gap_values, "MOST_AT_ONCE", 300)
    monkeypatch.setattr(distribution, "MOST_AT_ONCE", 300)
    monkeypatch.setattr(gaps_in_time, "MOST_HELD", 300)
    monkeypatch.setattr(gap_values, "_PIECE", 128)


def test_curves_and_percentiles_of_pooled_gaps(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [tables.runs["run_id"].to_pylist()]
    ((names, whole),) = gap_pools(tables, groups)
    monkeypatch.setattr(distribution, "MOST_AT_ONCE", 300)
    ((_, pool),) = gap_pools(tables, groups)
    assert pool._ms is None
    assert whole._ms is not None
    assert names == groups[0]
    assert len(pool) == len(whole) > 300
    assert pool.longest == whole.longest
    assert pool.percentiles([50, 99, 99.9]) == whole.percentiles([50, 99, 99.9])
    pd.testing.assert_frame_equal(pool.longer_than(50), whole.longer_than(50), check_exact=True)


def test_the_steady_window(tables: Tables, request: pytest.FixtureRequest) -> None:
    metrics = run_metrics(tables)
    metrics["concurrency"] = metrics["concurrency"].fillna(8)
    whole = steady(tables, metrics)
    request.getfixturevalue("in_pieces")
    assert not whole.empty
    pd.testing.assert_frame_equal(steady(tables, metrics), whole, check_exact=True)


def test_what_swings_within_a_run(tables: Tables) -> None:
    requests = request_metrics(tables)
    lasts = dict.fromkeys(tables.runs["run_id"].to_pylist(), 0.2)
    whole = within_gaps(tables, requests, lasts)
    pieces = within_gaps(tables, requests, lasts, most=300)
    assert set(whole) == set(pieces) == set(lasts)
    for run, found in whole.items():
        assert set(found) == set(pieces[run]) == {"itl_mean_ms", "output_throughput_tok_s"}
        for metric, one in found.items():
            other = pieces[run][metric]
            assert (one.n, one.n_blocks) == (other.n, other.n_blocks)
            # An empty chunk ahead of a first token: the whole run knows when that token came.
            near = 1e-9 if metric == "itl_mean_ms" else 0.02
            for name in ("value", "low", "high", "block_s"):
                assert getattr(other, name) == pytest.approx(getattr(one, name), rel=near)


@pytest.mark.parametrize(
    ("statistic", "limit"), [("itl_ms", 9.0), ("itl_p99_ms", 30.0), ("itl_max_ms", 35.0)]
)
def test_goodput_goes_part_by_part(tables: Tables, statistic: str, limit: float) -> None:
    assert isinstance(tables.gaps, GapTable)
    built = Tables(runs=tables.runs, requests=tables.requests, gaps=tables.gaps.table)
    slos = {statistic: limit}
    found = goodput(tables, slos)
    assert 0 < found["goodput_fraction"].mean() < 1
    pd.testing.assert_frame_equal(found, goodput(built, slos), check_exact=True)


def test_the_beginning_of_a_long_run_is_as_if_it_had_been_stopped_then(tables: Tables) -> None:
    run_id = tables.runs["run_id"].to_pylist()[0]
    ((_, whole),) = run_gaps(tables, [run_id])
    most = len(whole.row) // 2
    ((_, part),) = run_gaps(tables, [run_id], most)
    assert part.cut_ns is not None
    assert part.n_run == len(whole.row)
    # As many as may be, but for those that end together with the next one.
    assert 0.99 * most < len(part.row) <= most
    early = whole.end_ns <= part.cut_ns
    np.testing.assert_array_equal(part.row, whole.row[early])
    np.testing.assert_array_equal(part.gap_ns, whole.gap_ns[early])
    # The same requests, of which those that came later are gone.
    np.testing.assert_array_equal(part.requests[part.owner], whole.requests[whole.owner[early]])
    begun = tables.requests["start_ns"].take(part.requests).to_numpy()
    first = tables.requests["first_token_ns"].take(part.requests).to_numpy()
    assert (begun <= part.cut_ns).all()
    assert (first <= part.cut_ns).all()
    assert len(part.requests) < len(whole.requests)
    np.testing.assert_array_equal(
        part.n_whole, np.bincount(whole.owner)[np.searchsorted(whole.requests, part.requests)]
    )


def test_stalls_of_the_beginning_are_those_that_the_whole_run_has_there(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = tables.runs["run_id"].to_pylist()[0]
    whole = gap_stalls(tables)
    n = int((whole["run_id"] == run_id).sum())
    monkeypatch.setattr("servebook.measure.run_gaps.MOST", n // 2)
    part = gap_stalls(tables)
    told = part["is_stall"].notna() & (part["run_id"] == run_id)
    assert 0.99 * (n // 2) < told.sum() <= n // 2
    same = (part.loc[told, "is_stall"] == whole.loc[told, "is_stall"]).mean()
    assert same > 0.995
    summary = stall_summary(tables, run_metrics(tables)).set_index("run_id").loc[run_id]
    assert summary["n_told_gaps"] == told.sum()
    assert summary["n_run_gaps"] == n
    assert 0 < summary["told_s"] < 60


def test_runs_are_classified_one_at_a_time_with_the_decode_only_ones_first(tables: Tables) -> None:
    order = [one.tokens.run_id for one in classify(tables)]
    assert sorted(order) == sorted(tables.runs["run_id"].to_pylist())
    assert [run for run in order if "decode" in run] == order[:1]
    alone = [one.run_id for run in order for one in run_tokens(of_run(tables, run))]
    assert alone == order
    assert len(prefill_rate(tables)) >= 2


def test_the_file_of_stalls_is_written_run_by_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (RUN, "decode_c8"):
        (tmp_path / "raw" / name).mkdir(parents=True)
        for file in ("profile_export.jsonl", "phase_manifest.json"):
            shutil.copy(RAW / name / file, tmp_path / "raw" / name / file)
    whole = stalls(tmp_path / "raw", tmp_path / "whole.parquet")
    monkeypatch.setattr(stall_report, "MOST", 300)
    monkeypatch.setattr(stall_report, "stalls_of_run", partial(stalls_of_run, most=500))
    assert stalls(tmp_path / "raw", tmp_path / "pieces.parquet") == whole
    one, other = (pq.ParquetFile(tmp_path / f"{n}.parquet") for n in ("whole", "pieces"))
    assert other.num_row_groups > 5
    key = ["run_id", "request_id", "index"]
    rows, pieces = (f.read().to_pandas().sort_values(key, ignore_index=True) for f in (one, other))
    pd.testing.assert_frame_equal(pieces, rows, check_exact=True)
    assert one.schema_arrow == other.schema_arrow
    assert not list(tmp_path.glob("*.part"))


def test_of_a_long_run_the_text_says_how_much_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(RAW / RUN / "profile_export.jsonl", tmp_path / "run")
    assert "looked for" not in stalls(tmp_path)[0]
    monkeypatch.setattr("servebook.measure.run_gaps.MOST", 1000)
    text, n = stalls(tmp_path)
    (line,) = [line for line in text.splitlines() if "looked for" in line]
    assert f"of {n:,} gaps" in line
