"""The appendix: every measured value, every definition, and where each number comes from.

Tables only. Nothing here names a machine, a user, an absolute path or the day of the build.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.metrics import COUNTS, METRICS, VALUES, Metric
from servebook.measure.native import compare
from servebook.measure.percentiles import FLOORS, below_floor, quantile_of, rests_on
from servebook.measure.runs import run_metrics
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.appendix_provenance import (
    command,
    findings,
    inputs,
    notes,
    settings,
    versions,
)
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = [
    "clients",
    "command",
    "definitions",
    "findings",
    "inputs",
    "latencies",
    "notes",
    "rates",
    "settings",
    "versions",
]

#: What two values of one definition may differ by: rounding in the client's summary.
AGREEMENT = 0.001

_LATENCY = ("ttft_", "tpot_", "itl_", "e2e_", "send_delay_")
#: What tells the runs apart stands before the values, what they hardly differ in behind.
_BEFORE = {
    "concurrency": "Concurrency",
    "request_rate": "Request rate (requests/s)",
}
_BEHIND = {
    "configuration": "Configuration",
    "client": "Client",
    "isl_mean": "ISL (tokens)",
    "osl_mean": "OSL (tokens)",
    "repeat": "Repeat",
}
_RUN = "Run"
#: The metric whose spread a title tells: of the rates or the latencies, of prefill or of others.
_TITLE = {
    ("rates", True): "input_throughput_tok_s",
    ("rates", False): "output_throughput_tok_s",
    ("latencies", True): "ttft_mean_ms",
    ("latencies", False): "tpot_mean_ms",
}
_NUMBER = re.compile(r"\d[\d.,]*")


def rates(campaign: Campaign, workload: str) -> Figure:
    """Counts, duration, throughput and what follows from them, one row per run."""
    wanted = [*(m for m in VALUES if not m.name.startswith(_LATENCY)), *COUNTS]
    return _values(campaign, workload, wanted, "rates", say("appendix.rates"))


def latencies(campaign: Campaign, workload: str) -> Figure:
    """TTFT, TPOT, ITL and request latency with their percentiles, one row per run."""
    wanted = [m for m in VALUES if m.name.startswith(_LATENCY)]
    counts = [m for m in COUNTS if m.name in {rests_on(w.name) for w in wanted}]
    return _values(campaign, workload, [*counts, *wanted], "latencies", say("appendix.latencies"))


def _values(
    campaign: Campaign, workload: str, wanted: Sequence[Metric], slug: str, what: str
) -> Figure:
    name = f"appendix-{workload}-{slug}"
    metrics = run_metrics(campaign.tables)
    chosen = metrics[metrics["workload"] == workload]
    if chosen.empty:
        title = say("appendix.values.title_runs", workload=words.capital(workload))
        return Figure(
            id=name, title=title, missing=say("appendix.values.missing", workload=workload)
        )
    order = {c.name: i for i, c in enumerate(campaign.manifest.configurations)}
    chosen = chosen.assign(_order=[order.get(c, len(order)) for c in chosen["configuration"]])
    keys = ["_order", "client", "isl_mean", "concurrency", "request_rate", "repeat", "run_id"]
    chosen = chosen.sort_values(keys, kind="stable")
    frame: dict[str, pd.Series[Any]] = {_RUN: chosen["run_id"]}
    chosen = chosen.assign(configuration=common.labels(campaign, chosen["configuration"]))
    frame |= {label: chosen[column] for column, label in _BEFORE.items()}
    absent, few = [], []
    for metric in wanted:
        if slug == "latencies" and metric in COUNTS and not (chosen[metric.name] > 0).any():
            continue
        if not chosen[metric.name].notna().any():
            absent.append(words.told(metric.label))
            continue
        q, n = quantile_of(metric.name), rests_on(metric.name)
        values = chosen[metric.name]
        if q is not None and n is not None:
            values = values.mask(np.array([below_floor(q, k) for k in chosen[n]], dtype=bool))
        if values.notna().any():
            frame[_named(metric)] = _plain(values)
        else:
            few.append(words.told(metric.label))
    if slug == "rates":  # said once: the run tells the rest
        frame |= {label: chosen[column] for column, label in _BEHIND.items()}
    shown = pd.DataFrame(frame).dropna(axis="columns", how="all").reset_index(drop=True)
    notes = (
        [say("appendix.values.note_undefined_runs_left", absent=", ".join(absent))]
        if absent
        else []
    )
    if slug == "latencies":
        floors = ", ".join(
            f"p{q:g} {n:,}" if q != 50 else say("appendix.values.floors", n=n)
            for q, n in FLOORS.items()
        )
        notes.append(say("appendix.values.note_percentile_fewer_values", floors=floors))
    if few:
        notes.append(say("appendix.values.note_below_floor_runs", few=", ".join(few)))
    capital, runs = words.capital(workload), words.count(len(shown), "run")
    title = say("appendix.values.title_of", workload=capital, what=what, runs=runs)
    spread = METRICS[_TITLE[slug, workload == "prefill"]]
    if (values := chosen[spread.name].dropna()).size:
        title = say(
            "appendix.values.title_span",
            workload=capital,
            what=what,
            runs=runs,
            metric=words.told(spread.label),
            span=words.span(values),
            unit=words.unit(spread.unit),
        )
    return Figure(
        id=name,
        title=title,
        table=shown,
        source=common.records_of(campaign, len(shown)),
        runs=tuple(chosen["run_id"]),
        notes=tuple(notes),
    )


def _named(metric: Metric) -> str:
    unit = "" if metric.unit in ("", "count") else f" ({metric.unit})"
    return f"{metric.label}{unit}"


def _plain(values: pd.Series[Any]) -> pd.Series[Any]:
    """Whole numbers as integers, so that counts do not read as measurements."""
    whole = bool((np.floor(values.dropna()) == values.dropna()).all())
    return values.astype("Int64") if whole else values


def clients(campaign: Campaign) -> Figure:
    """Each client's own summary against the values recomputed here, by metric."""
    found = compare(campaign.tables, run_metrics(campaign.tables))
    name = "appendix-clients"
    if found.empty:
        return Figure(
            id=name,
            title=say("appendix.clients.title_client_left_summary"),
            missing=say("appendix.clients.missing"),
        )
    client = dict(
        zip(*(campaign.tables.runs[c].to_pylist() for c in ("run_id", "client")), strict=True)
    )
    found = found.assign(client=found["run_id"].map(client))
    same = found[found["same_definition"]]
    rows = []
    for (who, metric, own), group in found.groupby(["client", "metric", "variant"], sort=False):
        comparable = group[group["same_definition"]]
        other = group[~group["same_definition"]]
        rows.append(
            {
                "Client": who,
                "Metric": words.told(METRICS[str(metric)].label)
                + (say("appendix.clients.metric", own=own) if own else ""),
                "Runs with one definition": len(comparable),
                "Largest deviation (%)": _largest(comparable["deviation"]),
                "Runs that differ by definition": len(other),
                "Largest difference there (%)": _largest(other["deviation"]),
                "Left after recomputing theirs (%)": _largest(other["theirs_deviation"]),
            }
        )
    close = int((same["deviation"].abs() <= AGREEMENT).sum())
    counts = int(same["metric"].str.startswith("n_").sum())
    return Figure(
        id=name,
        title=say(
            "appendix.clients.title_values_definition_agree",
            close=close,
            n_same=len(same),
            agreement=words.percent(AGREEMENT, 1),
        ),
        subtitle=say(
            "appendix.clients.subtitle",
            n_same=len(same) - counts,
            counts=counts,
            runs=words.count(found["run_id"].nunique(), "run"),
            n_found=len(found) - len(same),
        ),
        table=pd.DataFrame(rows),
        source=say("appendix.clients.source", provenance=common.provenance(campaign)),
        runs=tuple(dict.fromkeys(found["run_id"])),
        notes=_differences(found[~found["same_definition"]]),
    )


