"""Two configurations at an equal running batch."""

from __future__ import annotations

import pandas as pd
import pytest

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
