"""Words have room: beside bars, above rows, in a column at the right; far dots press no axis."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
import vl_convert

from servebook.publish.chapters.common import _lines
from servebook.publish.chapters.decode import _elsewhere
from servebook.publish.chapters.mixed import _named
from servebook.publish.chapters.sweep import _bounds
from servebook.publish.charts import cells, deviations, differences
from servebook.publish.charts.engine_side import running_and_waiting
from servebook.publish.charts.gains import per_doubling
from servebook.publish.charts.layout import axis_end
from servebook.publish.charts.lines import over_concurrency
from servebook.publish.charts.parts import stacked
from servebook.publish.charts.shares import of_a_whole
from servebook.publish.spec import specification
from servebook.read.campaign import load

LOOPBACK = Path(__file__).parents[3] / "data" / "loopback"
LONG = "host-by-snmp / host-by-prometheus, eth0 out"
PLACE = re.compile(r"translate\((-?[\d.]+),")


def drawn(chart: Any, width: int) -> dict[str, float]:
    """Each text of the picture at this width, with the x at which it begins."""
    svg = vl_convert.vegalite_to_svg(specification(chart) | {"width": width}, vl_version="6.4")
    found: dict[str, float] = {}

    def walk(node: ElementTree.Element, x: float) -> None:
        if (place := PLACE.match(node.get("transform", ""))) is not None:
            x += float(place[1])
        if node.tag.endswith("text"):
            found["".join(node.itertext())] = x
        for child in node:
            walk(child, x)

    walk(ElementTree.fromstring(svg), 0.0)
    return found


@pytest.mark.parametrize(
    ("ends", "texts", "end"),
    [
        ([100.0, 50.0], ["", ""], 103.0),  # no words: a little air
        ([100.0], ["x" * 10], 100 / (1 - (64 + 12) / 320)),
        ([100.0, 10.0], ["", "x" * 10], 103.0),  # words beside a short bar need no room
        ([100.0], ["x" * 80], 200.0),  # at most half of the plot
    ],
)
def test_an_axis_ends_where_words_beside_bars_do(
    ends: list[float], texts: list[str], end: float
) -> None:
    assert axis_end(ends, texts) == pytest.approx(end)


def bars(text: str) -> Any:
    part = {"row": "a", "part": "p", "low": 0.0, "high": 10.0, "colour": "#0072B2", "tip": "x"}
    end = {"row": "a", "label": "row a", "end": 10.0, "measured": 8.0, "text": text}
    return stacked(pd.DataFrame([part]), pd.DataFrame([end]), "ms")


@pytest.mark.parametrize("width", [340, 790])
def test_words_end_inside_the_picture(width: int) -> None:
    start = drawn(bars("75 % waiting"), width)["75 % waiting"]
    assert start + 6.0 * len("75 % waiting") <= width


def test_a_bar_takes_most_of_a_wide_picture() -> None:
    assert drawn(bars("1"), 790)["1"] > 0.85 * 790


@pytest.mark.parametrize("width", [790, 340])
def test_a_long_name_stands_in_two_lines_and_is_whole_on_a_phone_too(width: int) -> None:
    name = "Chunks read one by one: " + "24 one by one, 2 bunched and 12 not told"
    part = {"row": "a", "label": name, "part": "p", "start": 0.0, "end": 1.0}
    chart = of_a_whole(pd.DataFrame([{**part, "colour": "#8a8a8a", "tip": "x"}]), "share")
    shown = drawn(chart, width)
    assert any(one.replace(" ", "") == name.replace(" ", "") for one in shown)
    assert not any("\u2026" in one for one in shown)


def two_dots(far: float) -> Any:
    rows = [(f"row {i}", d, "TTFT mean") for i, d in enumerate([-0.05, 0.02, 0.04, 0.1, far])]
    frame = pd.DataFrame(rows, columns=["row", "deviation", "kind"])
    return differences.around_zero(frame.assign(tip="x", front=True), "there against here")


@pytest.mark.parametrize(("far", "log"), [(0.2, False), (2.5, True)])
def test_a_far_dot_makes_the_axis_logarithmic_and_the_title_say_so(far: float, log: bool) -> None:
    shown = drawn(two_dots(far), 790)
    assert ("there against here (log beyond ±10 %)" in shown) is log
    assert ("there against here" in shown) is not log
    assert ("+100 %" in shown) is log


@pytest.mark.parametrize("name", ["TTFT mean", LONG])
def test_a_long_name_of_a_row_stands_above_it(name: str) -> None:
    frame = pd.DataFrame({"row": [name], "deviation": [0.002], "verdict": ["agrees"], "tip": ["x"]})
    shown = drawn(deviations.around_zero(frame, "second over first", band=0.01), 330)
    assert name in shown  # in full
    zero = shown["0 %"]
    assert zero > 100
    assert (shown[name] < 10) is (name == LONG)


def test_bars_of_the_engine_begin_at_the_left_edge_with_their_names_above() -> None:
    rows = pd.DataFrame(
        {
            "row": ["16 slots, chunked · mixed · 24 set"],
            "running": [16.0],
            "waiting": [8.0],
            "set": [24.0],
            "colour": ["#0072B2"],
            "text": ["16 ran, 8 waited"],
        }
    )
    limits = pd.DataFrame({"row": rows["row"], "slots": [16.0]})
    shown = drawn(running_and_waiting(rows, limits), 340)
    assert shown["16 slots, chunked · mixed · 24 set: 16 ran, 8 waited"] < 10


def test_gains_are_named_at_the_right_of_their_dots() -> None:
    row = {"concurrencies": "2→4", "gain": 0.6, "text": "×0.60", "colour": "#0072B2", "dash": 0}
    look = {"series": "a", "label": "a, b", "name": "a", "ink": "#005D91", "shape": "circle"}
    shown = drawn(per_doubling(pd.DataFrame([{"middle": 2.83, **row, **look}])), 790)
    assert {"a", "×1no gain", "×2as the load", "×0.60", "×0.5"} <= set(shown)
    assert shown["a"] > shown["×0.60"] > shown["×1no gain"]


@pytest.mark.parametrize(("n", "low"), [(2, True), (4, False)])
def test_one_step_needs_less_height_than_a_grid(n: int, low: bool) -> None:
    place = range(n)
    points = pd.DataFrame({"column": place, "value": 100.0, "series": "a", "label": "x"})
    look = {"colour": "#0072B2", "ink": "#005D91", "shape": "circle", "tip": "x"}
    columns = pd.DataFrame({"column": place, "head": "h", "empty": False, "lacking": ""})
    none = pd.DataFrame(columns=["column", "value", "low", "high", "middle", "text"])
    spec = specification(cells.grid(points.assign(**look), columns, none, none, "tokens/s"))
    assert spec["height"] == (250 if low else 400)


def test_a_running_batch_far_below_the_load_names_the_load() -> None:
    rows = pd.DataFrame(
        {"running_batch": [31.0, 63.5], "concurrency": [32, 128], "tpot_mean_ms": [21.0, 28.0]}
    )
    found = _elsewhere(rows, "tpot_mean_ms")
    assert found.to_dict("records") == [
        {"concurrency": 63.5, "value": 28.0, "text": "128 in flight"}
    ]


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        (["16 slots"], ["16 slots"]),
        (["8 slots", "AIPerf", "512/1"], ["8 slots", "AIPerf · 512/1"]),
        (["8 slots", "vLLM bench serve", "512/1"], ["8 slots", "vLLM bench serve", "512/1"]),
        (["a", "AIPerf", "512/1", "KV reuse"], ["a", "AIPerf · 512/1", "KV reuse"]),
    ],
)
def test_a_name_has_as_few_lines_as_fit(parts: list[str], lines: list[str]) -> None:
    assert _lines(parts) == lines


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ([("p99", "111 ms"), ("p99.9", "111 ms")], ["p99 = p99.9 = 111 ms"]),
        ([("p99", "28 ms"), ("p99.9", "62 ms")], ["p99 28 ms", "p99.9 62 ms"]),
        ([("p99", "28 ms")], ["p99 28 ms"]),
        ([], []),
    ],
)
def test_equal_percentiles_share_a_line(given: list[tuple[str, str]], lines: list[str]) -> None:
    assert _named(given) == lines


@pytest.mark.parametrize(("limit", "shown"), [(200.0, True), (3000.0, False)])
def test_a_limit_is_drawn_where_it_is_near_the_points(limit: float, shown: bool) -> None:
    look = {"series": "a", "label": "a", "colour": "#0072B2", "ink": "#005D91", "shape": "circle"}
    ms = pd.DataFrame({"concurrency": [1.0, 2.0], "value": [52.0, 97.0], **look, "dash": 0})
    points = ms.assign(low=float("nan"), high=float("nan"), tip="x")
    bounds = pd.DataFrame({"value": [limit], "text": ["TTFT at most"]})
    chart = over_concurrency(points, "ms", bounds=bounds)
    assert ("TTFT at most" in drawn(chart, 790)) is shown
    assert specification(over_concurrency(points, "ms", bounds=bounds.head(0))) == specification(
        over_concurrency(points, "ms")
    )


def test_the_limit_of_a_latency_is_the_manifests() -> None:
    book = load(LOOPBACK)  # its manifest: slos: {ttft_ms: 200, tpot_ms: 15}
    assert _bounds(book, "ttft").to_dict("records") == [
        {"value": 200.0, "text": "TTFT at most 200 ms"}
    ]
    assert _bounds(book, "e2e").empty


def test_two_series_of_one_configuration_differ_in_their_lines() -> None:
    look = {"label": "a", "colour": "#0072B2", "ink": "#005D91", "shape": "circle"}
    steps = [
        {"middle": at, "concurrencies": "x", "gain": gain, "text": "×", "series": s, "dash": d}
        for s, d, gain in (("8,192/1", 0, 1.1), ("16,384/1", 1, 1.5))
        for at in (2.83, 5.66)
    ]
    spec = specification(per_doubling(pd.DataFrame(steps).assign(**look, name="a")))
    (dashes,) = [
        layer["encoding"]["strokeDash"]["scale"]
        for layer in spec["layer"]
        if isinstance(layer.get("encoding", {}).get("strokeDash"), dict)
    ]
    assert dashes == {"domain": ["8,192/1", "16,384/1"], "range": [[1, 0], [6, 3]]}


@pytest.mark.parametrize("gain", [1.94, 2.02, 1.97, 1.0, 0.97, 1.03, 1.5])
def test_the_words_of_a_gain_are_not_crossed_by_the_rule_of_a_level(gain: float) -> None:
    row = {"gain": gain, "text": f"×{gain}", "series": "s", "label": "s", "name": "s", "dash": 0}
    look = {"colour": "#0072B2", "ink": "#005D91", "shape": "circle", "concurrencies": "2→4"}
    spec = per_doubling(pd.DataFrame([{"middle": 2.83, **row, **look}])).to_dict()
    words = [one for rows in spec["datasets"].values() for one in rows if "dy" in one]
    assert [one["text"] for one in words] == [f"×{gain}"]
    low, high = 0.75, 2.15
    px = (240 - 50) / (high - low)
    (place,) = [(high - gain) * px + one["dy"] for one in words]  # from the top
    assert all(abs(place - (high - level) * px) > 6.5 for level in (1.0, 2.0))
    assert abs(words[0]["dy"]) <= 16
