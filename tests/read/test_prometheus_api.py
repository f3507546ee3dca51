"""Saved replies of the Prometheus API: real ones, and broken ones."""

from __future__ import annotations

import functools
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servebook.errors import DumpError
from servebook.read import prometheus_api
from servebook.read.files import survey
from tests.read import counter_samples
from tests.read.counter_samples import FIXTURES

read = functools.partial(counter_samples.read, prometheus_api.FORMAT)


def reply(tmp_path: Path, series: list[dict[str, Any]], kind: str = "matrix", **more: Any) -> Path:
    path = tmp_path / "reply.json"
    data = {"resultType": kind, "result": series}
    path.write_text(json.dumps({"status": "success", "data": data, **more}))
    return path


def counter(values: list[Any], name: str = "ifHCInOctets", **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": name, "ifName": "Ethernet1", **labels}, "values": values}


def test_raw_samples_keep_their_scrape_times() -> None:
    samples = read(FIXTURES / "prometheus_raw.json").samples.to_pylist()
    assert len(samples) == 89
    assert samples[0] == {
        "source": "prometheus_raw.json",
        "line": None,
        "format": "prometheus",
        "device": "node",
        "interface": "lo",
        "ts_ns": 1795973604_175_000_000,
        "ts_kind": "collector",
        "ts_error_ns": 1_000_000,
        "metric": "bytes",
        "scope": "port",
        "index": None,
        "direction": "tx",
        "kind": "counter",
        "count": 218532291,
        "value": None,
        "bits": 64,
        "window_s": None,
        "smoothing": None,
    }


def test_a_range_query_has_a_grid_of_times() -> None:
    samples = read(FIXTURES / "prometheus_grid.json").samples
    assert set(samples["ts_kind"].to_pylist()) == {"grid"}
    assert samples["ts_error_ns"].null_count == samples.num_rows == 720
    assert set(samples["interface"].to_pylist()) == {"eth0", "ifb0", "ifb1", "lo"}
    assert set(samples["direction"].to_pylist()) == {"rx", "tx"}


def test_an_instant_vector_is_one_reading_per_series() -> None:
    samples = read(FIXTURES / "prometheus_vector.json").samples
    assert samples["count"].to_pylist() == [3878881, 0, 0, 18684866]
    assert set(samples["ts_kind"].to_pylist()) == {"grid"}


def test_other_metrics_are_set_aside_once_per_series(tmp_path: Path) -> None:
    others = json.loads((FIXTURES / "prometheus_vllm.json").read_text())["data"]["result"]
    tables = read(reply(tmp_path, [*others, counter([[1795973604, "5"]])]))
    assert tables.samples["count"].to_pylist() == [5]
    reasons = tables.set_aside["reason"].to_pylist()
    assert len(reasons) == 4
    assert "not a network counter (vllm:generation_tokens_total)" in reasons


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("prometheus_error.json", r"error of the server \(bad_data: more than 11,000.*larger step"),
        ("prometheus_empty.json", r"empty result.*check the metric's name"),
        ("prometheus_metadata.json", r"reply without samples.*query_range"),
        ("prometheus_rate.json", r"only series without a name.*kind: rate"),
        ("prometheus_vllm.json", r"none that can be used \(not a network counter .*; save"),
    ],
)
def test_replies_that_cannot_be_used_say_why(name: str, words: str) -> None:
    with pytest.raises(DumpError, match=words) as caught:
        read(FIXTURES / name)
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize("value", [None, "-1", "0.5", "99999999999999999999999", [], True, "NaN"])
def test_a_reply_without_one_value_that_can_be_used_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(DumpError, match="readings of counters, found none that can be used"):
        read(reply(tmp_path, [counter([[1795973604, value]] * 3)]))


def test_a_nameless_rate_is_read_on_the_manifests_word() -> None:
    path = FIXTURES / "prometheus_rate.json"
    in_bytes = read(path, kind="rate", unit="bytes", direction="tx").samples
    in_bits = read(path, kind="rate", unit="bits", direction="tx").samples
    assert in_bytes.num_rows == 90
    assert in_bytes["kind"][0].as_py() == "rate"
    assert in_bytes["value"][0].as_py() == 76084.5
    assert in_bits["value"][0].as_py() == 76084.5 / 8
    assert in_bytes["count"].null_count == 90


@pytest.mark.parametrize("missing", ["kind", "unit", "direction"])
def test_a_nameless_rate_is_never_guessed(missing: str) -> None:
    options = {"kind": "rate", "unit": "bytes", "direction": "rx"}
    del options[missing]
    with pytest.raises(DumpError, match="without a name"):
        read(FIXTURES / "prometheus_rate.json", **options)


def test_snmp_exporter_wraps_at_2_to_53(tmp_path: Path) -> None:
    path = reply(tmp_path, [counter([[1e9, "9007199254740991"], [1000000001.003, "5"]])])
    samples = read(path).samples
    assert samples["bits"].to_pylist() == [53, 53]
    assert samples["count"].to_pylist() == [2**53 - 1, 5]


