from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servebook.read.discover import discover, read_tree
from servebook.read.engine_names import identity, meaning, mentions
from servebook.tables import Tables

S = 10**9
T = 1_795_973_865
PAGE = """# HELP python_gc_objects_collected_total Objects collected during gc
# TYPE python_gc_objects_collected_total counter
python_gc_objects_collected_total{generation="0"} 8174.0
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="some/model"} 5.0
vllm:num_requests_running{engine="1",model_name="some/model"} 3.0
vllm:num_requests_waiting{engine="0",model_name="some/model"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="some/model"} 0.25
vllm:prefix_cache_queries_total{engine="0",model_name="some/model"} 1.024e+06
vllm:prefix_cache_hits_total{engine="0",model_name="some/model"} 512000.0
vllm:num_preemptions_total{engine="0",model_name="some/model"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5",model_name="some/model"} 7.0
"""


def read(folder: Path, **files: str) -> Tables:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return read_tree(folder)


def values(tables: Tables, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[c] for c in columns) for row in tables.engine.to_pylist()]


def test_a_page_named_after_its_time(tmp_path: Path) -> None:
    tables = read(tmp_path, metrics_1795973865500__prom=PAGE)
    at = T * S + S // 2
    assert values(tables, "line", "engine", "start_ns", "ts_kind", "metric", "value") == [
        (6, "engine 1", at, "filename", "running", 5.0),
        (7, "engine 2", at, "filename", "running", 3.0),
        (8, "engine 1", at, "filename", "waiting", 2.0),
        (9, "engine 1", at, "filename", "kv_use_fraction", 0.25),
        (10, "engine 1", at, "filename", "cache_query_tokens", 1_024_000.0),
        (11, "engine 1", at, "filename", "cache_hit_tokens", 512_000.0),
        (12, "engine 1", at, "filename", "preemptions", 1.0),
    ]
    assert tables.engine["run_id"].null_count == 7
    assert "some/model" not in json.dumps(tables.engine.to_pylist())


def test_pages_of_a_folder_are_one_source(tmp_path: Path) -> None:
    tables = read(tmp_path, m_1795973865__txt=PAGE, m_1795973866__txt=PAGE.replace(" 5.0", " 6.0"))
    assert len(discover(tmp_path).sources) == 1
    running = values(tables, "metric", "engine", "start_ns", "value", "source")
    assert [r[2:] for r in running if r[:2] == ("running", "engine 1")] == [
        (T * S, 5.0, "m_1795973865.txt"),
        ((T + 1) * S, 6.0, "m_1795973866.txt"),
    ]


