"""What the engine says: each verdict on slots and queue, from readings written by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from small import campaign, loopback

from servebook.publish.chapters import engine_side
from servebook.publish.spec import specification
from servebook.read.campaign import Campaign
from servebook.tables import table

S = 10**9
EPOCH = 1_795_973_865 * S
UNSTATED = """\
servebook: 1
name: small
provenance: measured
configurations:
  a: {label: A}
"""


def book(values: dict[str, list[float]], manifest: str | None = None) -> Campaign:
    """One run of ten seconds with 8 requests in flight, and readings of the engine in it."""
    more = {} if manifest is None else {"manifest": manifest}
    made = campaign({"r": {"concurrency": 8, "n": 10, "gaps_ms": [5.0] * 30}}, **more)
    runs = made.tables.runs.to_pylist()
    runs[0] |= {"start_ns": EPOCH, "end_ns": EPOCH + 10 * S}
    rows: list[dict[str, Any]] = [
        {
            "source": "engine.log",
            "engine": "engine 1",
            "start_ns": EPOCH + k * S,
            "end_ns": EPOCH + k * S,
            "metric": metric,
            "statistic": "reading",
            "value": value,
        }
        for metric, list_ in values.items()
        for k, value in enumerate(list_)
    ]
    tables = dataclasses.replace(
        made.tables, runs=table("runs", runs), engine=table("engine", rows)
    )
    return dataclasses.replace(made, tables=tables)


def told(campaign: Campaign) -> str:
    """What the statement says, and what stands below it."""
    statement = engine_side.confirmed(campaign)
    return f"{statement.sentence} {statement.more}"


@pytest.mark.parametrize(
    ("running", "waiting", "words"),
    [
        (
            [8, 8, 8],
            [0, 3, 3],
            "8 requests ran at once while up to 3 waited, which confirms",
        ),
        ([8, 8, 7], [0, 0, 0], "as many as the 8 slots of the manifest, and none was seen waiting"),
        ([4, 4, 4], [0, 0, 0], "fewer than the 8 slots of the manifest, and none was seen waiting"),
        ([4, 4, 4], [2, 2, 2], "fewer than the 8 slots of the manifest, and up to 2 waited"),
        ([9, 9, 9], [0, 0, 0], "more than the 8 slots of the manifest: the manifest is wrong"),
        ([8, 8, 8], [], "and none is known to have waited"),
        ([], [1, 1, 1], "the engine does not say how many requests ran"),
    ],
)
def test_verdicts(running: list[float], waiting: list[float], words: str) -> None:
    said = engine_side.confirmed(book({"running": running, "waiting": waiting})).sentence
    assert words in said


def test_without_slots_in_the_manifest() -> None:
    said = engine_side.confirmed(book({"running": [5, 5], "waiting": [1, 1]}, UNSTATED)).sentence
    assert "at most 5 requests ran at once, up to 1 waited; the manifest states no slots" in said


def test_cache_and_pressure() -> None:
    values = {
        "running": [5.0, 5.0],
        "kv_use_fraction": [0.25, 0.75],
        "cache_hit_tokens": [100.0, 400.0],
        "cache_query_tokens": [1000.0, 2000.0],
        "preemptions": [1.0, 3.0],
    }
    said = told(book(values))
    assert (
        "Of the prompt tokens that were looked up, 30 % were in the prefix cache (1 run)." in said
    )
    assert "The KV cache was at most 75 % full and requests were preempted 2 times." in said
    idle = values | {"cache_hit_tokens": [0.0, 0.0], "cache_query_tokens": [0.0, 0.0]}
    assert "it is off, or does not count" in told(book(idle))
    assert "does not say what it found" in told(book({"running": [1.0]}))


def test_nothing_beside_the_runs_is_said_in_words() -> None:
    empty = campaign({"r": {}})
    assert "No metrics of the engine lie beside the runs" in engine_side.confirmed(empty).sentence
    assert "AIPerf saves them by itself" in engine_side.confirmed(empty).sentence
    for figure in (engine_side.in_the_engine(empty), engine_side.over_time(empty)):
        assert figure.chart is None
        assert "no metrics of the engine lie beside the runs" in figure.missing


def test_shipped_campaign_confirms_its_slots() -> None:
    """The engine had 16 and 8 slots; its own log counts 24 in flight as 16 running, 8 waiting."""
    said = engine_side.confirmed(loopback()).sentence
    assert "16 slots: at most 16 requests ran at once while up to 8 waited, which confirms" in said
    assert said.count("ran at once") == 1  # the others stand below
    assert "8 slots: at most 8 requests" in engine_side.confirmed(loopback()).more
    figure = engine_side.in_the_engine(loopback())
    assert figure.table is not None
    rows = figure.table.set_index("run")
    row = rows.loc["raw/aiperf/spread/mixed_c24"]
    assert row["running, most"] == 16
    assert row["waiting, median"] == 8
    assert row["slots by the manifest"] == 16
    assert specification(figure.chart, figure.alt)
    assert figure.title.startswith("Requests waited in 1 condition of 16")


def test_shipped_campaign_over_time() -> None:
    figure = engine_side.over_time(loopback())
    assert figure.runs == (
        "raw/aiperf/long_decode_isl16_osl256_c8",
        "raw/aiperf/long_mixed_isl512_osl64_c8",
        "raw/aiperf/long_prefill_isl2048_osl1_c8",
    )
    assert "All of the set concurrency ran at some time in 3 of 3 runs" in figure.title
    assert figure.table is not None
    assert figure.table["requests"].max() == 8
    assert specification(figure.chart, figure.alt)
