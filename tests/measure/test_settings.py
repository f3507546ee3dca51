"""Single variable, n settings, unknown."""

from __future__ import annotations

from typing import Any

import pytest

from servebook.measure.settings import compare, layout
from servebook.read.manifest import Configuration


def config(**settings: Any) -> Configuration:
    return Configuration(name="x", line=1, label="X", **settings)


@pytest.mark.parametrize(
    ("a", "b", "mark"),
    [
        ({"tp": 8, "nodes": 1}, {"tp": 4, "nodes": 1}, "SINGLE VARIABLE"),
        ({"tp": 8, "dp": 1, "nodes": 1}, {"tp": 4, "dp": 2, "nodes": 2}, "2 SETTINGS"),
        ({"tp": 8, "precision": "FP8"}, {"tp": 4}, "UNKNOWN"),
        ({"tp": 8}, {"tp": 8}, "UNKNOWN"),
        ({}, {}, "UNKNOWN"),
    ],
)
def test_marks(a: dict[str, Any], b: dict[str, Any], mark: str) -> None:
    assert compare(config(**a), config(**b)).mark == mark


def test_words_name_what_differs_and_what_is_stated_for_one_side_only() -> None:
    found = compare(config(tp=8, precision="FP8"), config(tp=4))
    assert found.differ == ("layout",)
    assert found.one_sided == ("precision",)
    assert "engine" in found.unstated
    assert found.words == "UNKNOWN: they differ in layout; stated for one side only: precision."


def test_the_words_of_several_settings_weaken_the_ratio() -> None:
    found = compare(config(tp=8, nodes=1), config(tp=4, nodes=2))
    assert found.words == (
        "2 SETTINGS: they differ in nodes, layout; the ratio is theirs together."
    )
    assert "together" not in compare(config(tp=8), config(tp=4)).words


def test_layout_names_what_is_stated() -> None:
    assert layout(config(tp=4, dp=2)) == "TP4/DP2"
    assert layout(config()) is None
