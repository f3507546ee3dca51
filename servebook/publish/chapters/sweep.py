"""Figures over concurrency that the chapters on prefill, decode and mixed load share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.conditions import beyond_lowest
from servebook.measure.metrics import METRICS
from servebook.measure.percentiles import FLOORS, below_floor
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.evidence import (
    Sweep,
    condition_words,
    described,
    evidence,
    factor_rows,
    points,
    rows_of,
    versus,
)
from servebook.publish.chapters.goodput_base import limits_in_words
from servebook.publish.chapters.saturation import finding_words, lead, main_finding, remarks
from servebook.publish.charts.lines import over_concurrency
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["latency", "limits", "throughput", "verdict"]


def limits(campaign: Campaign, rows: pd.DataFrame) -> pd.DataFrame:
    """Slot limits that the manifest states, where they lie near the drawn concurrencies."""
    slots: dict[int, list[str]] = {}
    for name in dict.fromkeys(rows["configuration"]):
        c = campaign.manifest.configuration(name)
        if c is not None and c.max_num_seqs is not None:
            slots.setdefault(c.max_num_seqs * (c.dp or 1), []).append(c.label)
    low, high = rows["concurrency"].min(), rows["concurrency"].max()
    shown = [n for n in sorted(slots) if low <= n <= high * 1.5]
    return pd.DataFrame(
        [{"concurrency": float(n), "text": say("sweep.limits.text", n=n)} for n in shown],
        columns=["concurrency", "text"],
    )


def _pairs(found: pd.DataFrame) -> pd.DataFrame:
    """The dotted rules between two series; of one client and length, the one with most pairs."""
    if found.empty:
        return pd.DataFrame(columns=["concurrency", "low", "high", "middle", "text"])
    groups = found.groupby(["client", "isl", "osl"], sort=True)
    kept = max(groups, key=lambda item: len(item[1]))[1]
    ends = kept[["baseline", "candidate"]]
    return pd.DataFrame(
        {
            "concurrency": kept["concurrency"].astype(float),
            "low": ends.min(axis=1),
            "high": ends.max(axis=1),
            "middle": np.sqrt(kept["baseline"] * kept["candidate"]),
            # Which side is ahead is seen; how many times it is reads best above 1.
            "text": [words.factor(max(f, 1 / f)) for f in kept["factor"]],
        }
    )


def throughput(campaign: Campaign, sweep: Sweep) -> Figure:
    """Throughput over concurrency with factors, slot limits and what saturates."""
    name = f"{sweep.workload}-throughput"
    rows = rows_of(campaign, sweep.workload, sweep.throughput)
    if rows.empty:
        return common.absent(
            campaign, name, say("sweep.throughput.throughput", noun=sweep.noun), sweep.workload
        )
    leading = main_finding(rows, sweep.throughput)
    finding = say(
        "sweep.throughput.finding",
        noun=sweep.noun,
        finding_words=finding_words(leading, sweep.unit),
    )
    if common.several(rows["series"]):
        finding += f" ({leading['name']})"
    found = factor_rows(campaign, rows, sweep.throughput)
    pair = common.opponents(campaign, rows)
    title = finding
    if pair and len(found):
        title = f"{sweep.noun}: " + versus(campaign, pair, found, "sweep.throughput.title")
    chart = over_concurrency(
        points(rows, sweep.throughput, sweep.unit),
        say("sweep.throughput.chart", unit=sweep.unit_words),
        pairs=_pairs(found),
        remarks=remarks(rows, sweep.throughput),
        limits=limits(campaign, rows),
    )
    table = common.table(
        rows,
        [
            ("name", "configuration"),
            ("client", "client"),
            ("isl", "input tokens"),
            ("osl", "output tokens"),
            ("concurrency", "requests in flight"),
            (sweep.throughput, f"throughput ({sweep.unit})"),
            (f"{sweep.throughput}_low", "lowest repeat"),
            (f"{sweep.throughput}_high", "highest repeat"),
            ("n_runs", "runs"),
            ("n_ok", "ok requests"),
        ],
    )
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "sweep.throughput.subtitle",
            condition_words=condition_words(rows),
            evidence=evidence(campaign, rows),
        ),
        chart=chart,
        table=table,
        alt=f"{title}. " + described(rows, sweep.throughput, sweep.unit),
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=(
            common.defined(sweep.throughput),
            *common.left_out_notes(campaign, sweep.workload),
        ),
    )


def latency(campaign: Campaign, sweep: Sweep, family: str, statistic: str, noun: str) -> Figure:
    """A latency over concurrency: the line is ``statistic``; the table has mean, median and tail.

    ``family`` is ttft, tpot or e2e; ``noun`` is what the title calls the quantity ("TTFT").
    """
    name = f"{sweep.workload}-{family}"
    metric = f"{family}_{statistic}_ms"
    rows = rows_of(campaign, sweep.workload, metric)
    if rows.empty:
        return common.absent(campaign, name, f"{sweep.noun}: {noun}", sweep.workload)
    found = factor_rows(campaign, rows, metric)
    pair = common.opponents(campaign, rows)
    title = _growth(rows, metric, sweep)
    if pair and len(found):
        title = f"{sweep.noun} {noun}: " + versus(campaign, pair, found, "sweep.latency.title")
    few = pd.Series([below_floor(99, n) for n in rows["n_ok_least"]], index=rows.index)
    little = pd.Series([below_floor(50, n) for n in rows["n_ok_least"]], index=rows.index)
    shown = rows.assign(
        p50=rows[f"{family}_p50_ms"].where(~little),
        p99=rows[f"{family}_p99_ms"].where(~few),
        beyond=100 * beyond_lowest(rows, metric),
    )
    statistic_label = words.told(METRICS[metric].label)
    columns = [
        ("name", "configuration"),
        ("client", "client"),
        ("isl", "input tokens"),
        ("osl", "output tokens"),
        ("concurrency", "requests in flight"),
        (f"{family}_mean_ms", f"{noun} mean (ms)"),
        ("p50", f"{noun} median (ms)"),
        ("p99", f"{noun} p99 (ms)"),
        (f"{family}_max_ms", f"{noun} max (ms)"),
        ("n_ok", "ok requests"),
    ]
    if family == "ttft":
        columns.insert(-1, ("beyond", "share beyond the lowest concurrency (%)"))
    notes = [common.defined(metric)]
    bounds = _bounds(campaign, family)
    if len(bounds):
        notes.append(say("sweep.latency.note_limits_manifest", told=words.listed(bounds["text"])))
    if few.any():
        notes.append(say("sweep.latency.note_p99_given_runs"))
    if little.any():
        notes.append(say("sweep.latency.note_median_given_table", floors=FLOORS[50]))
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "sweep.latency.subtitle",
            condition_words=condition_words(rows),
            evidence=evidence(campaign, rows),
        ),
        chart=over_concurrency(
            points(rows, metric, "ms"),
            say("shared.ms_log", gap_word=statistic_label),
            pairs=_pairs(found),
            limits=limits(campaign, rows),
            bounds=bounds,
            y_format=",~g",
        ),
        table=common.table(shown, columns),
        alt=f"{title}. " + described(rows, metric, "ms"),
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=(*notes, *common.left_out_notes(campaign, sweep.workload)),
    )


def _bounds(campaign: Campaign, family: str) -> pd.DataFrame:
    """The manifest's limit on this latency of each request: value (ms), text; no row without."""
    name = f"{family}_ms"
    limit = campaign.manifest.slos.get(name)
    rows = [{"value": float(limit), "text": limits_in_words({name: limit})}] if limit else []
    return pd.DataFrame(rows, columns=["value", "text"])


