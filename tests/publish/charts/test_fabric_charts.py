"""The fabric's and the memory's charts draw what they are given, and nothing else."""

import pandas as pd
import pytest

from servebook.publish import theme
from servebook.publish.charts.fabric_balance import balance
from servebook.publish.charts.fabric_levels import levels
from servebook.publish.charts.fabric_ports import ports
from servebook.publish.charts.fabric_time import Panel, waveform
from servebook.publish.charts.fabric_tokens import per_token
from servebook.publish.charts.memory import memory_bars
from servebook.publish.spec import specification

EVIL = "</script><img src=x onerror=alert(1)>"


def marks(spec):
    """The kinds of marks in a specification, however deep."""
    found = []
    if "mark" in spec:
        found.append(spec["mark"]["type"])
    for key in ("layer", "vconcat", "hconcat"):
        for part in spec.get(key, ()):
            found += marks(part)
    return found


def time_frames(panel="p"):
    points = pd.DataFrame({"panel": panel, "series": "tx 0", "x": [0, 1, 2], "mid": [1.0, 3, 2]})
    none = points.head(0)
    return (
        points,
        none.assign(low=0.0, high=0.0),
        pd.DataFrame(
            {"panel": [panel], "x": [0.5], "x2": [1.5], "workload": ["mixed"], "words": [EVIL]}
        ),
        pd.DataFrame({"panel": [panel], "x": [1.0], "words": ["mixed"]}),
        pd.DataFrame(columns=["panel", "x", "x2", "what", "words"]),
    )


def panel(**more):
    known = {"name": "p", "title": "leaf", "x_title": "seconds", "x_end": 2.0, "y_title": "%"}
    return Panel(**(known | {"y_limit": 4.0} | more))


def test_a_panel_is_drawn_zoomed_and_on_the_whole_axis():
    spec = specification(waveform(*time_frames(), [panel(full=100.0)]))
    domains = [
        next(
            layer["encoding"]["y"]["scale"]["domain"]
            for layer in part["layer"]
            if "scale" in layer.get("encoding", {}).get("y", {})
        )
        for part in spec["vconcat"]
    ]
    assert domains == [[-4, 4], [-100, 100]]


def test_without_a_speed_there_is_no_whole_axis():
    assert len(specification(waveform(*time_frames(), [panel()]))["vconcat"]) == 1


def test_areas_are_not_stacked_on_through_a_gap():
    spec = specification(waveform(*time_frames(), [panel()]))
    areas = [la for la in spec["vconcat"][0]["layer"] if la["mark"]["type"] == "area"]
    assert areas
    assert all(
        la["encoding"]["y"].get("stack", 0) is None for la in areas if "y2" not in la["encoding"]
    )


def test_each_panel_has_its_own_rows():
    frames = [pd.concat([a, b]) for a, b in zip(time_frames("p"), time_frames("q"), strict=True)]
    spec = specification(waveform(*frames, [panel(), panel(name="q")]))
    sizes = {len(rows) for rows in spec["datasets"].values() if rows and "mid" in rows[0]}
    assert sizes == {3}


def test_levels_have_a_gauge_to_full_only_with_a_speed():
    rows = pd.DataFrame(
        [
            {
                "row": "a",
                "label": EVIL,
                "usual": 1.0,
                "peak": 2.0,
                "floor": 0.5,
                "text": "1 %",
                "colour": "#0072B2",
                "tip": "t",
            }
        ]
    )
    gauge, zoomed = specification(levels(rows, "%", 3.0, 100.0))["layer"]
    assert gauge["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, 100]
    assert zoomed["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, 3]
    alone = specification(levels(rows, "Mbit/s", 3.0, None))
    assert [la["mark"]["type"] for la in alone["layer"]] == ["bar", "tick", "point", "text", "text"]


def test_ports_name_the_outliers_only():
    dots = pd.DataFrame(
        {
            "rank": [1, 2],
            "value": [1.0, 9.0],
            "way": ["out", "out"],
            "port": ["a", "b"],
            "name": ["", "b"],
            "colour": ["#222222"] * 2,
            "tip": ["", ""],
        }
    )
    lines = pd.DataFrame({"value": [5.0], "words": ["median"]})
    spec = specification(ports(dots, lines, "%", 10.0))
    assert marks(spec) == ["rule", "text", "point", "text"]


def test_balance_reaches_as_far_to_both_sides():
    rows = pd.DataFrame(
        [
            {
                "row": "a",
                "label": "a",
                "received": -3.0,
                "sent": 4.0,
                "colour": "#0072B2",
                "text": "×1.3",
                "tip": "t",
            }
        ]
    )
    spec = specification(balance(rows, "MB", 5.0))
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [-5, 5]


def test_per_token_draws_rings_for_gross_and_dots_for_net():
    dots = pd.DataFrame(
        [
            {"row": "a", "kind": k, "value": v, "colour": "#0072B2", "tip": "t"}
            for k, v in (("gross", 10.0), ("net", 8.0))
        ]
    )
    rows = pd.DataFrame([{"row": "a", "label": "a", "total": 8.0, "text": "8 B", "text_x": 10.0}])
    spec = specification(per_token(dots, rows, "bytes per token"))
    assert [la["mark"]["filled"] for la in spec["layer"][:1]] == [False]
    low, high = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < 8
    assert high > 10


def test_memory_ends_its_axis_where_it_is_told():
    parts = pd.DataFrame(
        [
            {
                "row": "a",
                "part": "weights",
                "from_gb": 0.0,
                "to_gb": 5.0,
                "colour": "#0072B2",
                "words": EVIL,
            }
        ]
    )
    ends = pd.DataFrame(
        [{"row": "a", "hbm_gb": 8.0, "weights_gb": 5.0, "name": "a", "words": "3 GB left"}]
    )
    spec = specification(memory_bars(parts, ends, 12.0))
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, 12]
    assert spec["width"] == theme.WIDTH


@pytest.mark.parametrize("full", [None, 100.0])
def test_panels_stay_within_the_width_of_the_page(full):
    spec = specification(waveform(*time_frames(), [panel(full=full)]))
    assert all(part["width"] < theme.WIDTH for part in spec["vconcat"])
