from __future__ import annotations

import math

import pytest

from servebook.measure.prompts import shared_prefixes
from servebook.tables import Tables, table


def test_shares_of_what_is_known() -> None:
    runs = [
        {"run_id": "both", "n_requests": 3, "n_prompts": 3, "prompt_chars": 400,
         "prompt_shared_chars": 100},
        {"run_id": "prompts", "n_requests": 3, "n_prompts": 2, "prompt_chars": 50,
         "prompt_shared_chars": 0},
        {"run_id": "cache", "n_requests": 2},
        {"run_id": "neither", "n_requests": 2},
    ]  # fmt: skip
    requests = [
        ("both", "profiling", "ok", 100, 30),
        ("both", "profiling", "ok", 300, 90),
        ("both", "profiling", "ok", 500, None),  # this one did not say
        ("both", "warmup", "ok", 100, 100),
        ("both", "profiling", "failed", 100, 100),
        ("prompts", "profiling", "ok", 100, None),
        ("cache", "profiling", "ok", 100, 0),
        ("neither", "profiling", "ok", 100, None),
    ]
    names = ("run_id", "phase", "status", "isl", "cached_tokens")
    tables = Tables(
        runs=table("runs", runs),
        requests=table("requests", [dict(zip(names, r, strict=True)) for r in requests]),
    )
    found = shared_prefixes(tables).set_index("run_id")
    assert list(found.index) == ["both", "prompts", "cache"]
    both = found.loc["both"]
    assert (both["shared_fraction"], both["cached_fraction"], both["n_cached"]) == (0.25, 0.3, 2)
    assert found.loc["prompts", "shared_fraction"] == 0  # known to share nothing
    assert math.isnan(found.loc["prompts", "cached_fraction"])
    assert found.loc["cache", "cached_fraction"] == 0
    assert math.isnan(found.loc["cache", "shared_fraction"])


def test_no_runs_no_rows() -> None:
    assert shared_prefixes(Tables()).empty


@pytest.mark.parametrize("chars", [0, None])
def test_prompts_without_characters_have_no_share(chars: int | None) -> None:
    run = {"run_id": "r", "n_prompts": 1, "prompt_chars": chars, "prompt_shared_chars": chars}
    assert shared_prefixes(Tables(runs=table("runs", [run]))).empty
