"""The ledger: every printed figure beside what the dumps give for it.

The computed value always comes through the normal path (dumps, canonical tables, measures,
arithmetic) or, for inputs and models, from the manifest; the print is only compared with.
Tolerance: a measured figure within 0.5 % or half its last printed digit, whichever is larger; a
derived one rounds to the print or lies within 1 %; models and inputs round to the print. A figure
that cannot be computed says what is missing, and counts as not met.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from servebook.explain.ledger_evidence import MEASURED, Evidence, Found, NotComputableError
from servebook.explain.ledger_figures import RUN_FIGURES, Figure, measured
from servebook.explain.ledger_links import LINK_FIGURES
from servebook.explain.ledger_models import MODEL_FIGURES
from servebook.explain.ledger_rows import Printed, read_published
from servebook.read.campaign import Campaign

__all__ = ["FIGURES", "RELATIVE", "Entry", "as_json", "ledger", "render", "tolerance"]

FIGURES: Mapping[str, Figure] = {**RUN_FIGURES, **LINK_FIGURES, **MODEL_FIGURES}
#: Relative tolerance by kind; half the printed step counts where it is larger.
RELATIVE = {"measured": 0.005, "derived": 0.01, "model": 0.0, "input": 0.0}
_SLACK = 1e-9  # of the value: binary fractions, so that 11.25 still rounds to 11.3


@dataclass(frozen=True)
class Entry:
    """One printed figure and what was computed for it; ``found`` is None with the reason."""

    printed: Printed
    found: Found | None
    why: str = ""

    @property
    def computed(self) -> float | None:
        """The computed value in the printed unit."""
        return None if self.found is None else self.found.value

    @property
    def difference(self) -> float | None:
        """Computed minus printed."""
        return None if self.found is None else self.found.value - self.printed.value

    @property
    def deviation(self) -> float | None:
        """Computed over printed, minus 1; None where 0 is printed."""
        if self.difference is None or not self.printed.value:
            return None
        return self.difference / abs(self.printed.value)

    @property
    def tolerance(self) -> float:
        """How far computed and printed may lie apart, in the printed unit."""
        return tolerance(self.printed)

    @property
    def verdict(self) -> str:
        """One of "ok", "off" and "not computable"."""
        if self.difference is None:
            return "not computable"
        slack = _SLACK * abs(self.printed.value)
        return "ok" if abs(self.difference) <= self.tolerance + slack else "off"


def tolerance(printed: Printed) -> float:
    """The larger of half the printed step and the kind's share of the printed value."""
    return max(printed.step / 2, RELATIVE[printed.kind] * abs(printed.value))


def ledger(campaign: Campaign) -> tuple[Entry, ...]:
    """One entry per row of the campaign's ``published.csv``, in file order.

    Raises DumpError where the campaign ships no such file or a row cannot be read.
    """
    printed = read_published(campaign.root)
    evidence = Evidence(campaign, printed)
    return tuple(_entry(row, evidence) for row in printed)


def _entry(row: Printed, evidence: Evidence) -> Entry:
    figure = measured if (row.metric, row.stat) in MEASURED else FIGURES.get(row.metric)
    if figure is None:
        return Entry(row, None, f"no definition of the metric {row.metric!r} ({row.stat})")
    try:
        found = figure(row, evidence)
    except NotComputableError as error:
        return Entry(row, None, str(error))
    if found.value != found.value:  # NaN: what it rests on is undefined
        return Entry(row, None, "a value that it rests on is undefined")
    return Entry(row, found)


def as_json(entries: Iterable[Entry]) -> dict[str, Any]:
    """``{"figures": [...], "counts": {...}}``: plain values, null where nothing was computed."""
    figures = []
    counts = {"ok": 0, "off": 0, "not computable": 0}
    for entry in entries:
        row, found = entry.printed, entry.found
        counts[entry.verdict] += 1
        figures.append(
            {
                "id": row.id,
                "article": row.article,
                "section": row.section,
                "kind": row.kind,
                "metric": row.metric,
                "stat": row.stat,
                "unit": row.unit,
                "published": row.value,
                "computed": entry.computed,
                "difference": entry.difference,
                "deviation": entry.deviation,
                "tolerance": entry.tolerance,
                "verdict": entry.verdict,
                "ok": entry.verdict == "ok",
                "why": entry.why,
                "runs": list(found.runs) if found else [],
                "counters": list(found.counters) if found else [],
                "how": found.how if found else "",
            }
        )
    return {"figures": figures, "counts": counts}


def render(entries: Iterable[Entry]) -> str:
    """The ledger as text, by section in the order of the file, with a last line that counts."""
    entries = list(entries)
    sections: dict[str, list[Entry]] = {}
    for entry in entries:
        sections.setdefault(entry.printed.section, []).append(entry)
    wide = max((len(e.printed.id) for e in entries), default=2)
    head = f"  {'id':<{wide}}  {'published':>12} {'computed':>12} {'unit':<10} {'deviation':>10}"
    lines = []
    for section, own in sections.items():
        lines += [section or "(no section)", f"{head} {'tolerance':>10}  verdict"]
        lines += [_line(entry, wide) for entry in own] + [""]
    counts = as_json(entries)["counts"]
    lines.append(", ".join(f"{n} {verdict}" for verdict, n in counts.items()))
    return "\n".join(lines)


def _line(entry: Entry, wide: int) -> str:
    row = entry.printed
    computed = "-" if entry.computed is None else f"{entry.computed:,.6g}"
    apart = "-" if entry.deviation is None else f"{entry.deviation * 100:+.2f} %"
    verdict = entry.verdict + (f": {entry.why}" if entry.why else "")
    rests = entry.found.runs if entry.found else ()
    if entry.verdict == "off" and rests:
        verdict += f" ({', '.join(rests[:3])}{', ...' if len(rests) > 3 else ''})"
    return (
        f"  {row.id:<{wide}}  {row.value:>12,.6g} {computed:>12} {row.unit:<10} {apart:>10} "
        f"{entry.tolerance:>10,.3g}  {verdict}"
    )
