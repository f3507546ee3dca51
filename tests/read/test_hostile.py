"""Values that no client writes: a record that holds one is set aside, and no other suffers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servebook.read import source as source_module
from servebook.read.discover import read_tree
from servebook.read.inspect import inspect
from servebook.read.source import Format, Source
from servebook.tables import Tables
from tests.read.samples import failed, record, vllm_result, write_lines

EPOCH = 1_795_973_865


def metric(name: str, value: Any, unit: str = "ms") -> dict[str, Any]:
    changed = record(0)
    changed["metrics"][name] = {"value": value, "unit": unit}
    return changed


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (record(0, metadata={"request_start_ns": 2**63 - 10}), "expected 'request_start_ns'"),
        (record(0, metadata={"request_end_ns": 2**64}), "expected epoch ns in 'request_end_ns'"),
        (metric("inter_chunk_latency", [1e12, 1e12], "sec"), "found a sum of years"),
        (metric("inter_chunk_latency", [1e308, 1e308], "sec"), "found others"),
        (metric("inter_chunk_latency", ["1", 2.0]), "found others"),
        (metric("inter_chunk_latency", [True, False]), "found others"),
        (metric("inter_chunk_latency", [[1.0], [2.0]]), "found others"),
        (metric("inter_chunk_latency", [[1.0], [2.0, 3.0]]), "found others"),
    ],
)
def test_records_that_cannot_be(tmp_path: Path, odd: dict[str, Any], reason: str) -> None:
    write_lines(tmp_path / "profile_export.jsonl", record(1), odd)
    tables = read_tree(tmp_path)
    (aside,) = tables.set_aside.to_pylist()
    assert (aside["line"], tables.requests.num_rows) == (2, 1)
    assert reason in aside["reason"]


@pytest.mark.parametrize("number", [10**18, 10**30, -5, True, "3", None, [1], 1e300])
def test_absurd_session_numbers_prove_no_loss(tmp_path: Path, number: Any) -> None:
    odd = record(2, metadata={"session_num": number})
    write_lines(tmp_path / "profile_export.jsonl", record(0), record(1), odd)
    tables = read_tree(tmp_path)
    assert (tables.requests.num_rows, tables.runs["n_lost"].to_pylist()) == (3, [None])


@pytest.mark.parametrize("value", [[1], {}, None, "x"])
def test_any_phase_index(tmp_path: Path, value: Any) -> None:
    odd = record(0, metadata={"phase_index": value, "benchmark_phase": value})
    write_lines(tmp_path / "profile_export.jsonl", odd)
    assert read_tree(tmp_path).runs["n_ok"].to_pylist() == [1]


@pytest.mark.parametrize(
    "line",
    [
        b'[{"x_request_id":"request-8"}]',
        json.dumps(
            {
                "metadata": {"x_request_id": "request-8"},
                "start_perf_ns": 0,
                "responses": [
                    {"perf_ns": at, "packets": [{"value": '{"choices":[{"text":"x"}]}'}]}
                    for at in (1, 2**63 - 5)
                ],
            }
        ).encode(),
    ],
)
def test_odd_raw_lines_add_nothing(tmp_path: Path, line: bytes) -> None:
    write_lines(tmp_path / "profile_export.jsonl", failed(8, 500, "HTTPError"))
    write_lines(tmp_path / "profile_export_raw.jsonl", b'{"responses":[]}', line)
    (row,) = read_tree(tmp_path).requests.to_pylist()
    assert (row["error_kind"], row["first_token_ns"]) == ("http_500", None)


@pytest.mark.parametrize(
    ("changes", "used"),
    [
        ({"start_times": [0.5, 1e11, 0.75]}, 2),
        ({"start_times": [-1.0, 2.0, 3.0]}, 2),
        ({"itls": [[1e8] * 200, [0.005, 0.005], []]}, 2),
        ({"itls": [["0.1"], [0.005, 0.005], []]}, 2),
        ({"itls": [0.1, [0.005, 0.005], []]}, 2),
        ({"output_lens": [None, 1, None]}, 3),
        ({"request_rate": 10**300, "max_concurrency": 10**30}, 3),
        ({"dataset_name": "random", "tp": "8"}, 3),  # metadata that somebody gave
    ],
)
def test_results_with_odd_values(tmp_path: Path, changes: dict[str, Any], used: int) -> None:
    (tmp_path / "result.json").write_text(json.dumps(vllm_result(**changes)))
    tables = read_tree(tmp_path)
    assert (tables.requests.num_rows, tables.set_aside.num_rows) == (used, 3 - used)


def test_a_start_of_zero_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(vllm_result(start_times=[1584.5, 1584.75, 0.0])))
    (tmp_path / "b.json").write_text(json.dumps(vllm_result(start_times=[0.0, 0.0, 0.0])))
    tables = read_tree(tmp_path)
    assert tables.runs["clock"].to_pylist() == ["relative", "none"]
    # 0.25 s after the first, TTFT 20 ms, gaps of 5 and 5 ms.
    assert tables.runs["end_ns"].to_pylist() == [280_000_000, None]
    assert tables.requests["start_ns"].to_pylist() == [0, 250_000_000, None, 0, 0, 0]
    assert tables.runs["n_failed"].to_pylist() == [1, 1]


def test_without_gaps_and_latencies_the_end_is_unknown(tmp_path: Path) -> None:
    result = vllm_result(output_lens=[3, 1, 0])
    del result["itls"]
    (tmp_path / "result.json").write_text(json.dumps(result))
    ends = read_tree(tmp_path).requests["end_ns"].to_pylist()
    assert ends == [None, 270_000_000, None]


def prometheus(values: list[Any], **more: Any) -> str:
    labels = {"__name__": "node_network_receive_bytes_total", "device": "eth0", "job": "node"}
    data = {"resultType": "matrix", "result": [{"metric": labels, "values": values}]}
    return json.dumps({"status": "success", "data": data, **more})


def link(at: str) -> str:
    stats = {"rx": {"bytes": 1}, "tx": {}}
    return f'{{"iso": "{at}", "link": {json.dumps([{"ifname": "eth0", "stats64": stats}])}}}\n'


def event(at: Any, name: str = "eth0") -> dict[str, Any]:
    values = {"/state/counters/in-octets": "5"}
    return {"timestamp": at, "tags": {"interface_name": name}, "values": values}


WALK = f"### {EPOCH}\nIF-MIB::ifHCInOctets.1 = Counter64: 5\n"
UPTIME = "DISMAN-EVENT-MIB::sysUpTimeInstance = Timeticks: "


@pytest.mark.parametrize(
    ("name", "content", "used", "reason"),
    [
        ("p.json", prometheus([[EPOCH, "1"], [1e30, "2"]]), 1, "outside of the years"),
        ("p.json", prometheus([[EPOCH, "1"], [-5, "2"]]), 1, "outside of the years"),
        ("p.json", prometheus([[EPOCH, "1"]], warnings=True), 1, "the server sent warnings"),
        ("i.jsonl", link("2026-11-29T17:00:00Z") + link("9999-12-31T00:00:00Z"), 1, "outside"),
        ("w.log", WALK + UPTIME + "(" + "9" * 400 + ") 1:2\n", 1, "no time ticks"),
        ("w.log", WALK + UPTIME + "9" * 400 + "\n", 1, "no time ticks"),
        ("c.csv", f"ts_ns,rx_bytes\n{EPOCH}000000000,5\n{'9' * 25},5\n", 1, "outside"),
        ("c.csv", f"ts,rx_bytes,speed_bps\n{EPOCH},5,1e999\n", 1, "the value is out of range"),
        ("g.json", json.dumps([event(EPOCH * 10**9), event(True)]), 1, "no `timestamp` in ns"),
        ("g.json", json.dumps([event(EPOCH * 10**9), event(2**63)]), 1, "outside"),
        (
            "m_1795973865157.prom",
            "# HELP x\nnode_network_receive_bytes_total 5\nnode_network_receive_bytes_total 6 x\n",
            1,
            "no epoch time",
        ),
    ],
)
def test_odd_readings(tmp_path: Path, name: str, content: str, used: int, reason: str) -> None:
    (tmp_path / name).write_text(content)
    tables = read_tree(tmp_path)
    (aside,) = tables.set_aside.to_pylist()
    assert (tables.samples.num_rows, reason in aside["reason"]) == (used, True)


def test_halves_of_characters_are_storable(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(json.dumps([event(EPOCH * 10**9, "\ud800")]))
    assert read_tree(tmp_path).samples["interface"].to_pylist() == ["\ufffd"]


def test_labels_cannot_turn_a_line_round(tmp_path: Path) -> None:
    (tmp_path / "r\u202eun.json").write_text(json.dumps(vllm_result(model_id="a\u202emodel\x1b")))
    (run,) = read_tree(tmp_path).runs.to_pylist()
    assert (run["model"], run["path"]) == ("a\ufffdmodel\ufffd", "r\\u202eun.json")


def test_metric_pages_with_their_own_times(tmp_path: Path) -> None:
    (tmp_path / "metrics.prom").write_text(
        '# HELP x\nnode_network_receive_bytes_total{device="e"} 5 1795973865157\n'
        'node_network_receive_bytes_total{device="e"} 6 1795973866.5\n'
        'node_network_transmit_bytes_total{device="e"} 7\n'
    )
    tables = read_tree(tmp_path)
    assert tables.samples["ts_ns"].to_pylist() == [1795973865157000000, 1795973866500000000]
    assert tables.samples["ts_error_ns"].to_pylist() == [10**6, 10**8]
    (aside,) = tables.set_aside.to_pylist()
    assert aside["reason"].endswith("no time, neither its own nor the page's (1 reading)")


def test_a_refusal_names_the_first_reason(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("time,rx_bytes\n2026-11-29T17:23:46,5\n")
    (refused,) = inspect(tmp_path)["refused"]
    assert "(line 2: the time has no offset from UTC" in refused["reason"]


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text(f"ts,rx_bytes,RX_BYTES,x,x\n{EPOCH},5,6,7,8\n")
    (refused,) = inspect(tmp_path)["refused"]
    assert "expected one column RX_BYTES, found two" in refused["reason"]


def test_host_names_do_not_name_devices(tmp_path: Path) -> None:
    rows = "".join(f"{EPOCH},{name},5\n" for name in ("leaf1", "gpu7.dc2.example.net", "sw1.1"))
    (tmp_path / "c.csv").write_text("ts,device,rx_bytes\n" + rows)
    assert read_tree(tmp_path).samples["device"].to_pylist() == ["leaf1", "device 1", "sw1.1"]


def test_a_fault_of_a_reader_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(files: Any) -> list[Source]:
        return [Source("faulty", f.root, f.path) for f in files if f.path.name == "odd"]

    def read(source: Source) -> Tables:
        raise OverflowError(f"content of {source.main}")

    monkeypatch.setattr(source_module, "FAULTS", (Exception,))
    formats = (Format("faulty", "counters", find, read),)
    monkeypatch.setattr("servebook.read.discover.FORMATS", formats)
    monkeypatch.setattr("servebook.read.parts.FORMATS", formats)
    (tmp_path / "odd").write_text("x")
    (refused,) = inspect(tmp_path)["refused"]
    assert refused["path"] == "odd"
    assert "(OverflowError in test_hostile.py:" in refused["reason"]
    assert "content" not in refused["reason"]
