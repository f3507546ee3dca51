from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from servebook.measure.native import compare
from servebook.measure.runs import run_metrics
from servebook.read.discover import discover, read_tree
from servebook.read.sglang_server import model_of, told
from servebook.tables import Tables
from tests.read.sglang_samples import sglang_result

MS = 1_000_000
FIXTURES = Path(__file__).parent.parent / "fixtures" / "clients" / "sglang"
#: The keys of 2024: no mean TTFT, no TPOT, no percentiles.
OLD = {
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": math.inf,
    "max_concurrency": None,
    "total_input_tokens": 1000,
    "total_output_tokens": 4000,
    "total_output_tokens_retokenized": 3990,
    "mean_e2e_latency_ms": 900.0,
    "median_e2e_latency_ms": 880.0,
    "median_ttft_ms": 50.0,
    "median_itl_ms": 8.0,
    "output_throughput": 400.0,
    "sharegpt_output_len": None,
    "random_input_len": 200,
    "random_output_len": 400,
    "random_range_ratio": 0.0,
    "duration": 10.0,
    "completed": 10,
}


def read_lines(tmp_path: Path, *lines: str | dict[str, Any]) -> Tables:
    (tmp_path / "a").mkdir(exist_ok=True)
    text = "\n".join(li if isinstance(li, str) else json.dumps(li) for li in lines)
    (tmp_path / "a" / "results.jsonl").write_text(text + "\n")
    return read_tree(tmp_path)


def run_of(tables: Tables) -> dict[str, Any]:
    run: dict[str, Any]
    (run,) = tables.runs.to_pylist()
    return run


def compared(tables: Tables) -> dict[str, dict[Any, Any]]:
    rows = compare(tables, run_metrics(tables)).to_dict("records")
    return {str(row["metric"]): row for row in rows}


def test_slots_become_requests_on_their_own_clocks(tmp_path: Path) -> None:
    tables = read_lines(tmp_path, sglang_result())
    keys = ("request_id", "status", "error_kind", "start_ns", "first_token_ns", "end_ns", "osl")
    rows = [[row[k] for k in keys] for row in tables.requests.to_pylist()]
    assert rows == [
        ["0", "ok", None, 0, 10 * MS, 20 * MS, 3],
        ["1", "ok", None, 0, 20 * MS, 30 * MS, 3],
        ["2", "failed", "http_500", 0, None, None, None],
    ]
    assert tables.gaps["gap_ns"].to_pylist() == [4 * MS, 6 * MS, 4_500_000, 5_500_000]


def test_run(tmp_path: Path) -> None:
    run = run_of(read_lines(tmp_path, sglang_result()))
    expected = {
        "run_id": "a",
        "format": "sglang",
        "client": "SGLang bench_serving",
        "client_version": None,
        "model": None,
        "concurrency": 2,
        "request_rate": None,  # Infinity
        "isl_requested": 16,
        "osl_requested": 3,
        "start_ns": None,
        "clock": "none",
        "n_requests": 3,
        "n_ok": 2,
        "n_failed": 1,
        "n_lost": None,  # the number asked for is not in the dump
        "n_gaps": 4,
        "streaming": True,
        "level": "records",
        "tokens_counted_by": None,
    }
    assert {key: run[key] for key in expected} == expected


def test_its_figures_are_ours_where_the_definition_is(tmp_path: Path) -> None:
    rows = compared(read_lines(tmp_path, sglang_result()))
    assert set(rows) >= {"duration_s", "input_throughput_tok_s", "ttft_mean_ms", "itl_max_ms"}
    for row in rows.values():
        assert row["same_definition"], row
        assert row["deviation"] == pytest.approx(0, abs=1e-9), row


