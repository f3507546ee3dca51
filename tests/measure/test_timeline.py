"""Stretches, bands and breaks on times small enough to check by eye (seconds as ns)."""

import pandas as pd
import pytest

from servebook.measure.timeline import bands, breaks, outside, stretches

S = 1_000_000_000


def intervals(*spans):
    return pd.DataFrame(
        [
            {
                "device": "leaf",
                "interface": "e1",
                "direction": "tx",
                "t0_ns": a * S,
                "t1_ns": b * S,
                "flags": list(flags),
            }
            for a, b, *flags in spans
        ],
        columns=["device", "interface", "direction", "t0_ns", "t1_ns", "flags"],
    )


def phases(*spans):
    return pd.DataFrame(
        [
            {"run_id": r, "configuration": "x", "workload": w, "t0_ns": a * S, "t1_ns": b * S}
            for r, w, a, b in spans
        ],
        columns=["run_id", "configuration", "workload", "t0_ns", "t1_ns"],
    )


@pytest.mark.parametrize(
    ("spans", "runs", "expected"),
    [
        ([(0, 1), (1, 2)], [], [(0, 2, 0)]),
        ([(0, 1), (400, 401)], [], [(0, 1, 0), (400, 401, 0)]),
        ([(0, 1), (301, 302)], [], [(0, 302, 0)]),
        ([(0, 10)], [("a", "mixed", 8, 15), ("b", "mixed", 20, 30)], [(0, 15, 1)]),
        ([], [("a", "mixed", 8, 15)], []),
    ],
)
def test_stretches(spans, runs, expected):
    got = stretches(intervals(*spans), phases(*runs))
    found = [(r.t0_ns // S, r.t1_ns // S, r.n_phases) for r in got.itertuples()]
    assert found == expected


def test_bands_share_a_label_while_the_workload_stays():
    runs = phases(("c", "decode", 5, 6), ("a", "mixed", 0, 1), ("b", "mixed", 2, 3))
    got = bands(runs, stretches(intervals((0, 10)), runs))
    assert got[["run_id", "group"]].to_numpy().tolist() == [["a", 0], ["b", 0], ["c", 1]]


def test_bands_of_two_stretches_never_share_a_label():
    runs = phases(("a", "mixed", 0, 1), ("b", "mixed", 1000, 1001))
    got = bands(runs, stretches(intervals((0, 1), (1000, 1001)), runs))
    assert got[["stretch", "group"]].to_numpy().tolist() == [[0, 0], [1, 1]]


def test_bands_without_counters_are_none():
    assert bands(phases(("a", "mixed", 0, 1)), stretches(intervals(), phases())).empty


def test_breaks_and_nothing_else():
    got = breaks(intervals((0, 1), (1, 9, "gap"), (9, 10, "gap", "reset"), (10, 11, "wrap")))
    assert got[["t0_ns", "what"]].to_numpy().tolist() == [[1 * S, "gap"], [9 * S, "reset"]]


def test_phases_that_no_counter_saw():
    runs = phases(("a", "mixed", 0, 1), ("b", "mixed", 20, 30))
    assert outside(runs, intervals((0, 10)))["run_id"].tolist() == ["b"]
    assert outside(runs, intervals())["run_id"].tolist() == ["a", "b"]


def test_no_phases_and_no_intervals_keep_their_columns():
    assert outside(phases(), intervals()).columns.tolist() == phases().columns.tolist()
    assert breaks(intervals()).empty
