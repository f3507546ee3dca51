"""Runs of level "summary" keep the client's own figures apart from ours."""

import json

from by_hand import request, run

from servebook.measure.runs import run_metrics
from servebook.measure.summaries import summaries
from servebook.tables import Tables, table

OWN = {
    "tpot_mean_ms": 5.0,
    "tpot_mean_ms@time_per_output_token_ms": 7.0,
    "ttft_mean_ms": 3,
    "unheard_of": 1,
    "n_ok": None,
    "_definition": {"tpot": "guidellm_itl", "@time_per_output_token_ms": "guidellm_tpot"},
}


def alone(**changes: object) -> Tables:
    row = {"run_id": "s", "level": "summary", "format": "guidellm", "client": "guidellm"}
    return Tables(runs=table("runs", [row | {"native": json.dumps(OWN)} | changes]))


def test_the_clients_figures_with_what_it_means_by_them() -> None:
    found = summaries(alone())
    assert found[["metric", "variant", "value"]].to_numpy().tolist() == [
        ["ttft_mean_ms", "", 3.0],
        ["tpot_mean_ms", "", 5.0],
        ["tpot_mean_ms", "time_per_output_token_ms", 7.0],
    ]
    assert found["definition"][0] == ""
    assert "ratio of sums" in found["definition"][1]
    assert "TTFT inside" in found["definition"][2]


def test_none_of_it_becomes_a_metric_of_ours() -> None:
    metrics = run_metrics(alone())
    assert metrics[["ttft_mean_ms", "tpot_mean_ms", "duration_s"]].isna().all().all()


def test_runs_with_records_have_no_row() -> None:
    both = Tables.concat([run("r", [request("a", 0, ttft=1)], native=OWN), alone()])
    assert set(summaries(both)["run_id"]) == {"s"}
    assert summaries(run("r", [request("a", 0, ttft=1)], native=OWN)).empty
    assert summaries(alone(native=None)).empty
    assert summaries(Tables()).empty


def test_a_code_of_another_client_says_nothing() -> None:
    assert set(summaries(alone(format="vllm"))["definition"]) == {""}
