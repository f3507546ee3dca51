"""Sums over a node's links, and how even they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from servebook.measure.fabric import attributed, phases, usage
from servebook.measure.fabric_nodes import balance, node_usage, one_source, rail_skew
from servebook.measure.intervals import COLUMNS
from servebook.tables import table

S = 10**9


def link(rate: float, n: int = 20, step: float = 1, start: float = 0, **names: Any) -> pd.DataFrame:
    t0 = np.round((start + np.arange(n) * step) * S).astype(np.int64)
    frame = pd.DataFrame({"t0_ns": t0, "t1_ns": t0 + round(step * S)})
    fixed = {
        "source": "a",
        "format": "x",
        "device": "leaf1",
        "interface": "eth0",
        "scope": "port",
        "direction": "rx",
        "bytes": rate * step,
        "packets": np.nan,
        "rate_bps": rate * 8,
        "speed_bps": 8000.0,
        "util_fraction": rate / 1000,
        "source_kind": "counter",
    }
    frame = frame.assign(**{**fixed, **{k: v for k, v in names.items() if k != "flags"}})
    frame["flags"] = pd.Series([names.get("flags", [])] * n)
    return frame[list(COLUMNS)]


def ports(*interfaces: str) -> pa.Table:
    return table(
        "ports",
        [
            {
                "device": "leaf1",
                "interface": name,
                "speed_bps": 8000.0,
                "role": "uplink",
                "node": "n1",
                "rail": rail,
            }
            for rail, name in enumerate(interfaces)
        ],
    )


RUNS = table(
    "runs",
    [{"run_id": "a", "workload": "decode", "start_ns": 0, "end_ns": 20 * S, "clock": "epoch"}],
)
PHASES = phases(RUNS)


def test_links_of_a_node_are_added_over_the_longest_intervals() -> None:
    slow = link(100.0, n=10, step=2)
    fast = link(50.0, n=80, step=0.25, interface="eth1")
    [row] = node_usage(pd.concat([slow, fast]), PHASES, ports("eth0", "eth1")).to_dict("records")
    assert (row["node"], row["role"], row["direction"]) == ("n1", "uplink", "rx")
    assert (row["n_ports"], row["n_counted"]) == (2, 2)
    assert row["usual_bps"] == pytest.approx(1200)
    assert row["speed_bps"] == 16000
    assert row["usual_util"] == pytest.approx(0.075)
    assert row["peak_window_s"] == 2


def test_one_link_alone_is_its_own_sum() -> None:
    frame = link(100.0)
    [alone] = usage(frame, PHASES).to_dict("records")
    [row] = node_usage(frame, PHASES, ports("eth0")).to_dict("records")
    for name in ("usual_bps", "peak_bps", "floor_bps", "n_intervals", "coverage"):
        assert row[name] == alone[name]


def test_a_link_that_was_not_counted_leaves_no_sum() -> None:
    [row] = node_usage(link(100.0), PHASES, ports("eth0", "eth1")).to_dict("records")
    assert np.isnan(row["usual_bps"])
    assert row["why"] == "1 of 2 links of the node were counted"


def test_a_link_watched_in_part_is_added_only_there() -> None:
    half = link(50.0, n=10, interface="eth1")
    frame = pd.concat([link(100.0), half])
    [row] = node_usage(frame, PHASES, ports("eth0", "eth1")).to_dict("records")
    assert row["usual_bps"] == pytest.approx(1200)
    assert row["n_inside"] == 9
    assert row["coverage"] == pytest.approx(0.5)


def test_a_link_counted_twice_is_taken_once() -> None:
    frame = pd.concat([link(100.0), link(101.0, source="b", flags=["grid"])])
    kept, words = one_source(frame)
    assert set(kept["source"]) == {"a"}
    assert words == ("leaf1 eth0 rx: counted by a and b at the same time; sums use a",)
    [row] = node_usage(frame, PHASES, ports("eth0")).to_dict("records")
    assert row["usual_bps"] == 800


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({}, {"source_kind": "rate", "n": 40, "step": 0.5}),
        ({}, {"flags": ["grid"], "n": 40, "step": 0.5}),
        ({"n": 40, "step": 0.5}, {}),
    ],
)
def test_which_source_is_preferred(better: dict[str, Any], worse: dict[str, Any]) -> None:
    kept, _ = one_source(pd.concat([link(1.0, source="z", **better), link(1.0, **worse)]))
    assert set(kept["source"]) == {"z"}


def test_sources_one_after_the_other_are_both_kept() -> None:
    kept, words = one_source(pd.concat([link(1.0), link(1.0, start=20, source="b")]))
    assert set(kept["source"]) == {"a", "b"}
    assert words == ()


def test_rail_skew() -> None:
    frame = pd.concat(
        [link(rate, interface=name) for name, rate in (("e0", 10.0), ("e1", 30.0), ("e2", 20.0))]
    )
    out = rail_skew(usage(frame, PHASES), ports("e0", "e1", "e2"))
    assert out["rail"].tolist() == [1, 2, 0]
    assert out["rank"].tolist() == [1, 2, 3]
    assert out["share_of_mean"].tolist() == [1.5, 1.0, 0.5]
    assert out["max_over_min"].tolist() == [3, 3, 3]


def test_one_rail_has_no_skew() -> None:
    out = rail_skew(usage(link(10.0), PHASES), ports("eth0"))
    assert out["max_over_min"].isna().all()


def test_balance_of_what_came_and_went() -> None:
    frame = pd.concat(
        [link(10.0), link(20.0, direction="tx"), link(5.0, interface="eth1", direction="tx")]
    )
    out = balance(attributed(frame, PHASES))
    assert out[["interface", "rx_bytes", "tx_bytes"]].fillna(-1).to_numpy().tolist() == [
        ["eth0", 200.0, 400.0],
        ["eth1", -1.0, 100.0],
    ]
    assert out["tx_over_rx"].iloc[0] == 2
    assert np.isnan(out["tx_over_rx"].iloc[1])