def test_a_gap_that_is_written_once_per_token_is_one_gap_again(tmp_path: Path) -> None:
    # One chunk of three tokens after 9 ms, one of one token after 5 ms: its mean is over 4 tokens.
    result = sglang_result(
        input_lens=[16],
        output_lens=[5],
        ttfts=[0.01],
        itls=[[0.003, 0.003, 0.003, 0.005]],
        errors=[""],
        random_output_len=5,
        completed=1,
        mean_itl_ms=3.5,
        max_itl_ms=5.0,
        mean_tpot_ms=3.5,
        mean_e2e_latency_ms=24.0,
    )
    tables = read_lines(tmp_path, result)
    assert tables.gaps["gap_ns"].to_pylist() == [9 * MS, 5 * MS]
    assert tables.gaps["tokens"].to_pylist() == [3, 1]
    rows = compared(tables)
    row = rows["itl_mean_ms"]
    assert not row["same_definition"]
    assert "once per token" in row["reason"]
    assert (row["ours"], row["theirs_recomputed"]) == pytest.approx((7.0, 3.5))
    assert rows["itl_max_ms"]["theirs_recomputed"] == pytest.approx(5.0)
    assert rows["tpot_mean_ms"]["same_definition"]
    assert any("once per token" in note for note in run_of(tables)["notes"])


@pytest.mark.parametrize(
    ("accept", "metric", "words"),
    [
        (None, "e2e_mean_ms", "last message of the stream"),
        (None, "tpot_mean_ms", "last message of the stream"),
        (2.7, "itl_mean_ms", "speculative decoding"),
    ],
)
def test_openai_backends_differ(
    tmp_path: Path, accept: float | None, metric: str, words: str
) -> None:
    tables = read_lines(tmp_path, sglang_result(backend="sglang-oai", accept_length=accept))
    row = compared(tables)[metric]
    assert not row["same_definition"]
    assert words in row["reason"]
    assert math.isnan(row["theirs_recomputed"])


def test_replies_in_one_piece_have_no_first_token(tmp_path: Path) -> None:
    tables = read_lines(tmp_path, sglang_result(itls=[[], [], []]))
    assert tables.requests["first_token_ns"].to_pylist() == [None] * 3
    assert tables.requests["end_ns"].to_pylist() == [10 * MS, 20 * MS, None]
    assert run_of(tables)["streaming"] is False


WHOLE = {
    "duration": 91.8,
    "completed": 300,
    "mean_e2e_latency_ms": 4760.0,
    "mean_ttft_ms": 0.0,
    "median_ttft_ms": 0.0,
    "p99_ttft_ms": 0.0,
    "mean_tpot_ms": 4.765,  # 4760 / 999: the whole reply
    "median_tpot_ms": 4.83,
    "mean_itl_ms": 0.0,
    "p99_itl_ms": 0.0,
}


@pytest.mark.parametrize(("ttft", "taken"), [({}, False), ({"mean_ttft_ms": 40.0}, True)])
def test_a_tpot_with_the_first_token_inside_is_not_taken(
    tmp_path: Path, ttft: dict[str, float], taken: bool
) -> None:
    run = run_of(read_lines(tmp_path, OLD | WHOLE | ttft))
    native = json.loads(run["native"])
    assert native["e2e_mean_ms"] == 4760.0
    assert ("tpot_mean_ms" in native, "tpot_p50_ms" in native) == (taken, taken)
    assert any("not taken" in note for note in run["notes"]) is not taken
    assert run["streaming"] is (None if taken else False)


def test_one_output_token_is_streamed_without_gaps(tmp_path: Path) -> None:
    result = sglang_result(output_lens=[1, 1, 0], itls=[[], [], []], random_output_len=1)
    tables = read_lines(tmp_path, result)
    assert tables.requests["first_token_ns"].to_pylist() == [10 * MS, 20 * MS, None]
    assert run_of(tables)["workload"] == "prefill"


