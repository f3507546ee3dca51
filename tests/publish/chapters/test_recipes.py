"""The recipes of a reconstructed campaign on its page, and words where there are none."""

from __future__ import annotations

import pytest
from small import shipped

from servebook.publish.chapters.recipes import recipes


@pytest.mark.parametrize(("name", "runs", "fitted"), [("b300-two-nodes", 19, 19)])
def test_every_run_stands_beside_what_it_was_fitted_to(name: str, runs: int, fitted: int) -> None:
    figure = recipes(shipped(name))
    assert figure.table is not None
    assert len(figure.table) == runs
    assert figure.title.startswith(f"{fitted} runs of {runs} meet their printed figures to 0.0")
    row = figure.table.set_index("run").loc["raw/stress/mixed_c16"]
    assert row["fitted to"] == "itl_median_ms, itl_p99_ms, total_throughput, tpot_mean_ms"
    assert row["free"] == "decode step, prefill rate, spread of decode steps, pause"
    assert row["catch-all (s)"] == pytest.approx(7.535, abs=0.001)


def test_measured_campaigns_have_no_recipes() -> None:
    assert "were not made by a model" in recipes(shipped("loopback")).missing
