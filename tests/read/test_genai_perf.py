from __future__ import annotations

import json
import tempfile
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servebook.measure.native import compare
from servebook.measure.runs import run_metrics
from servebook.read.discover import discover, read_tree
from servebook.read.genai_perf_chunks import reply_of
from servebook.read.genai_perf_records import Call, held, released, start_of
from servebook.tables import Tables
from tests.read.samples import JUNK_VALUES, START

MS = 1_000_000
EXPORT, SUMMARY = "profile_export.json", "profile_export_genai_perf.json"


def event(text: str = "SECRET", **more: Any) -> str:
    return "data: " + json.dumps({"choices": [{"delta": {"content": text}}], **more}) + "\n\n"


USAGE = event("", usage={"prompt_tokens": 16, "completion_tokens": 3})


def request(start: int = START, **changes: Any) -> dict[str, Any]:
    """Three tokens at 20, 30 and 50 ms, then a usage chunk and the end of the stream at 60 ms."""
    payload = {"model": "m", "stream": True, "messages": [{"content": "SECRET"}], "max_tokens": 3}
    return {
        "timestamp": start,
        "request_inputs": {"payload": json.dumps(payload)},
        "response_timestamps": [start + t * MS for t in (10, 20, 30, 50, 60, 60)],
        "response_outputs": [
            {"response": text}
            for text in (event(""), event(), event(), event(), USAGE, "data: [DONE]\n\n")
        ],
    } | changes


def export(requests: Any, *more: Any, mode: str = "concurrency", value: Any = 2) -> dict[str, Any]:
    experiments = [
        {
            "experiment": {"mode": mode, "value": value},
            "requests": requests,
            "window_boundaries": [],
        }
    ]
    return {
        "experiments": [*experiments, *more],
        "version": "2.50.0",
        "service_kind": "openai",
        "endpoint": "v1/chat/completions",
    }


def summary(**changes: Any) -> dict[str, Any]:
    """What GenAI-Perf would say of one request like ``request``."""
    return {
        "request_throughput": {"unit": "requests/sec", "avg": 20.0},
        "request_latency": {"unit": "ms", "avg": 50.0, "p50": 50.0, "max": 50.0},
        "time_to_first_token": {"unit": "ms", "avg": 20.0, "p99": 20.0},
        "inter_token_latency": {"unit": "ms", "avg": 15.0},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 60.0},
        "request_count": {"unit": "count", "avg": 1},
        "input_config": {
            "model": ["a/a-model"],
            "formatted_model_name": "a-model",
            "streaming": True,
            "concurrency": 2,
            "synthetic_input_tokens_mean": 16,
            "output_tokens_mean": -1,
            "u": "http://10.0.0.1:8000",
        },
    } | changes


CSV = """Metric,avg,min,max,p99,p95,p90,p75,p50,p25
Time To First Token (ms),20.00,20.00,20.00,20.00,20.00,20.00,20.00,20.00,20.00
Request Latency (ms),"1,050.00",50.00,50.00,50.00,50.00,50.00,50.00,50.00,50.00
Inter Token Latency (ms),15.00,15.00,15.00,15.00,15.00,15.00,15.00,15.00,15.00

Metric,Value
Output Token Throughput (per sec),60.00
Request Throughput (per sec),20.00
Request Count (count),1.00
"""


def read(folder: Path, raw: Any = None, told: Any = None) -> Tables:
    for name, value in ((EXPORT, raw), (SUMMARY, told)):
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            (folder / name).write_text(text)
    return read_tree(folder)


def test_responses_with_content_are_the_tokens(tmp_path: Path) -> None:
    tables = read(tmp_path, export([request()]), summary())
    assert len(discover(tmp_path).sources) == 1
    (row,) = tables.requests.to_pylist()
    assert row["start_ns"] == START
    assert row["first_token_ns"] - START == 20 * MS
    assert row["end_ns"] - START == 50 * MS
    assert (row["isl"], row["osl"], row["osl_requested"]) == (16, 3, 3)
    assert tables.gaps["gap_ns"].to_pylist() == [10 * MS, 20 * MS]
    (run,) = tables.runs.to_pylist()
    expected = {
        "client": "GenAI-Perf",
        "model": "a/a-model",
        "concurrency": 2,
        "clock": "epoch",
        "n_ok": 1,
        "isl_requested": 16,
        "osl_requested": None,
        "streaming": True,
        "tokens_counted_by": "server",
    }
    assert {key: run[key] for key in expected} == expected
    assert "SECRET" not in str(run) + str(row)
    assert "10.0.0.1" not in str(run)