@pytest.mark.parametrize(
    ("slot", "status", "kind"),
    [
        ({"errors": "", "output_lens": 0}, "failed", "stream_error"),
        ({"errors": "ClientPayloadError", "output_lens": 0}, "failed", "stream_broken"),
        ({"errors": "unheard of"}, "failed", "stream_broken"),  # it has a first token
        ({"errors": "unheard of", "ttfts": 0.0}, "failed", "other"),
        ({"errors": "TimeoutError", "ttfts": 0.0}, "failed", "timeout"),
    ],
)
def test_how_a_request_ended(
    tmp_path: Path, slot: dict[str, Any], status: str, kind: str | None
) -> None:
    result = sglang_result()
    for name, value in slot.items():
        result[name][0] = value
    row = read_lines(tmp_path, result).requests.to_pylist()[0]
    assert (row["status"], row["error_kind"], row["osl"]) == (status, kind, None)


def test_fewer_tokens_than_asked_for_are_flagged(tmp_path: Path) -> None:
    flags = read_lines(tmp_path, sglang_result(output_lens=[2, 3, 0])).requests["flags"]
    assert flags.to_pylist() == [["short_output"], [], []]


def test_lengths_that_were_drawn_are_no_lengths_asked_for(tmp_path: Path) -> None:
    run = run_of(read_lines(tmp_path, OLD))
    assert (run["isl_requested"], run["osl_requested"]) == (None, None)
    assert "lengths were drawn from 1 to 200 in, 1 to 400 out" in run["notes"]


def test_the_old_schema_is_a_summary(tmp_path: Path) -> None:
    tables = read_lines(tmp_path, OLD, OLD | {"request_rate": 2.0, "duration": 20.0})
    first, second = tables.runs.to_pylist()
    assert (first["run_id"], second["run_id"]) == ("a", "a#2")
    assert (first["level"], first["n_ok"], first["n_failed"]) == ("summary", 10, None)
    assert (first["request_rate"], second["request_rate"]) == (None, 2.0)
    assert first["workload"] == "decode"
    native = json.loads(first["native"])
    assert native["ttft_p50_ms"] == 50.0
    assert "ttft_mean_ms" not in native
    metrics = run_metrics(tables)
    assert metrics["ttft_p50_ms"].isna().all()  # never mixed with what is recomputed
    assert metrics["duration_s"].isna().all()


def test_nothing_completed_is_nothing_measured(tmp_path: Path) -> None:
    zero = dict.fromkeys(("mean_ttft_ms", "mean_tpot_ms", "mean_itl_ms"), 0.0)
    lists = {"output_lens": [0], "ttfts": [0.0], "itls": [[]], "input_lens": [16]}
    result = sglang_result(
        completed=0, mean_e2e_latency_ms=math.nan, errors=["Not Found"], **zero, **lists
    )
    tables = read_lines(tmp_path, result)
    assert tables.requests["error_kind"].to_pylist() == ["http_404"]
    assert not [k for k in json.loads(run_of(tables)["native"]) if k.endswith("_ms")]


def test_a_copied_line_counts_once(tmp_path: Path) -> None:
    tables = read_lines(tmp_path, sglang_result(), sglang_result(duration=0.3), sglang_result())
    assert tables.runs["run_id"].to_pylist() == ["a", "a#2"]
    assert tables.set_aside["line"].to_pylist() == [3]
    assert tables.set_aside["reason"].to_pylist() == ["a copy of the result on line 1"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "no valid JSON"),
        ("[" * 100_000, "no valid JSON"),
        ("3", "another JSON value"),
        ('{"backend": "sglang", "completed": 1}', "an object without total_output_tokens"),
        ('{"backend": "a", "backend": "b"}', "the key 'backend' twice"),
        (json.dumps(sglang_result(ttfts=[0.1])), "different lengths"),
    ],
)
@pytest.mark.parametrize("place", [1, 3])
def test_a_bad_line_hides_no_other(tmp_path: Path, line: str, words: str, place: int) -> None:
    lines: list[Any] = [sglang_result(), sglang_result(duration=0.3), sglang_result(duration=0.4)]
    lines.insert(place, line)
    tables = read_lines(tmp_path, *lines)
    assert tables.runs.num_rows == 3
    (reason,) = tables.set_aside["reason"].to_pylist()
    assert words in reason
    assert tables.set_aside["line"].to_pylist() == [place + 1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ttfts", -0.1),
        ("ttfts", "0.1"),
        ("ttfts", math.nan),
        ("ttfts", 1e300),
        ("itls", [0.1, -0.1]),
        ("itls", "x"),
        ("itls", [[0.1]]),
        ("itls", [None]),
        ("output_lens", 2.5),
        ("output_lens", 10**30),
        ("input_lens", True),
        ("errors", 5),
    ],
)
def test_a_bad_slot_is_set_aside(tmp_path: Path, name: str, value: Any) -> None:
    result = sglang_result()
    result[name][1] = value
    tables = read_lines(tmp_path, result)
    assert tables.requests["request_id"].to_pylist() == ["0", "2"]
    assert tables.set_aside["record"].to_pylist() == ["request 1"]
    assert f"'{name}'" in tables.set_aside["reason"].to_pylist()[0]


