"""Curves whose shape is known, and what is said about them."""

import math

import numpy as np
import pandas as pd
import pytest

from servebook.measure.saturation import points, saturation, steps


def curve(values: dict[int, float | list[float]], configuration: str | None = "a") -> pd.DataFrame:
    rows = [
        {
            "run_id": f"{configuration}/c{c}/{i}",
            "configuration": configuration,
            "workload": "decode",
            "concurrency": c,
            "rate": value,
        }
        for c, given in values.items()
        for i, value in enumerate(given if isinstance(given, list) else [given])
    ]
    return points(pd.DataFrame(rows).astype({"concurrency": "Int64"}), "rate")


@pytest.mark.parametrize(
    ("values", "finding", "peak", "plateau", "knee"),
    [
        ({1: 100, 2: 200, 4: 400}, "not saturated", 4, None, None),
        ({1: 100, 2: 190, 4: 250, 8: 300}, "not saturated", 8, None, 2),
        ({1: 100, 2: 180, 4: 300, 8: 310, 16: 312}, "plateau", 16, 4, 4),
        ({1: 100, 2: 100, 4: 101}, "plateau", 4, 1, None),
        ({1: 100, 2: 200, 4: 400, 8: 402, 16: 424}, "plateau", 16, 4, 4),  # 5.5 % up, 3 % over two
        ({1: 100, 2: 200, 4: 400, 8: 402, 16: 450}, "not saturated", 16, None, 4),
        ({1: 100, 2: 200, 4: 390, 8: 300}, "reversal", 4, None, 4),
        ({1: 100, 2: 200, 4: 390, 8: 380}, "plateau", 4, 4, 4),  # 2.6 % down is no reversal
        ({1: 100, 2: 200}, "too few points", 2, None, None),
        ({8: 100}, "too few points", 8, None, None),
    ],
)
def test_findings(
    values: dict[int, float | list[float]],
    finding: str,
    peak: int,
    plateau: int | None,
    knee: int | None,
) -> None:
    (row,) = saturation(curve(values)).to_dict("records")
    assert row["finding"] == finding
    assert row["peak_concurrency"] == peak
    assert row["lower_bound"] == (finding in ("not saturated", "too few points"))
    for name, expected in (("plateau_from", plateau), ("knee_concurrency", knee)):
        assert row[name] == expected if expected is not None else pd.isna(row[name])


def test_a_drop_is_measured_from_the_level_not_from_its_highest_point() -> None:
    data = {1: 100, 2: 200, 4: 196, 8: 204, 16: 194, 32: 188}  # level 198; 8 % below 204
    (row,) = saturation(curve(data)).to_dict("records")
    assert row["finding"] == "plateau"
    assert row["plateau_from"] == 2
    assert row["drop_from_peak"] == pytest.approx(16 / 204)
    (row,) = saturation(curve(data), single_drop=0.05).to_dict("records")  # 5.05 % below 198
    assert row["finding"] == "reversal"
    assert "5 % below the level" in row["rule"]


@pytest.mark.parametrize(
    ("last", "finding", "within"),
    [
        (184, "plateau", None),  # a single run, 8 % down
        (181, "reversal", None),
        ([184, 186], "reversal", False),
        ([189, 193], "plateau", None),
    ],
)
def test_a_single_run_must_fall_further_than_repeats(
    last: float | list[float], finding: str, within: bool | None
) -> None:
    level = 200 if isinstance(last, int) else [199, 201]
    (row,) = saturation(curve({1: [100, 101], 2: level, 4: last})).to_dict("records")
    assert row["finding"] == finding
    assert row["within_repeats"] is within if within is not None else pd.isna(row["within_repeats"])


@pytest.mark.parametrize(("drop", "finding", "most"), [(0.0, "reversal", 8), (0.15, "plateau", 3)])
@pytest.mark.parametrize("n_flat", [3, 6, 10])
def test_planted_curves_of_single_runs_are_told_apart(
    n_flat: int, drop: float, finding: str, most: int
) -> None:
    rng = np.random.default_rng(7)
    planted = np.array([1, 2, 4, *[8] * (n_flat - 1), 8 * (1 - drop)])
    drawn = planted * np.exp(rng.normal(0, 0.03, (150, len(planted))))
    loads = np.tile(2 ** np.arange(len(planted)), 150)
    data = pd.DataFrame({"draw": np.repeat(range(150), len(planted)), "concurrency": loads})
    data = data.assign(value=drawn.ravel(), low=drawn.ravel(), high=drawn.ravel(), n_runs=1)
    found = saturation(data, ["draw"])["finding"].tolist()
    assert found.count(finding) <= most  # the wrong one of the two


def test_a_dip_inside_does_not_begin_the_plateau_before_it() -> None:
    (row,) = saturation(curve({1: 100, 2: 100, 4: 80, 8: 100, 16: 100})).to_dict("records")
    assert row["plateau_from"] == 8


def test_steps_by_hand() -> None:
    (first, second) = steps(curve({8: 100, 16: 150, 64: 300})).to_dict("records")
    assert first["ratio"] == 1.5
    assert first["gain_per_doubling"] == pytest.approx(0.5)
    assert first["efficiency"] == 0.75
    assert second["doublings"] == 2
    assert second["gain_per_doubling"] == pytest.approx(math.sqrt(2) - 1)
    assert pd.isna(first["within_repeats"])


def test_a_threshold_is_a_parameter() -> None:
    data = curve({1: 100, 2: 150, 4: 160})
    assert saturation(data)["finding"].item() == "not saturated"  # 6.7 % per doubling
    (row,) = saturation(data, plateau_gain=0.1).to_dict("records")
    assert row["finding"] == "plateau"
    assert "10 %" in row["rule"]


def test_repeats_count_as_their_mean_with_a_range() -> None:
    data = curve({1: 100, 2: [180, 220], 4: [210, 250]})
    two = data[data["concurrency"] == 2].to_dict("records")[0]
    assert (two["value"], two["low"], two["high"], two["n_runs"]) == (200, 180, 220, 2)
    assert two["runs"] == ("a/c2/0", "a/c2/1")
    (row,) = saturation(data).to_dict("records")
    assert row["finding"] == "not saturated"
    assert row["within_repeats"] is True  # 220 and 210 overlap: the gain may be chance


def test_a_reversal_inside_the_spread_of_repeats_says_so() -> None:
    (row,) = saturation(curve({1: 100, 2: [190, 230], 4: [180, 200]})).to_dict("records")
    assert row["finding"] == "reversal"
    assert row["within_repeats"] is True


def test_groups_are_apart_and_unnamed_configurations_stay() -> None:
    data = pd.concat([curve({1: 1, 2: 2, 4: 4}), curve({1: 1, 2: 1, 4: 1}, None)])
    found = saturation(data)
    assert found["finding"].tolist() == ["not saturated", "plateau"]


def test_without_groups() -> None:
    data = curve({1: 100, 2: 200, 4: 400})[["concurrency", "value", "low", "high", "n_runs"]]
    assert saturation(data, by=())["finding"].tolist() == ["not saturated"]


def test_nothing_measured() -> None:
    empty = points(
        pd.DataFrame(columns=["run_id", "configuration", "workload", "concurrency", "rate"]), "rate"
    )
    assert empty.empty
    assert saturation(empty).empty
    assert steps(empty).empty
