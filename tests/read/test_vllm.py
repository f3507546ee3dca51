from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servebook.read import json_objects
from servebook.read.discover import read_tree
from servebook.read.source import File
from servebook.read.vllm import find
from servebook.tables import Tables
from tests.read.samples import FIXTURES, vllm_result

MS = 1_000_000


def read_text(tmp_path: Path, text: str) -> Tables:
    (tmp_path / "a").mkdir(parents=True)
    (tmp_path / "a" / "result.json").write_text(text)
    return read_tree(tmp_path)


def run_of(tables: Tables) -> dict[str, Any]:
    (run,) = tables.runs.to_pylist()
    return run


def test_slots_become_requests_on_the_runs_own_clock(tmp_path: Path) -> None:
    tables = read_text(tmp_path, json.dumps(vllm_result()))
    first, second, third = tables.requests.to_pylist()
    keys = ("request_id", "status", "error_kind", "start_ns", "first_token_ns", "end_ns", "osl")
    assert [first[k] for k in keys] == ["0", "ok", None, 0, 10 * MS, 20 * MS, 3]
    assert [second[k] for k in keys] == ["1", "ok", None, 250 * MS, 270 * MS, 280 * MS, 3]
    assert [third[k] for k in keys] == ["2", "failed", "http_500", 100 * MS, None, None, None]
    assert tables.gaps["gap_ns"].to_pylist() == [4 * MS, 6 * MS, 5 * MS, 5 * MS]
    assert tables.gaps["end_ns"].to_pylist() == [14 * MS, 20 * MS, 275 * MS, 280 * MS]


def test_run(tmp_path: Path) -> None:
    run = run_of(read_text(tmp_path, json.dumps(vllm_result())))
    expected = {
        "run_id": "a",
        "format": "vllm",
        "client": "vLLM bench serve",
        "client_version": None,
        "model": "a-model",
        "concurrency": 2,
        "request_rate": None,  # "inf"
        "start_ns": 0,
        "end_ns": 280 * MS,
        "clock": "relative",
        "n_requests": 3,
        "n_ok": 2,
        "n_failed": 1,
        "n_cancelled": 0,
        "n_lost": 0,
        "n_gaps": 4,
        "level": "records",
        "tokens_counted_by": None,
        "osl_requested": None,
    }
    assert {key: run[key] for key in expected} == expected
    native = json.loads(run["native"])
    assert native["duration_s"] == 0.2
    assert native["ttft_p50_ms"] == 15.0
    assert native["n_failed"] == 1


def test_without_start_times_each_request_has_its_own_clock(tmp_path: Path) -> None:
    result = vllm_result()
    del result["start_times"]
    tables = read_text(tmp_path, json.dumps(result))
    run = run_of(tables)
    assert (run["clock"], run["start_ns"], run["end_ns"]) == ("none", None, None)
    assert tables.requests["start_ns"].to_pylist() == [0, 0, 0]
    assert tables.requests["first_token_ns"].to_pylist() == [10 * MS, 20 * MS, None]
    assert "no start times" in run["notes"][0]


@pytest.mark.parametrize(
    ("slot", "status", "kind"),
    [
        ({"error": "Internal Server Error", "ttft": 0.0, "osl": 0}, "failed", "http_500"),
        ({"error": "Service Unavailable", "ttft": 0.0, "osl": 0}, "failed", "http_503"),
        (
            {"error": "Trace\nClientPayloadError: x", "ttft": 0.01},
            "failed",
            "stream_broken",
        ),
        ({"error": "KeyError: 'choices'", "ttft": 0.01}, "failed", "stream_broken"),
        ({"error": "Traceback ... TimeoutError", "ttft": 0.0}, "failed", "timeout"),
        ({"error": "ClientConnectorError: 10.1.1.1", "ttft": 0.0}, "failed", "connection"),
        ({"error": "", "ttft": 0.0, "osl": 0}, "failed", "stream_error"),
        ({"error": "", "ttft": 0.01, "osl": 1}, "ok", None),
    ],
)
def test_outcomes(tmp_path: Path, slot: dict[str, Any], status: str, kind: str | None) -> None:
    result = vllm_result(
        num_prompts=1,
        input_lens=[16],
        output_lens=[slot.get("osl", 0)],
        ttfts=[slot["ttft"]],
        itls=[[]],
        start_times=[1.0],
        errors=[slot["error"]],
    )
    (row,) = read_text(tmp_path, json.dumps(result)).requests.to_pylist()
    assert (row["status"], row["error_kind"]) == (status, kind)