def test_lists_of_nonsense_leave_the_summary(tmp_path: Path) -> None:
    tables = read_lines(tmp_path, sglang_result(ttfts=["x"] * 3))
    run = run_of(tables)
    assert (run["level"], run["n_ok"], tables.set_aside.num_rows) == ("summary", 2, 3)


SERVER = {
    "version": "0.5.3.post1",
    "model_path": "/secret/models/Llama-3.1-8B",
    "served_model_name": "/secret/models/Llama-3.1-8B",
    "host": "10.1.2.3",
    "api_key": "sk-secret",
    "tp_size": 4,
    "dp_size": 2,
    "quantization": "fp8",
    "kv_cache_dtype": "fp8_e5m2",
    "disable_radix_cache": False,
    "dist_init_addr": "host.secret:5000",
    "internal_states": [{"last_gen_throughput": 1.0}],
}


def test_server_info_tells_the_layout_and_no_names() -> None:
    (sentence,) = told(SERVER)
    assert sentence == (
        "the server says of itself: SGLang 0.5.3.post1, TP 4, DP 2, quantisation fp8, "
        "KV dtype fp8_e5m2, prefix cache on"
    )
    assert model_of(SERVER) == "Llama-3.1-8B"


def test_a_router_tells_of_both_sides() -> None:
    info = {
        "internal_states": [],
        "prefill": [{"tp_size": 8, "disable_radix_cache": True}] * 2,
        "decode": [{"server_args": {"tp_size": 16, "enable_dp_attention": True}}],
    }
    assert told(info) == [
        "the server says of prefill (2 servers): TP 8, prefix cache off",
        "the server says of decode: TP 16, DP attention",
    ]


@pytest.mark.parametrize(
    "info",
    [
        None,
        [],
        "x",
        {},
        {"quantization": "/secret/quant.json", "version": "http://10.1.2.3/v"},
        {"tp_size": "10.1.2.3", "dtype": "a.secret.host", "version": ["0.5"]},
        {"prefill": "x", "decode": [3], "server_args": 7},
    ],
)
def test_server_info_of_other_shapes(info: Any) -> None:
    assert told(info) == []
    assert model_of(info) is None


def test_nothing_private_enters_a_table(tmp_path: Path) -> None:
    result = sglang_result(server_info=SERVER, tag="secret")
    result["errors"][2] = "Cannot connect to host secret.example:8000"
    tables = read_lines(tmp_path, result)
    text = str([table.to_pylist() for table in vars(tables).values()])
    assert "secret" not in text
    assert "10.1.2.3" not in text
    assert run_of(tables)["model"] == "Llama-3.1-8B"


def test_it_is_found_by_content(tmp_path: Path) -> None:
    for number, result in enumerate((OLD, sglang_result(), sglang_result(server_info=SERVER))):
        (tmp_path / f"{number}.txt").write_text(json.dumps(result))
    found = discover(tmp_path)
    assert [source.format for source in found.sources] == ["sglang"] * 3
