"""Two configurations at an equal running batch."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from servebook.measure.matched import at_batch, matched


def side(batches: list[float], factor: float) -> pd.DataFrame:
    """TPOT = factor x batch^0.5: a straight line on log axes, so that interpolation is exact."""
    return pd.DataFrame(
        {
            "running_batch": batches,
            "tpot_mean_ms": [factor * b**0.5 for b in batches],
            "runs": [(f"r{factor}-{b}",) for b in batches],
        }
    )


def test_every_measured_batch_inside_the_others_range_is_compared() -> None:
    found = matched(side([2, 8, 32], 5), side([4, 16, 64], 10))
    assert found["batch"].tolist() == [4, 8, 16, 32]
    assert found["measured"].tolist() == ["second", "first", "second", "first"]
    assert found["ratio"].tolist() == pytest.approx([0.5] * 4)
    assert found["first"].iloc[0] == pytest.approx(10.0)
    assert set(found["basis"]) == {"deployment"}
    assert found["runs"].iloc[0] == ("r10-4",)


def test_one_point_is_compared_where_the_other_side_surrounds_it() -> None:
    found = matched(side([2, 8], 5), side([4], 10))
    assert found["batch"].tolist() == [4]
    assert found["ratio"].tolist() == pytest.approx([0.5])


def test_a_batch_that_both_measured_is_told_once() -> None:
    found = matched(side([2, 8], 5), side([2, 8], 10))
    assert found["measured"].tolist() == ["both", "both"]


@pytest.mark.parametrize("second", [side([9, 20], 1), side([], 1), side([1.0, 1.9], 1)])
def test_ranges_that_do_not_meet_give_nothing(second: pd.DataFrame) -> None:
    assert matched(side([2, 8], 5), second).empty


def test_per_gpu_each_gpu_carries_as_many_requests() -> None:
    found = matched(side([8, 64], 5), side([16, 128], 10), (8, 16))
    per_gpu = found[found["basis"] == "GPU"]
    assert per_gpu["batch"].tolist() == [1, 8]
    # 8 requests on 8 GPUs take 5 x 8^0.5, 16 on 16 GPUs take 10 x 16^0.5
    assert per_gpu["ratio"].tolist() == pytest.approx([0.5 * (8 / 16) ** 0.5] * 2)


@pytest.mark.parametrize("gpus", [(None, 8), (8, None), (8, 8)])
def test_without_a_difference_in_gpus_there_is_one_basis(
    gpus: tuple[float | None, float | None],
) -> None:
    assert set(matched(side([2, 8], 5), side([4], 10), gpus)["basis"]) == {"deployment"}


@pytest.mark.parametrize("batch", [1.99, 8.01])
def test_nothing_is_extrapolated(batch: float) -> None:
    with pytest.raises(ValueError, match="was not measured"):
        at_batch([2, 8], [5, 10], batch)


def repeated(batches: list[float], factor: float, runs: int, name: str) -> pd.DataFrame:
    rows = side(batches, factor)
    rows["runs"] = [tuple(f"{name}{b}-{k}" for k in range(runs)) for b in batches]
    return rows


def test_repeats_of_every_point_give_an_interval() -> None:
    one, two = repeated([2, 8], 5, 3, "a"), repeated([4], 10, 3, "b")
    # Logarithms scatter by 0.01 around each point's value: -0.01, 0, 0.01.
    values = {
        run: row["tpot_mean_ms"] * math.exp(0.01 * (k - 1))
        for frame in (one, two)
        for row in frame.to_dict("records")
        for k, run in enumerate(row["runs"])
    }
    (found,) = matched(one, two, values=values).to_dict("records")
    # 4 lies half way between 2 and 8: variances 1e-4 / 3 x (1/4 + 1/4 + 1), each with df 2.
    total = 1e-4 / 3 * 1.5
    df = 1.5**2 / ((2 * 0.25**2 + 1) / 2)
    half = stats.t.ppf(0.975, df) * math.sqrt(total)
    assert found["low"] == pytest.approx(0.5 * math.exp(-half))
    assert found["high"] == pytest.approx(0.5 * math.exp(half))


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 1), (1, 1)])
def test_a_single_run_at_any_point_leaves_no_interval(first: int, second: int) -> None:
    one, two = repeated([2, 8], 5, first, "a"), repeated([4], 10, second, "b")
    values = {run: 1.0 + k for f in (one, two) for runs in f["runs"] for k, run in enumerate(runs)}
    (found,) = matched(one, two, values=values).to_dict("records")
    assert math.isnan(found["low"])
    assert math.isnan(found["high"])
    assert matched(one, two)["low"].isna().all()


def test_its_intervals_cover_what_they_say() -> None:
    rng = np.random.default_rng(5)
    one, two = repeated([2, 8], 5, 3, "a"), repeated([3, 5], 10, 3, "b")
    hits, n = 0, 400
    for _ in range(n):
        drawn, sides = {}, []
        for frame in (one, two):
            logs = np.log(frame["tpot_mean_ms"].to_numpy()) + rng.normal(0, 0.03, (3, len(frame)))
            for k, runs in enumerate(frame["runs"]):
                drawn |= dict(zip(runs, np.exp(logs[:, k]), strict=True))
            sides.append(frame.assign(tpot_mean_ms=np.exp(logs.mean(axis=0))))
        found = matched(*sides, values=drawn).iloc[0]
        hits += found["low"] <= 0.5 <= found["high"]
    assert 0.92 <= hits / n <= 0.985
