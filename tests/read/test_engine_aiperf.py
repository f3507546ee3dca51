from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servebook.read.discover import discover, read_tree
from servebook.tables import Tables
from tests.read.samples import record, write_lines

REAL = Path(__file__).parent.parent / "fixtures" / "engine" / "mixed_c24.json"
START, END = 1_795_976_078_189_183_140, 1_795_976_089_634_172_325
NS = 1_795_976_000_000_000_000


def values(tables: Tables, *columns: str) -> list[tuple[Any, ...]]:
    rows = tables.engine.to_pylist()
    return [tuple(row[c] for c in columns) for row in rows]


def run_with(folder: Path, **files: str | bytes) -> Tables:
    """A run of AIPerf with files beside it; "__" in a name stands for a dot."""
    write_lines(folder / "c24" / "profile_export.jsonl", record())
    for name, content in files.items():
        path = folder / "c24" / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_tree(folder)


def test_real_statistics(tmp_path: Path) -> None:
    """Values as they stand in the file; the engine had 16 slots and 24 requests in flight."""
    tables = run_with(tmp_path, server_metrics_export__json=REAL.read_bytes())
    assert tables.runs.num_rows == 1
    rows = {(m, s): v for m, s, v in values(tables, "metric", "statistic", "value")}
    assert rows["running", "p50"] == 16.0
    assert rows["running", "max"] == 16.0
    assert rows["running", "mean"] == 12.279069767441861
    assert rows["waiting", "p50"] == 8.0
    assert rows["kv_use_fraction", "max"] == 0.21002197265625
    assert rows["prompt_tokens", "total"] == 90624.0
    assert rows["cache_query_tokens", "total"] == 0.0
    assert set(values(tables, "run_id", "engine", "start_ns", "end_ns", "ts_kind")) == {
        ("c24", "engine 1", START, END, "collector")
    }
    kinds = dict(values(tables, "metric", "kind"))
    assert (kinds["running"], kinds["prompt_tokens"]) == ("gauge", "counter")
    assert tables.set_aside.num_rows == 0


def test_no_address_goes_on(tmp_path: Path) -> None:
    tables = run_with(tmp_path, server_metrics_export__json=REAL.read_bytes())
    assert "127.0.0.1" not in json.dumps(tables.engine.to_pylist())
    assert "mock-model" not in json.dumps(tables.engine.to_pylist())


def scrape(n: int, running: float, **changes: Any) -> dict[str, Any]:
    return {
        "endpoint_url": "http://gpu-host-1.example:8000/metrics",
        "timestamp_ns": NS + n * 10**9,
        "endpoint_latency_ns": 5_000_000,
        "metrics": {
            "vllm:num_requests_running": [
                {"labels": {"engine": "0", "model_name": "m"}, "value": running},
                {"labels": {"engine": "1", "model_name": "m"}, "value": 2 * running},
            ],
            "vllm:prefix_cache_hits": [{"labels": {"engine": "0"}, "value": 100.0 * n}],
            "vllm:time_to_first_token_seconds": [{"buckets": {"+Inf": 1}, "sum": 1, "count": 1}],
            "python_gc_objects_collected": [{"value": 5}],
        },
        "benchmark_phase": "profiling",
        **changes,
    }


def test_every_reading_of_the_jsonl(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(scrape(n, 4.0 + n)) for n in range(2)) + "\n"
    tables = run_with(
        tmp_path, server_metrics_export__jsonl=lines, server_metrics_export__json=REAL.read_bytes()
    )
    assert values(tables, "line", "engine", "start_ns", "end_ns", "metric", "value") == [
        (1, "engine 1", NS, NS, "running", 4.0),
        (1, "engine 2", NS, NS, "running", 8.0),
        (1, "engine 1", NS, NS, "cache_hit_tokens", 0.0),
        (2, "engine 1", NS + 10**9, NS + 10**9, "running", 5.0),
        (2, "engine 2", NS + 10**9, NS + 10**9, "running", 10.0),
        (2, "engine 1", NS + 10**9, NS + 10**9, "cache_hit_tokens", 100.0),
    ]
    assert set(values(tables, "statistic")) == {("reading",)}
    assert tables.refused.num_rows == 0


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"endpoint_url": "x", "timest', "no valid JSON"),
        (b"[1]", "expected 'timestamp_ns' and 'metrics'"),
        (json.dumps(scrape(0, 1.0, timestamp_ns=None)).encode(), "expected 'timestamp_ns'"),
        (json.dumps(scrape(0, 1.0, timestamp_ns=1.5e18)).encode(), "expected 'timestamp_ns'"),
        (json.dumps(scrape(0, 1.0, timestamp_ns=17)).encode(), "outside of the years"),
        (json.dumps(scrape(0, 1.0, metrics=None)).encode(), "'metrics'"),
        (json.dumps(scrape(0, -1.0)).encode(), "out of range"),
        (b"\xff\xfe\x00 nonsense", "no valid JSON"),
    ],
)
def test_bad_scrapes_are_set_aside(tmp_path: Path, line: bytes, reason: str) -> None:
    good = json.dumps(scrape(1, 4.0)).encode()
    tables = run_with(tmp_path, server_metrics_export__jsonl=good + b"\n" + line + b"\n")
    assert [v for v in values(tables, "line", "metric") if v[0] == 1] == [
        (1, "running"),
        (1, "running"),
        (1, "cache_hit_tokens"),
    ]
    asides = tables.set_aside.to_pylist()
    assert asides[0]["line"] == 2
    assert reason in asides[0]["reason"]


