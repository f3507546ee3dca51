"""Edges, interaction and single-factor pairs against values worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from settings import named

from servebook.explain.bounds import bytes_ratio, ratios, slowest_mean_ms, split, unsaturated
from servebook.explain.decompose import (
    edges,
    fullest,
    geometric_mean,
    interaction,
    separated,
)
from servebook.explain.factors import bundles
from servebook.explain.network_cost import fit_line, predicted_bytes
from servebook.explain.stall_sums import prefill_s, sums
from servebook.read.manifest import load_manifest

PRINTED = Path(__file__).parents[2] / "data" / "b300-one-vs-two-nodes"
VALUES = {
    "1n-nvfp4-tp8dp1": 52200.0,
    "1n-nvfp4-tp4dp2": 19624.0,
    "2n-fp8-tp4dp4": 12198.0,
    "2n-fp8-tp8dp2": 8026.0,
}
RATE = "input_throughput_tok_s"


def condition(configuration: str, value: float, concurrency: int = 8, **more: object) -> dict:
    row = {
        "configuration": configuration,
        "client": "AIPerf",
        "workload": "prefill",
        "isl": 100.0,
        "osl": 1.0,
        "concurrency": concurrency,
        RATE: value,
        "runs": (f"{configuration}-{concurrency}",),
    }
    return row | more


def test_edges_and_interaction_of_the_printed_cells() -> None:
    settings = load_manifest(PRINTED).configurations
    step, layout = bundles(settings)
    along = edges(VALUES, settings, step, [layout])
    at = {lv[0][0]: f for lv, f in zip(along["at"], along["factor"], strict=True)}
    assert at == pytest.approx({"TP8": 6.504, "TP4": 1.6088}, rel=1e-4)
    across = edges(VALUES, settings, layout, [step])
    assert sorted(across["factor"]) == pytest.approx([0.65798, 2.66], rel=1e-4)
    assert interaction(along) == pytest.approx(6.504 / 1.6088, rel=1e-4)
    assert geometric_mean([4, 9]) == pytest.approx(6)


def test_a_missing_cell_takes_its_edges_and_the_interaction_with_it() -> None:
    settings = load_manifest(PRINTED).configurations
    step, layout = bundles(settings)
    three = {k: v for k, v in VALUES.items() if k != "2n-fp8-tp8dp2"}
    along = edges(three, settings, step, [layout])
    assert along["factor"].tolist() == pytest.approx([19624 / 12198])
    assert interaction(along) is None


def test_lower_is_better_turns_the_factor() -> None:
    two = named("1n-fp4", "2n-fp8")
    (step,) = bundles(two)
    found = edges({"1n-fp4": 20.0, "2n-fp8": 50.0}, two, step, [], higher_is_better=False)
    assert found["factor"].tolist() == [2.5]


def test_the_fullest_condition_wins_then_the_highest_concurrency() -> None:
    rows = pd.DataFrame(
        [condition("a", 1, 8), condition("b", 2, 8), condition("a", 1, 4), condition("b", 2, 4),
         condition("a", 5, 64)]
    )  # fmt: skip
    found = fullest(rows, "prefill", RATE)
    assert found["concurrency"].tolist() == [8, 8]
    assert fullest(rows, "decode", RATE).empty


def test_crossed_cells_part_precision_from_crossing() -> None:
    # Planted: crossing nodes costs a factor of 3, precision a factor of 1.5.
    rows = pd.DataFrame(
        [condition("1n-fp4", 9000), condition("2n-fp4", 3000), condition("2n-fp8", 2000)]
    )
    found = separated(rows, named("1n-fp4", "2n-fp4", "2n-fp8"), RATE, "prefill")
    assert dict(zip(found["factor"], found["ratio"], strict=True)) == pytest.approx(
        {"nodes": 3.0, "precision": 1.5}
    )


def test_without_the_crossed_cell_nothing_is_parted() -> None:
    rows = pd.DataFrame([condition("1n-fp4", 9000), condition("2n-fp8", 2000)])
    assert separated(rows, named("1n-fp4", "2n-fp8"), RATE, "prefill").empty


def test_the_printed_split_and_its_bounds() -> None:
    decode = [47.64 / 21.6, 49.97 / 28.36, 58.02 / 28.44]
    found = split([28970 / 8671, 52051 / 11579, 52200 / 12198], decode, 1.0)
    assert found.total == pytest.approx((3.341, 4.495), abs=1e-3)
    assert found.precision == pytest.approx((1.762, 2.206), abs=1e-3)
    assert found.precision_bounds == pytest.approx((1.0, 2.206), abs=1e-3)
    assert found.rest_bounds == pytest.approx((3.341 / 2.206, 4.495), abs=2e-3)
    # Without a manifest that states the bytes the bounds rest on decode alone.
    assert split([3.0], [2.0], None).rest_bounds == (1.5, 1.5)
    with pytest.raises(ValueError, match="at least one"):
        split([], [2.0], 1.0)


def test_equal_bytes_per_gpu_predict_a_ratio_of_one() -> None:
    one, two, wide = named("1n-fp4", "2n-fp8", "2n-fp4")
    assert bytes_ratio(one, two) == pytest.approx(1.0)
    assert bytes_ratio(one, wide) == pytest.approx(0.5)


def test_ratios_stop_at_the_lower_peak() -> None:
    rows = pd.DataFrame(
        [condition("a", v, c) for c, v in ((8, 30), (16, 50), (32, 40))]
        + [condition("b", v, c) for c, v in ((8, 10), (16, 12), (32, 14))]
    )
    found = ratios(rows, "prefill", RATE, "a", "b")
    assert found["ratio"].tolist() == pytest.approx([3, 50 / 12, 40 / 14])
    assert unsaturated(found)["concurrency"].tolist() == [8, 16]
    assert ratios(rows, "decode", RATE, "a", "b").empty


@pytest.mark.parametrize(
    ("mean", "p99", "least"), [(47.5, 42.0, 592.0), (10.0, 10.0, 10.0), (5.0, 20.0, -1480.0)]
)
def test_the_slowest_percent_average_at_least(mean: float, p99: float, least: float) -> None:
    assert slowest_mean_ms(mean, p99) == pytest.approx(least)


def test_stall_sums_of_the_printed_condition() -> None:
    row = pd.DataFrame(
        [{"isl": 4096.0, "osl": 512.0, "itl_p50_ms": 59.2, "itl_p99_ms": 1755.0,
          "tpot_mean_ms": 154.9, "e2e_mean_ms": 95.7 * 511 * 2}]
    )  # fmt: skip
    found = sums(row, 12900.0).iloc[0]
    assert found["one_prefill_s"] == pytest.approx(0.3175, abs=1e-4) == prefill_s(4096, 12900)
    assert found["stall_tokens"] == pytest.approx(21_876, abs=1)
    assert found["share_of_decode"] == pytest.approx(0.618, abs=1e-3)
    assert found["share_of_response"] == pytest.approx(0.5)
    unknown = sums(row, None).iloc[0]
    assert pd.isna(unknown["stall_tokens"])
    assert unknown["share_of_decode"] == pytest.approx(0.618, abs=1e-3)


def test_floor_and_slope() -> None:
    line = fit_line([100, 200, 400], [1 + 0.01 * r for r in (100, 200, 400)])
    assert (line.floor, line.slope) == pytest.approx((1.0, 0.01))
    assert line.parts(100) == pytest.approx((0.01, 0.01))
    assert max(abs(r) for r in line.residuals) < 1e-9
    printed = fit_line([665, 1217, 2100], [1.0, 1.25, 1.75])
    assert printed.floor / 665 / printed.slope == pytest.approx(1.81, abs=0.01)
    with pytest.raises(ValueError, match="two different rates"):
        fit_line([5, 5], [1, 2])


def test_the_byte_formula() -> None:
    assert predicted_bytes(2, 8, 1000, 1) == 32_000
