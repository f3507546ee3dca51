"""Views of one port, places of ports, and ports that stand apart, by hand."""

import pandas as pd
import pytest

from servebook.measure.rails import located, preferred, spread
from servebook.tables import table

PORTS = table(
    "ports",
    [
        {"device": "h-sysfs", "interface": "lo", "role": "host", "node": "h"},
        {"device": "h-snmp", "interface": "lo", "role": "host", "node": "h"},
        {"device": "leaf1", "interface": "e1", "role": "uplink", "node": "n1", "rail": 3},
        {"device": "leaf2", "interface": "e1", "role": "uplink", "node": "n1"},
    ],
)


def link(device, interface="e1", **more):
    known = {"source": f"{device}.csv", "scope": "port", "direction": "tx"}
    return {"device": device, "interface": interface} | known | more


def test_located():
    frame = pd.DataFrame([link("h-sysfs", "lo"), link("h-snmp", "lo"), link("leaf1"), link("x")])
    got = located(frame, PORTS)
    assert got["place"].tolist() == ["h-sysfs", "h-snmp", "n1", "x"]
    assert got["rail"].tolist() == [None, None, 3, None]
    assert got["physical"][0] == got["physical"][1]
    assert got["physical"].nunique() == 3


def test_ports_of_one_name_on_two_switches_are_two_ports():
    got = located(pd.DataFrame([link("leaf1"), link("leaf2")]), PORTS)
    assert got["place"].tolist() == ["n1", "n1"]
    assert got["physical"].nunique() == 2


def test_the_view_with_the_most_readings_counts_once_per_run():
    rows = [
        link("h-sysfs", "lo", run_id="a", n_inside=2),
        link("h-snmp", "lo", run_id="a", n_inside=9),
        link("h-sysfs", "lo", run_id="b", n_inside=2),
        link("leaf1", run_id="a", n_inside=1),
    ]
    got = preferred(located(pd.DataFrame(rows), PORTS))
    assert got[["run_id", "device"]].to_numpy().tolist() == [
        ["a", "h-snmp"],
        ["b", "h-sysfs"],
        ["a", "leaf1"],
    ]


@pytest.mark.parametrize(
    ("values", "outliers"),
    [
        ([10, 10, 10, 10, 30], [30]),
        ([10, 10, 10, 10, 10.9], []),  # far for such even ports, but within 10 %
        ([10, 11, 12, 13, 14], []),
        ([10, 10, 30], []),  # three ports show no usual value
        ([0, 0, 0, 0], []),
        ([0, 10, 10, 10, 10], [0]),
    ],
)
def test_outliers(values, outliers):
    got = spread(pd.DataFrame({"direction": "tx", "value": [float(v) for v in values]}))
    assert got.loc[got["outlier"], "value"].tolist() == outliers
    assert got["rank"].tolist() == list(range(1, len(values) + 1))


def test_directions_are_judged_apart():
    frame = pd.DataFrame(
        {"direction": ["tx"] * 4 + ["rx"] * 4, "value": [1.0, 1, 1, 1, 9, 9, 9, 9]}
    )
    got = spread(frame)
    assert not got["outlier"].any()
    assert got.groupby("direction")["middle"].first().to_dict() == {"rx": 9, "tx": 1}


def test_nothing_spreads_to_nothing():
    assert spread(pd.DataFrame({"direction": [], "value": []})).empty
