"""The gaps of a campaign told apart once: what each is, and what follows from it run by run.

Reconstructed campaigns get none of it: their gaps come from a model, and causes found in them would
say something of the model only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from servebook.measure import congestion
from servebook.measure.congestion import links
from servebook.measure.run_gaps import MOST
from servebook.measure.stall_digest import StallDigest, digest
from servebook.measure.stalled_gaps import ClassifiedRun, classify
from servebook.measure.stalls import SUMMARY_COLUMNS, stall_summary
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.gaps import WORKLOAD, mixed_rows
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = [
    "conditions",
    "mixed",
    "modelled",
    "no_causes",
    "part_notes",
    "run_words",
    "summary",
    "watched",
]


def modelled(campaign: Campaign) -> bool:
    """Whether the campaign's dumps are reconstructed."""
    return campaign.manifest.provenance == "reconstructed"


@common.memo
def _links(campaign: Campaign) -> pd.DataFrame:
    """Intervals of counters that tell whether a link was congested or paused."""
    return links(campaign.tables.samples, campaign.ports)


@common.memo
def _told(campaign: Campaign) -> tuple[pd.DataFrame, tuple[StallDigest, ...]]:
    """``stall_summary`` of the campaign with its links, and what is kept of the mixed runs.

    In one go, so that the gaps of one run at a time are held.
    """
    tables = campaign.tables
    wanted = set(common.runs_of(mixed_rows(campaign)))
    kept: dict[str, StallDigest] = {}

    def classified() -> Iterator[ClassifiedRun]:
        for one in classify(tables, _links(campaign)):
            if one.tokens.run_id in wanted:
                kept[one.tokens.run_id] = digest(tables, one)
            yield one
            del one  # before the next run is made

    summary = stall_summary(tables, common.metrics(campaign), classified=classified())
    order = tables.runs["run_id"].to_pylist()
    return summary, tuple(kept[run] for run in order if run in kept)


def summary(campaign: Campaign) -> pd.DataFrame:
    """``stall_summary`` of the campaign: one row per run; none for reconstructed campaigns."""
    if modelled(campaign):
        return pd.DataFrame(columns=list(SUMMARY_COLUMNS))
    return _told(campaign)[0]


def mixed(campaign: Campaign) -> tuple[StallDigest, ...]:
    """The mixed runs that comparisons use, in table order; none of reconstructed campaigns."""
    return () if modelled(campaign) else _told(campaign)[1]


def part_notes(campaign: Campaign) -> tuple[str, ...]:
    """A note where runs are too long to look for stalls in all of them; else none."""
    names = conditions(campaign)
    cut = [one for one in mixed(campaign) if one.cut is not None]
    told = [
        say(
            "stalled.part.of",
            run=run_words(names[one.run_id], one.run_id),
            n=one.n_gaps,
            n_run=one.n_run,
            time=words.duration((one.cut or 0.0) / 1e9),
        )
        for one in cut
    ]
    if not told:
        return ()
    return (say("stalled.part.note", most=MOST, told=words.listed(told, most=4)),)


def watched(campaign: Campaign, run_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the runs during which counters told of a link's congestion or pauses."""
    known = set(congestion.watched(campaign.tables.runs, _links(campaign)))
    return tuple(run for run in run_ids if run in known)


def no_causes(campaign: Campaign, figure: str, title: str) -> Figure | None:
    """The figure in words where a campaign has no run whose stalls have causes; else None."""
    if mixed_rows(campaign).empty:
        return common.absent(campaign, figure, title, WORKLOAD)
    if modelled(campaign):
        return Figure(id=figure, title=title, missing=say("stalled.modelled"))
    if not mixed(campaign):
        return Figure(id=figure, title=title, missing=say("stalled.no_clock"))
    return None


def conditions(campaign: Campaign) -> dict[str, dict[str, Any]]:
    """The styled condition of each run that comparisons use, in the order of the page."""
    rows = mixed_rows(campaign).to_dict("records")
    return {run: {str(k): v for k, v in row.items()} for row in rows for run in row["runs"]}


def run_words(row: dict[str, Any], run_id: str) -> str:
    """A run as words: its condition, and which of several repeats it is."""
    runs = list(row["runs"])
    repeat = say("stalled.run_words.repeat", index=runs.index(run_id) + 1) if len(runs) > 1 else ""
    return f"{row['row_label']}{repeat}"
