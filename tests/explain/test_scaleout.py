"""The scale-out model against sums done by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.explain.scaleout import ceiling, growth, projection, share_leaving


@pytest.mark.parametrize(
    ("nodes", "share", "relative"),
    [
        (1, 0, 0),
        (2, 0.5, 1),
        (4, 0.75, 1.5),
        (8, 0.875, 1.75),
        (16, 0.9375, 1.875),
        (math.inf, 1, 2),
    ],
)
def test_by_hand(nodes: float, share: float, relative: float) -> None:
    assert share_leaving(nodes) == share
    assert growth(nodes) == relative


def test_from_another_measured_size() -> None:
    assert growth(8, measured_nodes=4) == pytest.approx(0.875 / 0.75)
    assert ceiling(0.06, measured_nodes=4) == pytest.approx(0.08)


def test_projection() -> None:
    table = projection(0.06)
    assert table["util_fraction"].to_list() == pytest.approx([0, 0.06, 0.09, 0.105, 0.1125, 0.12])
    assert table["nodes"].to_list() == [1, 2, 4, 8, 16, math.inf]


@given(st.integers(2, 10**6), st.integers(2, 10**6), st.floats(0, 1))
def test_traffic_grows_with_nodes_and_stays_below_the_ceiling(
    nodes: int, base: int, used: float
) -> None:
    assert growth(nodes, base) < growth(nodes + 1, base)
    assert used * growth(nodes, base) <= ceiling(used, base)
    assert growth(base, base) == 1


@pytest.mark.parametrize("nodes", [0, -1, math.nan])
def test_no_nodes(nodes: float) -> None:
    with pytest.raises(ValueError, match="at least one node"):
        share_leaving(nodes)


def test_one_node_measures_no_traffic() -> None:
    with pytest.raises(ValueError, match="at least two nodes"):
        growth(4, measured_nodes=1)
