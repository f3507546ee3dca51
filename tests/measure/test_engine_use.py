from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from servebook.measure.engine_use import engine_over_time, engine_use
from servebook.tables import Tables, table

S = 10**9
T = 1_795_973_865 * S


def run(name: str, start: int = 0, end: int = 10, **changes: Any) -> dict[str, Any]:
    return {
        "run_id": name,
        "configuration": "a",
        "workload": "mixed",
        "concurrency": 8,
        "clock": "epoch",
        "start_ns": T + start * S,
        "end_ns": T + end * S,
        **changes,
    }


def reading(at: float, metric: str, value: float, **changes: Any) -> dict[str, Any]:
    return {
        "source": "q.json",
        "engine": "engine 1",
        "start_ns": T + round(at * S),
        "end_ns": T + round(at * S),
        "metric": metric,
        "statistic": "reading",
        "value": value,
        **changes,
    }


def use(runs: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tables = Tables(runs=table("runs", runs), engine=table("engine", rows))
    return engine_use(tables).to_dict("records")


def test_readings_within_a_run() -> None:
    """Worked out by hand: running 4, 8, 8, 6, 8 and 99 outside; waiting 0, 2, 2, 0, 2."""
    rows = [reading(t, "running", v) for t, v in zip(range(1, 6), (4, 8, 8, 6, 8), strict=True)]
    rows += [reading(t, "waiting", v) for t, v in zip(range(1, 6), (0, 2, 2, 0, 2), strict=True)]
    rows += [reading(20, "running", 99), reading(-5, "running", 99)]
    rows += [reading(t, "kv_use_fraction", v) for t, v in ((1, 0.2), (2, 0.6), (5, 0.4))]
    [got] = use([run("a"), run("elsewhere", 100, 110)], rows)
    assert (got["run_id"], got["told"], got["n_readings"]) == ("a", "readings", 5)
    assert (got["running_p50"], got["running_max"]) == (8, 8)
    assert (got["waiting_p50"], got["waiting_max"]) == (2, 2)
    assert got["kv_use_max"] == 0.6
    assert np.isnan(got["cache_hit_share"])


def test_engines_are_added_up_with_the_value_each_had_last() -> None:
    """Engine 1: 3 at 1 s, 5 at 3 s. Engine 2: 2 at 2 s, 4 at 4 s. Sums: 5, 7, 9."""
    rows = [reading(1, "running", 3), reading(3, "running", 5)]
    rows += [reading(t, "running", v, engine="engine 2") for t, v in ((2, 2), (4, 4))]
    rows += [reading(2, "kv_use_fraction", 0.2), reading(2, "kv_use_fraction", 0.7, engine="e2")]
    [got] = use([run("a")], rows)
    assert (got["running_p50"], got["running_max"], got["n_engines"]) == (7, 9, 3)
    assert got["kv_use_max"] == 0.7


def test_counters_rise_from_the_reading_before_the_run() -> None:
    """Hits rise from 100 (at -1 s) to 400, queries from 1,000 to 2,000: 30 %."""
    rows = [
        reading(t, "cache_hit_tokens", v) for t, v in ((-1, 100), (5, 300), (9, 400), (12, 999))
    ]
    rows += [reading(t, "cache_query_tokens", v) for t, v in ((-1, 1000), (9, 2000))]
    rows += [reading(t, "preemptions", v) for t, v in ((0, 7), (9, 9))]
    [got] = use([run("a")], rows)
    assert (got["cache_hit_tokens"], got["cache_query_tokens"]) == (300, 1000)
    assert got["cache_hit_share"] == pytest.approx(0.3)
    assert got["preemptions"] == 2


def test_a_counter_that_fell_is_unknown() -> None:
    [got] = use([run("a")], [reading(t, "preemptions", v) for t, v in ((1, 5), (2, 0), (3, 1))])
    assert np.isnan(got["preemptions"])


def test_nothing_looked_up_is_no_share_of_zero() -> None:
    rows = [
        reading(t, name, 0) for t in (1, 2) for name in ("cache_hit_tokens", "cache_query_tokens")
    ]
    [got] = use([run("a")], rows)
    assert np.isnan(got["cache_hit_share"])


def test_the_engines_own_ratio_where_it_counts_nothing() -> None:
    rows = [reading(t, "cache_hit_fraction", v) for t, v in ((1, 0.2), (2, 0.5), (3, 0.4))]
    [got] = use([run("a")], rows)
    assert got["cache_hit_share"] == 0.4


def test_hits_of_all_prompt_tokens_where_look_ups_are_not_counted() -> None:
    rows = [reading(t, "cache_hit_tokens", v) for t, v in ((1, 10), (2, 60))]
    rows += [reading(t, "prompt_tokens", v) for t, v in ((1, 0), (2, 200))]
    [got] = use([run("a")], rows)
    assert got["cache_hit_share"] == 0.25


def statistic(name: str, metric: str, value: float, **changes: Any) -> dict[str, Any]:
    return reading(0, metric, value, source="x.json", statistic=name, run_id="a", **changes)


def test_statistics_stand_in_for_few_readings() -> None:
    rows = [statistic("p50", "running", 16), statistic("max", "running", 16)]
    rows += [statistic("p50", "waiting", 8), statistic("total", "cache_query_tokens", 50)]
    rows += [statistic("total", "cache_hit_tokens", 10), reading(1, "running", 3)]
    [got] = use([run("a"), run("b", 100, 110)], rows)
    assert (got["run_id"], got["told"], got["running_p50"], got["waiting_p50"]) == (
        "a",
        "statistics",
        16,
        8,
    )
    assert got["cache_hit_share"] == pytest.approx(0.2)
    rows += [reading(t, "running", 5) for t in range(2, 7)]
    [got] = use([run("a")], rows)
    assert (got["told"], got["running_p50"]) == ("readings", 5)


@pytest.mark.parametrize("clock", ["none", "relative"])
def test_a_run_without_a_wall_clock_matches_no_reading(clock: str) -> None:
    assert use([run("a", clock=clock)], [reading(1, "running", 5)]) == []


def test_no_engine_metrics_at_all() -> None:
    assert use([run("a")], []) == []
    source, frame = engine_over_time(Tables(runs=table("runs", [run("a")])))
    assert (source, len(frame)) == ("", 0)


def test_over_time_takes_the_source_that_sees_most_runs() -> None:
    runs = [run("a"), run("b", 20, 30)]
    few = [reading(t, "running", 1, source="few") for t in range(1, 6)]
    most = [reading(t, "running", t, source="most") for t in (1, 2, 3, 4, 5, 6, 21, 22, 23, 24, 25)]
    tables = Tables(runs=table("runs", runs), engine=table("engine", few + most))
    source, frame = engine_over_time(tables)
    assert source == "most"
    assert frame["value"].tolist() == [1, 2, 3, 4, 5, 6, 21, 22, 23, 24, 25]
    assert frame["ts_ns"].iloc[0] == T + S
