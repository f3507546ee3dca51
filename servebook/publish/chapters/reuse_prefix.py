"""Chapter 07, KV reuse: how much of the prompts could be reused, and how much was."""

from __future__ import annotations

from typing import Any

import pandas as pd

from servebook.measure.prompts import shared_prefixes
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.charts.shares import of_a_whole
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["known", "prefix_words", "shared_prefix"]

_ID = "kv-shared-prefix"
_DRAWN = 8
_HOW = (
    "reuse_prefix.how_characters_dump_holds",
    "reuse_prefix.how_upper_bound_reuse",
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
        return say("reuse_prefix.prefix_words.dumps_runs_hold")
    return say(
        "reuse_prefix.prefix_words.prompts_characters_lie",
        span_of=_span_of(told["shared_fraction"]),
        runs=words.count(len(told), "run"),
    )


def shared_prefix(campaign: Campaign) -> Figure:
    """Share of the prompts that was sent before, per run, beside what the server had cached."""
    every = known(campaign)
    found = every[every["shared_fraction"].notna()]
    title = say("reuse_prefix.shared_prefix.title_prompts_shared_prefix")
    if found.empty:
        cached = every[every["n_cached"] > 0]
        served = (
            say(
                "reuse_prefix.shared_prefix.served",
                span_of=_span_of(cached["cached_fraction"]),
                runs=words.count(len(cached), "run"),
            )
            if len(cached)
            else ""
        )
        return Figure(id=_ID, title=title, missing=say("reuse_prefix.none") + served)
    title = say(
        "reuse_prefix.shared_prefix.title_prompts_characters_began",
        span_of=_span_of(found["shared_fraction"]),
    )
    both = found[found["n_cached"] > 0]
    if len(both):
        title += say(
            "reuse_prefix.shared_prefix.title_server_took_tokens",
            span_of=_span_of(both["cached_fraction"]),
        )
    ordered = found.sort_values(
        ["shared_fraction", "run_id"], ascending=[False, True], kind="stable"
    )
    drawn = ordered.head(_DRAWN)
    looks = theme.looks(campaign.manifest.configurations)
    parts: list[dict[str, Any]] = []
    for row in drawn.to_dict("records"):
        shared = float(row["shared_fraction"])
        look = looks.get(row["configuration"])
        label = say(
            "reuse_prefix.shared_prefix.label_shared",
            name=_name(campaign, row),
            shared=words.percent(shared),
        )
        if row["n_cached"] > 0:
            label += say(
                "reuse_prefix.shared_prefix.label_tokens_served_cache",
                cached_fraction=words.percent(row["cached_fraction"]),
            )
        for part, start, end, colour in (
            (
                say("reuse_prefix.shared_prefix.sent_before"),
                0.0,
                shared,
                look.colour if look else theme.INK,
            ),
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
    notes = [say(key) for key in _HOW]
    if len(few):
        notes.append(
            say(
                "reuse_prefix.shared_prefix.note_prompts_requests_dump",
                runs=words.count(len(few), "run"),
                n_requests=few["n_requests"].sum() - few["n_prompts"].sum(),
            )
        )
    if left:
        notes.append(
            say(
                "reuse_prefix.shared_prefix.note_drawn_table",
                n_drawn=len(drawn),
                runs=words.count(len(found), "run"),
            )
        )
    return Figure(
        id=_ID,
        title=title,
        subtitle=say(
            "reuse_prefix.shared_prefix.subtitle",
            n_prompts=found["n_prompts"].sum(),
            runs=words.count(len(found), "run"),
        ),
        chart=of_a_whole(pd.DataFrame(parts), say("reuse_prefix.shared_prefix.chart")),
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
        alt=f"{title}. "
        + " ".join(
            f"{p['label']}."
            for p in parts
            if p["part"] == say("reuse_prefix.shared_prefix.sent_before")
        ),
        source=say(
            "reuse_prefix.shared_prefix.source", records_of=common.records_of(campaign, len(found))
        ),
        runs=tuple(sorted(found["run_id"])),
        notes=tuple(notes),
    )


def _span_of(values: pd.Series[Any]) -> str:
    low, high = float(values.min()), float(values.max())
    return (
        words.percent(high)
        if high - low < 0.005
        else say("reuse_prefix.span_of", low=words.percent(low), high=words.percent(high))
    )


def _name(campaign: Campaign, row: dict[Any, Any]) -> str:
    at = row["concurrency"]
    name, workload = row["configuration"], row["workload"]  # NaN where the manifest says none
    parts = [common.label(campaign, name)] if isinstance(name, str) else []
    parts += [workload] if isinstance(workload, str) else []
    of_runs = " · ".join(parts) or str(row["run_id"])
    return of_runs + (f", c{at:.0f}" if at == at and at is not None else "")
