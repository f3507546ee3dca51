"""Which runs are one condition by two clients, and what is said of them."""

from typing import Any

import pandas as pd
import pytest
from by_hand import request, run

from servebook.measure.pairs import pairs
from servebook.measure.runs import run_metrics
from servebook.tables import Tables

BASE = {"configuration": "x", "workload": "mixed", "concurrency": 2}


def side(name: str, client: str, ttft: float = 10, isl: int = 100, **other: Any) -> Tables:
    requests = [request("a", 0, ttft=ttft, gaps=[5, 5], isl=isl)]
    return run(name, requests, client=client, **(BASE | other))


def found(*tables: Tables) -> pd.DataFrame:
    return pairs(run_metrics(Tables.concat(tables)))


def test_a_pair_and_its_deviation() -> None:
    rows = found(side("v", "vLLM", ttft=12), side("a", "AIPerf", ttft=10))
    (row,) = rows[rows["metric"] == "ttft_mean_ms"].to_dict("records")
    assert (row["client_a"], row["run_a"]) == ("AIPerf", "a")
    assert (row["client_b"], row["run_b"]) == ("vLLM", "v")
    assert row["deviation"] == pytest.approx(0.2)
    assert row["same_definition"] is True
    assert row["reason"] == ""


@pytest.mark.parametrize(
    "other",
    [
        {"client": "AIPerf"},
        {"configuration": "y"},
        {"configuration": None},
        {"workload": "decode"},
        {"concurrency": 4},
        {"concurrency": None},
        {"isl": 103},
        {"level": "summary"},
    ],
)
def test_what_is_no_pair(other: dict[str, Any]) -> None:
    assert found(side("a", "AIPerf"), side("v", **({"client": "vLLM"} | other))).empty


def test_lengths_may_differ_by_two_percent() -> None:
    assert not found(side("a", "AIPerf"), side("v", "vLLM", isl=102)).empty


def test_repeats_pair_each_with_each() -> None:
    rows = found(side("a", "AIPerf"), side("b", "AIPerf"), side("v", "vLLM"))
    assert set(zip(rows["run_a"], rows["run_b"], strict=True)) == {("a", "v"), ("b", "v")}


def test_a_stopwatch_against_records_is_said() -> None:
    rows = found(side("a", "AIPerf"), side("v", "vLLM", clock="none", native={"duration_s": 0.02}))
    (row,) = rows[rows["metric"] == "output_throughput_tok_s"].to_dict("records")
    assert row["same_definition"] is False
    assert "stopwatch" in row["reason"]


def test_chunk_gaps_against_token_gaps_are_said() -> None:
    many = range(12)
    chunks = [request(str(i), i, ttft=10, gaps=[10], osl=3) for i in many]
    tokens = [request(str(i), i, ttft=10, gaps=[5, 5]) for i in many]
    rows = found(run("a", tokens, client="AIPerf", **BASE), run("v", chunks, client="vLLM", **BASE))
    (row,) = rows[rows["metric"] == "itl_p50_ms"].to_dict("records")
    assert row["same_definition"] is False
    assert "chunk" in row["reason"]


def test_percentiles_below_their_floor_are_left_out_and_others_say_their_n() -> None:
    few = found(side("a", "AIPerf"), side("v", "vLLM"))
    assert "ttft_mean_ms" in set(few["metric"])
    assert not few["metric"].str.contains("_p").any()

    def many(name: str, client: str) -> Tables:
        requests = [request(str(i), i, ttft=10 + i % 3, gaps=[5, 5]) for i in range(12)]
        return run(name, requests, client=client, **BASE)

    rows = found(many("a", "AIPerf"), many("v", "vLLM")).set_index("metric")
    assert {"ttft_p50_ms", "tpot_p50_ms", "itl_p50_ms"} <= set(rows.index)
    assert not {"ttft_p99_ms", "itl_p99_ms"} & set(rows.index)
    assert rows.loc["ttft_p50_ms", ["n_a", "n_b"]].tolist() == [12, 12]
    assert rows.loc["itl_p50_ms", ["n_a", "n_b"]].tolist() == [24, 24]