def test_bad_values_are_set_aside_with_their_number(tmp_path: Path) -> None:
    values = [[1.2e9, "1"], [1.2e9 + 1, "NaN"], [1.2e9 + 2, "+Inf"], [1.2e9 + 3, "4"], ["x"]]
    tables = read(reply(tmp_path, [counter(values)]))
    assert tables.samples["count"].to_pylist() == [1, 4]
    rows = {row["reason"]: row["record"] for row in tables.set_aside.to_pylist()}
    assert rows == {
        "no pair of a time and a value": "reading",
        "ifHCInOctets: the value is NaN or infinite (2 readings)": "series",
    }


def test_a_reply_that_may_be_incomplete_says_so(tmp_path: Path) -> None:
    path = reply(tmp_path, [counter([[1e9, "1"]])], warnings=["host-7 timed out"], isPartial=True)
    reasons = " ".join(read(path).set_aside["reason"].to_pylist())
    assert "1 warnings" in reasons
    assert "incomplete" in reasons
    assert "host-7" not in reasons


@pytest.mark.parametrize(
    ("labels", "devices"),
    [
        ([("snmp", "10.0.0.1")], ["snmp"]),
        ([("snmp", "10.0.0.2"), ("snmp", "10.0.0.1")], ["snmp 2", "snmp 1"]),
        ([("10.0.0.9:9100", "leaf-a.example")], ["instance 1"]),
        ([("", "b"), ("", "a")], ["instance 2", "instance 1"]),
    ],
)
def test_hosts_and_addresses_become_aliases(
    tmp_path: Path, labels: list[tuple[str, str]], devices: list[str]
) -> None:
    series = [counter([[1e9, "1"]], job=job, instance=instance) for job, instance in labels]
    tables = read(reply(tmp_path, series))
    assert tables.samples["device"].to_pylist() == devices


def test_scrapes_of_two_targets_are_no_grid(tmp_path: Path) -> None:
    one = [[1e9 + 15 * i + 0.175, "1"] for i in range(5)]
    other = [[1e9 + 15 * i + 7.5, "1"] for i in range(5)]
    alone = read(reply(tmp_path, [counter(one)]))
    both = read(reply(tmp_path, [counter(one), counter(other, instance="b")]))
    assert set(alone.samples["ts_kind"].to_pylist()) == {"grid"}
    assert set(both.samples["ts_kind"].to_pylist()) == {"collector"}


def test_32_bit_octets_are_too_narrow(tmp_path: Path) -> None:
    series = [counter([[1e9, "1"]]), counter([[1e9, "1"]], "ifInOctets")]
    [row] = read(reply(tmp_path, series)).set_aside.to_pylist()
    assert "ask for ifHCInOctets" in row["reason"]


def test_speed_and_rdma(tmp_path: Path) -> None:
    series = [
        counter([[1e9, "400000"]], "ifHighSpeed"),
        counter([[1e9, "-125000"]], "node_network_speed_bytes"),
        {
            "metric": {
                "__name__": "node_infiniband_port_data_received_bytes_total",
                "device": "mlx5_0",
                "port": "1",
            },
            "values": [[1e9, "4000"]],
        },
    ]
    tables = read(reply(tmp_path, series))
    speed, rdma = tables.samples.to_pylist()
    assert (speed["metric"], speed["value"]) == ("speed_bps", 4e11)
    assert (rdma["interface"], rdma["scope"], rdma["count"]) == ("mlx5_0/1", "rdma", 4000)
    assert "does not know the speed" in tables.set_aside["reason"][0].as_py()


@pytest.mark.parametrize("text", ["", "{", '{"status":"success"}', "[1]", '{"data":{"result":3}}'])
def test_torn_replies_are_dump_errors(tmp_path: Path, text: str) -> None:
    path = tmp_path / "reply.json"
    path.write_text(text)
    with pytest.raises(DumpError):
        read(path)


def test_find_takes_replies_by_content_and_joins_vectors(tmp_path: Path) -> None:
    vector = (FIXTURES / "prometheus_vector.json").read_text()
    (tmp_path / "a.json").write_text(vector)
    (tmp_path / "b.json").write_text(vector.replace("1795972372", "1795972402"))
    (tmp_path / "c.txt").write_text((FIXTURES / "prometheus_raw.json").read_text())
    (tmp_path / "d.json").write_text('{"profile": 1}')
    sources = prometheus_api.find(survey(tmp_path))
    assert [[file.name for file in source.files] for source in sources] == [
        ["a.json", "b.json"],
        ["c.txt"],
    ]
    assert prometheus_api.read(sources[0]).samples.num_rows == 8


def test_instances_of_several_files_do_not_share_an_alias(tmp_path: Path) -> None:
    vector = (FIXTURES / "prometheus_vector.json").read_text()
    (tmp_path / "a.json").write_text(vector)
    (tmp_path / "b.json").write_text(vector.replace("127.0.0.1", "127.0.0.2"))
    [source] = prometheus_api.find(survey(tmp_path))
    samples = prometheus_api.read(source).samples
    assert samples["device"].to_pylist() == ["node 1"] * 4 + ["node 2"] * 4


@given(
    st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.integers(-(10**24), 10**24),
        st.integers(0, 4 * 10**12).map(lambda ms: ms / 1000),
        st.integers(0, 10**10).map(lambda tenths: tenths / 10_000),
    )
)
@example(1767571200.0005)
@example(1767571200.0015)
@example(0.0005)
def test_times_are_taken_by_their_printed_digits(at: float) -> None:
    assert prometheus_api._ms(at) == round(Decimal(str(at)) * 1000)
