from __future__ import annotations

import pytest

from servebook.read.client_figures import counts, numbers, statistics_ms


def test_statistics_by_every_clients_name_for_them() -> None:
    assert statistics_ms("ttft", {"avg": 1, "p50": 2, "p99.9": 3, "max": 4, "std": 5}) == {
        "ttft_mean_ms": 1,
        "ttft_p50_ms": 2,
        "ttft_p999_ms": 3,
        "ttft_max_ms": 4,
    }
    assert statistics_ms("e2e", {"mean": 0.25, "median": 0.5, "p99p9": 2}, 1e3) == {
        "e2e_mean_ms": 250.0,
        "e2e_p50_ms": 500.0,
        "e2e_p999_ms": 2000.0,
    }


def test_statistics_beside_those_of_other_latencies() -> None:
    flat = {"mean_ttft_ms": 7.5, "p99_ttft_ms": 9, "mean_itl_ms": 1}
    assert statistics_ms("ttft", flat, key="{}_ttft_ms") == {"ttft_mean_ms": 7.5, "ttft_p99_ms": 9}


@pytest.mark.parametrize("value", [None, "7", float("nan"), True, [1]])
def test_what_is_no_number_is_left_out(value: object) -> None:
    assert statistics_ms("ttft", {"mean": value}) == {}
    assert numbers({"duration": value}, {"duration": "duration_s"}) == {}
    assert counts({"completed": value}, {"completed": "n_ok"}) == {}


def test_counts_are_whole_and_not_negative() -> None:
    names = {"completed": "n_ok", "failed": "n_failed"}
    assert counts({"completed": 4.0, "failed": 0}, names) == {"n_ok": 4, "n_failed": 0}
    assert counts({"completed": -1, "failed": 0.5}, names) == {}
    assert numbers({"completed": -1, "failed": 0.5}, names) == {"n_ok": -1, "n_failed": 0.5}