def _differences(found: pd.DataFrame) -> tuple[str, ...]:
    """Why client and page differ, each kind of reason once with the metrics that it concerns."""
    kinds = found["reason"].str.replace(_NUMBER, "#", regex=True)
    notes = []
    for _, group in found.groupby(kinds, sort=True):
        metrics = [words.told(METRICS[str(name)].label) for name in dict.fromkeys(group["metric"])]
        notes.append(
            say(
                "appendix.differences.note",
                reasons=_reasons(group["reason"]),
                metrics=words.listed(metrics, most=4),
                runs=words.count(group["run_id"].nunique(), "run"),
            )
        )
    return tuple(notes)


def _reasons(reasons: Iterable[str]) -> str:
    """Each kind of reason once: reasons that differ in their numbers only are of one kind."""
    kinds: dict[str, list[str]] = {}
    for reason in sorted(set(reasons)):
        kinds.setdefault(_NUMBER.sub("#", reason), []).append(reason)
    return "; ".join(
        words.told(alike[0])
        + (say("appendix.reasons", n_alike=len(alike) - 1) if len(alike) > 1 else "")
        for alike in kinds.values()
    )


def _largest(deviation: pd.Series[Any]) -> float:
    """The largest absolute deviation in percent, with its sign; NaN where there is none."""
    known = deviation.dropna().tolist()
    # Rounded: what is left of equal values is noise of the processor.
    return round(100 * max(known, key=abs), 4) + 0.0 if known else np.nan


def definitions(campaign: Campaign) -> Figure:
    """The registry of metrics: name, unit, direction, definition, source."""
    del campaign  # the registry is the same for every campaign
    better = {
        "lower": say("appendix.definitions.lower"),
        "higher": say("appendix.definitions.higher"),
        "": say("appendix.definitions.value"),
    }
    return Figure(
        id="appendix-definitions",
        title=say("appendix.definitions.title", n_metrics=len(METRICS)),
        subtitle=say("appendix.definitions.subtitle"),
        table=pd.DataFrame(
            [
                {
                    "Metric": metric.label,
                    "Name": metric.name,
                    "Unit": metric.unit,
                    "Direction": better[metric.better],
                    "Definition": metric.definition,
                    "From": metric.source,
                }
                for metric in METRICS.values()
            ]
        ),
        source=say("appendix.definitions.source"),
    )