@pytest.mark.parametrize("indent", [None, 2])
def test_appended_results(tmp_path: Path, indent: int | None) -> None:
    two = [json.dumps(vllm_result(max_concurrency=c), indent=indent) for c in (2, 4)]
    tables = read_text(tmp_path, "\n".join(two))
    runs = tables.runs.to_pylist()
    assert [(r["run_id"], r["concurrency"]) for r in runs] == [("a", 2), ("a#2", 4)]
    assert set(tables.requests["run_id"].to_pylist()) == {"a", "a#2"}


def test_torn_result_after_a_whole_one_is_set_aside(tmp_path: Path) -> None:
    text = json.dumps(vllm_result(), indent=2)
    tables = read_text(tmp_path, text + "\n" + text[:200])
    assert run_of(tables)["n_ok"] == 2
    (aside,) = tables.set_aside.to_pylist()
    assert aside["line"] == text.count("\n") + 2
    assert "torn" in aside["reason"]


def test_torn_result_between_whole_ones_costs_itself_alone(tmp_path: Path) -> None:
    text = json.dumps(vllm_result())
    tables = read_text(tmp_path, "\n".join([text, text[:300], text]))
    assert [r["run_id"] for r in tables.runs.to_pylist()] == ["a", "a#2"]
    assert tables.set_aside["line"].to_pylist() == [2]


def test_torn_file_is_refused(tmp_path: Path) -> None:
    tables = read_text(tmp_path, json.dumps(vllm_result())[:-5])
    (refused,) = tables.refused.to_pylist()
    assert refused["path"] == "a/result.json"
    assert "line 1: expected a vLLM benchmark result" in refused["reason"]
    assert "torn" in refused["reason"]


def test_old_file_without_failed_and_with_infinity(tmp_path: Path) -> None:
    result = vllm_result(request_rate=float("inf"), mean_itl_ms=float("nan"))
    for name in ("failed", "errors", "start_times"):
        del result[name]
    run = run_of(read_text(tmp_path, json.dumps(result)))
    assert (run["n_ok"], run["n_failed"], run["request_rate"]) == (2, 1, None)
    native = json.loads(run["native"])
    assert native["n_failed"] == 1
    assert "itl_mean_ms" not in native


def test_all_failed_zeros_are_missing(tmp_path: Path) -> None:
    zeros = {"ttfts": [0.0] * 3, "itls": [[]] * 3, "output_lens": [0] * 3}
    stats = {"mean_ttft_ms": 0.0, "median_ttft_ms": 0.0, "mean_tpot_ms": 0.0, "p99_ttft_ms": 0.0}
    result = vllm_result(completed=0, failed=3, errors=["Not Found"] * 3, **zeros, **stats)
    tables = read_text(tmp_path, json.dumps(result))
    run = run_of(tables)
    assert (run["n_ok"], run["n_failed"]) == (0, 3)
    assert tables.requests["first_token_ns"].null_count == 3
    assert not [k for k in json.loads(run["native"]) if k.startswith(("ttft", "tpot", "itl"))]


def test_unusable_slots_are_set_aside_and_not_lost(tmp_path: Path) -> None:
    result = vllm_result(ttfts=[float("nan"), 0.02, 0.0])
    tables = read_text(tmp_path, json.dumps(result))
    (aside,) = tables.set_aside.to_pylist()
    assert (aside["record"], aside["line"]) == ("request 0", 1)
    assert tables.requests.num_rows == 2
    assert run_of(tables)["n_lost"] == 0


def test_lists_of_different_lengths_are_refused(tmp_path: Path) -> None:
    (refused,) = read_text(tmp_path, json.dumps(vllm_result(ttfts=[0.1]))).refused.to_pylist()
    assert "ttfts with 1" in refused["reason"]


def test_no_text_of_the_dump_goes_on(tmp_path: Path) -> None:
    secret = "sk-secret 10.9.8.7 /srv/somebody"
    result = vllm_result(
        generated_texts=[secret] * 3,
        errors=["", "", secret],
        model_id="/srv/somebody/m",
        label=secret,
    )
    tables = read_text(tmp_path, json.dumps(result))
    for table in (tables.runs, tables.requests, tables.set_aside):
        text = json.dumps(table.to_pylist())
        assert "secret" not in text
        assert "somebody" not in text
    assert run_of(tables)["model"] == "m"


