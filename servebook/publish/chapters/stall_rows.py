"""The rows of the chapter on stalls by arithmetic: what the summary figures of a mix give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from servebook.explain.bounds import slowest_mean_ms
from servebook.explain.stall_sums import sums
from servebook.publish.chapters import common
from servebook.publish.chapters.reuse import plain
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["chunked", "most", "rows_of"]

_MIXED = "mixed"
_CEILING = "input_throughput_tok_s"
_MOST = 12


@common.memo
def rows_of(campaign: Campaign) -> pd.DataFrame:
    """Mixed conditions with gaps, the prefill ceiling of their configuration and the sums."""
    every = plain(campaign)
    rows = every[(every["workload"] == _MIXED) & every["itl_p50_ms"].notna()]
    rows = rows[rows["tpot_mean_ms"].notna() & (rows["n_gaps_least"] >= 662)]
    rows = common.styled(campaign, rows)
    if rows.empty:
        return rows
    prefill = every[(every["workload"] == "prefill") & every[_CEILING].notna()]
    top = prefill.groupby("configuration")[_CEILING].max()
    rows["ceiling"] = rows["configuration"].map(top).astype(float)
    parts = [
        sums(part, None if pd.isna(part["ceiling"].iloc[0]) else float(part["ceiling"].iloc[0]))
        for _, part in rows.groupby("ceiling", dropna=False, sort=True)
    ]
    rows = rows.join(pd.concat(parts))
    # Median gap in the mix against decode alone, at the same concurrency (and client if it can).
    decode = every[(every["workload"] == "decode") & every["tpot_mean_ms"].notna()]
    alone, runs = [], []
    for row in rows.to_dict("records"):
        same = decode[
            (decode["configuration"] == row["configuration"])
            & (decode["concurrency"] == row["concurrency"])
        ]
        own = same[same["client"] == row["client"]]
        found = own if len(own) else same
        alone.append(float(found["tpot_mean_ms"].iloc[0]) if len(found) else float("nan"))
        runs.append(tuple(found["runs"].iloc[0]) if len(found) else ())
    rows["decode_ms"] = alone
    rows["decode_runs"] = pd.Series(runs, index=rows.index, dtype=object)
    return rows.assign(
        ratio=rows["itl_p99_ms"] / rows["itl_p50_ms"],
        slowest_ms=[
            slowest_mean_ms(m, q)
            for m, q in zip(rows["tpot_mean_ms"], rows["itl_p99_ms"], strict=True)
        ],
        row_label=[
            say("shared.in_flight_2", name=r["name"], concurrency=r["concurrency"])
            for r in rows.to_dict("records")
        ],
    )


def most(rows: pd.DataFrame, named: Iterable[Any] = ()) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The conditions that are drawn, ``named`` ones (of the index) first; a note of the others."""
    if len(rows) <= _MOST:
        return rows, ()
    rank = rows.groupby("series")["concurrency"].rank(ascending=False, method="first")
    rank[list(named)] = 0  # what the title tells is never the one that is left out
    kept = rows.loc[sorted(rank.sort_values(kind="stable").head(_MOST).index)]
    return kept, (
        say("shared.drawn_of_conditions_the_table_has", most_rows=_MOST, n_rows=len(rows)),
    )


def chunked(campaign: Campaign, name: str) -> bool:
    """Whether the manifest states chunked prefill for a configuration."""
    c = campaign.manifest.configuration(name)
    return c is not None and bool(c.chunked_prefill)