def test_a_log_of_pages(tmp_path: Path) -> None:
    log = f"### {T}.25\n{PAGE}### no time\n{PAGE}### {T + 1}\nvllm:num_requests_running 9\n"
    tables = read(tmp_path, engine__log=log)
    got = values(tables, "start_ns", "ts_kind", "metric", "value")
    assert got[0] == (T * S + S // 4, "collector", "running", 5.0)
    assert got[-1] == ((T + 1) * S, "collector", "running", 9.0)
    assert len(got) == 8
    assert [row["record"] for row in tables.set_aside.to_pylist()] == ["block"]


def test_a_torn_last_line_is_set_aside(tmp_path: Path) -> None:
    log = f"### {T}\nvllm:num_requests_waiting 1\nvllm:num_requests_running 1"  # of 16, perhaps
    tables = read(tmp_path, engine__log=log)
    assert values(tables, "metric", "value") == [("waiting", 1.0)]
    assert "ends inside" in tables.set_aside["reason"][0].as_py()


def test_samples_with_their_own_time(tmp_path: Path) -> None:
    own = f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 4 {T}125\n"
    assert values(read(tmp_path, page__prom=own), "start_ns", "ts_kind", "value") == [
        (T * S + S // 8, "device", 4.0)
    ]


def test_a_page_without_a_time_is_refused_with_the_way_out(tmp_path: Path) -> None:
    [row] = read(tmp_path, page__prom=PAGE).refused.to_pylist()
    assert "### $(date" in row["reason"]


@pytest.mark.parametrize(
    ("sample", "reason"),
    [
        ("vllm:num_requests_running NaN", "NaN"),
        ("vllm:num_requests_running +Inf", "infinite"),
        ("vllm:num_requests_running -3", "out of range"),
        ("vllm:num_requests_running many", "not a number"),
        ("vllm:num_requests_running 1 2 3", "no sample"),
        ("vllm:num_requests_running", "no sample"),
        ('vllm:num_requests_running{engine="0} 5', "no sample"),
        ("vllm:kv_cache_usage_perc 1.5", "fraction above 1"),
        ("vllm:gpu_prefix_cache_hit_rate -1", "no value yet"),
        ("vllm:num_requests_running 1e300", "out of range"),
    ],
)
def test_samples_that_cannot_be_are_set_aside(tmp_path: Path, sample: str, reason: str) -> None:
    log = f"### {T}\nvllm:num_requests_waiting 1\n{sample}\n"
    tables = read(tmp_path, engine__log=log)
    assert values(tables, "metric", "value") == [("waiting", 1.0)]
    [row] = tables.set_aside.to_pylist()
    assert (row["line"], reason in row["reason"]) == (3, True)


@pytest.mark.parametrize(
    ("name", "labels", "metric"),
    [
        ("vllm:num_requests_running", {}, "running"),
        ("vllm_num_requests_running", {}, "running"),  # as some exporters write it on
        ("vllm:gpu_cache_usage_perc", {}, "kv_use_fraction"),
        ("vllm:prefix_cache_hits", {}, "cache_hit_tokens"),
        ("vllm:prefix_cache_hits_total", {}, "cache_hit_tokens"),
        ("vllm:prefix_cache_hits_created", {}, None),  # a time, not a count
        ("vllm:external_prefix_cache_hits_total", {}, None),
        ("sglang:num_running_reqs", {"tp_rank": "0", "pp_rank": "0"}, "running"),
        ("sglang:num_running_reqs", {"tp_rank": "3"}, None),  # repeats rank 0
        ("sglang:num_queue_reqs", {"priority": ""}, "waiting"),
        ("sglang:num_queue_reqs", {"priority": "5"}, None),  # a part of the sum
        ("sglang:token_usage", {}, "kv_use_fraction"),
        ("sglang:cached_tokens_total", {"cache_source": "device"}, "cache_hit_tokens"),
        ("sglang:cached_tokens_total", {"cache_source": "host"}, None),
        ("sglang:cached_tokens_total", {}, "cache_hit_tokens"),
        ("trtllm_prompt_cached_tokens_total", {}, "cache_hit_tokens"),
        ("trtllm_kv_cache_utilization", {}, "kv_use_fraction"),
        ("nv_trt_llm_request_metrics", {"request_type": "scheduled"}, "running"),
        ("nv_trt_llm_request_metrics", {"request_type": "max"}, "slots"),
        ("nv_trt_llm_request_metrics", {"request_type": "context"}, None),
        ("nv_trt_llm_request_metrics", {}, None),
        ("tgi_batch_current_size", {}, "running"),
        ("tgi_queue_size", {}, "waiting"),
        ("llamacpp:requests_processing", {}, "running"),
        ("lmdeploy:gpu_cache_usage_perc", {}, "kv_use_fraction"),
        ("node_network_receive_bytes_total", {}, None),
        ("", {}, None),
    ],
)
def test_names(name: str, labels: dict[str, str], metric: str | None) -> None:
    found = meaning(name, labels)
    assert (found.metric if found else None) == metric
    assert not found or mentions(name.encode() + b"{")


def test_what_tells_engines_apart() -> None:
    labels = {"engine": "0", "model_name": "m", "tp_rank": "0", "request_type": "max", "pod": "b"}
    assert identity(labels) == (("engine", "0"), ("pod", "b"))


def reply(*series: dict[str, Any], **changes: Any) -> str:
    data = {"resultType": "matrix", "result": list(series)}
    return json.dumps({"status": "success", "data": data, **changes})


def running(values: list[Any], **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": "vllm:num_requests_running", **labels}, "values": values}


def test_a_prometheus_reply(tmp_path: Path) -> None:
    grid = running([[T, "5"], [T + 2, "6"], [T + 4, "7"]], instance="10.0.0.1:8000", job="v")
    scrapes = running([[T + 0.125, "1"], [T + 1.5, "2"], [T + 2.001, "x"]], instance="10.0.0.2:1")
    computed = {"metric": {}, "values": [[T, "1"]]}
    other = {"metric": {"__name__": "up"}, "values": [[T, "1"]]}
    tables = read(tmp_path, q__json=reply(grid, scrapes, computed, other))
    assert values(tables, "engine", "start_ns", "ts_kind", "value") == [
        ("engine 1", T * S, "grid", 5.0),
        ("engine 1", (T + 2) * S, "grid", 6.0),
        ("engine 1", (T + 4) * S, "grid", 7.0),
        ("engine 2", T * S + S // 8, "collector", 1.0),
        ("engine 2", T * S + 3 * S // 2, "collector", 2.0),
    ]
    reasons = tables.set_aside["reason"].to_pylist()
    assert sorted(r.partition(";")[0].partition(",")[0] for r in reasons) == [
        "a series without a name",
        "not one of the metrics that are read",
        "point: the value is not a number",
    ]
    assert "10.0.0" not in json.dumps(tables.engine.to_pylist())


def test_an_instant_vector_and_odd_points(tmp_path: Path) -> None:
    one = {"metric": {"__name__": "sglang:num_queue_reqs"}, "value": [T, "3"]}
    odd = running([[T, "5"], [], "x", [True, "1"], [-4, "1"], [T + 1]])
    tables = read(tmp_path, q__json=reply(one, odd))
    assert values(tables, "metric", "value") == [("waiting", 3.0), ("running", 5.0)]
    assert "(5 readings)" in tables.set_aside["reason"][0].as_py()


def test_an_error_reply_is_refused(tmp_path: Path) -> None:
    text = reply(running([]), status="error", error="query vllm timed out")
    [row] = read(tmp_path, q__json=text).refused.to_pylist()
    assert "reports an error" in row["reason"]
    assert "timed out" not in row["reason"]


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), as_reply=st.booleans())
def test_damage_raises_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, as_reply: bool
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    good = reply(running([[T, "5"], [T + 1, "6"]], engine="0")) if as_reply else f"### {T}\n{PAGE}"
    text = bytearray(good.encode())
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=8))
    (folder / "x.log").write_bytes(bytes(text))
    tables = read_tree(folder)
    for row in tables.engine.to_pylist():
        assert 0 <= row["value"] < 1e15
        assert row["start_ns"] > 0
