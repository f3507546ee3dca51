"""The gaps of a campaign told apart once: what each is, and what follows from it run by run.

Reconstructed campaigns get none of it: their gaps come from a model, and causes found in them would
say something of the model only.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from servebook.measure import congestion
from servebook.measure.congestion import links
from servebook.measure.stalled_gaps import ClassifiedRun, classify
from servebook.measure.stalls import SUMMARY_COLUMNS, stall_summary
from servebook.publish.chapters import common
from servebook.publish.chapters.gaps import WORKLOAD, mixed_rows
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = [
    "classified",
    "conditions",
    "mixed",
    "modelled",
    "no_causes",
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
def classified(campaign: Campaign) -> tuple[ClassifiedRun, ...]:
    """``classify`` of the campaign with its links; nothing for reconstructed campaigns."""
    return () if modelled(campaign) else tuple(classify(campaign.tables, _links(campaign)))


@common.memo
def summary(campaign: Campaign) -> pd.DataFrame:
    """``stall_summary`` of the campaign: one row per run; none for reconstructed campaigns."""
    if modelled(campaign):
        return pd.DataFrame(columns=list(SUMMARY_COLUMNS))
    found = classified(campaign)
    return stall_summary(campaign.tables, common.metrics(campaign), classified=found)


def mixed(campaign: Campaign) -> tuple[ClassifiedRun, ...]:
    """The classified mixed runs that comparisons use, in table order."""
    runs = set(common.runs_of(mixed_rows(campaign)))
    return tuple(one for one in classified(campaign) if one.tokens.run_id in runs)


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
