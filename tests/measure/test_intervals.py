"""Intervals from readings: differences, resets, wraps, held values, gaps, speeds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servebook.measure.intervals import COLUMNS, good, intervals, refreshes
from servebook.read import iproute, prometheus_api, snmpwalk
from servebook.read.source import Format, Source
from servebook.tables import empty, table

FIXTURES = Path(__file__).parents[1] / "fixtures" / "counters"
S = 10**9
T0 = 1795973604 * S
PORTS = empty("ports")


def samples(
    counts: list[int],
    times: list[float] | None = None,
    *,
    metric: str = "bytes",
    source: str = "a",
    interface: str = "eth0",
    bits: int = 64,
    ts_kind: str = "collector",
    **more: Any,
) -> pa.Table:
    at = [T0 + round(t * S) for t in (range(len(counts)) if times is None else times)]
    row = {
        "source": source,
        "format": "x",
        "device": "leaf1",
        "interface": interface,
        "ts_kind": ts_kind,
        "metric": metric,
        "scope": "port",
        "direction": "rx",
        "kind": "counter",
        "bits": bits,
        **more,
    }
    return table(
        "samples", [{**row, "ts_ns": t, "count": c} for t, c in zip(at, counts, strict=True)]
    )


def port(speed: float, interface: str = "eth0") -> pa.Table:
    return table("ports", [{"device": "leaf1", "interface": interface, "speed_bps": speed}])


def flags(frame: pd.DataFrame) -> list[list[str]]:
    return frame["flags"].tolist()


def test_differences_over_their_own_times() -> None:
    both = pa.concat_tables(
        [
            samples([100, 350, 1350], [0, 0.5, 2.5]),
            samples([1, 3, 11], [0, 0.5, 2.5], metric="packets"),
        ]
    )
    out = intervals(both, port(8000.0))
    assert tuple(out.columns) == COLUMNS
    assert out["bytes"].tolist() == [250, 1000]
    assert out["packets"].tolist() == [2, 8]
    assert out["rate_bps"].tolist() == [4000, 4000]
    assert out["util_fraction"].tolist() == [0.5, 0.5]
    assert out["t0_ns"].tolist() == [T0, T0 + S // 2]
    assert flags(out) == [[], []]


@pytest.mark.parametrize("scope", ["queue", "prio", "pcie"])
def test_parts_of_a_port_and_host_buses_are_no_links(scope: str) -> None:
    parts = [samples([100, 350]), samples([7, 900], scope=scope, index=3)]
    assert intervals(pa.concat_tables(parts), PORTS)["bytes"].tolist() == [250]


def test_no_speed_means_no_utilisation() -> None:
    out = intervals(samples([1, 2]), PORTS)
    assert out["util_fraction"].isna().all()
    assert out["speed_bps"].isna().all()


def test_the_manifests_speed_wins_over_the_devices() -> None:
    own = samples([0], metric="speed_bps", direction=None, kind="gauge")
    own = own.set_column(own.schema.get_field_index("value"), "value", pa.array([4000.0]))
    both = pa.concat_tables([samples([0, 250]), own])
    assert intervals(both, PORTS)["util_fraction"].tolist() == [0.5]
    assert intervals(both, port(20_000.0))["util_fraction"].tolist() == [0.1]


@pytest.mark.parametrize(
    ("counts", "bits", "moved", "flag"),
    [
        ([1000, 40], 64, np.nan, ["reset"]),
        ([2**64 - 10, 40], 64, np.nan, ["reset"]),
        ([2**53 - 10, 40], 53, 50, ["wrap"]),
        ([2**52, 40], 53, np.nan, ["reset"]),
        ([2**53 + 10, 40], 53, np.nan, ["reset"]),
        ([2**32 - 10, 40], 32, 50, ["wrap"]),
        ([2**63, 2**63 + 7], 64, 7, []),
        ([5, 5], 64, 0, []),
    ],
)
def test_a_value_that_falls(counts: list[int], bits: int, moved: float, flag: list[str]) -> None:
    out = intervals(samples(counts, bits=bits), PORTS)
    assert flags(out) == [flag]
    np.testing.assert_equal(out["bytes"].tolist(), [moved])


def test_a_restart_hides_a_reset_that_does_not_fall() -> None:
    up = samples([0, 0, 0], metric="uptime_s", kind="gauge", direction=None, interface=None)
    up = up.set_column(up.schema.get_field_index("value"), "value", pa.array([100.0, 2.0, 3.0]))
    out = intervals(pa.concat_tables([samples([10, 500, 600]), up]), PORTS)
    assert flags(out) == [["reset"], []]
    np.testing.assert_equal(out["bytes"].tolist(), [np.nan, 100])


def test_a_gap_is_longer_than_three_usual_spacings() -> None:
    out = intervals(samples([0, 1, 2, 3, 9], [0, 1, 2, 3, 6.1]), PORTS)
    assert flags(out) == [[], [], [], ["gap"]]
    assert len(good(out)) == 3


def test_above_the_speed_is_flagged_and_kept() -> None:
    out = intervals(samples([0, 1019, 2040]), port(8000.0))
    assert flags(out) == [[], ["over_speed"]]
    assert out["bytes"].tolist() == [1019, 1021]


def test_times_of_a_query_are_flagged() -> None:
    assert flags(intervals(samples([0, 5], ts_kind="grid"), PORTS)) == [["grid"]]


def test_order_and_repeats_of_times_do_not_matter() -> None:
    mixed = samples([30, 10, 20, 20, 99], [2, 0, 1, 1, 1])
    out = intervals(mixed, PORTS)
    assert out["bytes"].tolist() == [10, 10]


def test_a_rate_stands_for_the_time_before_it() -> None:
    rate = samples([0, 0, 0], [0, 1, 3], kind="rate")
    rate = rate.set_column(
        rate.schema.get_field_index("value"), "value", pa.array([9.0, 100.0, 50.0])
    )
    out = intervals(rate, PORTS)
    assert out["source_kind"].tolist() == ["rate", "rate"]
    assert out["rate_bps"].tolist() == [800, 400]
    assert out["bytes"].tolist() == [100, 100]


def test_files_that_overlap_stay_apart_and_files_that_follow_are_one() -> None:
    a, b = samples([0, 10], [0, 1], source="a"), samples([0, 10], [0.5, 1.5], source="b")
    c = samples([25, 40], [3, 4], source="c")
    out = intervals(pa.concat_tables([c, b, a]), PORTS)
    told = list(zip(out["source"], out["bytes"], strict=True))
    assert told == [("a", 10), ("a", 15), ("a", 15), ("b", 10)]


def test_nothing_in_nothing_out() -> None:
    assert intervals(empty("samples"), PORTS).empty
    assert tuple(intervals(empty("samples"), PORTS).columns) == COLUMNS
    assert intervals(samples([5]), PORTS).empty


def held(counts: list[int], every: int) -> list[int]:
    """What a device shows that renews its counters at each ``every``-th reading only."""
    return [counts[i - i % every] for i in range(len(counts))]


def test_held_values_are_differenced_between_renewals() -> None:
    counts = [100 * i for i in range(40)]
    out = intervals(samples(held(counts, 3)), PORTS)
    assert set(out["rate_bps"]) == {800.0}
    assert all(flag == ["sticky_merged"] for flag in flags(out))
    # The first renewal seen is at reading 3; what moved before it has no known start.
    assert out["t0_ns"].iloc[0] == T0 + 3 * S
    assert out["bytes"].sum() == 3900 - 300


def test_an_idle_port_of_a_device_that_holds_values_stays_zero() -> None:
    busy = samples(held([100 * i for i in range(40)], 3))
    quiet = samples([7] * 40, interface="eth1")
    out = intervals(pa.concat_tables([busy, quiet]), PORTS)
    assert out[out["interface"] == "eth1"]["bytes"].eq(0).all()


def test_an_idle_stretch_between_held_values_is_not_smeared() -> None:
    counts = [100 * i for i in range(31)] + [3000] * 29 + [3000 + 100 * i for i in range(31)]
    out = intervals(samples(held(counts, 3)), PORTS)
    assert set(out["rate_bps"]) <= {0.0, 800.0}
    assert (out["rate_bps"] == 0).sum() >= 20


def test_true_zeros_are_no_held_values() -> None:
    idle_then_busy = [0] * 20 + [100 * i for i in range(20)]
    assert len(intervals(samples(idle_then_busy), PORTS)) == 39
    rng = np.random.default_rng(7)
    rare = np.cumsum(rng.random(200) < 0.15) * 60
    out = intervals(samples([int(count) for count in rare]), PORTS)
    assert len(out) == 199
    assert not any("sticky_merged" in flag for flag in flags(out))


def test_refreshes_of_two_ports_together() -> None:
    at = T0 + np.arange(30) * S
    moved = np.arange(30) % 3 == 0
    rare = moved & (np.arange(30) % 2 == 0)
    found = refreshes([(at, rare), (at, moved)])
    assert found is not None
    assert found[1] == 3 * S
    assert len(found[0]) == 10
    assert refreshes([]) is None


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int], int, int]:
    """True increases, shown counts, bits and how often the device renews them."""
    bits = draw(st.sampled_from([32, 53, 64]))
    every = draw(st.sampled_from([1, 1, 3, 5]))
    n = draw(st.integers(60, 90)) if every > 1 else draw(st.integers(2, 60))
    steps = draw(st.lists(st.integers(1, 2**28), min_size=n - 1, max_size=n - 1))
    top = 2**bits if bits < 64 else 2**63
    start = draw(st.integers(0, 2**30) | st.integers(top - 2**30, top - 1))
    total, shown = start, [start]
    for step in steps:
        total += step
        shown.append(total % 2**bits if bits < 64 else total)
    return steps, held(shown, every), bits, every


@settings(deadline=None, max_examples=80)
@given(histories())
def test_bytes_of_good_intervals_are_the_true_increase(
    history: tuple[list[int], list[int], int, int],
) -> None:
    steps, shown, bits, every = history
    out = intervals(samples(shown, bits=bits), PORTS)
    true = np.concatenate([[0], np.cumsum(np.array(steps, dtype=object))])
    renewed = [i - i % every for i in range(len(shown))]
    for row in out.to_dict("records"):
        i, j = (round((row[k] - T0) / S) for k in ("t0_ns", "t1_ns"))
        assert row["bytes"] == float(true[renewed[j]] - true[renewed[i]])
    assert not any("reset" in flag for flag in flags(out))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 2**40), min_size=2, max_size=30),
    st.sets(st.integers(1, 28), max_size=4),
)
def test_resets_cost_their_interval_and_nothing_else(steps: list[int], resets: set[int]) -> None:
    count, counts, true = 2**41, [2**41], 0.0
    for i, step in enumerate(steps):
        if i in resets and count > 2**40:
            count = 0  # restarted, and the bytes since then are not known
            counts.append(count)
            continue
        true += step
        count += step
        counts.append(count)
    out = intervals(samples(counts), PORTS)
    lost = sum(b < a for a, b in pairwise(counts))
    assert sum("reset" in flag for flag in flags(out)) == lost
    assert out["bytes"].sum() == true


# Start and end of the three runs beside which the readings in the fixtures were taken.
RUNS = {
    "prefill": (1795973619_120, 1795973634_250, 335),
    "mixed": (1795973646_340, 1795973657_980, 425),
    "decode": (1795973669_100, 1795973685_830, 455),
}


def real(format_: Format, name: str) -> pd.DataFrame:
    path = FIXTURES / name
    source = Source(format_.name, FIXTURES, path, (path,), {"interfaces": ("lo",)})
    return intervals(format_.read(source).samples, PORTS)


def plateau(frame: pd.DataFrame, run: str, direction: str = "tx") -> float:
    start, end, _ = RUNS[run]
    inside = (frame["t0_ns"] >= start * 10**6) & (frame["t1_ns"] <= end * 10**6)
    return float(frame[inside & (frame["direction"] == direction)]["rate_bps"].median()) / 8e3


@pytest.mark.parametrize("run", list(RUNS))
def test_real_sources_agree_on_the_plateaus(run: str) -> None:
    expected = RUNS[run][2]
    raw = plateau(real(prometheus_api.FORMAT, "prometheus_raw.json"), run)
    grid = plateau(real(prometheus_api.FORMAT, "prometheus_grid.json"), run)
    snmp = plateau(real(snmpwalk.FORMAT, "ifxtable.log"), run)
    assert raw == pytest.approx(expected, rel=0.02)
    assert grid == pytest.approx(raw, rel=0.03)
    assert snmp == pytest.approx(raw, rel=0.03)


def test_the_agents_held_values_are_seen() -> None:
    frame = good(real(snmpwalk.FORMAT, "ifxtable.log"))
    merged = frame[["sticky_merged" in flag for flag in frame["flags"]]]
    assert len(merged) > 0.9 * len(frame)
    spacing = (merged["t1_ns"] - merged["t0_ns"]) / 1e9
    assert spacing.median() == pytest.approx(3.0, abs=0.1)


def test_loopback_receives_what_it_sends() -> None:
    frame = real(iproute.FORMAT, "ip_link.jsonl")
    rx, tx = (frame[frame["direction"] == way]["bytes"].tolist() for way in ("rx", "tx"))
    assert rx == tx
    assert plateau(frame, "decode") == pytest.approx(455, rel=0.02)
