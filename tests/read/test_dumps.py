"""Every real AIPerf and vLLM run against its client's own summary and the server's own log.

The dumps are larger than a repository should carry: set SERVEBOOK_DUMPS to the folder that holds
``aiperf-*`` and ``vllm-*``. The same checks run on the trimmed runs of the fixtures always.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from servebook.read.discover import read_tree
from servebook.tables import Tables
from tests.read.samples import FIXTURES

_DUMPS = os.environ.get("SERVEBOOK_DUMPS")
_NEEDS_DUMPS = pytest.mark.skipif(not _DUMPS, reason="SERVEBOOK_DUMPS names no folder of dumps")


def _roots() -> list[Any]:
    names = ("aiperf-0.13.0", "aiperf-0.13.0-variants", "vllm-bench-serve-0.33.0")
    dumps = [pytest.param(Path(_DUMPS or "") / n, marks=_NEEDS_DUMPS, id=n) for n in names]
    return [pytest.param(FIXTURES, id="fixtures"), *dumps]


@cache
def _tables(root: Path) -> Tables:
    return read_tree(root)


def _frame(table: pa.Table) -> pd.DataFrame:
    # Without the mapper a column with a null becomes floats, and epoch ns lose 256 ns.
    return table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)


def _latencies(requests: pd.DataFrame, gaps: pd.DataFrame) -> dict[str, float]:
    """Means and tails over what both clients count as completed, in ms."""
    done = requests[(requests["status"] == "ok") | (requests["error_kind"] == "stream_error")]
    ok = done[(done["status"] == "ok") & (done["osl"] > 1)]
    gap = gaps.loc[gaps["request_id"].isin(done["request_id"]), "gap_ns"] / 1e6
    ttft = (done["first_token_ns"] - done["start_ns"]).dropna() / 1e6
    out = {"e2e_mean_ms": (done["end_ns"] - done["start_ns"]).mean() / 1e6}
    if len(ttft):
        out |= {"ttft_mean_ms": ttft.mean(), "ttft_p99_ms": np.percentile(ttft, 99)}
    if len(ok):
        tpot = (ok["end_ns"] - ok["first_token_ns"]) / (ok["osl"] - 1) / 1e6
        out |= (
            {"tpot_mean_ms": tpot.mean(), "tpot_p99_ms": np.percentile(tpot.dropna(), 99)}
            if (len(tpot.dropna()))
            else {}
        )
    if len(gap):
        out |= {f"itl_p{q}_ms": np.percentile(gap, q) for q in (50, 90, 99)}
        out |= {"itl_mean_ms": gap.mean(), "itl_max_ms": gap.max()}
    return out


@pytest.mark.parametrize("root", _roots())
def test_recomputed_latencies_meet_the_clients_own(root: Path) -> None:
    tables = _tables(root)
    requests = _frame(tables.requests)
    gaps = _frame(tables.gaps)
    compared = 0
    for run in tables.runs.to_pylist():
        native = json.loads(run["native"] or "{}")
        mine = requests[(requests["run_id"] == run["run_id"]) & (requests["phase"] == "profiling")]
        if run["level"] != "records" or not native:
            continue
        ours = _latencies(mine, gaps[gaps["run_id"] == run["run_id"]])
        for name in set(ours) & set(native):
            expected = pytest.approx(native[name], rel=1e-6, abs=1e-6)
            assert ours[name] == expected, (run["run_id"], name)
            compared += 1
    assert compared > 20


@pytest.mark.parametrize("root", _roots())
def test_counts_meet_the_clients_own(root: Path) -> None:
    tables = _tables(root)
    assert tables.runs.num_rows
    for run in tables.runs.to_pylist():
        native = json.loads(run["native"] or "{}")
        rows = [r for r in tables.requests.to_pylist() if r["run_id"] == run["run_id"]]
        stream_errors = sum(
            r["error_kind"] == "stream_error" and r["phase"] == "profiling" for r in rows
        )
        if run["level"] == "records" and native:
            assert native["n_ok"] == run["n_ok"] + stream_errors, run["run_id"]
            failed = run["n_failed"] + run["n_cancelled"] - stream_errors
            assert native.get("n_failed", 0) == failed, run["run_id"]
            assert run["n_requests"] + run["n_warmup"] == len(rows)


@pytest.mark.parametrize("root", _roots())
def test_aiperf_duration_spans_its_valid_requests(root: Path) -> None:
    tables = _tables(root)
    requests = _frame(tables.requests)
    for run in tables.runs.to_pylist():
        native = json.loads(run["native"] or "{}")
        if run["format"] != "aiperf" or "duration_s" not in native or run["level"] != "records":
            continue
        valid = requests[
            (requests["run_id"] == run["run_id"])
            & (requests["phase"] == "profiling")
            & ((requests["status"] == "ok") | (requests["error_kind"] == "stream_error"))
        ]
        # AIPerf reckons with epoch ns as floats, which step by 128 to 256 ns.
        span = (valid["end_ns"].max() - valid["start_ns"].min()) / 1e9
        assert span == pytest.approx(native["duration_s"], abs=1e-6), run["run_id"]


@_NEEDS_DUMPS
def test_failures_are_those_that_the_server_made() -> None:
    folder = Path(_DUMPS or "") / "aiperf-0.13.0" / "failures_mixed_c4"
    truth = {}
    for line in (folder / "_server_truth" / "requests.jsonl").read_text().splitlines():
        row = json.loads(line)
        truth[row["hdr"]["X-Request-ID"]] = row["fault"]
    seen = Counter(
        (truth[row["request_id"]], row["status"], row["error_kind"])
        for row in _tables(folder).requests.to_pylist()
    )
    assert len(seen) == 4, seen
    faults = {fault: (status, kind) for fault, status, kind in seen}
    assert faults[None] == ("ok", None)
    assert {kind for _, kind in faults.values()} == {
        None,
        "http_500",
        "stream_broken",
        "stream_error",
    }


@_NEEDS_DUMPS
def test_requests_cut_at_the_deadline_are_lost_in_part() -> None:
    folder = Path(_DUMPS or "") / "aiperf-0.13.0" / "duration_grace0_cancel_c8"
    served = len((folder / "_server_truth" / "requests.jsonl").read_text().splitlines())
    (run,) = _tables(folder).runs.to_pylist()
    # Eight were in flight at the end; the records prove four of them.
    assert (served, run["n_requests"], run["n_cancelled"], run["n_lost"]) == (108, 100, 18, 4)
