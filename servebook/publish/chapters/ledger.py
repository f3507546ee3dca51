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
from servebook.read.campaign import Campaign

__all__ = ["contradictions", "ledger"]

_FITTED = (
    "The dumps of this campaign are reconstructed: they were fitted to figures of this table. "
    "Agreement shows that the path from dump to page gives back what went in. It says nothing "
    "about the hardware."
)


@common.memo
def _entries(campaign: Campaign) -> tuple[Entry, ...]:
    return checked(campaign) if (campaign.root / PUBLISHED).is_file() else ()


def ledger(campaign: Campaign) -> Figure:
    """Every printed figure against what the dumps give: dots by section, and the table."""
    entries = _entries(campaign)
    if not entries:
        return Figure(
            id="ledger",
            title="No printed figures to compare with",
            missing=(
                f"This campaign ships no {PUBLISHED}. Where its figures were printed elsewhere, "
                "such a file sets each of them beside what the dumps give."
            ),
        )
    met = [e for e in entries if e.verdict == "ok"]
    off = [e for e in entries if e.verdict == "off"]
    silent = [e for e in entries if e.verdict == "not computable"]
    title = f"{len(met)} of {words.count(len(entries), 'printed figure')} follow from the dumps"
    runs = sorted({run for e in entries if e.found for run in e.found.runs})
    share = {kind: words.percent(value, 1) for kind, value in RELATIVE.items()}
    parts = [f"{len(off)} off"] if off else []
    parts += [f"{len(silent)} not computable"] if silent else []
    return Figure(
        id="ledger",
        title=title + (f"; {words.listed(parts)}" if parts else ""),
        subtitle=(
            f"Shaded: met. Measured figures (circles): within {share['measured']} or half the last "
            "printed digit. Derived (diamonds): it rounds to the print or lies within "
            f"{share['derived']}. Models (squares), inputs (crosses): it rounds to the print."
        ),
        chart=within_tolerance(_dots([*met, *off])) if met or off else None,
        table=pd.DataFrame([_row(e) for e in entries]),
        alt=f"{title}. " + " ".join(_sentence(e) for e in [*off, *silent][:5]),
        source=(
            f"{common.records_of(campaign, len(runs))}, interface counters and the manifest; "
            f"printed: {PUBLISHED}"
        ),
        runs=tuple(runs),
        notes=(_FITTED,) if campaign.manifest.provenance == "reconstructed" else (),
    )


def _dots(entries: list[Entry]) -> pd.DataFrame:
    rows = []
    for entry in entries:
        difference, tolerance = entry.difference or 0.0, entry.tolerance
        # Where nothing but equality will do, any difference lies outside the band.
        share = difference / tolerance if tolerance else (0.0 if not difference else 2.0)
        rows.append(
            {
                "row": entry.printed.section or "(no section)",
                "share": share,
                "verdict": entry.verdict,
                "kind": entry.printed.kind,
                "id": entry.printed.id,
                "tip": f"printed {words.number(entry.printed.value, 5)}, computed "
                f"{words.number(entry.computed, 5)} {entry.printed.unit}",
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
        return f"{entry.printed.id} cannot be computed: {entry.why}."
    return (
        f"{entry.printed.id}: printed {words.number(entry.printed.value)}, computed "
        f"{words.number(entry.computed)} {entry.printed.unit}."
    )


def contradictions(campaign: Campaign) -> Figure:
    """Where printed figures contradict one another, with the sums on print and on dumps."""
    entries = _entries(campaign)
    rows = doubted(campaign, entries)
    if rows.empty:
        return Figure(
            id="contradictions",
            title="No contradictions among printed figures are listed",
            missing="This campaign ships no contradictions.csv, which would hold their arithmetic.",
        )
    points = rows["point"].nunique()
    return Figure(
        id="contradictions",
        title=f"{words.capital(words.count(points, 'point', spelled=True))} on which the printed "
        f"figures and the text around them disagree",
        subtitle=(
            "Each sum is done twice: with the printed figures, and with the computed ones. "
            "Neither is bent to the other. A dash: a part was not printed, or cannot be computed."
        ),
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
        source=f"{common.records_of(campaign, len(_runs(rows)))}; printed: {PUBLISHED}",
        runs=_runs(rows),
        notes=(_FITTED,) if campaign.manifest.provenance == "reconstructed" else (),
    )


def _runs(rows: pd.DataFrame) -> tuple[str, ...]:
    return tuple(sorted({run for runs in rows["runs"] for run in runs}))