def _growth(rows: pd.DataFrame, metric: str, sweep: Sweep) -> str:
    """How a latency grows beside the throughput, over the range of the leading series."""
    line = lead(rows, metric)
    first, last = line.iloc[0], line.iloc[-1]
    who = f" ({first['name']})" if common.several(rows["series"]) else ""
    what = words.told(METRICS[metric].label)
    if len(line) == 1:
        return say(
            "sweep.growth.concurrency",
            noun=sweep.noun,
            what=what,
            first=words.milliseconds(first[metric]),
            in_flight=common.in_flight(first["concurrency"]),
            who=who,
        )
    ratio = last[metric] / first[metric]
    verb = (
        say("sweep.growth.verb_grows")
        if ratio > 1.05
        else say("sweep.growth.verb_falls")
        if ratio < 1 / 1.05
        else say("sweep.growth.verb_stays")
    )
    span = say(
        "sweep.growth.span_from_to",
        first=words.milliseconds(first[metric]),
        last=words.milliseconds(last[metric]),
    )
    if 1 / 1.05 <= ratio <= 1.05:
        span = say("sweep.growth.span_within", first=words.milliseconds(first[metric]))
    gain = last[sweep.throughput] / first[sweep.throughput]
    beside = (
        say("sweep.growth.beside_throughput_changes")
        if 1 / 1.05 <= gain <= 1.05
        else say(
            "sweep.growth.beside_throughput",
            grows=say("sweep.growth.verb_grows") if gain > 1 else say("sweep.growth.verb_falls"),
            gain=words.times(max(gain, 1 / gain)),
        )
    )
    return say(
        "sweep.growth.between_flight",
        noun=sweep.noun,
        what=what,
        verb=verb,
        span=span,
        concurrency=first["concurrency"],
        concurrency_2=last["concurrency"],
        beside=beside,
        who=who,
    )


