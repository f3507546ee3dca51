"""Bytes of whole runs, by hand."""

import numpy as np
import pandas as pd
import pytest

from servebook.measure.run_bytes import above_idle, run_totals


def link(interface, direction="tx", *, n_bytes=100.0, idle=10.0, **more):
    known = {
        "run_id": "r",
        "configuration": "c",
        "workload": "decode",
        "concurrency": 8,
        "scope": "port",
        "role": "uplink",
        "tokens": 20.0,
        "basis": "output",
        "idle_steady": True,
        "why": "",
    }
    return (
        known
        | {
            "interface": interface,
            "direction": direction,
            "bytes": n_bytes,
            "idle_bytes": idle,
        }
        | more
    )


def totals(*rows):
    return run_totals(pd.DataFrame(rows)).set_index("direction")


def test_links_are_summed_per_direction():
    got = totals(link("e1"), link("e2", n_bytes=300.0), link("e1", "rx", n_bytes=50.0))
    assert got.loc["tx", ["n_links", "bytes", "gross", "net"]].tolist() == [2, 400, 20, 19]
    assert got.loc["rx", ["n_links", "bytes", "gross", "net"]].tolist() == [1, 50, 2.5, 2]


@pytest.mark.parametrize(
    "other",
    [
        link("e2", role="spine"),
        link("e2", role="host"),
        link("e2", role=None),
        link("e1", scope="rdma"),
    ],
)
def test_traffic_seen_by_two_kinds_of_counters_counts_once(other):
    got = totals(link("e1"), other)
    assert got.loc["tx", ["n_links", "bytes"]].tolist() == [1, 100]


def test_one_link_that_was_not_watched_makes_the_sum_unknown():
    got = totals(link("e1"), link("e2", why="not watched", tokens=np.nan))
    assert np.isnan(got.loc["tx", "gross"])
    assert got.loc["tx", "why"] == "not watched"


def test_an_unknown_idle_level_leaves_gross_alone():
    got = totals(link("e1"), link("e2", idle=np.nan, idle_steady=False))
    assert got.loc["tx", "gross"] == 10
    assert np.isnan(got.loc["tx", "net"])
    assert not got.loc["tx", "idle_steady"]


def test_a_difference_of_rounding_is_nothing_above_idle():
    assert above_idle(1729060.0, 1729060.0 * (1 - 1e-15)) == 0
    assert above_idle(100.0, 90.0) == 10
    assert above_idle(100.0, 120.0) == -20
    assert np.isnan(above_idle(100.0, np.nan))
    assert totals(link("e1", n_bytes=0.3, idle=0.1 * 3)).loc["tx", "net"] == 0


def test_nothing_sums_to_nothing():
    assert run_totals(pd.DataFrame([link("e1")]).head(0)).empty
