from __future__ import annotations

from typing import Any

import pytest

from servebook.read.aiperf_summary import Settings, native, settings


def test_metrics_take_our_names_and_units() -> None:
    own = native(
        {
            "time_to_first_token": {"unit": "sec", "avg": 0.02, "p50": 0.019, "p99": 0.05},
            "inter_token_latency": {"unit": "ms", "avg": 8.0, "max": 9.0},
            "inter_chunk_latency": {"unit": "ms", "p90": 7.5},
            "request_latency": {"unit": "ms", "p95": 600.0},
            "benchmark_duration": {"unit": "sec", "avg": 6.5},
            "request_throughput": {"unit": "requests/sec", "avg": 7.25},
            "output_token_throughput": {"unit": "tokens/sec", "avg": 423.0},
            "input_token_throughput": {"unit": "tokens/sec", "avg": 1693.0},
            "total_token_throughput": {"unit": "tokens/sec", "avg": 2116.0},
            "request_count": {"unit": "requests", "avg": 47.0},
            "error_request_count": {"unit": "requests", "avg": 13.0},
            "time_to_second_token": {"unit": "ms", "avg": 1.0},
        }
    )
    del own["_definition"]
    assert own == {
        "ttft_mean_ms": 20.0,
        "ttft_p50_ms": 19.0,
        "ttft_p99_ms": 50.0,
        "tpot_mean_ms": 8.0,
        "tpot_max_ms": 9.0,
        "itl_p90_ms": 7.5,
        "e2e_p95_ms": 600.0,
        "duration_s": 6.5,
        "request_throughput_req_s": 7.25,
        "output_throughput_tok_s": 423.0,
        "input_throughput_tok_s": 1693.0,
        "total_throughput_tok_s": 2116.0,
        "n_ok": 47,
        "n_failed": 13,
    }


def test_the_oldest_layout_keeps_metrics_below_records() -> None:
    own = native({"records": {"ttft": {"tag": "ttft", "unit": "ms", "avg": 2343.2, "p90": None}}})
    assert own["ttft_mean_ms"] == 2343.2
    assert "ttft_p90_ms" not in own


@pytest.mark.parametrize(("completed", "n_failed"), [(47.0, 0), (60.0, None), (None, None)])
def test_an_absent_error_count_is_zero_only_where_that_is_told(
    completed: float | None, n_failed: int | None
) -> None:
    summary: dict[str, Any] = {"request_count": {"unit": "requests", "avg": 47.0}}
    if completed is not None:
        summary["completed_request_count"] = {"unit": "requests", "avg": completed}
    assert native(summary).get("n_failed") == n_failed


def test_nothing_told_is_nothing() -> None:
    assert native({}) == {}
    assert native({"request_latency": {"unit": "furlong", "avg": 1.0}}) == {}
    assert settings({}) == Settings()


def test_flat_layout_up_to_0_8() -> None:
    found = settings(
        {
            "endpoint": {
                "model_names": ["openai/gpt-oss-20b"],
                "type": "chat",
                "streaming": True,
                "url": "localhost:9000",
            },
            "input": {
                "extra": [["ignore_eos", "true"]],
                "prompt": {
                    "input_tokens": {"mean": 550, "stddev": 0},
                    "output_tokens": {"mean": 250},
                },
            },
            "loadgen": {"concurrency": 100, "request_count": 1000, "request_rate": 12.5},
            "cli_command": "aiperf profile --concurrency 7",
        }
    )
    assert found == Settings(
        model="openai/gpt-oss-20b",
        streaming=True,
        concurrency=100,
        request_rate=12.5,
        isl=550,
        osl=250,
        requests=1000,
        server_counts=False,
        ignore_eos=True,
    )


def test_phased_layout_from_0_9() -> None:
    found = settings(
        {
            "models": {"items": [{"name": "/data/models/llama"}]},
            "endpoint": {"streaming": True, "use_server_token_count": True},
            "datasets": [{"prompts": {"isl": {"mean": 768.0}, "osl": {"mean": 128.0}}}],
            "phases": [
                {"kind": "warmup", "concurrency": 1, "requests": 4},
                {"kind": "profiling", "type": "poisson", "rate": 8.0, "duration": 30.0},
            ],
        }
    )
    assert found == Settings(
        model="llama",  # a path names folders of a machine
        streaming=True,
        concurrency=None,
        request_rate=8.0,
        isl=768,
        osl=128,
        server_counts=True,
        deadline_s=30.0,
    )


@pytest.mark.parametrize(
    "values",
    [{"phases.profiling.concurrency": 4}, {"loadgen.concurrency": 4}, {"concurrency": 4}],
)
def test_a_sweeps_value_comes_from_its_variation(values: dict[str, int]) -> None:
    config = {"phases": [{"kind": "profiling", "concurrency": [2, 4]}]}
    command = "aiperf profile --concurrency 2,4"
    run_info = {"variation_values": values, "cli_command": command}
    assert settings(config, run_info).concurrency == 4


def test_odd_configurations_do_not_matter() -> None:
    odd: list[Any] = [None, 1, "x", [], [1], {"a": 1}, [{"name": 3}], float("inf")]
    for value in odd:
        for key in ("endpoint", "models", "phases", "datasets", "loadgen", "input"):
            assert settings({key: value}).model is None
        settings({"phases": [{"concurrency": value, "rate": value}]}, {"variation_values": value})
