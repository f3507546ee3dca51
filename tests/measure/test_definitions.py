"""A format brings its own definitions: the example in CONTRIBUTING.md, read and compared."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from by_hand import request, run

from servebook.measure import native
from servebook.measure.client_records import client_records
from servebook.measure.runs import run_metrics
from servebook.read import discover, parts
from servebook.read.definition import Definition, family, statistic_of
from servebook.read.source import Format
from servebook.tables import Tables


def _printed(project_root: Path) -> str:
    text = (project_root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return str(source)


@pytest.fixture
def toyload(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> Format:
    """The reader printed in CONTRIBUTING.md, registered by its one line."""
    source = _printed(project_root)
    module: dict[str, Any] = {}
    exec(compile(source, "toyload.py", "exec"), module)
    form: Format = module["FORMAT"]
    for place in (discover, native, parts):
        monkeypatch.setattr(place, "FORMATS", (*place.FORMATS, form))
    return form


RESULT = {
    "toyload_version": "1.2",
    "ms_per_token": 15.0,  # (100 / 10 + 200 / 10) / 2
    "requests": [
        {"sent": 0.0, "first": 0.01, "last": 0.1, "in": 5, "out": 10},
        {"sent": 0.1, "first": 0.12, "last": 0.3, "in": 5, "out": 10},
        {"sent": 0.1, "first": None, "last": 0.3, "in": 5, "out": 10},
        {"sent": 0.1, "first": 0.4, "last": 0.3, "in": 5, "out": 10},
        {"sent": math.nan, "first": 0.4, "last": 0.5},
        7,
        None,
    ],
}


def _compared(tables: Tables) -> dict[str, dict[Any, Any]]:
    rows = native.compare(tables, run_metrics(tables)).to_dict("records")
    return {str(row["metric"]): row for row in rows}


@pytest.mark.usefixtures("toyload")
def test_the_example_reads_its_dump_and_says_what_differs(tmp_path: Path) -> None:
    (tmp_path / "any.name").write_text(json.dumps(RESULT))
    tables = discover.read_tree(tmp_path)
    assert tables.refused.num_rows == 0
    assert (tables.requests.num_rows, tables.set_aside.num_rows) == (2, 5)
    row = _compared(tables)["tpot_mean_ms"]
    assert row["same_definition"] is False
    assert row["reason"].startswith("toyload divides the whole latency by the output tokens")
    assert row["ours"] == pytest.approx(15.0)  # (90 / 9 + 180 / 9) / 2: equal, and still another
    assert row["theirs_recomputed"] == pytest.approx(15.0)
    assert row["theirs_deviation"] == pytest.approx(0, abs=1e-9)


@pytest.mark.usefixtures("toyload")
@pytest.mark.parametrize("text", ['{"toyload_version"', '{"toyload_version": 1}', "{" * 99_999])
def test_the_example_refuses_what_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    refused = discover.read_tree(tmp_path).refused.to_pylist()
    assert [row["path"] for row in refused] == ["x.json"]


@pytest.mark.slow
def test_the_example_passes_the_checks_of_make_lint(project_root: Path, tmp_path: Path) -> None:
    (tmp_path / "toyload.py").write_text(_printed(project_root))
    for tool in (
        ("mypy", "--config-file", "pyproject.toml"),
        ("ruff", "check", "--config", "pyproject.toml"),
        ("ruff", "format", "--check", "--config", "pyproject.toml"),
    ):
        command = [sys.executable, "-m", *tool, str(tmp_path / "toyload.py")]
        done = subprocess.run(command, cwd=project_root, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_records_hold_the_profiling_requests_in_file_order() -> None:
    requests = [
        request("w", 0, ttft=1, gaps=[1], phase="warmup"),
        request("a", 1000, ttft=10, gaps=[10, 20], osl=3),
        request("x", 1010, end=1020, status="failed", error="http_500"),
        request("b", 1020, ttft=20, gaps=[80]),
    ]
    two = Tables.concat([run("other", [request("a", 5, ttft=2, gaps=[7])]), run("r", requests)])
    records = client_records(two)("r")
    assert records.status.tolist() == ["ok", "failed", "ok"]
    assert records.error_kind.tolist() == ["", "http_500", ""]
    assert records.start_s.tolist() == [0.0, 0.01, 0.02]
    np.testing.assert_allclose(records.ttft_ms, [10, np.nan, 20])
    np.testing.assert_allclose(records.e2e_ms, [40, 10, 100])
    np.testing.assert_allclose(records.decode_ms, [30, np.nan, 80])
    assert records.gap_ms.tolist() == [10, 20, 80]
    assert records.gap_request.tolist() == [0, 0, 2]
    assert np.isnan(records.gap_tokens).tolist() == [True] * 3
    empty = client_records(two)("nobody")
    assert len(empty.status) == len(empty.gap_ms) == 0


def test_a_definition_that_does_not_part_here_leaves_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Definition("words", lambda _metric, _records: 7.0, lambda _, r: bool((~r.ok).any()))
    form = Format("mine", "runs", lambda _: [], lambda _: Tables(), {"code": own})
    monkeypatch.setattr(native, "FORMATS", (form,))
    summary = {"ttft_mean_ms": 10.0, "_definition": {"ttft": "code"}}
    clean = [request("a", 0, ttft=10)]
    row = _compared(run("r", clean, native=summary, format="mine"))["ttft_mean_ms"]
    assert row["same_definition"] is True
    assert math.isnan(row["theirs_recomputed"])
    failed = request("x", 0, end=5, status="failed", error="http_500")
    row = _compared(run("r", [*clean, failed], native=summary, format="mine"))["ttft_mean_ms"]
    assert (row["same_definition"], row["reason"]) == (False, "words")
    assert row["theirs_recomputed"] == 7.0
    # The code of one client says nothing of another's.
    row = _compared(run("r", clean, native=summary, format="other"))["ttft_mean_ms"]
    assert row["reason"] == "AIPerf defines it otherwise (code)"


@pytest.mark.parametrize(
    ("metric", "of", "value"),
    [
        ("ttft_mean_ms", "ttft", 2.5),
        ("itl_p50_ms", "itl", 2.5),
        ("itl_p999_ms", "itl", 3.997),
        ("e2e_max_ms", "e2e", 4.0),
        ("e2e_sum_ms", "e2e", np.nan),
        ("output_throughput_tok_s", "throughput", np.nan),
        ("n_failed", "n_failed", np.nan),
    ],
)
def test_what_a_metric_names(metric: str, of: str, value: float) -> None:
    assert family(metric) == of
    found = statistic_of(metric, np.array([1.0, 2.0, np.nan, 3.0, 4.0]))
    assert found == pytest.approx(value, nan_ok=True)
    assert math.isnan(statistic_of("ttft_mean_ms", np.array([np.nan])))
