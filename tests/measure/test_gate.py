"""What the dumps add to a comparison of settings."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from servebook.measure.gate import gate
from servebook.read.manifest import Configuration

SAME: dict[str, Any] = {
    "client": "AIPerf",
    "client_version": "0.13.0",
    "model": "m",
    "cache_reuse": False,
    "itl_basis": "token",
    "concurrency": 8,
    "isl_mean": 512.0,
    "osl_mean": 64.0,
    "running_batch": 7.0,
    "n_failed": 0,
    "n_requests": 100,
}


def config(name: str, **settings: Any) -> Configuration:
    return Configuration(name=name, line=1, label=name, **settings)


def runs(**other: Any) -> pd.DataFrame:
    """One run of a and one of b, which differ in what is given."""
    return pd.DataFrame([SAME | {"configuration": "a"}, SAME | {"configuration": "b"} | other])


@pytest.mark.parametrize(
    ("other", "mark", "named", "load"),
    [
        ({}, "SINGLE VARIABLE", (), ()),
        ({"client": "vLLM"}, "2 SETTINGS", ("client",), ()),
        ({"client_version": "0.14"}, "2 SETTINGS", ("client version",), ()),
        ({"model": "n", "concurrency": 16}, "3 SETTINGS", ("model", "concurrency"), ()),
        ({"isl_mean": 600.0}, "2 SETTINGS", ("input length",), ()),
        ({"isl_mean": float("nan")}, "UNKNOWN", (), ()),
        ({"osl_mean": 66.0}, "SINGLE VARIABLE", (), ()),
        ({"client_version": None}, "UNKNOWN", (), ()),
        ({"running_batch": 14.0}, "SINGLE VARIABLE", (), ("running batch 7 against 14",)),
        ({"running_batch": float("nan")}, "SINGLE VARIABLE", (), ()),
        ({"n_failed": 7}, "SINGLE VARIABLE", (), ("failed requests 0.0% against 7.0%",)),
    ],
)
def test_gate(other: dict[str, Any], mark: str, named: tuple[str, ...], load: object) -> None:
    found = gate(config("a", tp=8), config("b", tp=4), runs(**other))
    assert found.mark == mark
    assert found.from_dumps == named
    assert found.load == load
    assert found.single == (mark == "SINGLE VARIABLE" and not load)


def test_a_confounded_ratio_says_so_in_words() -> None:
    found = gate(
        config("a", tp=8, nodes=1, precision="NVFP4"),
        config("b", tp=4, nodes=2, precision="FP8"),
        runs(running_batch=126.0),
    )
    assert found.words == (
        "3 SETTINGS: they differ in precision, nodes, layout; the ratio is theirs together. "
        "Not alike under load: running batch 7 against 126."
    )


def test_columns_that_are_absent_are_not_compared() -> None:
    few = runs()[["configuration", "concurrency"]]
    assert gate(config("a", tp=8), config("b", tp=4), few).mark == "SINGLE VARIABLE"


def test_a_side_without_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="no run of a or of c"):
        gate(config("a"), config("c"), runs())


def test_lengths_that_neither_side_tells_are_no_difference() -> None:
    rows = runs().assign(isl_mean=float("nan"), osl_mean=float("nan"))
    assert gate(config("a", tp=8), config("b", tp=4), rows).mark == "SINGLE VARIABLE"
