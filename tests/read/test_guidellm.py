from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from servebook.measure.native import compare
from servebook.measure.runs import run_metrics
from servebook.read.discover import discover, read_tree
from servebook.tables import Tables
from tests.read.guidellm_samples import (
    OK,
    START,
    benchmark,
    distribution,
    entry,
    layout_0_3,
    old_entry,
    report,
    schema_1,
)

MS = 1_000_000
T0 = int(START) * 1000 * MS
NO_COUNT: dict[str, Any] = {"output_tokens": None, "output_metrics": {}}


def read(tmp_path: Path, content: Any, name: str = "benchmarks.json") -> Tables:
    (tmp_path / "a").mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / "a" / name).write_text(text)
    return read_tree(tmp_path)


def run_of(tables: Tables) -> dict[str, Any]:
    run: dict[str, Any]
    (run,) = tables.runs.to_pylist()
    return run


def near(value: int | None, expected: int) -> bool:
    return value is not None and abs(value - expected) <= 300  # a float's step in epoch ns


def compared(tables: Tables) -> dict[str, dict[Any, Any]]:
    rows = compare(tables, run_metrics(tables)).to_dict("records")
    return {f"{row['metric']}@{row['variant']}".rstrip("@"): row for row in rows}


def test_entries_become_requests(tmp_path: Path) -> None:
    first, second = read(tmp_path, report(benchmark(OK))).requests.to_pylist()
    assert (first["request_id"], first["status"], first["osl"]) == ("successful-0", "ok", 3)
    assert near(first["start_ns"], T0)
    assert near(first["first_token_ns"], T0 + 10 * MS)
    assert near(first["end_ns"], T0 + 20 * MS)  # the last token, not the end of the response
    assert near(second["end_ns"], T0 + 160 * MS)
    assert first["scheduled_ns"] is None  # two streams have no schedule