def test_time_slices_keep_their_windows(tmp_path: Path) -> None:
    found = json.loads(REAL.read_text())
    series = found["metrics"]["vllm:num_requests_running"]["series"][0]
    series["timeslices"] = [
        {"start_ns": START, "end_ns": START + 5, "avg": 3.0, "min": 0.0, "max": 5.0},
        {"start_ns": None, "end_ns": START + 9, "avg": 4.0},
    ]
    tables = run_with(tmp_path, server_metrics_export__json=json.dumps(found))
    slices = [v for v in values(tables, "statistic", "start_ns", "end_ns", "value") if "_" in v[0]]
    assert slices == [
        ("slice_mean", START, START + 5, 3.0),
        ("slice_min", START, START + 5, 0.0),
        ("slice_max", START, START + 5, 5.0),
    ]


def parquet(path: Path, rows: list[dict[str, Any]]) -> bytes:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path.read_bytes()


def parquet_rows() -> list[dict[str, Any]]:
    base = {"endpoint_url": "http://h:1/metrics", "unit": None, "description": "d", "engine": "0"}
    base |= {"sum": None, "count": None, "bucket_le": None, "bucket_count": None}
    running = {"metric_name": "vllm:num_requests_running", "metric_type": "gauge"}
    bucket = {"metric_name": "vllm:e2e_request_latency_seconds", "metric_type": "histogram"}
    return [
        {**base, **running, "timestamp_ns": NS + n, "value": float(n), "model_name": "m"}
        for n in (1, 2)
    ] + [{**base, **bucket, "timestamp_ns": NS, "value": None, "model_name": "m"}]


def test_parquet(tmp_path: Path) -> None:
    content = parquet(tmp_path / "x.parquet", parquet_rows())
    (tmp_path / "x.parquet").unlink()
    tables = run_with(tmp_path, server_metrics_export__parquet=content)
    assert values(tables, "engine", "start_ns", "metric", "value") == [
        ("engine 1", NS + 1, "running", 1.0),
        ("engine 1", NS + 2, "running", 2.0),
    ]
    torn = run_with(tmp_path, server_metrics_export__parquet=content[:-30])
    assert torn.engine.num_rows == 0


CSV = """# AIPerf Server Metrics Export (CSV)
# aiperf_version: 0.13.0
#
Endpoint,Type,Metric,Unit,avg,min,max,std,p1,p50,p99,engine,model_name,Description
h:8000,gauge,vllm:num_requests_running,requests,5.75,0.0000,8.0000,3.5,0.0,8.0000,8.0,0,m,"a, b"
h:8000,gauge,vllm:num_requests_running,requests,3.25,0.0000,4.0000,3.5,0.0,4.0000,4.0,1,m,"a, b"
h:8000,gauge,vllm:num_requests_waiting,requests,5.75,,x,3.5,0.0,nan,8.0,0,m,d
torn,gau

Endpoint,Type,Metric,Unit,total,rate,finished_reason,model_name,Description
h:8000,counter,vllm:prompt_tokens,tokens,26880.0000,2807.4,,m,d
"""


def test_csv_where_nothing_better_is_left(tmp_path: Path) -> None:
    tables = run_with(tmp_path, server_metrics_export__csv=CSV)
    got = values(tables, "engine", "metric", "statistic", "value", "start_ns")
    assert got[:5] == [
        ("engine 1", "running", "mean", 5.75, None),
        ("engine 1", "running", "min", 0.0, None),
        ("engine 1", "running", "max", 8.0, None),
        ("engine 1", "running", "p50", 8.0, None),
        ("engine 1", "running", "p99", 8.0, None),
    ]
    assert ("engine 2", "running", "p50", 4.0, None) in got
    assert [g[2] for g in got if g[1] == "waiting"] == ["mean", "p99"]
    assert got[-1][1:4] == ("prompt_tokens", "total", 26880.0)
    assert tables.set_aside.select(["line", "record"]).to_pylist() == [{"line": 8, "record": "row"}]


def test_copies_of_phases_are_companions(tmp_path: Path) -> None:
    run_with(tmp_path, server_metrics_export__json=REAL.read_bytes())
    shutil.copytree(tmp_path / "c24", tmp_path / "c24" / "phases" / "profiling")
    found = discover(tmp_path)
    assert [s.format for s in found.sources] == ["aiperf", "aiperf-server"]
    assert "c24/phases/profiling/server_metrics_export.json" in found.companions


def test_an_export_of_an_unknown_server_says_so(tmp_path: Path) -> None:
    found = json.loads(REAL.read_text())
    found["metrics"] = {"http_requests": found["metrics"]["vllm:prompt_tokens"]}
    tables = run_with(tmp_path, server_metrics_export__json=json.dumps(found))
    assert tables.engine.num_rows == 0
    assert "no metric of an engine" in tables.set_aside["reason"][0].as_py()


def test_renamed_and_compressed(tmp_path: Path) -> None:
    import gzip

    packed = gzip.compress(json.dumps(scrape(1, 4.0)).encode() + b"\n")
    tables = run_with(tmp_path, foo_server_metrics__jsonl__gz=packed)
    assert tables.engine.num_rows == 3


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damage_raises_nothing_and_loses_no_other_run(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    text = bytearray(REAL.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 30))] = data.draw(
            st.sampled_from([b"", b"null", b"NaN", b'"x"', b"1e400", b"[", b"}", b"-5", b"\xff"])
        )
    tables = run_with(folder, server_metrics_export__json=bytes(text))
    assert tables.runs.num_rows == 1
    for row in tables.engine.to_pylist():
        assert row["value"] >= 0
