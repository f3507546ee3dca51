"""The mixed conditions that chapter 05 draws, with their tails and labels."""

from __future__ import annotations

from collections.abc import Collection, Hashable

import pandas as pd

from servebook.measure.percentiles import below_floor
from servebook.publish.chapters import common
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["WORKLOAD", "drawn", "gap_word", "mixed_rows", "tail_name"]

WORKLOAD = "mixed"
_MOST_ROWS = 14


def mixed_rows(campaign: Campaign) -> pd.DataFrame:
    """The styled mixed conditions with gaps, and few, tail (p99, or max if few), row_label."""
    every = common.by_condition(campaign)
    rows = every[(every["workload"] == WORKLOAD) & every["itl_p50_ms"].notna()]
    rows = common.styled(campaign, rows)
    few = [below_floor(99, n) for n in rows["n_gaps_least"]]
    return rows.assign(
        few=few,
        tail=rows["itl_p99_ms"].where(~pd.Series(few, index=rows.index), rows["itl_max_ms"]),
        row_label=[
            say("shared.in_flight_2", name=row["name"], concurrency=row["concurrency"])
            for row in rows.to_dict("records")
        ],
    )


def tail_name(few: bool, n: float) -> str:
    """What the tail of n gaps is called: "p99", or "max of n" where n is too few."""
    return say("gaps.tail_name", n=n) if few else "p99"


def gap_word(campaign: Campaign, rows: pd.DataFrame) -> str:
    """What a gap lies between: tokens, or chunks where any run sent several tokens a chunk."""
    basis = common.metrics(campaign).set_index("run_id")["itl_basis"]
    kinds = {basis[run] for run in common.runs_of(rows)}
    return (
        say("gaps.gap_word.gap_between_chunks")
        if "chunk" in kinds
        else say("gaps.gap_word.gap_between_tokens")
    )


def drawn(rows: pd.DataFrame, named: Collection[Hashable] = ()) -> tuple[pd.DataFrame, str]:
    """At most ``_MOST_ROWS`` rows, the highest concurrencies of each series first; what is lost.

    Rows of the index ``named`` come before all others: a title speaks of them.
    """
    if len(rows) <= _MOST_ROWS:
        return rows, ""
    rank = rows.groupby("series")["concurrency"].rank(ascending=False, method="first")
    rank[rows.index.isin(list(named))] = 0
    kept = rows.assign(_rank=rank).sort_values("_rank", kind="stable").head(_MOST_ROWS)
    note = say("shared.drawn_of_conditions_the_table_has", most_rows=_MOST_ROWS, n_rows=len(rows))
    return rows.loc[sorted(kept.index)], note
