"""Chapter 09, how far into the tail each condition may be read; and a check of other tables."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.glossary import STATISTICS
from servebook.measure.percentiles import FLOORS, below_floor
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.confidence_base import condition_label
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["glossary", "shortfalls", "tails"]

_PERCENTILE = re.compile(r"\bp(50|90|95|99|99\.9)\b|\bmedian\b", re.IGNORECASE)
_OF_GAPS = re.compile(r"\bITL\b|\bgap", re.IGNORECASE)
_OF_REQUESTS = re.compile(r"\bTTFT\b|\bTPOT\b|latency", re.IGNORECASE)
#: A quotient, a distance or a frequency is no percentile itself.
_NOT_ONE = re.compile(r"[/÷]|ratio|from the|\bshare\b", re.IGNORECASE)
_COUNTS = {
    "gaps": re.compile(r"^(fewest )?gaps( in (a run|the window))?$", re.I),
    "requests": re.compile(r"^(fewest )?(ok )?requests( in (a run|the window))?$|^n$", re.I),
}


def shortfalls(figure: Figure) -> tuple[str, ...]:
    """Where a figure's table shows a percentile without its n, or below the floor of that n.

    A column is a percentile by its name ("TTFT p99 (ms)"); its n stands in the column of gaps (for
    ITL) or of requests of the same row. Sentences, one per column; empty where all is well.
    """
    table = figure.table
    if table is None:
        return ()
    found = []
    for column in table.columns:
        match = _PERCENTILE.search(str(column))
        if match is None or _NOT_ONE.search(str(column)) or not _numeric(table[column]):
            continue
        q = float(match.group(1)) if match.group(1) else 50.0
        of = _population(str(column), table)
        counts = [c for c in table.columns if _COUNTS[of].search(str(c))]
        if not counts:
            found.append(
                say(
                    "confidence_floors.shortfalls.column_number", id=figure.id, column=column, of=of
                )
            )
            continue
        numbers = table[counts[-1]].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
        shown = table[column].notna().to_numpy()
        low = [below_floor(q, float(n)) for n in numbers]
        bad = int((shown & np.array(low, dtype=bool)).sum())
        if bad:
            found.append(
                say(
                    "confidence_floors.shortfalls.shown_rows_fewer",
                    id=figure.id,
                    column=column,
                    bad=bad,
                    n_table=len(table),
                    floors=FLOORS[q],
                    of=of,
                )
            )
    return tuple(found)


def _population(column: str, table: pd.DataFrame) -> str:
    """What a column's percentile is of: by its name, else gaps where the table counts any."""
    if _OF_GAPS.search(column):
        return "gaps"
    counted = any(_COUNTS["gaps"].search(str(c)) for c in table.columns)
    return "gaps" if counted and not _OF_REQUESTS.search(column) else "requests"


def _numeric(values: pd.Series[Any]) -> bool:
    return bool(pd.api.types.is_numeric_dtype(values)) and bool(values.notna().any())


def tails(campaign: Campaign) -> Figure:
    """The farthest percentile that each condition's number of values allows."""
    name = "confidence-tails"
    rows = common.by_condition(campaign)
    if rows.empty:
        return Figure(
            id=name,
            title=say("confidence_floors.tails.title_far_tail"),
            missing=say("confidence_floors.tails.missing"),
        )
    shown = pd.DataFrame(
        {
            "configuration": common.labels(campaign, rows["configuration"]),
            "client": rows["client"],
            "condition": [condition_label(r) for r in rows.to_dict("records")],
            "runs": rows["n_runs"],
            "fewest requests in a run": rows["n_ok_least"],
            "TTFT and TPOT up to": [_farthest(n) for n in rows["n_ok_least"]],
            "fewest gaps in a run": rows["n_gaps_least"],
            "ITL up to": [
                _farthest(n) if n else say("confidence_floors.tails.itl_up_to")
                for n in rows["n_gaps_least"]
            ],
        }
    )
    few = sum(below_floor(99, n) for n in rows["n_ok_least"])
    title = say(
        "confidence_floors.tails.title_requests_p99_ttft",
        n_rows=len(rows) - few,
        conditions=words.count(len(rows), "condition"),
        has=words.plural(len(rows) - few, "has", "have"),
        floors=FLOORS[99],
    )
    with_gaps = rows[rows["n_gaps_least"] > 0]
    if len(with_gaps):
        enough = sum(not below_floor(99, n) for n in with_gaps["n_gaps_least"])
        title += say(
            "confidence_floors.tails.title_gaps_many_gaps",
            enough=enough,
            n_with_gaps=len(with_gaps),
        )
    return Figure(
        id=name,
        title=title,
        subtitle=(
            say("confidence_floors.tails.subtitle_floors_confidence_independent")
            + words.listed(
                say(
                    "confidence_floors.tails.subtitle_for",
                    n=n,
                    median=words.told("median") if q == 50 else f"p{q:g}",
                )
                for q, n in FLOORS.items()
            )
            + say("confidence_floors.tails.subtitle_below_floor_percentile")
        ),
        table=shown,
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=(say("confidence_floors.tails.note"),),
    )


def glossary(campaign: Campaign) -> Figure:
    """What each statistic of the chapter is; metrics are defined beside the figures they are in."""
    entries = list(STATISTICS.values())
    return Figure(
        id="confidence-glossary",
        title=say("confidence_floors.glossary.title", n_entries=len(entries)),
        subtitle=say("confidence_floors.glossary.subtitle"),
        table=pd.DataFrame(
            {
                "name": [e.label for e in entries],
                "unit": [e.unit for e in entries],
                "definition": [e.definition for e in entries],
                "from": [e.source for e in entries],
            }
        ),
        source=say("confidence_floors.glossary.source", campaign=campaign.name),
    )


def _farthest(n: float) -> str:
    good = [q for q in FLOORS if not below_floor(q, n)]
    return ("median" if good[-1] == 50 else f"p{good[-1]:g}") if good else "none"
