from __future__ import annotations

from typing import Any

import pytest

from servebook.read.values import gap_list_ns, model_name, time_ns, token_count

HASH = "f710177d938eff80b684d42c5aa84b382612f21f"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("org/model", "org/model"),
        ("/srv/models/model-8b/", "model-8b"),
        ("C:\\models\\model-8b", "model-8b"),
        (f"/models/models--Org--Model-M2.5/snapshots/{HASH}/", "Org/Model-M2.5"),
        (f"models--Org--Model--Chat/snapshots/{HASH}", "Org/Model--Chat"),
        (f"~/.cache/huggingface/hub/models--Org--Model/snapshots/{HASH}", "Org/Model"),
        ("/cache/models--Org--Model", "Org/Model"),
        ("https://host.example/v1/model", "model"),
        ("", None),
        ("/", None),
        (7, None),
        (None, None),
    ],
)
def test_a_models_name_and_no_folders_of_a_machine(written: Any, name: str | None) -> None:
    assert model_name(written) == name


@pytest.mark.parametrize(
    ("value", "ns"), [(None, None), (0, None), (0.0, None), (1.5, 1_500_000_000), (2, 2 * 10**9)]
)
def test_a_time_is_whole_ns_and_0_is_none(value: Any, ns: int | None) -> None:
    assert time_ns(value, "ttft_s") == ns


@pytest.mark.parametrize("value", [-1, 1e8, 10**400, float("nan"), True, "1.5", [1]])
def test_what_is_no_time_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^expected seconds of zero or more in 'ttft_s', found"):
        time_ns(value, "ttft_s")
    with pytest.raises(ValueError, match=r"^expected a time of zero or more in 'ttft', found"):
        time_ns(value, "ttft", what="a time")


def test_a_time_in_another_unit() -> None:
    assert time_ns(12.5, "ttft", 1e6) == 12_500_000
    assert time_ns(1e10, "ttft", 1e6) == 10**16


@pytest.mark.parametrize(("value", "tokens"), [(None, None), (0, 0), (4.0, 4), (10**9 - 1,) * 2])
def test_a_count_of_tokens(value: Any, tokens: int | None) -> None:
    assert token_count(value, "osl") == tokens


@pytest.mark.parametrize("value", [-1, 0.5, 10**9, "7", False])
def test_what_is_no_count_of_tokens(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^expected a token count in 'osl', found another value$"):
        token_count(value, "osl")


def test_a_list_of_gaps() -> None:
    assert gap_list_ns(None, "itls") is None
    assert gap_list_ns([], "itls") is None
    found = gap_list_ns([0.5, 0, 1e-9], "itls")
    assert found is not None
    assert found.tolist() == [500_000_000, 0, 1]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.5, "expected a list of seconds in 'itls', found another value"),
        ([0.5, -1], "expected gaps of zero or more in 'itls', found others"),
        (["a"], "expected gaps of zero or more in 'itls', found others"),
        ([1e8], "expected gaps of zero or more in 'itls', found a sum of years"),
    ],
)
def test_what_is_no_list_of_gaps(value: Any, told: str) -> None:
    with pytest.raises(ValueError, match=f"^{told}$"):
        gap_list_ns(value, "itls")
