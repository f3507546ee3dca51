"""The appendix's ledger: printed figures beside computed ones, and where the print disagrees."""

from __future__ import annotations

import pandas as pd

from servebook.explain.contradictions import contradictions as doubted
from servebook.explain.ledger import RELATIVE, Entry
from servebook.explain.ledger import ledger as checked
from servebook.explain.ledger_rows import PUBLISHED
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.charts.ledger import within_tolerance
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["contradictions", "ledger"]


@common.memo
def _entries(campaign: Campaign) -> tuple[Entry, ...]:
    return checked(campaign) if (campaign.root / PUBLISHED).is_file() else ()


def ledger(campaign: Campaign) -> Figure:
    """Every printed figure against what the dumps give: dots by section, and the table."""
    entries = _entries(campaign)
    if not entries:
        return Figure(
            id="ledger",
            title=say("ledger.ledger.title_printed_figures_compare"),
            missing=say("ledger.ledger.missing", published=PUBLISHED),
        )
    met = [e for e in entries if e.verdict == "ok"]
    off = [e for e in entries if e.verdict == "off"]
    silent = [e for e in entries if e.verdict == "not computable"]
    title = say(
        "ledger.ledger.title_follow_dumps",
        n_met=len(met),
        printed_figures=words.count(len(entries), "printed figure"),
    )
    runs = sorted({run for e in entries if e.found for run in e.found.runs})
    share = {kind: words.percent(value, 1) for kind, value in RELATIVE.items()}
    parts = [say("ledger.ledger.off", n_off=len(off))] if off else []
    parts += [say("ledger.ledger.computable", n_silent=len(silent))] if silent else []
    return Figure(
        id="ledger",
        title=title + (f"; {words.listed(parts)}" if parts else ""),
        subtitle=say(
            "ledger.ledger.subtitle", measured=share["measured"], derived=share["derived"]
        ),
        chart=within_tolerance(_dots([*met, *off])) if met or off else None,
        table=pd.DataFrame([_row(e) for e in entries]),
        alt=f"{title}. " + " ".join(_sentence(e) for e in [*off, *silent][:5]),
        source=say(
            "ledger.ledger.source",
            records_of=common.records_of(campaign, len(runs)),
            published=PUBLISHED,
        ),
        runs=tuple(runs),
        notes=(say("ledger.fitted"),) if campaign.manifest.provenance == "reconstructed" else (),
    )


def _dots(entries: list[Entry]) -> pd.DataFrame:
    rows = []
    for entry in entries:
        difference, tolerance = entry.difference or 0.0, entry.tolerance
        # Where nothing but equality will do, any difference lies outside the band.
        share = difference / tolerance if tolerance else (0.0 if not difference else 2.0)
        rows.append(
            {
                "row": entry.printed.section or say("ledger.dots.row"),
                "share": share,
                "verdict": entry.verdict,
                "kind": entry.printed.kind,
                "id": entry.printed.id,
                "tip": say(
                    "ledger.dots.tip",
                    value=words.number(entry.printed.value, 5),
                    computed=words.number(entry.computed, 5),
                    unit=words.unit(entry.printed.unit),
                ),
                "line": entry.printed.line,
            }
        )
    first = {r["row"]: i for i, r in reversed(list(enumerate(sorted(rows, key=_line))))}
    ordered = sorted(rows, key=lambda r: (first[r["row"]], r["line"]))
    return pd.DataFrame(ordered).drop(columns="line")


def _line(row: dict[str, object]) -> int:
    return int(str(row["line"]))


def _row(entry: Entry) -> dict[str, object]:
    printed, found = entry.printed, entry.found
    return {
        "Figure": printed.id,
        "Section": printed.section,
        "Kind": printed.kind,
        "Metric": " ".join(filter(None, (printed.metric, printed.stat))),
        "Printed": printed.value,
        "Computed": entry.computed,
        "Unit": printed.unit,
        "Deviation (%)": None if entry.deviation is None else 100 * entry.deviation,
        "Tolerance": entry.tolerance,
        "Verdict": entry.verdict + (f": {entry.why}" if entry.why else ""),
        "Rests on": ", ".join((*found.runs, *found.counters)) if found else "",
    }


def _sentence(entry: Entry) -> str:
    if entry.why:
        return say("ledger.sentence.cannot_computed", id=entry.printed.id, why=entry.why)
    return say(
        "ledger.sentence.printed_computed",
        id=entry.printed.id,
        value=words.number(entry.printed.value),
        computed=words.number(entry.computed),
        unit=words.unit(entry.printed.unit),
    )


def contradictions(campaign: Campaign) -> Figure:
    """Where printed figures contradict one another, with the sums on print and on dumps."""
    entries = _entries(campaign)
    rows = doubted(campaign, entries)
    if rows.empty:
        return Figure(
            id="contradictions",
            title=say("ledger.contradictions.title_contradictions_among_printed"),
            missing=say("ledger.contradictions.missing"),
        )
    points = rows["point"].nunique()
    return Figure(
        id="contradictions",
        title=say(
            "ledger.contradictions.title_printed_figures_text",
            points=words.capital(words.count(points, "point", spelled=True)),
        ),
        subtitle=say("ledger.contradictions.subtitle"),
        table=pd.DataFrame(
            {
                "Printed statement": rows["statement"],
                "Quantity": rows["quantity"],
                "From the print": rows["from_print"],
                "From the dumps": rows["computed"],
                "Unit": rows["unit"],
                "What follows": rows["says"],
                "Sum": rows["arithmetic"],
                "Why not": rows["why"],
            }
        ),
        open_table=True,
        source=say(
            "ledger.contradictions.source",
            records_of=common.records_of(campaign, len(_runs(rows))),
            published=PUBLISHED,
        ),
        runs=_runs(rows),
        notes=(say("ledger.fitted"),) if campaign.manifest.provenance == "reconstructed" else (),
    )


def _runs(rows: pd.DataFrame) -> tuple[str, ...]:
    return tuple(sorted({run for runs in rows["runs"] for run in runs}))
