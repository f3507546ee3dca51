"""Lanes of requests over time, against a run small enough to draw by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from servebook.measure.lanes import busiest_step, lanes
from servebook.measure.stalled_gaps import ClassifiedRun, classify
from servebook.tables import Tables, table

MS = 1_000_000
START = 1_700_000_000_000_000_000


def request(
    name: str, start: int, tokens: list[int]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A request sent at ``start`` whose tokens came at these ms."""
    row = {
        "run_id": "r",
        "request_id": name,
        "phase": "profiling",
        "status": "ok",
        "start_ns": START + start * MS,
        "first_token_ns": START + tokens[0] * MS,
        "end_ns": START + tokens[-1] * MS,
        "isl": 100 if name != "c" else 300,
        "osl": len(tokens),
        "flags": [],
    }
    gaps = [
        {
            "run_id": "r",
            "request_id": name,
            "index": k,
            "end_ns": START + b * MS,
            "gap_ns": (b - a) * MS,
        }
        for k, (a, b) in enumerate(pairwise(tokens))
    ]
    return row, gaps


# Steps of 10 ms. b is prefilled from 110 to 130 while a waits; c, in b's lane, from 290 to 350.
A = [20, *range(30, 111, 10), *range(140, 291, 10), *range(360, 501, 10)]
B = [130, *range(140, 261, 10)]
C = [350, *range(360, 501, 10)]


@pytest.fixture(scope="module")
def tables() -> Tables:
    parts = [request("a", 0, A), request("b", 105, B), request("c", 285, C)]
    run = {
        "run_id": "r",
        "clock": "epoch",
        "n_lost": 0,
        "complete": True,
        "notes": [],
        "workload": "mixed",
    }
    return Tables(
        runs=table("runs", [run]),
        requests=table("requests", [row for row, _ in parts]),
        gaps=table("gaps", [gap for _, gaps in parts for gap in gaps]),
    )


@pytest.fixture(scope="module")
def one(tables: Tables) -> ClassifiedRun:
    (found,) = classify(tables)
    return found


def seen(frame: pd.DataFrame, kind: str) -> list[tuple[int, float, float]]:
    rows = frame[frame["kind"] == kind]
    return [(r["lane"], r["t0_ns"] / MS, r["t1_ns"] / MS) for r in rows.to_dict("records")]


def test_every_segment_stands_where_it_was_planted(tables: Tables, one: ClassifiedRun) -> None:
    frame = lanes(tables, one, 0.0, 1000.0 * MS)
    assert seen(frame, "queue") == [(1, 105, 110), (1, 285, 290)]
    assert seen(frame, "prefill") == [(0, 0, 20), (1, 110, 130), (1, 290, 350)]
    assert seen(frame, "decode") == [(0, 20, 500), (1, 130, 260), (1, 350, 500)]
    assert seen(frame, "stall") == [(0, 110, 140), (0, 290, 360)]
    assert set(frame["kind"]) == {"queue", "prefill", "decode", "stall"}


def test_a_window_cuts_segments_off_and_leaves_others_out(
    tables: Tables, one: ClassifiedRun
) -> None:
    frame = lanes(tables, one, 120.0 * MS, 300.0 * MS)
    assert seen(frame, "queue") == [(1, 285, 290)]
    assert seen(frame, "prefill") == [(1, 120, 130), (1, 290, 300)]
    assert seen(frame, "stall") == [(0, 120, 140), (0, 290, 300)]


def test_of_prefills_that_stall_as_many_gaps_the_longest_is_taken(one: ClassifiedRun) -> None:
    found = busiest_step(one)
    assert found is not None
    assert found["n_stalled"] == 1
    assert found["n_prompts"] == 1
    assert found["tokens"] == 300
    assert found["end_ns"] == 360 * MS
    assert found["lost_ns"] == pytest.approx(60 * MS)


def test_without_a_stall_there_is_no_step_to_show() -> None:
    row, gaps = request("a", 0, A[:10])
    run = {"run_id": "r", "clock": "epoch", "n_lost": 0, "complete": True, "notes": []}
    alone = Tables(
        runs=table("runs", [run]), requests=table("requests", [row]), gaps=table("gaps", gaps)
    )
    (found,) = classify(alone)
    assert busiest_step(found) is None