def test_short_outputs_are_flagged_where_the_rest_share_one_length() -> None:
    tables = read_tree(FIXTURES / "vllm" / "failures_c4.json")
    run = run_of(tables)
    rows = tables.requests.to_pylist()
    # The server broke 4 streams, refused 9 requests and put 4 error objects into streams; the
    # client counts the last as completed, with 32 tokens instead of 64.
    assert (run["n_requests"], run["n_ok"], run["n_failed"]) == (60, 47, 13)
    kinds = [r["error_kind"] for r in rows if r["status"] == "failed"]
    assert (kinds.count("http_500"), kinds.count("stream_broken")) == (9, 4)
    assert [r["osl"] for r in rows if r["flags"]] == [32] * 4
    assert "4 of 47" in run["notes"][0]


def test_summary_alone() -> None:
    run = run_of(read_tree(FIXTURES / "vllm" / "summary_only.json"))
    assert (run["run_id"], run["level"], run["clock"]) == ("summary_only", "summary", "none")
    assert (run["n_requests"], run["n_ok"], run["n_failed"], run["n_gaps"]) == (24, 24, 0, None)
    assert json.loads(run["native"])["ttft_mean_ms"] == pytest.approx(25.750577916634636)


def test_a_summary_without_its_totals_keeps_its_latencies(tmp_path: Path) -> None:
    taken = ("completed", "failed", "duration", "total_", "_throughput", "max_output", "goodput")
    whole = json.loads(json.dumps(vllm_result()))
    lists = {key for key, value in whole.items() if isinstance(value, list)}
    kept = {k: v for k, v in whole.items() if k not in lists and not any(t in k for t in taken)}
    kept |= {"tokenizer_id": "org/model", "mean_ttft_ms": 111.2, "p99_ttft_ms": 165.5}
    run = run_of(read_text(tmp_path, json.dumps(kept)))
    assert (run["level"], run["n_requests"], run["n_ok"], run["workload"]) == ("summary",) + (
        None,
    ) * 3
    native = json.loads(run["native"])
    assert (native["ttft_mean_ms"], native["ttft_p99_ms"]) == (111.2, 165.5)
    assert not [key for key in native if "throughput" in key or key.startswith("n_")]
    assert any("its totals were taken out: of 3 requests" in note for note in run["notes"])


@pytest.mark.parametrize("missing", ["num_prompts", "model_id", "tokenizer_id", "mean_ttft_ms"])
def test_latencies_of_something_else_are_not_claimed(tmp_path: Path, missing: str) -> None:
    keys = {"num_prompts": 3, "model_id": "m", "tokenizer_id": "m", "mean_ttft_ms": 5.0}
    del keys[missing]
    assert read_text(tmp_path, json.dumps(keys)).runs.num_rows == 0


def test_prefill_zeros_are_missing() -> None:
    run = run_of(read_tree(FIXTURES / "vllm" / "prefill_c2.json"))
    assert (run["workload"], run["n_gaps"]) == ("prefill", 0)
    native = json.loads(run["native"])
    assert native["ttft_p99_ms"] == pytest.approx(35.471553329934984)
    assert not [k for k in native if k.startswith(("tpot", "itl"))]


def test_a_result_of_sglang_is_not_claimed() -> None:
    other = {"backend": "sglang", "server_info": None, "dataset_name": "random"}
    head = json.dumps({**other, **vllm_result()}).encode()
    assert find([File(Path("/t"), Path("/t/r.json"), head, len(head))]) == []


def sla_tree(root: Path) -> list[dict[str, Any]]:
    """A tree of ``vllm bench sweep serve_sla``: two rates, two runs each, lists over them."""
    every = []
    base = root / "20260101_000000" / "SERVE--max_num_seqs=8-BENCH--random_input_len=16"
    for rate in (1, 4):
        folder = base / f"request_rate={rate}"
        folder.mkdir(parents=True)
        runs = [
            {
                **vllm_result(request_rate=float(rate)),
                "run_number": n,
                "max_num_seqs": 8,
                "random_input_len": 16,
                "random_output_len": 3,
                "p99_e2el_ms": 30.0 + n + rate,
            }
            for n in range(2)
        ]
        for n, run in enumerate(runs):
            (folder / f"run={n}.json").write_text(json.dumps(run, indent=4))
        (folder / "summary.json").write_text(json.dumps(runs, indent=4))
        every += runs
    (base / "SLA--p99_e2el_ms<=500.json").write_text(json.dumps(every, indent=4))
    (base.parent / "summary.csv").write_text("run_number,mean_ttft_ms\n0,15.0\n")
    return every


