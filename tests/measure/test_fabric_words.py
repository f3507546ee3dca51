"""Sentences on counters and runs that do not meet, and on flags."""

from __future__ import annotations

from typing import Any

import pandas as pd

from servebook.measure.fabric import phases
from servebook.measure.fabric_words import findings
from servebook.measure.intervals import intervals
from servebook.tables import empty, table

S = 10**9
T0 = 1795972223 * S


def readings(counts: list[int], start: int = 0, **more: Any) -> pd.DataFrame:
    row = {
        "source": "a.csv",
        "format": "csv",
        "device": "leaf1",
        "interface": "eth0",
        "ts_kind": "collector",
        "metric": "bytes",
        "scope": "port",
        "direction": "rx",
        "kind": "counter",
        "bits": 64,
        **more,
    }
    rows = [{**row, "ts_ns": T0 + (start + i) * S, "count": c} for i, c in enumerate(counts)]
    return intervals(table("samples", rows), empty("ports"))


def runs(*spans: tuple[str, int, int, str]) -> Any:
    return table(
        "runs",
        [
            {"run_id": name, "start_ns": T0 + a * S, "end_ns": T0 + b * S, "clock": clock}
            for name, a, b, clock in spans
        ],
    )


def told(frame: pd.DataFrame, *spans: tuple[str, int, int, str]) -> tuple[str, ...]:
    table_ = runs(*spans)
    return findings(frame, phases(table_), table_)


def test_counters_that_overlap_no_run() -> None:
    out = told(readings([1, 2, 3]), ("r", 100, 120, "epoch"), ("s", -90, -50, "epoch"))
    assert out[0] == (
        "a.csv: read from 2026-11-29 17:10:23 UTC to 2026-11-29 17:10:25 UTC, which overlaps no "
        "run; the nearest is 50 s away (a clock offset or time zone goes into the manifest)"
    )
    assert out[1] == "2 runs went on while no counter was read: s, r"


def test_runs_without_a_clock_have_no_position() -> None:
    out = told(readings([1, 2]), ("r", 0, 1, "epoch"), ("v", 0, 1, "relative"))
    assert out[0].startswith("1 of 2 runs have no position beside the counters")
    assert out[0].endswith(": v")


def test_flags_are_counted() -> None:
    out = told(readings([9, 5, 6], ts_kind="grid"), ("r", 0, 2, "epoch"))
    assert "a.csv (leaf1): a counter fell, so 1 of 2 intervals have no value" in out[0]
    assert "up to one scrape older" in out[1]
    assert out[2].startswith("no speed is stated for leaf1 eth0")
    assert len(out) == 3


def test_nothing_to_say_about_nothing() -> None:
    assert told(readings([]), ("r", 0, 1, "epoch")) == (
        "1 run went on while no counter was read: r",
    )
