"""Run-to-run scatter by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from servebook.measure.spread import elsewhere, spread


def frames() -> tuple[pd.DataFrame, pd.DataFrame]:
    runs = pd.DataFrame(
        {
            "run_id": ["a", "b", "c", "d", "e"],
            "rate": [100.0, 110.0, 121.0, 50.0, 60.0],
            "wait": [1.0, 1.0, 0.0, 2.0, 3.0],
        }
    )
    common = {"configuration": "x", "client": "AIPerf", "isl": 1, "osl": 1, "concurrency": 8}
    conditions = pd.DataFrame(
        [
            common | {"series": "s", "workload": "mixed", "runs": ("a", "b", "c")},
            common | {"series": "t", "workload": "decode", "runs": ("d", "e")},
            common | {"series": "u", "workload": "decode", "runs": ("d",)},
        ]
    )
    return conditions, runs


def test_by_hand() -> None:
    found = spread(*frames(), ["rate"])
    assert found["series"].tolist() == ["s", "t"]
    row, step = found.iloc[0], math.log(1.1)
    assert row["mean"] == pytest.approx(110.0)
    assert row["cv"] == pytest.approx(step)
    half = 4.302653 * step / math.sqrt(3)
    assert row["mean_low"] == pytest.approx(110 * math.exp(-half), rel=1e-5)
    assert row["mean_high"] == pytest.approx(110 * math.exp(half), rel=1e-5)
    # chi-square with 2 degrees of freedom: 7.377759 and 0.0506356
    assert row["cv_low"] == pytest.approx(step * math.sqrt(2 / 7.377759), rel=1e-5)
    assert row["cv_high"] == pytest.approx(step * math.sqrt(2 / 0.0506356), rel=1e-5)
    assert row["range"] == pytest.approx(0.21)
    assert row["values"] == (100.0, 110.0, 121.0)


def test_metrics_that_a_run_lacks_are_left_out() -> None:
    assert spread(*frames(), ["wait"])["series"].tolist() == ["t"]


def test_the_yardstick_is_of_the_same_workload_where_there_is_one() -> None:
    found = spread(*frames(), ["rate"])
    chosen = {w: elsewhere(found, "rate", w) for w in ("mixed", "decode", "prefill")}
    assert [chosen[w]["series"] for w in chosen] == ["s", "t", "s"]  # type: ignore[index]
    assert elsewhere(found, "wait", "mixed") is None