def test_run(tmp_path: Path) -> None:
    run = run_of(read(tmp_path, report(benchmark(OK))))
    expected = {
        "run_id": "a",
        "format": "guidellm",
        "client": "guidellm",
        "client_version": "0.8.1",
        "schema_version": "2",
        "model": "a-model",
        "concurrency": 2,
        "request_rate": None,
        "isl_requested": 16,
        "osl_requested": 3,
        "clock": "epoch",
        "n_requests": 2,
        "n_ok": 2,
        "n_lost": 0,
        "n_gaps": 0,
        "streaming": True,
        "level": "records",
    }
    assert {key: run[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("strategy", "concurrency", "rate"),
    [
        ({"type_": "synchronous"}, 1, None),
        ({"type_": "concurrent", "streams": 8}, 8, None),
        ({"type_": "throughput", "max_concurrency": 64}, 64, None),
        ({"type_": "throughput", "max_concurrency": None}, None, None),
        ({"type_": "constant", "rate": 2.5, "max_concurrency": 10240}, None, 2.5),
        ({"kind": "poisson", "rate": 4}, None, 4.0),
        ({"type_": ["concurrent"]}, None, None),
        ("concurrent", None, None),
    ],
)
def test_the_load(
    tmp_path: Path, strategy: Any, concurrency: int | None, rate: float | None
) -> None:
    one = benchmark(OK)
    one["config"]["strategy"] = strategy
    tables = read(tmp_path, report(one))
    run = run_of(tables)
    assert (run["concurrency"], run["request_rate"]) == (concurrency, rate)
    scheduled = tables.requests["scheduled_ns"].to_pylist()
    assert (None not in scheduled) == (rate is not None)


def test_schema_1(tmp_path: Path) -> None:
    run = run_of(read(tmp_path, schema_1(benchmark(OK))))
    assert (run["client_version"], run["schema_version"]) == ("0.6.0", "1")
    assert (run["model"], run["isl_requested"], run["osl_requested"]) == ("a-model", 16, 3)


def test_the_layout_of_0_3(tmp_path: Path) -> None:
    done = [old_entry(0.0, 0.010, 0.010, 3), old_entry(0.1, 0.020, 0.040, 5)]
    # Cut off: its output length is the one asked for, its times per token are nonsense.
    cut = old_entry(0.2, 0.0, 0.0, 128, first_token_time=None, last_token_time=None)
    tables = read(tmp_path, layout_0_3(done, [cut | {"error": "TimeoutError: secret"}]))
    run = run_of(tables)
    assert (run["client_version"], run["schema_version"]) == (None, None)
    assert (run["model"], run["request_rate"], run["concurrency"]) == ("a/model", 10.0, None)
    assert (run["n_ok"], run["n_cancelled"], run["isl_requested"]) == (2, 1, 16)
    last = tables.requests.to_pylist()[-1]
    assert (last["status"], last["error_kind"], last["osl"]) == ("cancelled", "cancelled", None)
    assert near(last["scheduled_ns"], T0 + 198 * MS)


@pytest.mark.parametrize(
    ("group", "changes", "status", "kind", "osl"),
    [
        ("successful", {}, "ok", None, 3),
        (
            "successful",
            {"output_tokens": None, "output_metrics": {}},
            "failed",
            "stream_error",
            None,
        ),
        ("successful", {"output_tokens": 0}, "failed", "stream_error", None),
        ("errored", {"error": "HTTP status 503"}, "failed", "http_503", None),
        ("errored", {"error": 7}, "failed", "other", None),
        ("incomplete", {}, "cancelled", "cancelled", None),
        ("errored", {"timings": {"request_start": None}}, "failed", "other", None),
    ],
)
def test_how_a_request_ended(
    tmp_path: Path,
    group: str,
    changes: dict[str, Any],
    status: str,
    kind: str | None,
    osl: int | None,
) -> None:
    one = entry(0.0, 0.01, 0.01, 3, **changes)
    row = read(tmp_path, report(benchmark(**{group: [one]}))).requests.to_pylist()[0]
    assert (row["status"], row["error_kind"], row["osl"]) == (status, kind, osl)


def test_empty_groups_are_no_zeros(tmp_path: Path) -> None:
    own = {
        "time_to_first_token_ms": distribution(mean=15.0),
        "inter_token_latency_ms": distribution(mean=0.0, count=0),
        "requests_per_second": {},
        "request_latency": None,
    }
    run = run_of(read(tmp_path, report(benchmark(OK, metrics=own))))
    native = json.loads(run["native"])
    assert not [name for name in native if name.startswith(("tpot", "e2e", "request"))]


def test_a_report_without_requests_is_a_summary(tmp_path: Path) -> None:
    made = {"successful": 5, "errored": 1, "incomplete": 2, "total": 8}
    own = {
        "prompt_token_count": distribution(mean=16.0),
        "output_token_count": distribution(mean=128.0),
        "time_to_first_token_ms": distribution(mean=15.0),
    }
    one = benchmark(metrics=own, scheduler_metrics={"requests_made": made})
    tables = read(tmp_path, report(one))
    run = run_of(tables)
    assert (run["level"], run["n_requests"], run["workload"]) == ("summary", 8, "decode")
    assert (run["n_ok"], run["n_failed"], run["n_cancelled"]) == (5, 1, 2)
    assert near(run["start_ns"], T0)
    assert run_metrics(tables)["ttft_mean_ms"].isna().all()


def test_a_sample_of_requests_is_set_aside(tmp_path: Path) -> None:
    one = benchmark(OK)
    one["config"]["sample_size"] = 2
    one["scheduler_metrics"]["requests_made"]["total"] = 9
    tables = read(tmp_path, report(one))
    assert run_of(tables)["level"] == "summary"
    assert tables.requests.num_rows == 0
    assert (
        tables.set_aside["reason"].to_pylist()
        == ["one of a sample of 2 of 9: no rate follows from it"] * 2
    )


def test_requests_without_times_leave_the_summary(tmp_path: Path) -> None:
    tables = read(tmp_path, report(benchmark([{"output": "private"}] * 3)))
    run = run_of(tables)
    assert (run["level"], run["n_ok"], tables.set_aside.num_rows) == ("summary", 3, 3)
    assert json.loads(run["native"])["ttft_mean_ms"] == 15.0


@pytest.mark.parametrize(
    ("args", "concurrency", "rate"),
    [
        ({"profile": "concurrent", "rate": [32]}, 32, None),
        ({"profile": "constant", "rate": [2.5]}, None, 2.5),
        ({"profile": "concurrent", "rate": [2, 4]}, None, None),
        ({"profile": ["concurrent"], "rate": "x"}, None, None),
    ],
)
def test_a_reduced_report_of_schema_1(
    tmp_path: Path, args: dict[str, Any], concurrency: int | None, rate: float | None
) -> None:
    one = benchmark(OK)
    del one["config"]["strategy"]
    content = schema_1(one)
    content["args"] |= args
    run = run_of(read(tmp_path, content))
    assert (run["concurrency"], run["request_rate"]) == (concurrency, rate)


def test_requests_without_a_record_are_lost(tmp_path: Path) -> None:
    one = benchmark(OK)
    one["scheduler_metrics"]["requests_made"]["total"] = 5
    assert run_of(read(tmp_path, report(one)))["n_lost"] == 3


def test_no_request_was_made(tmp_path: Path) -> None:
    run = run_of(read(tmp_path, report(benchmark(metrics={}))))
    assert (run["level"], run["n_requests"], run["notes"]) == (
        "summary",
        0,
        ["no request was made"],
    )


def test_what_a_cut_off_warm_up_leaves(tmp_path: Path) -> None:
    one = benchmark(OK, start_time=START + 0.05, duration=0.2)
    one["config"]["warmup"] = {"percent": 0.1, "value": None}
    tables = read(tmp_path, report(one))
    assert tables.requests["phase"].to_pylist() == ["warmup", "profiling"]
    assert run_of(tables)["n_warmup"] == 1
    assert math.isnan(compared(tables)["duration_s"]["theirs_recomputed"])


def test_each_strategy_is_a_run(tmp_path: Path) -> None:
    tables = read(tmp_path, report(benchmark(OK), 5, benchmark(OK), {"type_": "embeddings"}))
    assert tables.runs["run_id"].to_pylist() == ["a", "a#2"]
    assert tables.set_aside["record"].to_pylist() == ["benchmark 1", "benchmark 3"]


@pytest.mark.parametrize(
    "changes",
    [
        {"timings": {"request_start": None}},
        {"timings": {"request_start": 5.0}},
        {"timings": {"request_start": 9.5e9}},  # its ns would not fit
        {"timings": {"first_token_iteration": START - 1}},
        {"timings": {"last_token_iteration": "1795973256"}},
        {"timings": {"request_end": START + 1e9}},
        {"timings": {"request_end": math.nan}},
        {"output_tokens": -1},
        {"output_tokens": 2.5},
        {"prompt_tokens": "16"},
        {"prompt_tokens": 10**30},
    ],
)
def test_a_bad_entry_is_set_aside(tmp_path: Path, changes: dict[str, Any]) -> None:
    bad = entry(0.0, 0.01, 0.01, 3, **changes)
    tables = read(tmp_path, report(benchmark([OK[0], bad, "x", OK[1]])))
    assert tables.requests["request_id"].to_pylist() == ["successful-0", "successful-3"]
    records = [f"benchmark 0: successful request {n}" for n in (1, 2)]
    assert tables.set_aside["record"].to_pylist() == records
    # What its definitions need is still in step with the requests.
    assert len(json.loads(run_of(tables)["native"])["_tail_ns"]) == 2


def test_nothing_private_enters_a_table(tmp_path: Path) -> None:
    failed = entry(0.0, 0.01, 0.01, 3, error="connect to secret.example failed")
    for content in (report(benchmark(OK, [failed])), schema_1(benchmark(OK)), layout_0_3()):
        tables = read(tmp_path, content)
        assert "secret" not in str([table.to_pylist() for table in vars(tables).values()])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"benchmarks": [], "metadata": {"guidellm_version": "1"}}', "no benchmark in it"),
        ('{"benchmarks": {}, "metadata": {"guidellm_version": "1"}}', "no benchmark in it"),
        (
            '{"benchmarks": [{"metrics": {}}], "metadata": {"guidellm_version": "1"}}',
            "one without usable requests and without figures",
        ),
        ('{"benchmarks": [7], "metadata": {"guidellm_version": "1"}}', "another value"),
        ('{"guidellm_version": 1, "benchmarks": [', "the file is torn there"),
        ('{"guidellm_version": 1, "benchmarks":' + "[" * 10_000, "no valid JSON"),
        ('{"guidellm_version": 1, "benchmarks": [], "benchmarks": []}', "'benchmarks' twice"),
        ("benchmarks:\n- guidellm: [", "no valid YAML"),
        ("benchmarks:\n- guidellm: " + "[" * 10_000, "no valid YAML"),
        ("benchmarks: []\nbenchmarks: []  # guidellm", "a key twice"),
        ("benchmarks: !!python/name:os.system guidellm", "no valid YAML"),
        ("benchmarks: guidellm", "no benchmark in it"),
        ("benchmarks: 2026-99-99 # guidellm", "no valid YAML"),
    ],
)
def test_a_report_that_cannot_be_used_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (refused,) = read(tmp_path, text).refused.to_pylist()
    assert refused["path"] == "a/benchmarks.json"
    assert words in refused["reason"]