_YIELD = 20


def verdict(campaign: Campaign, sweep: Sweep, rank: int, *, pairs: bool = True) -> Statement:
    """The comparison of the two opponents where there is one, else the saturation finding.

    ``pairs``: whether a comparison stands at the top of the page; False where another chapter
    says it with its reason.
    """
    name = f"{sweep.workload}-verdict"
    metric = sweep.throughput
    rows = rows_of(campaign, sweep.workload, metric)
    if rows.empty:
        return common.absent_statement(campaign, name, sweep.workload)
    pair = common.opponents(campaign, rows)
    found = factor_rows(campaign, rows, metric)
    if pair and len(found):
        best = common.top(found, np.log(found["factor"]).abs())
        ends = [best["factor_low"], best["factor_high"]]
        # The number says how many times more, whichever side is ahead: so does the sentence.
        turned = best["factor"] < 1
        factor = 1 / best["factor"] if turned else best["factor"]
        low, high = sorted(1 / e for e in ends) if turned else ends
        runs = tuple(sorted({run for runs in found["runs"] for run in runs}))
        used = rows[[bool(set(r) & set(runs)) for r in rows["runs"]]]
        compared = common.comparison(campaign, pair)
        said = versus(campaign, pair, found, "sweep.throughput.title")
        several = max(found["n_baseline"].max(), found["n_candidate"].max()) > 1
        least = int(min(found["n_baseline"].min(), found["n_candidate"].min()))
        return Statement(
            id=name,
            sentence=f"{sweep.noun}: {said}.",
            metric=metric,
            value=float(factor),
            unit="ratio",
            caption=say("sweep.verdict.caption", unit=sweep.unit_words),
            n=int(used["n_ok"].sum()),
            n_of="requests",
            low=_known(low) if several else None,
            high=_known(high) if several else None,
            interval=(
                say("shared.no_interval_one_run_on_a") if least < 2 else common.interval([least])
            ),
            runs=runs,
            figure=f"{sweep.workload}-throughput",
            would_change=(
                say("shared.repeats_on_both_sides_whose_ranges")
                + (
                    say(
                        "sweep.verdict.would_change_pair_differs_setting",
                        differ=words.listed(map(words.told, compared.differ)),
                    )
                    if len(compared.differ) > 1
                    else ""
                )
            ),
            verdict=pairs,
            # a ratio of several settings at once yields its place to the chapter that splits it
            rank=rank if len(compared.differ) < 2 else rank + _YIELD,
            marks=common.marks(campaign, pair),
        )
    row = main_finding(rows, metric)
    line = rows[rows["series"] == row["series"]]
    peak = line[line["concurrency"] == row["peak_concurrency"]].iloc[0]
    several = peak["n_runs"] > 1
    who = f" ({row['name']})" if common.several(rows["series"]) else ""
    return Statement(
        id=name,
        sentence=say(
            "sweep.verdict.sentence",
            noun=sweep.noun,
            finding_words=finding_words(row, sweep.unit),
            who=who,
        ),
        metric=metric,
        value=float(row["peak_value"]),
        unit=METRICS[metric].unit,
        n=int(line["n_ok"].sum()),
        n_of="requests",
        low=_known(peak[f"{metric}_low"]) if several else None,
        high=_known(peak[f"{metric}_high"]) if several else None,
        interval=words.spread(int(peak["n_runs"])),
        runs=common.runs_of(line),
        figure=f"{sweep.workload}-throughput",
        would_change=(
            say("sweep.verdict.would_change_runs_higher_concurrency")
            if row["lower_bound"]
            else say("sweep.verdict.would_change_repeats_concurrency_beyond")
        ),
        verdict=True,
        rank=rank,
        marks=common.marks(campaign, runs=common.runs_of(line)),
    )


def _known(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)
