"""Every chapter function works for every campaign, and says in words what one lacks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from small import campaign

from servebook.publish.chapters import (
    common,
    confidence,
    decode,
    engine_side,
    mixed,
    prefill,
    setup,
    trust,
    trust_definitions,
    trust_summaries,
)
from servebook.publish.display import payload
from servebook.publish.output import Figure, Output, Section, Statement
from servebook.read.campaign import Campaign

CHAPTERS = (
    setup,
    trust,
    trust_definitions,
    trust_summaries,
    prefill,
    decode,
    mixed,
    engine_side,
    confidence,
)
FUNCTIONS = [
    pytest.param(getattr(chapter, name), id=f"{chapter.__name__.rsplit('.', 1)[-1]}.{name}")
    for chapter in CHAPTERS
    for name in chapter.__all__
]
CAMPAIGNS: dict[str, dict[str, dict[str, Any]]] = {
    "one run": {"r": {"gaps_ms": [5.0] * 60}},
    "all failed": {"r": {"status": "failed"}, "s": {"status": "failed", "workload": "prefill"}},
    "all cancelled": {"r": {"status": "cancelled", "workload": "decode"}},
    "no mixed run": {
        "p": {"workload": "prefill"},
        "d": {"workload": "decode", "gaps_ms": [5.0] * 60},
    },
    "summary only": {"r": {"level": "summary"}, "d": {"level": "summary", "workload": "decode"}},
    "no configuration": {"r": {"configuration": None, "gaps_ms": [5.0] * 60}},
    "durations only": {"r": {"gaps_ms": [5.0] * 400, "clock": "none", "client": "vLLM"}},
    "two points": {
        f"{c}{n}": {"configuration": c, "concurrency": n, "workload": w, "gaps_ms": [5.0] * 300}
        for c, w in (("a", "mixed"), ("b", "mixed"))
        for n in (2, 4)
    },
    "repeats": {
        f"r{k}": {"concurrency": 2, "gaps_ms": [5.0] * 60 + [10.0 + k], "workload": "decode"}
        for k in range(3)
    },
    "repeats of two configurations": {
        f"{c}{k}": {
            "configuration": c,
            "workload": "mixed",
            "gaps_ms": [5.0 + ("ab".index(c) + 0.01 * k)] * 700,
            "n": 30,
        }
        for c in "ab"
        for k in range(3)
    },
    "a request without tokens between": {"r": {"gaps_ms": [], "workload": "decode"}},
    "lost not known": {"r": {"n_lost": None, "gaps_ms": [5.0] * 60}},
}


@functools.cache
def book(kind: str) -> Campaign:
    return campaign(CAMPAIGNS[kind])


@pytest.mark.parametrize("kind", CAMPAIGNS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_campaign_breaks_a_chapter(function: Callable[[Campaign], Output], kind: str) -> None:
    output = function(book(kind))
    payload(output)  # what the page needs is there
    if isinstance(output, Figure):
        assert output.title
        assert output.chart is not None or output.table is not None or output.missing
        if output.chart is not None:
            output.chart.to_dict()
    elif isinstance(output, Statement):
        assert output.sentence.endswith(".")
        if output.verdict:
            assert output.value is not None
            assert output.runs
            assert output.would_change
            assert output.interval
    else:
        assert isinstance(output, Section)
        assert all(output.paragraphs)
    assert "nan" not in str(output.__dict__.get("title", "")).lower().split()


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (prefill.throughput, "one run", "This campaign has no prefill run."),
        (decode.verdict, "one run", "This campaign has no decode run."),
        (mixed.tail, "no mixed run", "This campaign has no mixed run."),
        (mixed.tail, "all failed", "no request succeeded"),
        (mixed.tail, "no configuration", "the manifest gives no configuration"),
        (mixed.tail_statement, "one run", "662 gaps"),
        (mixed.stall_time, "durations only", "no common clock"),
        (mixed.twin, "one run", "No two configurations"),
        (trust.clients, "one run", "agreement is not known"),
        (trust.own_against_native, "one run", "No client left a summary"),
        (trust_definitions.other_definitions, "one run", "differs from ours by definition"),
        (trust_summaries.summaries_alone, "one run", "left its records"),
        (setup.workloads, "summary only", "a summary without records"),
        (decode.saturation, "repeats", "one concurrency only"),
    ],
)
def test_what_is_missing_is_said(
    function: Callable[[Campaign], Output],
    kind: str,
    words: str,
) -> None:
    output = function(book(kind))
    said = output.missing if isinstance(output, Figure) else output.sentence  # type: ignore[attr-defined]
    assert words in said


def test_without_a_run_of_a_workload_nothing_is_a_verdict() -> None:
    small = book("all failed")
    statements = [prefill.verdict(small), decode.verdict(small), mixed.tail_statement(small)]
    assert not any(s.verdict for s in statements)


def test_runs_left_out_are_listed_by_reason() -> None:
    runs = {f"r{k}": {"configuration": None, "gaps_ms": [5.0] * 60} for k in range(12)}
    (note,) = common.left_out_notes(campaign(runs))
    assert note.startswith("Left out: r0, r1, r2, r3, r4, r5, r6, r7")
    assert note.endswith("and 4 more (the manifest gives no configuration).")


@functools.cache
def drafted() -> Campaign:
    """A campaign whose manifest says nothing, as ``servebook init`` writes it."""
    return campaign(
        {"r": {"configuration": None, "gaps_ms": [5.0] * 60}},
        "servebook: 1\nname: small\nconfigurations:\n  config-1: {label: null}\n",
    )


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_manifest_that_says_nothing_breaks_no_chapter(
    function: Callable[[Campaign], Output],
) -> None:
    payload(function(drafted()))
