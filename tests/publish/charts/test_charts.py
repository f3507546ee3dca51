"""Each chart makes a specification that Vega draws, from a table written by hand."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import vl_convert

from servebook.publish import theme
from servebook.publish.charts.deviations import around_zero
from servebook.publish.charts.frequency import against_one_percent
from servebook.publish.charts.gains import per_doubling
from servebook.publish.charts.lines import over_concurrency
from servebook.publish.charts.matrix import of_settings
from servebook.publish.charts.ratios import around_one
from servebook.publish.charts.shares import of_a_whole
from servebook.publish.charts.survival import longer_than
from servebook.publish.charts.tail import on_a_log_rule
from servebook.publish.spec import specification

BLUE = {"colour": "#0072B2", "ink": "#005D91", "shape": "circle"}
RED = {"colour": "#D55E00", "ink": "#A34800", "shape": "square"}
NAN = math.nan


def line(series: str, look: dict[str, str], values: dict[int, float]) -> list[dict[str, Any]]:
    return [
        {
            "series": series,
            "label": f"label {series}",
            "dash": 0,
            "concurrency": c,
            "value": v,
            "low": v * 0.9 if c == 4 else NAN,
            "high": v * 1.1 if c == 4 else NAN,
            "tip": str(v),
            **look,
        }
        for c, v in values.items()
    ]


def lines() -> Any:
    points = pd.DataFrame(line("a", BLUE, {2: 100, 4: 150}) + line("b", RED, {2: 50, 4: 60, 8: 70}))
    pairs = pd.DataFrame(
        [{"concurrency": 2.0, "low": 50.0, "high": 100.0, "middle": 70.7, "text": "×2.0"}]
    )
    limits = pd.DataFrame([{"concurrency": 8.0, "text": "8 slots"}])
    remarks = pd.DataFrame([{"concurrency": 8.0, "value": 70.0, "text": "plateau"}])
    return over_concurrency(points, "tokens/s", pairs=pairs, limits=limits, remarks=remarks)


def one_point() -> Any:
    return over_concurrency(pd.DataFrame(line("label a", BLUE, {4: 100})), "tokens/s")


def gains() -> Any:
    row = {
        "series": "a",
        "label": "label a",
        "name": "label\na",
        "text": "×1.50",
        "gain": 1.5,
        "dash": 0,
    }
    return per_doubling(pd.DataFrame([{"middle": 2.83, "concurrencies": "2→4", **row, **BLUE}]))


def tails() -> Any:
    row = {"label": "label a", "median": 5.0, "tail": 50.0, "text": "p99 50 ms", "tip": "x"}
    return on_a_log_rule(
        pd.DataFrame(
            [{"row": "1", "mean": 6.0, **row, **BLUE}, {"row": "2", "mean": NAN, **row, **RED}]
        ),
        "gap, ms",
    )


def survival() -> Any:
    curve = [{"series": "label a", "x": x, "share": s} for x, s in ((5, 1.0), (6, 0.1), (60, 0.01))]
    curves = pd.DataFrame(curve).assign(colour="#0072B2", context=False)
    mark = {"series": "label a", "x": 60.0, "share": 0.01, "value": "p99 60 ms", **BLUE}
    marks = [{**mark, "text": "label a\np99 60 ms"}, {**mark, "share": 0.001, "text": ""}]
    return longer_than(curves, pd.DataFrame(marks), "gap, ms", "share")


def test_a_mark_without_a_text_is_drawn_without_a_label() -> None:
    layers = survival().to_dict()["layer"]
    rows = {one["mark"]["type"]: len(survival_rows(one)) for one in layers[1:]}
    assert rows == {"rule": 1, "point": 2, "text": 1}


def survival_rows(layer: dict[str, Any]) -> list[dict[str, Any]]:
    data = survival().to_dict()["datasets"]
    return list(data[layer["data"]["name"]])


@pytest.mark.parametrize("n", [1, 12])
def test_many_labels_do_not_press_the_plot_flat(n: int) -> None:
    names = [f"label {i}" for i in range(n)]
    curve = [{"series": s, "x": x, "share": y} for s in names for x, y in ((5, 1.0), (60, 0.01))]
    row = {"x": 60.0, "share": 0.01, **BLUE}
    marks = pd.DataFrame(
        [{"series": s, "value": "p99", "text": f"{s}\nof two\nlines", **row} for s in names]
    )
    curves = pd.DataFrame(curve).assign(colour="#0072B2", context=False)
    ends = [part for s in names for part in line(s + "\ntwo\nlines", BLUE, {1: 10.0, 4: 20.0})]
    for chart in (
        longer_than(curves, marks, "gap, ms", "share"),
        over_concurrency(pd.DataFrame(ends), "tokens/s"),
    ):
        text = vl_convert.vegalite_to_vega(specification(chart), vl_version="6.4")
        svg = ElementTree.fromstring(vl_convert.vega_to_svg(text))
        plot = svg.find(".//{*}path[@class='background']")
        assert plot is not None
        tall = float(plot.attrib["d"].partition("v")[2].partition("h")[0])
        assert tall > 200


def frequency() -> Any:
    row = {"series": "a", "label": "label a", "low": NAN, "high": NAN, "text": "p99 11 ms"}
    points = pd.DataFrame(
        [
            {"concurrency": 2.0, "share": 0.006, **row, **BLUE},
            {"concurrency": 4.0, "share": 0.02, **row, **BLUE},
        ]
    )
    expected = points[["series", "concurrency", "share"]]
    return against_one_percent(points, "gaps that are stalls", expected=expected)


def shares() -> Any:
    row = {"row": "1", "label": "label a: 10 %", "tip": "10 %", "colour": "#0072B2"}
    return of_a_whole(
        pd.DataFrame(
            [
                {"part": "stall", "start": 0.0, "end": 0.1, **row},
                {"part": "rest", "start": 0.1, "end": 1.0, **row},
            ]
        ),
        "decode time",
    )


def deviations() -> Any:
    rows = [("label a", 0.0, "agrees"), ("label a", -0.03, "differs by definition")]
    frame = pd.DataFrame(rows, columns=["row", "deviation", "verdict"]).assign(tip="x")
    return around_zero(frame, "ours ÷ theirs − 1", band=0.001, band_text="0.1 %")


def ratios() -> Any:
    row = {"row": "1", "label": "label a: 1 → 2", "ratio": 2.0, "text": "×2.0", "side": "right"}
    return around_one(pd.DataFrame([{**row, **RED}]), "b ÷ a")


def matrix() -> Any:
    cells = pd.DataFrame(
        [
            {"setting": "nodes", "column": i, "text": str(i + 1), "bold": True, "share": 0.5 * i}
            for i in (0, 1)
        ]
        + [{"setting": "engine", "column": 0, "text": "x", "bold": False, "share": NAN}]
    ).assign(colour="#0072B2")
    heads = pd.DataFrame(
        [{"column": 0, "text": "label a", **BLUE}, {"column": 1, "text": "label\nb", **RED}]
    )
    return of_settings(cells, heads)


CHARTS = [lines, one_point, gains, tails, survival, frequency, shares, deviations, ratios, matrix]


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("width", [theme.WIDTH, 340])
def test_the_picture_is_as_wide_as_asked_with_its_labels_inside(
    chart: Callable[[], Any], width: int
) -> None:
    spec = specification(chart(), "x") | {"width": width}
    svg = vl_convert.vegalite_to_svg(spec, vl_version="6.4")
    root = ElementTree.fromstring(svg)
    assert float(root.attrib["width"]) == pytest.approx(width, abs=12)
    text = "".join(root.itertext())
    assert "label" in text
    assert "NaN" not in svg
    assert "undefined" not in svg
    assert "Liberation Sans" in svg


@pytest.mark.parametrize("chart", CHARTS)
def test_the_same_table_gives_the_same_specification(chart: Callable[[], Any]) -> None:
    assert specification(chart()) == specification(chart())


def texts(chart: Any) -> str:
    svg = vl_convert.vegalite_to_svg(specification(chart), vl_version="6.4")
    return " ".join(ElementTree.fromstring(svg).itertext())


def test_factors_limits_and_remarks_are_drawn() -> None:
    shown = texts(lines())
    for word in ("×2.0", "8 slots", "plateau", "label a", "label b"):
        assert word in shown


def test_concurrencies_are_the_ticks() -> None:
    spec = specification(lines())
    encodings = [layer["encoding"] for layer in spec["layer"] if "x" in layer["encoding"]]
    values = [e["x"]["axis"]["values"] for e in encodings if "axis" in e["x"]]
    assert values[0] == [2, 4, 8]


def test_a_bar_that_shows_a_range_needs_one() -> None:
    """Only the point with repeats (concurrency 4) has a range drawn."""
    points = pd.DataFrame(line("a", BLUE, {2: 100, 4: 150}))
    with_range = specification(over_concurrency(points, "y"))
    without = specification(over_concurrency(points.assign(low=NAN, high=NAN), "y"))
    assert len(with_range["layer"]) == len(without["layer"]) + 1
