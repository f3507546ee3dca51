"""Colours follow the configuration, contrast holds, the theme reaches the spec."""

from __future__ import annotations

from dataclasses import dataclass

import altair as alt
import pandas as pd
import pytest

from servebook.publish import theme


@dataclass
class Config:
    name: str
    nodes: int | None = None


def luminance(colour: str) -> float:
    def channel(text: str) -> float:
        c = int(text, 16) / 255
        return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4

    r, g, b = (channel(colour[i : i + 2]) for i in (1, 3, 5))
    return float(0.2126 * r + 0.7152 * g + 0.0722 * b)


def test_hue_tells_nodes_and_shade_tells_layout() -> None:
    result = theme.looks([Config("a", 1), Config("b", 1), Config("c", 2), Config("d", 2)])
    assert [result[n].colour for n in "abcd"] == ["#0072B2", "#56B4E9", "#D55E00", "#E69F00"]
    assert len({look.shape for look in result.values()}) == 4


@pytest.mark.parametrize(
    "nodes",
    [
        [None, None, None],  # not stated
        [1, 1, 1],  # all the same
        [1, 2, None],  # partly stated
    ],
)
def test_otherwise_a_fixed_order_of_distinct_hues(nodes: list[int | None]) -> None:
    result = theme.looks([Config(n, k) for n, k in zip("abc", nodes, strict=True)])
    assert [result[n].colour for n in "abc"] == ["#0072B2", "#D55E00", "#009E73"]


def test_more_layouts_than_shades_fall_back_to_the_fixed_order() -> None:
    result = theme.looks([Config("a", 1), Config("b", 1), Config("c", 1), Config("d", 2)])
    assert len({look.colour for look in result.values()}) == 4


def test_twenty_configurations_differ_in_colour_or_marker() -> None:
    result = theme.looks([Config(str(i)) for i in range(20)])
    assert len({(look.colour, look.shape) for look in result.values()}) == 20


def test_text_inks_can_be_read_on_white() -> None:
    inks = [look.text for look in theme.looks([Config(str(i)) for i in range(8)]).values()]
    inks += [
        look.text for look in theme.looks([Config(str(i), 1 + i // 2) for i in range(6)]).values()
    ]
    for ink in [*inks, theme.INK, theme.MUTED]:
        assert 1.05 / (luminance(ink) + 0.05) >= 4.5, ink


def test_the_theme_and_the_whole_width_reach_the_spec() -> None:
    data = pd.DataFrame({"x": [1, 2], "y": [1, 2]})
    spec = theme.finish(alt.Chart(data).mark_point().encode(x="x", y="y"), height=100).to_dict()
    assert spec["config"]["font"].startswith("Liberation Sans")
    assert (spec["width"], spec["height"]) == (theme.WIDTH, 100)
    assert spec["autosize"] == {"type": "fit", "contains": "padding"}