def test_its_figures_are_met(tmp_path: Path) -> None:
    tables = read(tmp_path, export([request()]), summary())
    found = compare(tables, run_metrics(tables)).set_index("metric")
    same = found[found["same_definition"]]
    assert {"ttft_mean_ms", "e2e_mean_ms", "request_throughput_req_s"} <= set(same.index)
    assert same["deviation"].abs().max() < 1e-9
    theirs = found[~found["same_definition"]]
    assert set(theirs.index) == {"tpot_mean_ms", "output_throughput_tok_s"}
    assert theirs["theirs_deviation"].abs().max() < 1e-9
    assert "own tokenizer" in theirs.loc["tpot_mean_ms", "reason"]


def test_a_request_without_a_reply_is_failed_and_counts_there(tmp_path: Path) -> None:
    empty = request(
        START + MS, response_timestamps=[START + 2 * MS], response_outputs=[{"response": ""}]
    )
    told = summary(request_throughput={"unit": "requests/sec", "avg": 40.0})
    tables = read(tmp_path, export([request(), empty]), told)
    assert tables.requests["status"].to_pylist() == ["ok", "failed"]
    found = compare(tables, run_metrics(tables)).set_index("metric")
    row = found.loc["request_throughput_req_s"]
    assert (row["ours"], row["theirs_recomputed"]) == (pytest.approx(20.0), pytest.approx(40.0))


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        ([event(), event()], [0, 1]),
        ([event("") + event(), event()], [0, 1]),  # two events in one read
        ([event()[:20], event()[20:], event()], [0, 2]),  # one event in two
        (["data: [DONE]\n\n", ": comment\n\n", event()], [2]),
        ([event("", usage={"completion_tokens": 1})], []),
        (['{"choices": [{"message": {"content": "x"}}]}'], [0]),
        (['data: {"text_output": "x"}\n\n', 'data: {"text_output": ""}\n\n'], [0]),
        (['{"choices": [{"text": "x"}]}'], [0]),
        ([""], []),
    ],
)
def test_which_responses_carry_content(texts: list[str], kept: list[int]) -> None:
    reply = reply_of(range(len(texts)), [{"response": text} for text in texts])
    assert reply.times == kept


def test_tensors_of_triton() -> None:
    outputs = [
        {"text_output": "x", "model_name": "m"},
        {"text_output": "", "model_name": "m"},
        {"output_ids": [1, 2]},
        {},
        None,
    ]
    assert reply_of(range(5), outputs).times == [0, 2]


def test_an_error_inside_the_stream(tmp_path: Path) -> None:
    bad = 'data: {"error": {"message": "at 10.0.0.1"}}\n\n'
    outputs = [{"response": t} for t in (event(), event(), event(), event(), bad, "")]
    (row,) = read(tmp_path, export([request(response_outputs=outputs)])).requests.to_pylist()
    assert (row["status"], row["error_kind"], row["osl"]) == ("failed", "stream_error", None)


@pytest.mark.parametrize(
    ("body", "osl", "by"),
    [
        ({"max_tokens": 7, "min_tokens": 7}, 7, "nominal"),
        ({"max_tokens": [7], "min_tokens": [7]}, 7, "nominal"),
        ({"max_tokens": 7}, None, None),
        ({}, None, None),
    ],
)
def test_tokens_without_usage(tmp_path: Path, body: Any, osl: int | None, by: str | None) -> None:
    outputs = [{"response": event() if i < 3 else ""} for i in range(6)]
    inputs = {"payload": json.dumps({"model": "m", "stream": True, **body})}
    value = request(request_inputs=inputs, response_outputs=outputs)
    tables = read(tmp_path, export([value]))
    assert tables.requests["osl"].to_pylist() == [osl]
    assert tables.runs["tokens_counted_by"].to_pylist() == [by]
    assert np.isnan(run_metrics(tables)["output_throughput_tok_s"][0]) == (osl is None)


def test_a_reply_that_is_not_streamed_has_no_ttft(tmp_path: Path) -> None:
    value = request(
        request_inputs={"payload": json.dumps({"model": "m", "max_tokens": 3})},
        response_timestamps=[START + 50 * MS],
        response_outputs=[{"response": '{"choices": [{"message": {"content": "x"}}]}'}],
    )
    told = summary(time_to_first_token={"unit": "ms", "avg": 50.0})
    tables = read(tmp_path, export([value]), told)
    row = compare(tables, run_metrics(tables)).set_index("metric").loc["ttft_mean_ms"]
    assert np.isnan(row["ours"])
    assert row["theirs_recomputed"] == pytest.approx(50.0)
    assert "not streamed" in row["reason"]


