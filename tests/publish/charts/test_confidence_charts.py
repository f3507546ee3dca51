"""Charts of the chapter on confidence: they are drawn, and draw what they are given."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pandas as pd
import pytest
import vl_convert

from servebook.publish import theme
from servebook.publish.charts.cost_line import over_load
from servebook.publish.charts.coverage import against_promise
from servebook.publish.charts.forest import forest
from servebook.publish.charts.knees import by_method
from servebook.publish.charts.row_words import LETTERS
from servebook.publish.charts.steady import in_flight_over_time
from servebook.publish.charts.strip import strip

NAN = math.nan
HEADS = pd.DataFrame([{"row": "a", "label": "TTFT"}])
LOOK = {"colour": "#0072B2", "ink": "#005D91"}


def forest_rows(low: float = 0.9, high: float = 1.4) -> pd.DataFrame:
    base = {"noise_low": 0.97, "noise_high": 1.03} | LOOK
    return pd.DataFrame(
        [
            base
            | {
                "row": "a",
                "label": "Known",
                "ratio": 1.2,
                "low": low,
                "high": high,
                "text": "×1.2",
            },
            base
            | {"row": "b", "label": "Bare", "ratio": 0.5, "low": NAN, "high": NAN, "text": "×0.5"},
        ]
    )


def drawn(chart: Any) -> tuple[dict[str, Any], str]:
    spec = chart.to_dict()
    return spec, vl_convert.vegalite_to_svg(json.dumps(spec))


def strip_rows() -> tuple[pd.DataFrame, pd.DataFrame]:
    dots = pd.DataFrame(
        [{"row": "a", "value": v, "colour": "#0072B2", "tip": "t"} for v in (-0.03, 0.0, 0.2)]
    )
    return dots, pd.DataFrame([{"row": "a", "low": -0.1, "high": 0.3}])


CHARTS = {
    "forest": lambda: forest(forest_rows(), "b ÷ a", margin=0.05),
    "forest without intervals": lambda: forest(forest_rows().tail(1), "b ÷ a"),
    "strip": lambda: strip(HEADS, strip_rows()[0], "change", bars=strip_rows()[1]),
    "strip at 0": lambda: strip(HEADS, strip_rows()[0].assign(value=0.0), "change"),
    "coverage": lambda: against_promise(
        pd.DataFrame([{"row": "3", "label": "three", "share": 0.8, "colour": "#0072B2"}]), 0.95, "x"
    ),
    "knees": lambda: by_method(
        pd.DataFrame([{"row": "a", "label": "A", "low": 1, "high": 64}]),
        pd.DataFrame(
            [
                {"row": "a", "method": k, "name": "m", "value": 8.0, "low": 7.0, "high": 9.0}
                for k in range(3)
            ]
        ),
    ),
    "knees without a knee": lambda: by_method(
        pd.DataFrame([{"row": "a", "label": "A", "low": 1, "high": 64}]),
        pd.DataFrame(columns=["row", "method", "name", "value", "low", "high"]),
    ),
    "steady": lambda: in_flight_over_time(
        pd.DataFrame({"second": [0.0, 1.0, 2.0], "level": [1, 2, 0]}),
        pd.DataFrame(
            [{"start": 0.1, "end": 1.5, "last": 2.0, "limit": 2, "inside": "steady: 1.4 s"}]
        ),
        "#0072B2",
    ),
    "cost line": lambda: over_load(
        pd.DataFrame([{"series": "a", "x": 10.0, "y": 2.0, "shape": "circle", "tip": "t"} | LOOK]),
        pd.DataFrame(
            [
                {
                    "series": "a",
                    "label": "decode",
                    "x_low": 10.0,
                    "x_high": 40.0,
                    "y_low": 2.0,
                    "y_high": 5.0,
                    "floor": 1.0,
                    "floor_low": -0.5,
                    "floor_high": 2.5,
                }
                | LOOK
            ]
        ),
        "tokens/s",
        "Mbit/s",
    ),
}


@pytest.mark.parametrize("name", CHARTS)
def test_charts_are_drawn_at_the_pages_width(name: str) -> None:
    spec, svg = drawn(CHARTS[name]())
    assert spec["width"] == theme.WIDTH
    assert svg.count("<path") > 2


def test_a_ratio_without_an_interval_is_an_open_dot() -> None:
    spec, _ = drawn(forest(forest_rows(), "b ÷ a"))
    points = [layer for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    assert [p["mark"]["filled"] for p in points] == [False, True]
    assert [p["transform"][0]["filter"] for p in points] == ["!datum.known", "datum.known"]


def test_the_interval_is_within_the_axis() -> None:
    spec, _ = drawn(forest(forest_rows(0.2, 7.0), "b ÷ a"))
    (domain,) = {
        tuple(layer["encoding"]["x"]["scale"]["domain"])
        for layer in spec["layer"]
        if isinstance(layer["encoding"]["x"], dict) and "scale" in layer["encoding"]["x"]
    }
    assert domain[0] < 0.2
    assert domain[1] > 7.0


def test_words_stand_above_rows() -> None:
    _, svg = drawn(forest(forest_rows(), "b ÷ a"))
    assert "Known" in svg
    assert "×0.5" in svg


@pytest.mark.parametrize("name", ["forest", "knees"])
def test_words_of_a_row_too_long_for_a_phone_take_two_lines(name: str) -> None:
    long = (
        "Output throughput · one node NVFP4 TP8/DP1 ÷ two nodes FP8 TP4/DP4, mixed, 128 in flight"
    )
    if name == "forest":
        short, wide = (forest(forest_rows().assign(label=text), "b ÷ a") for text in ("a", long))
    else:
        places = pd.DataFrame(
            [{"row": "a", "method": 0, "name": "m", "value": 4.0, "low": NAN, "high": NAN}]
        )
        ranges = pd.DataFrame([{"row": "a", "label": "a", "low": 1, "high": 8}])
        short, wide = (by_method(ranges.assign(label=text), places) for text in ("a", long))
    spec, svg = drawn(wide)
    assert spec["height"] > short.to_dict()["height"]
    lines = [one for one in re.findall(r">([^<>]+)</t", svg) if one in long and len(one) > 20]
    assert len(set(lines)) == 2
    assert max(map(len, lines)) <= LETTERS
    # The last line is as far from the row's marks as an only line.
    words = [
        layer["mark"]["dy"]
        for layer in spec["layer"]
        if layer["mark"]["type"] == "text" and layer["mark"].get("align") == "left"
        and layer["encoding"]["text"]["field"] == "label"
    ]  # fmt: skip
    assert sorted({max(words) - dy for dy in words}) == [0, 14]
