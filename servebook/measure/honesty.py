"""Whether the load was the one that its name says: one verdict word per run and question.

Three questions with a word each: was the set concurrency in flight ("held", "below", "not set",
"not told"), were requests sent when they were meant to be ("on time", "late", "not told"), did the
client read each chunk when it came ("one by one", "bunched", "not told"). A late or bunched client
measures itself. What a dump does not record is "not told", which is no pass.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from servebook.measure.limits import BUNCHED_SHARE, HELD
from servebook.measure.load import clocks, littles_law
from servebook.tables import Tables

__all__ = ["BUNCHED_SHARE", "HELD", "QUESTIONS", "honesty"]


#: column of ``honesty``: (what is asked, good word, bad word)
QUESTIONS = {
    "load": ("Set load in flight", "held", "below"),
    "sending": ("Sent when due", "on time", "late"),
    "reading": ("Chunks read one by one", "one by one", "bunched"),
}


def honesty(tables: Tables, run_metrics: pd.DataFrame) -> pd.DataFrame:
    """One row per run of ``run_metrics``.

    Columns: run_id, configuration, workload, concurrency, load, sending, reading (words),
    mean_in_flight, achieved (mean in flight / set), full_share (of the time), send_delay_mean_ms,
    send_delay_max_ms, ttft_mean_ms, delay_share (mean delay / mean TTFT), n_scheduled,
    zero_gap_share, n_gaps. Values are NaN where unknown.
    """
    law = littles_law(tables, run_metrics).set_index("run_id")
    times = clocks(tables, run_metrics).set_index("run_id")
    out = run_metrics[["run_id", "configuration", "workload", "concurrency", "n_gaps"]].copy()
    for name, column in (
        ("mean_in_flight", "mean_in_flight"),
        ("achieved", "ratio"),
        ("full_share", "full_share"),
    ):
        out[name] = out["run_id"].map(law[column]).astype("float64")
    for name in (
        "send_delay_mean_ms",
        "send_delay_max_ms",
        "ttft_mean_ms",
        "zero_gap_share",
        "n_scheduled",
    ):
        out[name] = out["run_id"].map(times[name]).astype("float64")
    out["delay_share"] = out["send_delay_mean_ms"] / out["ttft_mean_ms"]
    late = out["run_id"].map(times["late"])
    out["load"] = [
        "not set" if pd.isna(c) else _word("load", a, a >= HELD)
        for c, a in zip(out["concurrency"], out["achieved"], strict=True)
    ]
    out["sending"] = [
        _word("sending", flag, not flag if pd.notna(flag) else False) for flag in late
    ]
    out["reading"] = [
        _word("reading", share, share <= BUNCHED_SHARE) for share in out["zero_gap_share"]
    ]
    return out.reset_index(drop=True)


def _word(question: str, known: Any, good: bool) -> str:
    if pd.isna(known):
        return "not told"
    _, yes, no = QUESTIONS[question]
    return yes if good else no