def test_a_sweep_for_service_levels_holds_each_run_once(tmp_path: Path) -> None:
    sla_tree(tmp_path)
    tables = read_tree(tmp_path)
    runs = tables.runs.to_pylist()
    place = "20260101_000000/SERVE--max_num_seqs=8-BENCH--random_input_len=16"
    assert [run["run_id"] for run in runs] == [
        f"{place}/request_rate={rate}/run={n}" for rate in (1, 4) for n in (0, 1)
    ]
    assert [run["request_rate"] for run in runs] == [1.0, 1.0, 4.0, 4.0]
    assert {(run["isl_requested"], run["osl_requested"]) for run in runs} == {(16, 3)}
    assert runs[1]["notes"] == ["set by the sweep: max_num_seqs 8, run_number 1"]
    assert tables.refused.num_rows == 0


def test_a_list_is_read_where_its_runs_are_not_there(tmp_path: Path) -> None:
    every = sla_tree(tmp_path)
    for path in tmp_path.rglob("run=*.json"):
        path.unlink()
    tables = read_tree(tmp_path)
    assert tables.runs.num_rows == len(every)
    assert tables.runs["request_rate"].to_pylist() == [1.0, 1.0, 4.0, 4.0]
    assert tables.refused.num_rows == 0


def test_metadata_that_is_no_setting_stays_out(tmp_path: Path) -> None:
    result = vllm_result(secret="do-not-tell", quantization="x" * 50, max_num_seqs=4)
    run = run_of(read_text(tmp_path, json.dumps(result)))
    assert run["notes"] == ["set by the sweep: max_num_seqs 4"]


def test_inferencex_tells_the_time_of_day(tmp_path: Path) -> None:
    began = 1_795_972_676.5
    extra = {"benchmark_start_time_unix": began, "benchmark_end_time_unix": began + 0.2}
    whole = run_of(read_text(tmp_path / "whole", json.dumps({**vllm_result(), **extra})))
    assert (whole["client"], whole["clock"]) == ("InferenceX benchmark_serving", "epoch")
    start = 1_795_972_676_500_000_000
    assert (whole["start_ns"], whole["end_ns"]) == (start, start + 280 * MS)
    # Its detailed files keep lengths and first tokens alone.
    result = {**vllm_result(), **extra, "p99_intvty": 200.0}
    for name in ("itls", "start_times", "generated_texts", "errors"):
        del result[name]
    bare = run_of(read_text(tmp_path / "bare", json.dumps(result)))
    assert (bare["level"], bare["clock"], bare["n_gaps"]) == ("records", "none", 0)
    for name in ("ttfts", "input_lens", "output_lens"):
        del result[name]
    alone = run_of(read_text(tmp_path / "alone", json.dumps(result)))
    assert (alone["level"], alone["clock"]) == ("summary", "epoch")
    assert (alone["start_ns"], alone["end_ns"]) == (start, start + 200 * MS)


def test_a_result_of_2024(tmp_path: Path) -> None:
    """All keys of the script of vLLM 0.4 to 0.6, which always wrote the lists."""
    result = vllm_result(best_of=1, use_beam_search=False, input_throughput=160.0)
    for name in ("failed", "max_concurrency", "total_token_throughput", "start_times"):
        del result[name]
    del result["request_goodput:"]
    run = run_of(read_text(tmp_path, json.dumps(result)))
    assert (run["n_ok"], run["n_failed"], run["concurrency"]) == (2, 1, None)
    assert json.loads(run["native"])["input_throughput_tok_s"] == 160.0


def test_sweep_leftovers_are_companions(tmp_path: Path) -> None:
    folder = tmp_path / "SERVE--a=1-BENCH--b=2"
    folder.mkdir()
    for name in ("warmup.json", "summary.json", "run=1.failure.json", "run=0.pytorch.json"):
        (folder / name).write_text(json.dumps([vllm_result()]))
    (folder / "run=0.json").write_text(json.dumps(vllm_result(run_number=0), indent=4))
    tables = read_tree(tmp_path)
    assert run_of(tables)["run_id"] == folder.name
    assert tables.refused.num_rows == 0


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        ' \n\n {"a": [1.5, 2]}\n\n',
        '{"a": NaN}',
        '{"a": 1}\n{"a": 2}',
        '\ufeff{"a": 1}',
        '{"a": "\\ud800"}',
        '{"a": 1, "a": 2}',
        '{"a": 1',
        "null",
        "[{}, {}]",
        "",
        '{"a": 1} x',
    ],
)
def test_one_value_is_read_fast_and_alike(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = repr(list(json_objects.objects(text)))
    monkeypatch.setattr(json_objects, "_whole", lambda _: None)
    assert repr(list(json_objects.objects(text))) == found
