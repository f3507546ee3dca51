"""Chapter 02, definitions: where a client means something else by a figure than we do.

For each such figure ours, the client's own, the client's definition applied to our records, and
how far that is from the client's own: a difference that is explained, not only excused.
"""

from __future__ import annotations

from string import ascii_uppercase

import pandas as pd

from servebook.measure.metrics import METRICS
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.trust_clients import AGREEMENT, compared, kinds_of
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["other_definitions"]

_DIGITS = 6
_NAME = "trust-definitions"


def other_definitions(campaign: Campaign) -> Figure:
    """The figures that differ by definition, one row per client, metric and reason."""
    found = compared(campaign)
    level = common.metrics(campaign).set_index("run_id")["level"]
    found = found[found["run_id"].map(level) != "summary"]
    other = found[~found["same_definition"] & found["ours"].notna()]
    if other.empty:
        return Figure(
            id=_NAME,
            title=say("trust_definitions.other_definitions.title_clients_mean_figures"),
            missing=say("trust_definitions.other_definitions.missing"),
        )
    client = common.metrics(campaign).set_index("run_id")["client"]
    other = other.assign(client=other["run_id"].map(client), kind=kinds_of(other["reason"]))
    letters = _letters(other)
    rows = [
        _row(part, letters) for _, part in other.groupby(["client", "metric", "variant", "kind"])
    ]
    order = {name: place for place, name in enumerate(METRICS)}
    rows.sort(key=lambda row: (str(row["client"]), order[str(row.pop("_metric"))]))
    again = other[other["theirs_deviation"].notna()]
    met = int((again["theirs_deviation"].abs() <= AGREEMENT).sum())
    title = say(
        "trust_definitions.other_definitions.title_clients",
        figures=words.capital(words.count(len(other), "figure")),
    )
    title += words.plural(len(other), "means", "mean") + say(
        "trust_definitions.other_definitions.title_something_else_ours"
    )
    if len(again):
        title += say(
            "trust_definitions.other_definitions.title_client_definition_agree",
            met=met,
            n_again=len(again),
            agreement=words.percent(AGREEMENT, 1),
        )
    left = len(other) - len(again)
    notes = [
        say(
            "trust_definitions.other_definitions.note_differs_definition",
            letter=letter,
            first=_first(other, who, kind),
        )
        for (who, kind), letter in letters.items()
    ]
    if left:
        notes.append(
            say(
                "trust_definitions.other_definitions.note_records_hold_client",
                figures=words.count(left, "figure"),
            )
        )
    return Figure(
        id=_NAME,
        title=title,
        subtitle=say("trust_definitions.other_definitions.subtitle"),
        table=pd.DataFrame(rows),
        alt=f"{title}.",
        source=say(
            "shared.and_the_clients_summaries",
            records_of=common.records_of(campaign, other["run_id"].nunique()),
        ),
        runs=tuple(sorted(set(other["run_id"]))),
        notes=tuple(notes),
        open_table=True,
    )


def _letters(other: pd.DataFrame) -> dict[tuple[str, str], str]:
    """A letter for each client's reason, in a stable order: A to Z, then A2 to Z2 ..."""
    pairs = sorted({(str(c), str(k)) for c, k in zip(other["client"], other["kind"], strict=True)})
    size = len(ascii_uppercase)
    return {
        pair: ascii_uppercase[n % size] + (str(n // size + 1) if n >= size else "")
        for n, pair in enumerate(pairs)
    }


def _first(other: pd.DataFrame, client: str, kind: str) -> str:
    """One reason of its kind, with the numbers of one run."""
    here = other[(other["client"] == client) & (other["kind"] == kind)]
    return str(min(here["reason"]))


def _row(part: pd.DataFrame, letters: dict[tuple[str, str], str]) -> dict[str, object]:
    far = common.top(part, part["deviation"].abs().fillna(0.0))
    metric = METRICS[str(far["metric"])]
    own = say("trust_definitions.row.own", variant=far["variant"]) if far["variant"] else ""
    return {
        "_metric": metric.name,
        "client": far["client"],
        "metric": words.told(metric.label) + own,
        "unit": metric.unit,
        "ours": _rounded(far["ours"]),
        "client's own": _rounded(far["native"]),
        "theirs recomputed": _rounded(far["theirs_recomputed"]),
        "deviation (%)": round(100 * float(far["theirs_deviation"]), 4) + 0.0,
        "largest (%)": round(100 * float(part["theirs_deviation"].abs().max()), 4) + 0.0,
        "differs by definition": letters[str(far["client"]), str(far["kind"])],
        "runs": len(part),
        "run": far["run_id"],
    }


def _rounded(value: float) -> float:
    """To six digits: more is noise of a processor."""
    return float(f"{float(value):.{_DIGITS}g}")
