"""Chapter 07, KV reuse: how much of the prompts could be reused, and how much was."""

from __future__ import annotations

from typing import Any

import pandas as pd

from servebook.measure.prompts import shared_prefixes
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.charts.shares import of_a_whole
from servebook.publish.output import Figure
from servebook.read.campaign import Campaign

__all__ = ["known", "prefix_words", "shared_prefix"]

_ID = "kv-shared-prefix"
_DRAWN = 8
_NONE = (
    "The dumps hold no prompts, so how much of them is a shared prefix is not known. AIPerf leaves "
    "them in inputs.json (or in its raw export); put it beside the records. Results of vLLM bench "
    "serve never hold them. Only the share is kept, no text."
)
_HOW = (
    (
        "Characters, for a dump holds no tokenizer. A prefix counts in whole blocks of 64 "
        "characters, about what a block of an engine's cache holds; prompts count in the order of "
        "their starts, and those of the warm-up as earlier ones. No text is kept."
    ),
    (
        "An upper bound for reuse: a cache may have dropped a prefix, or not have it yet while "
        "both prompts run."
    ),
)


@common.memo
def known(campaign: Campaign) -> pd.DataFrame:
    """``shared_prefixes`` of the campaign with configuration, workload and concurrency."""
    about = common.metrics(campaign)[["run_id", "configuration", "client", "workload"]]
    about = about.assign(concurrency=campaign.tables.runs["concurrency"].to_pandas().to_numpy())
    return shared_prefixes(campaign.tables).merge(about, on="run_id", how="left")


def prefix_words(campaign: Campaign, runs: tuple[str, ...]) -> str:
    """What is known of the shared prefixes of these runs, as a sentence."""
    found = known(campaign)
    told = found[found["run_id"].isin(runs) & found["shared_fraction"].notna()]
    if told.empty:
        return (
            "The dumps of these runs hold no prompts, so how much of them is a shared prefix is "
            "not known here. Reuse can only help where prompts share one."
        )
    return (
        f"Of the prompts' characters {_span_of(told['shared_fraction'])} lie in a prefix that an "
        f"earlier prompt of the run began with ({words.count(len(told), 'run')} whose dumps hold "
        "the prompts). Reuse can help with no more."
    )


def shared_prefix(campaign: Campaign) -> Figure:
    """Share of the prompts that was sent before, per run, beside what the server had cached."""
    every = known(campaign)
    found = every[every["shared_fraction"].notna()]
    title = "Prompts: the shared prefix is not known"
    if found.empty:
        cached = every[every["n_cached"] > 0]
        served = (
            f" The server took {_span_of(cached['cached_fraction'])} of the prompt tokens from its "
            f"cache ({words.count(len(cached), 'run')} that tell it)."
            if len(cached)
            else ""
        )
        return Figure(id=_ID, title=title, missing=_NONE + served)
    title = (
        f"{_span_of(found['shared_fraction'])} of the prompts' characters began an earlier prompt"
    )
    both = found[found["n_cached"] > 0]
    if len(both):
        title += f"; the server took {_span_of(both['cached_fraction'])} of the tokens from cache"
    ordered = found.sort_values(
        ["shared_fraction", "run_id"], ascending=[False, True], kind="stable"
    )
    drawn = ordered.head(_DRAWN)
    looks = theme.looks(campaign.manifest.configurations)
    parts: list[dict[str, Any]] = []
    for row in drawn.to_dict("records"):
        shared = float(row["shared_fraction"])
        look = looks.get(row["configuration"])
        label = f"{_name(campaign, row)}: {words.percent(shared)} shared"
        if row["n_cached"] > 0:
            label += f", {words.percent(row['cached_fraction'])} of the tokens served from cache"
        for part, start, end, colour in (
            ("sent before", 0.0, shared, look.colour if look else theme.INK),
            ("new", shared, 1.0, theme.GRID),
        ):
            parts.append(
                {
                    "row": row["run_id"],
                    "label": label,
                    "part": part,
                    "start": start,
                    "end": end,
                    "colour": colour,
                    "tip": words.percent(end - start),
                }
            )
    left = len(found) - len(drawn)
    few = found[found["n_prompts"] < found["n_requests"]]
    notes = list(_HOW)
    if len(few):
        notes.append(
            f"Of {words.count(len(few), 'run')} the prompts of "
            f"{few['n_requests'].sum() - few['n_prompts'].sum():,.0f} requests are not in the dump."
        )
    if left:
        notes.append(f"Drawn: {len(drawn)} of {words.count(len(found), 'run')}; the table has all.")
    return Figure(
        id=_ID,
        title=title,
        subtitle=(
            f"Coloured: sent before in the same run. n = {found['n_prompts'].sum():,.0f} prompts "
            f"in {words.count(len(found), 'run')}."
        ),
        chart=of_a_whole(pd.DataFrame(parts), "share of the prompts' characters"),
        table=pd.DataFrame(
            {
                "Run": ordered["run_id"],
                "Configuration": common.labels(campaign, ordered["configuration"]),
                "Workload": ordered["workload"],
                "Prompts": ordered["n_prompts"],
                "Characters": ordered["prompt_chars"],
                "Sent before (%)": 100 * ordered["shared_fraction"],
                "Requests with cached tokens": ordered["n_cached"],
                "Tokens from cache (%)": 100 * ordered["cached_fraction"],
            }
        ),
        alt=f"{title}. " + " ".join(f"{p['label']}." for p in parts if p["part"] == "sent before"),
        source=f"{common.records_of(campaign, len(found))} and their prompts",
        runs=tuple(sorted(found["run_id"])),
        notes=tuple(notes),
    )


def _span_of(values: pd.Series[Any]) -> str:
    low, high = float(values.min()), float(values.max())
    return (
        words.percent(high)
        if high - low < 0.005
        else f"{words.percent(low)} to {words.percent(high)}"
    )


def _name(campaign: Campaign, row: dict[Any, Any]) -> str:
    at = row["concurrency"]
    parts = [common.label(campaign, row["configuration"]), str(row["workload"])]
    return " · ".join(parts) + (f", c{at:.0f}" if at == at and at is not None else "")
