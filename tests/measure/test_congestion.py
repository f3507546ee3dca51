"""When links were congested or paused, by hand: byte counters with a speed, and pause counters."""

from __future__ import annotations

from typing import Any

import pytest

from servebook.measure.congestion import LINK_COLUMNS, links, watched
from servebook.tables import table

S = 1_000_000_000
T0 = 1_700_000_000 * S
HUGE = 2**60


def sample(at_s: float, metric: str, count: int, **more: Any) -> dict[str, Any]:
    return {
        "source": "switch.log",
        "line": 1,
        "format": "test",
        "device": "leaf",
        "interface": "e1",
        "ts_ns": T0 + round(at_s * S),
        "ts_kind": "device",
        "metric": metric,
        "scope": "port",
        "direction": "tx",
        "kind": "counter",
        "count": count,
        "bits": 64,
    } | more


PORT = {"device": "leaf", "interface": "e1", "speed_bps": 8e9}


def test_bytes_and_pauses_tell_of_a_link() -> None:
    rows = [sample(t, "bytes", n) for t, n in ((0, 0), (1, 950_000_000), (2, 1_000_000_000))]
    # One frame more than a float of this size could tell.
    frames = ((0, HUGE), (1, HUGE), (2, HUGE + 1), (3, 5), (4, 5))
    rows += [sample(t, "pause_frames", n) for t, n in frames]
    found = links(table("samples", rows), table("ports", [PORT]))
    assert tuple(found.columns) == LINK_COLUMNS
    by_bytes = found[found["util_fraction"].notna()]
    assert by_bytes["util_fraction"].tolist() == pytest.approx([0.95, 0.05])
    assert not by_bytes["paused"].any()
    pauses = found[found["util_fraction"].isna()]
    # The counter fell between 2 and 3 s: nothing is known of that second.
    assert ((pauses["t0_ns"] - T0) // S).tolist() == [0, 1, 3]
    assert pauses["paused"].tolist() == [False, True, False]


def test_priorities_and_ports_are_series_of_their_own() -> None:
    rows = [
        sample(t, "pause_frames", n, index=index, scope="prio")
        for index, counts in ((3, (7, 7)), (4, (0, 2)))
        for t, n in enumerate(counts)
    ]
    found = links(table("samples", rows), table("ports", []))
    assert sorted(found["paused"].tolist()) == [False, True]


def test_without_a_speed_or_a_pause_counter_nothing_is_known() -> None:
    rows = [sample(t, "bytes", 10**9 * t) for t in range(4)]
    found = links(table("samples", rows), table("ports", []))
    assert found.empty
    assert tuple(found.columns) == LINK_COLUMNS
    assert links(table("samples", []), table("ports", [PORT])).empty
    assert watched(run(0, 3), found) == ()


def run(begin_s: float, end_s: float, clock: str = "epoch") -> Any:
    row = {"run_id": "r", "path": "r", "client": "c", "format": "f", "clock": clock}
    times = {"start_ns": T0 + round(begin_s * S), "end_ns": T0 + round(end_s * S)}
    return table("runs", [row | times])


def test_a_run_is_watched_if_readings_meet_it_on_its_own_clock() -> None:
    rows = [sample(t, "pause_frames", 0) for t in (10, 11)]
    found = links(table("samples", rows), table("ports", []))
    assert watched(run(0, 10.5), found) == ("r",)
    assert watched(run(0, 10), found) == ()
    assert watched(run(12, 20), found) == ()
    assert watched(run(0, 20, "relative"), found) == ()
