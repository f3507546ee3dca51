"""Settings that change together are one step; DP that follows from the GPUs is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from settings import named

from servebook.explain.factors import bundles, cells, differing, level
from servebook.read.manifest import load_manifest

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (("1n-fp4", "2n-fp4"), ("nodes",)),  # TP8/DP1 and TP8/DP2: DP follows from the GPUs
        (("2n-fp4", "2n-fp8"), ("precision",)),
        (("1n-fp4", "2n-fp8"), ("precision", "nodes")),
        (("1n-fp4", "1n-fp4"), ()),
    ],
)
def test_differing_factors(pair: tuple[str, str], expected: tuple[str, ...]) -> None:
    assert differing(named(*pair)) == expected


def test_factors_that_split_alike_are_bundled_and_their_cross_is_empty() -> None:
    two = named("1n-fp4", "2n-fp8")
    (only,) = bundles(two)
    assert only.factors == ("precision", "nodes")
    assert only.levels == (("FP4", "1 node, 8 GPUs"), ("FP8", "2 nodes, 16 GPUs"))
    empty = [tuple(c.levels.values()) for c in cells(two) if not c.configurations]
    assert empty == [("FP4", "2 nodes, 16 GPUs"), ("FP8", "1 node, 8 GPUs")]


def test_a_third_configuration_unbundles_them() -> None:
    assert [b.factors for b in bundles(named("1n-fp4", "2n-fp4", "2n-fp8"))] == [
        ("precision",),
        ("nodes",),
    ]


def test_the_shipped_campaign_has_two_bundles() -> None:
    manifest = load_manifest(DATA / "b300-one-vs-two-nodes")
    assert [b.factors for b in bundles(manifest.configurations)] == [
        ("precision", "nodes"),
        ("layout",),
    ]


def test_what_is_not_stated_is_a_level_of_its_own() -> None:
    loopback = load_manifest(DATA / "loopback").configurations
    assert level(loopback[0], "precision") == "not stated"
    assert set(differing(loopback)) == {"slots per replica", "chunked prefill"}