def test_every_experiment_is_a_run(tmp_path: Path) -> None:
    other = {"experiment": {"mode": "request_rate", "value": 1.5}, "requests": [request(5 * MS)]}
    tables = read(tmp_path, export([request()], other, {"experiment": {}, "requests": "x"}))
    first, second = tables.runs.to_pylist()
    assert (first["concurrency"], second["concurrency"], second["request_rate"]) == (2, None, 1.5)
    assert second["run_id"].endswith("#2")
    assert (second["clock"], second["start_ns"], second["end_ns"]) == ("relative", 0, 50 * MS)
    assert tables.set_aside["record"].to_pylist() == ["experiment 2, requests"]


def test_perf_analyzer_alone_and_without_texts(tmp_path: Path) -> None:
    value = {"timestamp": START, "response_timestamps": [START + 20 * MS, START + 30 * MS]}
    (row,) = read(tmp_path, export([value])).requests.to_pylist()
    assert (row["status"], row["first_token_ns"] - START) == ("ok", 20 * MS)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_summary_alone_is_a_summary_row(tmp_path: Path, form: str) -> None:
    if form == "json":
        tables = read(tmp_path, None, summary())
    else:
        (tmp_path / "profile_export_genai_perf.csv").write_text(CSV)
        tables = read_tree(tmp_path)
    (run,) = tables.runs.to_pylist()
    assert (run["level"], run["n_ok"]) == ("summary", 1)
    native = json.loads(run["native"])
    assert (native["ttft_mean_ms"], native["tpot_mean_ms"]) == (20.0, 15.0)
    assert native["output_throughput_tok_s"] == 60.0
    assert native["e2e_mean_ms"] == (50.0 if form == "json" else 1050.0)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("profile_export_aiperf.csv", "Metric,avg,min,max,p99,p95,p90,p75,p50,p25"),
        ("table.csv", "Metric,avg,min,max,sum,p1,p5,p10,p25,p50,p75,p90,p95,p99,std"),
        ("table.csv", "Metric,avg,min,max,p99,p95,p90,p75,p50,p25,std"),
    ],
)
def test_the_table_of_aiperf_is_no_run(tmp_path: Path, name: str, header: str) -> None:
    (tmp_path / name).write_text(CSV.replace(CSV.splitlines()[0], header))
    assert read_tree(tmp_path).runs.num_rows == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"timestamp": 1.5}, "timestamp"),
        ({"timestamp": -1}, "timestamp"),
        ({"timestamp": START + 25 * MS}, "corrected clock"),
        ({"response_timestamps": None}, "response_timestamps"),
        ({"response_timestamps": [START + 10**30] * 6}, "response_timestamps"),
        ({"response_outputs": []}, "an output for each response"),
        ({"timestamp": 5}, "years"),
    ],
)
def test_a_bad_request_is_set_aside(tmp_path: Path, changes: Any, why: str) -> None:
    tables = read(tmp_path, export([request(), request(**changes)]))
    assert tables.requests.num_rows == 1
    (aside,) = tables.set_aside.to_pylist()
    assert why in aside["reason"]
    assert aside["record"] == "experiment 0, request 1"


@pytest.mark.parametrize(
    "value",
    [
        json.dumps(export([request()]))[:-5],
        export([]),
        export([1, 2]),
        export("x"),
        json.dumps(summary())[:-1],
    ],
)
def test_refused(tmp_path: Path, value: Any) -> None:
    told = isinstance(value, str) and "experiments" not in value
    tables = read(tmp_path, *((None, value) if told else (value, None)))
    assert tables.runs.num_rows == 0
    assert tables.refused.num_rows == 1


@given(st.lists(JUNK_VALUES, max_size=4), st.data())
def test_junk_among_requests_is_counted(junk: list[Any], data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(sorted(request())))
    requests = [request(), *junk, request() | {field: data.draw(JUNK_VALUES)}]
    told = summary() | {data.draw(st.sampled_from(sorted(summary()))): data.draw(JUNK_VALUES)}
    with tempfile.TemporaryDirectory() as folder:
        tables = read(Path(folder), export(requests), told)
    aside = [r for r in tables.set_aside["record"].to_pylist() if r != "summary"]
    assert tables.requests.num_rows + len(aside) == len(requests)


COUNTS = st.none() | st.integers(0, 2**53)
TIMES = st.integers(0, 2**62 - 1)


@given(
    start=TIMES,
    times=st.lists(TIMES, max_size=5),
    ok=st.booleans(),
    counts=st.tuples(COUNTS, COUNTS, COUNTS, COUNTS),
    counted_by=st.sampled_from([None, "server", "nominal"]),
    streamed=st.booleans(),
)
def test_a_call_that_was_held_is_the_same(
    start: int,
    times: list[int],
    ok: bool,
    counts: tuple[int | None, ...],
    counted_by: str | None,
    streamed: bool,
) -> None:
    how = ("ok", None) if ok else ("failed", "stream_error")
    call = Call(start, array("q", times), *how, *counts, counted_by, streamed)
    assert start_of(held(call)) == start
    assert released(held(call)) == call