def test_yaml_reads_as_json_does(tmp_path: Path) -> None:
    content = report(benchmark(OK), benchmark(OK[:1]))
    for folder in ("json", "yaml"):
        (tmp_path / folder).mkdir()
    as_json = read(tmp_path / "json", content)
    as_yaml = read(tmp_path / "yaml", yaml.safe_dump(content), "benchmarks.yaml")
    assert as_yaml.requests.equals(as_json.requests)
    drop = ["path", "sha256"]
    assert as_yaml.runs.drop_columns(drop).equals(as_json.runs.drop_columns(drop))


def test_a_twin_counts_once(tmp_path: Path) -> None:
    content = report(benchmark(OK))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "benchmarks.csv").write_text("Run Info,Run Info\nToken Metrics,x\n")
    (tmp_path / "a" / "benchmarks.yaml").write_text(yaml.safe_dump(content))
    tables = read(tmp_path, content)
    assert tables.runs["path"].to_pylist() == ["a/benchmarks.json"]
    assert tables.refused.num_rows == 0


def test_reports_of_one_kind_are_never_twins(tmp_path: Path) -> None:
    for number, name in enumerate(("run.1.json", "run.2.json", "run.2.yaml", "run.3.yaml")):
        text = report(benchmark([entry(number if number < 2 else 1, 0.01, 0.01, 3 + number)]))
        (tmp_path / name).write_text(json.dumps(text) if "json" in name else yaml.safe_dump(text))
    found = discover(tmp_path).sources
    assert [source.main.name for source in found] == ["run.1.json", "run.2.json", "run.3.yaml"]
    assert [path.name for path in found[1].files] == ["run.2.json", "run.2.yaml"]


def test_a_csv_alone_is_refused_with_help(tmp_path: Path) -> None:
    (refused,) = read(tmp_path, "Run Info,Run Info\nToken Metrics,x\n", "b.csv").refused.to_pylist()
    assert "--output kind=json" in refused["reason"]


def test_it_is_found_by_content(tmp_path: Path) -> None:
    done = [old_entry(0.0, 0.010, 0.010, 3)]
    for number, content in enumerate((report(benchmark(OK)), layout_0_3(done))):
        (tmp_path / f"{number}.txt").write_text(json.dumps(content))
        (tmp_path / f"{number}-yaml.txt").write_text(yaml.safe_dump(content))
    assert [source.format for source in discover(tmp_path).sources] == ["guidellm"] * 4
