"""One quantity, one number: what two figures of the shipped campaign both say must agree."""

from __future__ import annotations

import re
from typing import Any

import pytest
from small import loopback

from servebook.publish.chapters import (
    fabric_levels,
    fabric_time,
    limit,
    mixed,
    overview,
    stall_arithmetic,
)
from servebook.publish.output import Figure
from servebook.publish.spec import specification


def drawn(figure: Figure) -> dict[str, Any]:
    assert figure.chart is not None
    return specification(figure.chart)


def text_of(spec: Any, key: str) -> list[Any]:
    """All values of a key, wherever it stands."""
    if isinstance(spec, dict):
        own = [spec[key]] if key in spec else []
        return own + [hit for value in spec.values() for hit in text_of(value, key)]
    if isinstance(spec, list):
        return [hit for value in spec for hit in text_of(value, key)]
    return []


def test_the_overview_gives_the_tail_that_the_figure_of_tails_gives() -> None:
    glance, tail = overview.glance(loopback()).table, mixed.tail(loopback()).table
    assert glance is not None
    assert tail is not None
    ours = glance[glance["metric"] == "ITL p99 / median"].set_index("configuration")["value"]
    theirs = tail[tail["requests in flight"] == 8].set_index("configuration")["p99 / median"]
    assert ours["16 slots"] == pytest.approx(theirs["16 slots · 768/128"])
    assert ours["16 slots, chunked"] == pytest.approx(theirs["16 slots, chunked · 768/128"])


def test_both_figures_of_use_name_the_same_usual_range() -> None:
    spans = [
        re.findall(r"usually carries ([\d.]+ %) to ([\d.]+ %)", figure.title)
        for figure in (fabric_time.over_time(loopback()), fabric_levels.link_use(loopback()))
    ]
    assert spans[0] == spans[1] != []


def test_the_tokens_of_a_stall_are_its_prompts_times_their_length() -> None:
    subtitle = stall_arithmetic.arithmetic(loopback()).subtitle
    (tokens, prompts, isl) = re.findall(
        r"holds about ([\d,]+) prompt tokens, ([\d.]+) prompts \(.*?(\d+)/\d+", subtitle
    )[0]
    assert float(tokens.replace(",", "")) == pytest.approx(float(prompts) * float(isl), rel=0.05)


def test_where_the_sum_tells_nothing_of_the_tail_no_arrow_is_drawn() -> None:
    figure = stall_arithmetic.hidden_tail(loopback())
    assert figure.table is not None
    assert not figure.table["Mean above p99"].any()
    spec = drawn(figure)
    arrows = [layer for layer in spec["layer"] if layer["mark"].get("shape") == "triangle-right"]
    (data,) = [spec["datasets"][layer["data"]["name"]] for layer in arrows]
    assert data == []
    assert "arrow" not in "".join(str(t) for t in text_of(spec, "title"))


def test_an_axis_has_the_unit_of_the_words_at_its_points() -> None:
    spec = drawn(limit.beyond_slots(loopback()))
    assert "TTFT mean, ms" in text_of(spec, "title")
    values = [row["ttft"] for rows in spec["datasets"].values() for row in rows if "ttft" in row]
    assert max(values) == pytest.approx(708, abs=0.5)
