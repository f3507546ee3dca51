"""Polls and agreement on readings small enough to add up by hand (seconds as ns)."""

import numpy as np
import pandas as pd
import pytest

from servebook.measure.readings import agreement, polls
from servebook.tables import table

S = 1_000_000_000


def readings(device, *rows, direction="tx", interface="lo"):
    return pd.DataFrame(
        [
            {
                "source": f"{device}.csv",
                "scope": "port",
                "device": device,
                "interface": interface,
                "direction": direction,
                "t0_ns": a * S,
                "t1_ns": b * S,
                "bytes": float(n),
                "util_fraction": u,
                "flags": list(flags),
            }
            for a, b, n, u, *flags in rows
        ]
    )


def ports(*rows):
    return table(
        "ports", [{"device": d, "interface": "lo", "role": r, "node": n} for d, r, n in rows]
    )


HOST = ports(("a", "host", "h"), ("b", "host", "h"))


def test_polls_give_the_longest_burst_that_a_reading_could_hide():
    frame = readings("a", (0, 2, 0, 0.1), (2, 4, 0, 0.2), (4, 7, 0, 0.1), (7, 60, 0, 0.9, "gap"))
    (row,) = polls(frame).to_dict("records")
    assert row["n_intervals"] == 3
    assert (row["poll_s"], row["longest_s"]) == (2, 3)
    assert row["burst_s"] == pytest.approx(0.4)  # 20 % of 2 s, not 30 % of 3 s


def test_without_a_speed_the_burst_is_not_known():
    (row,) = polls(readings("a", (0, 2, 10, np.nan))).to_dict("records")
    assert np.isnan(row["burst_s"])


def test_polls_of_nothing():
    assert polls(readings("a", (0, 1, 1, 0.1)).head(0)).empty


def test_agreement_over_the_common_window():
    one = readings("a", (0, 1, 100, 0), (1, 2, 100, 0), (2, 3, 100, 0), (3, 4, 100, 0))
    other = readings("b", (1, 3, 220, 0), (3, 5, 180, 0))
    (row,) = agreement(pd.concat([one, other]), HOST).to_dict("records")
    assert (row["t0_ns"], row["t1_ns"]) == (1 * S, 4 * S)
    assert row["bytes"] == pytest.approx(300)
    assert row["other_bytes"] == pytest.approx(220 + 90)  # half of the last interval
    assert row["deviation"] == pytest.approx(310 / 300 - 1)
    assert row["edge_fraction"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "stated",
    [
        ports(("a", "uplink", "h"), ("b", "uplink", "h")),  # two switches: two links
        ports(("a", "host", "h"), ("b", "host", "other")),
        ports(("a", "host", None), ("b", "host", None)),
        ports(),
    ],
)
def test_links_that_are_not_one_interface_are_not_compared(stated):
    frame = pd.concat([readings("a", (0, 1, 1, 0)), readings("b", (0, 1, 1, 0))])
    assert agreement(frame, stated).empty


def test_readings_at_different_times_are_not_compared():
    frame = pd.concat([readings("a", (0, 1, 1, 0)), readings("b", (5, 6, 1, 0))])
    assert agreement(frame, HOST).empty


def test_a_source_that_counted_nothing_has_no_deviation():
    frame = pd.concat([readings("a", (0, 1, 0, 0)), readings("b", (0, 1, 5, 0))])
    assert np.isnan(agreement(frame, HOST)["deviation"].item())


def test_two_sources_of_one_device_are_compared_without_the_manifest():
    one = readings("a", (0, 1, 100, 0), (1, 2, 100, 0))
    other = readings("a", (0, 2, 190, 0)).assign(source="other.json")
    (row,) = agreement(pd.concat([one, other]), ports()).to_dict("records")
    assert (row["source"], row["other_source"]) == ("a.csv", "other.json")
    assert row["deviation"] == pytest.approx(-0.05)
