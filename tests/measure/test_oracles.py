"""Real dumps as oracles: the clients' own summaries, and an engine's own log.

The campaign ``data/loopback`` is always there. The environment variable SERVEBOOK_DUMPS may name a
folder with more dumps (``aiperf-*``, ``vllm-*``) and the engine's logs beside them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from engine_log import stalled_gaps

from servebook.measure.native import compare
from servebook.measure.report import measure
from servebook.measure.runs import run_metrics
from servebook.measure.stalls import gap_stalls, stall_summary
from servebook.read.discover import read_tree
from servebook.tables import Tables

RAW = Path(__file__).parents[2] / "data" / "loopback" / "raw"
DUMPS = os.environ.get("SERVEBOOK_DUMPS")
needs_dumps = pytest.mark.skipif(
    not DUMPS, reason="SERVEBOOK_DUMPS does not name a folder of further dumps"
)
TOLERANCE = 1e-3


@pytest.fixture(scope="module")
def loopback() -> Tables:
    return read_tree(RAW)


def check(tables: Tables) -> pd.DataFrame:
    """Every shared definition agrees to 0.1 %; so does the client's own, recomputed."""
    found = compare(tables, run_metrics(tables))
    same = found[found["same_definition"]]
    assert (same["deviation"].abs() <= TOLERANCE).all(), same[same["deviation"].abs() > TOLERANCE]
    other = found[~found["same_definition"]]
    assert (other["reason"] != "").all()
    again = other[other["theirs_recomputed"].notna()]
    assert (again["theirs_deviation"].abs() <= TOLERANCE).all(), again
    return found


def test_the_clients_own_summaries_are_met(loopback: Tables) -> None:
    found = check(loopback)
    assert found["run_id"].nunique() == loopback.runs.num_rows
    assert found["same_definition"].sum() > 10 * loopback.runs.num_rows
    # Latencies of a clean run share the definition, so that the check above has teeth.
    clean = found[found["run_id"].str.endswith("spread/mixed_c8")].set_index("metric")
    assert clean.loc[["ttft_mean_ms", "tpot_mean_ms", "itl_p99_ms"], "same_definition"].all()


def test_failures_are_explained_and_recomputed(loopback: Tables) -> None:
    found = compare(loopback, run_metrics(loopback))
    failed = found[found["run_id"].str.endswith("aiperf/failures_mixed_c4")].set_index("metric")
    assert not failed.loc["ttft_mean_ms", "same_definition"]
    assert abs(failed.loc["ttft_mean_ms", "deviation"]) > TOLERANCE
    assert failed.loc["ttft_mean_ms", "theirs_deviation"] == pytest.approx(0, abs=1e-9)
    assert failed.loc["tpot_mean_ms", "same_definition"]


def test_the_command_reports_each_run_of_the_campaign(loopback: Tables) -> None:
    found = measure(RAW)
    assert [run["path"] for run in found["runs"]] == sorted(loopback.runs["path"].to_pylist())


def test_stalls_rise_with_concurrency_and_cross_the_one_percent_line(loopback: Tables) -> None:
    rows = stall_summary(loopback, run_metrics(loopback)).set_index("run_id")
    spread = {c: rows.loc[f"aiperf/spread/mixed_c{c}"] for c in (2, 4, 8, 16, 24)}
    # The engine's log says 0.6, 2.0, 3.9, 7.8 and 10.0 % of the gaps inside requests.
    inside = [100 * row["inside_stall_fraction"] for row in spread.values()]
    assert inside == pytest.approx([0.59, 2.02, 3.94, 7.89, 10.05], abs=0.05)
    assert [row["p99_sees_stalls"] for row in spread.values()] == [False, True, True, True, True]
    for row in spread.values():
        assert row["expected_stall_frequency"] == pytest.approx(
            row["inside_stall_fraction"], rel=0.05
        )
    assert rows.loc["aiperf/spread/chunk256_mixed_c8", "prefill_style"] == "shared"
    assert rows.loc["aiperf/spread/chunk256_mixed_c8", "n_stalls"] == 0


@needs_dumps
@pytest.mark.parametrize("pattern", ["aiperf-*", "vllm-*"])
def test_all_dumps_meet_their_summaries(pattern: str) -> None:
    folders = sorted(Path(str(DUMPS)).glob(pattern))
    assert folders
    for folder in folders:
        check(read_tree(folder))


#: Runs whose log must be met in all but 1 % (quiet ones) or 5 % of stalls.
QUIET = ("spread/mixed", "long_mixed")


@needs_dumps
def test_stalls_against_the_engines_log(capsys: pytest.CaptureFixture[str]) -> None:
    (folder,) = Path(str(DUMPS)).glob("aiperf-*[0-9]")
    tables = read_tree(folder)
    frame = gap_stalls(tables)
    rows = []
    for run_id, own in frame.groupby("run_id", sort=False):
        path = folder / str(run_id)
        log = stalled_gaps(path if (path / "_server_truth").is_dir() else path.parent)
        true = np.array(
            [log[i][k] for i, k in zip(own["request_id"], own["index"], strict=True)], dtype=bool
        )
        said = own["is_stall"].to_numpy(dtype=bool)
        row = {"run": run_id, "gaps": len(own), "true": true.sum(), "said": said.sum()}
        row["false %"] = 100 * (said & ~true).mean()
        for name, part in (
            ("", np.ones(len(own), dtype=bool)),
            (" inside", own["index"].to_numpy() > 0),
        ):
            hits = (said & true & part).sum()
            row[f"precision{name}"] = hits / n if (n := (said & part).sum()) else np.nan
            row[f"recall{name}"] = hits / n if (n := (true & part).sum()) else np.nan
        rows.append(row)
    found = pd.DataFrame(rows).set_index("run")
    with capsys.disabled():
        sys.stdout.write("\n" + found.round(4).to_string() + "\n")
    assert len(found) >= 30
    decode = found.index.str.contains("decode")
    assert (found.loc[decode, "false %"] < 0.5).all()
    assert (found.loc[decode, "recall"] >= 0.95).all()
    assert found.loc["spread/chunk256_mixed_c8", "said"] == 0
    mixed = found[~decode & (found["true"] > 0)]
    assert len(mixed) >= 18
    for run_id, row in mixed.iterrows():
        least = 0.99 if str(run_id).startswith(QUIET) else 0.95
        assert not row.filter(regex="precision|recall").lt(least).any(), run_id
