"""The charts of stalls and of the engine's timeline draw what they are given, and no more."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import vl_convert

from servebook.publish import theme
from servebook.publish.charts.anatomy import lost_over_tokens, own_against_other
from servebook.publish.charts.engine_timeline import timeline
from servebook.publish.spec import specification

BLUE = {"colour": "#0072B2", "ink": "#005D91", "shape": "circle"}


def anatomy(lost: tuple[float, ...] = (70.0,), fitted: bool = True) -> Any:
    points = pd.DataFrame(
        [{"series": "a", "tokens": t, "lost_ms": t / 50, "n": 3, "tip": "x"} for t in (500, 1000)]
    ).assign(**BLUE)
    line = {"series": "a", "label": "label a\n50k tokens/s", "x_low": 500, "x_high": 1000}
    line |= {"y_low": 10.0, "y_high": 20.0, "spread": 2.0}
    columns = [*line, *BLUE]
    lines = pd.DataFrame([line | BLUE] if fitted else [], columns=columns)
    return lost_over_tokens(points, lines, pd.DataFrame({"lost_ms": list(lost)}))


def control() -> Any:
    row = {"row": "r", "label": "label r", "own": 1.0, "other": 0.1, "chance": 0.12, "tip": "x"}
    last = row | {"row": "s", "other": math.nan}
    return own_against_other(pd.DataFrame([row, last]).assign(colour="#0072B2"), "share")


def lanes(second: float = 1.5) -> Any:
    blocks = pd.DataFrame(
        [
            {"run": "r", "kind": "decode", "a": 0, "b": 1, "t0": 0, "t1": 1280},
            {"run": "r", "kind": "stall", "a": 0, "b": 2, "t0": 256, "t1": 384},
            {"run": "other", "kind": "stall", "a": 0, "b": 4, "t0": 0, "t1": 1280},
        ]
    )
    kinds = [("decode", "tint"), ("stall", theme.INK)]
    run = {"run": "r", "label": "run r", "begin_s": 1.0, "end_s": 3.0, "step_s": 2 / 1280}
    run |= {"n_lanes": 2, "at_s": second, "remark": "label 3 prompts"}
    run |= {"colour": "#0072b2", "tint": "#b2d4e7"}
    other = run | {"run": "other", "n_lanes": 4, "remark": "", "tint": "#00ff00"}
    return timeline(blocks, kinds, pd.DataFrame([run, other]))


def test_the_timeline_shows_one_run_at_a_time() -> None:
    text = ElementTree.tostring(drawn(lanes()), encoding="unicode").lower()
    assert "#b2d4e7" in text
    assert "#00ff00" not in text
    choices = specification(lanes())["usermeta"]["choices"]
    assert choices["values"] == [["r", "run r"], ["other", "run r"]]


def drawn(chart: Any, width: int = theme.WIDTH) -> ElementTree.Element:
    spec = specification(chart, "x") | {"width": width}
    return ElementTree.fromstring(vl_convert.vegalite_to_svg(spec, vl_version="6.4"))


@pytest.mark.parametrize("chart", [anatomy, control, lanes])
@pytest.mark.parametrize("width", [theme.WIDTH, 340])
def test_the_picture_is_as_wide_as_asked_with_its_labels_inside(
    chart: Callable[[], Any], width: int
) -> None:
    root = drawn(chart(), width)
    assert float(root.attrib["width"]) == pytest.approx(width, abs=12)
    text = "".join(root.itertext())
    assert "label" in text
    assert "NaN" not in ElementTree.tostring(root, encoding="unicode")
    assert "e+" not in text


def test_unexplained_steps_and_lines_are_drawn_only_where_there_are_any() -> None:
    whole = len(specification(anatomy())["layer"])
    assert len(specification(anatomy(lost=()))["layer"]) == whole - 1
    assert len(specification(anatomy(fitted=False))["layer"]) == whole - 4


@pytest.mark.parametrize(("second", "words"), [(1.5, "▼ label"), (2.9, "prompts ▼")])
def test_the_words_stand_on_the_side_of_their_arrow_that_has_room(
    second: float, words: str
) -> None:
    assert words in "".join(drawn(lanes(second)).itertext())
