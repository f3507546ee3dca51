"""Chapter 09, sweeps: knees by three methods, and TPOT at an equal running batch."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.knee import AGREE_WITHIN, METHODS, Knees, knees, over_repeats
from servebook.measure.matched import matched as match
from servebook.measure.ratio import CONFIDENCE
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.confidence_base import all_pairs, look, no_judgement
from servebook.publish.charts.forest import forest
from servebook.publish.charts.knees import by_method
from servebook.publish.output import Figure
from servebook.read.campaign import Campaign

__all__ = ["matched", "saturation_agreement"]

_THROUGHPUT = {"prefill": "input_throughput_tok_s"}


def saturation_agreement(campaign: Campaign) -> Figure:
    """Where each sweep saturates by three methods, and whether they and the repeats agree."""
    name = "confidence-saturation"
    gone = no_judgement(campaign, name, "Saturation by three methods", "a knee")
    if gone:
        return gone
    rows = common.styled(campaign, common.by_condition(campaign))
    by_run = common.metrics(campaign).set_index("run_id")
    entries: list[dict[str, Any]] = []
    for series, line in rows.groupby("series", sort=False):
        line = line.sort_values("concurrency", kind="stable")
        line = line[line["request_throughput_req_s"].gt(0) & line["e2e_mean_ms"].gt(0)]
        if len(line) < 3:
            continue
        # Tokens/s and requests/s are proportional within a series of fixed lengths only.
        metric = _THROUGHPUT.get(str(line["workload"].iloc[0]), "output_throughput_tok_s")
        scale = float((line["request_throughput_req_s"] / line[metric]).median())
        rate = line[metric] * scale
        choices = [list(r) for r in line["runs"]]
        found = knees(
            line["concurrency"].tolist(),
            rate.tolist(),
            (line["e2e_mean_ms"] / 1e3).tolist(),
            line["n_runs"].tolist(),
        )
        every = over_repeats(
            line["concurrency"].tolist(),
            [(by_run.loc[r, metric] * scale).tolist() for r in choices],
            [(by_run.loc[r, "e2e_mean_ms"] / 1e3).tolist() for r in choices],
        )
        entries.append(
            {
                "series": series,
                "name": f"{line['name'].iloc[0]} · {line['workload'].iloc[0]}",
                "client": line["client"].iloc[0],
                "low": float(line["concurrency"].min()),
                "high": float(line["concurrency"].max()),
                "n_points": len(line),
                "repeated": int((line["n_runs"] > 1).sum()),
                "found": found,
                "every": every,
                "runs": tuple(r for part in choices for r in part),
            }
        )
    if not entries:
        return Figure(
            id=name,
            title="Saturation by three methods",
            missing="No series of this campaign has three concurrencies, so none has a knee.",
        )
    counts = pd.Series([e["found"].agreement for e in entries]).value_counts()
    said = {
        "agree": "the three methods place the knee within one doubling",
        "two agree": "two methods place the knee within one doubling and the third finds none",
        "disagree": "the methods do not agree",
        "one alone": "one method alone finds a knee",
        "no knee in range": "there is no knee in the measured range",
    }
    parts = [f"in {counts[k]} of {len(entries)} sweeps {said[k]}" for k in said if k in counts]
    title = words.capital("; ".join(parts))
    table = pd.DataFrame([_knee_row(e) for e in entries])
    runs = tuple(sorted({r for e in entries for r in e["runs"]}))
    return Figure(
        id=name,
        title=title,
        subtitle=(
            "Circle: lowest load with 95 % of the highest throughput. Triangle: bend of the curve "
            "on log axes. Diamond: N* of Little's law (highest request rate × latency at the "
            f"lowest load). They agree within a factor of {AGREE_WITHIN:g}. Grey: measured range."
        ),
        chart=by_method(
            pd.DataFrame(
                [
                    {
                        "row": e["series"],
                        "label": f"{e['name']}: {_agreement(e['found'])}",
                        "low": e["low"],
                        "high": e["high"],
                    }
                    for e in entries
                ]
            ),
            _places(entries),
        ),
        table=table,
        alt=f"{title}. " + " ".join(f"{e['name']}: {_agreement(e['found'])}." for e in entries),
        source=common.records_of(campaign, len(runs)),
        runs=runs,
        notes=(
            (
                "In a closed loop Little's law ties throughput and latency, so the methods share "
                "their data: agreement shows that the place does not hang on the method, not that "
                "it was seen three times. Between measured loads nothing is known: a knee is no "
                "finer than the grid."
            ),
            (
                "Over repeats: the same for every choice of one run per load; a sweep without "
                "repeats has no such range."
            ),
        ),
    )


def _agreement(found: Knees) -> str:
    if found.agreement == "no knee in range":
        return {
            "not saturated": "still growing, no knee",
            "flat": "flat throughout, no knee",
        }.get(found.kind, "no knee in range")
    known = [p for p in found.places if p is not None]
    methods = {
        "agree": "methods agree",
        "two agree": "two methods agree, one finds no knee",
        "disagree": "methods disagree",
        "one alone": "one method alone finds a knee",
    }[found.agreement]
    return f"{found.kind}, {methods} ({words.span(known, 2)})"


def _places(entries: list[dict[str, Any]]) -> pd.DataFrame:
    rows = [
        {
            "row": e["series"],
            "method": number,
            "name": METHODS[number],
            "value": e["found"].places[number],
            "low": _over(e["every"], number)[0],
            "high": _over(e["every"], number)[1],
        }
        for e, number in product(entries, range(len(METHODS)))
        if e["found"].places[number] is not None
    ]
    return pd.DataFrame(rows, columns=["row", "method", "name", "value", "low", "high"])


def _over(every: list[Knees], number: int) -> tuple[float, float]:
    known = [float(k.places[number] or np.nan) for k in every if k.places[number] is not None]
    return (min(known), max(known)) if len(every) > 1 and known else (np.nan, np.nan)


def _knee_row(entry: dict[str, Any]) -> dict[str, Any]:
    found, every = entry["found"], entry["every"]
    row: dict[str, Any] = {
        "configuration": entry["name"],
        "client": entry["client"],
        "loads": entry["n_points"],
        "kind": found.kind,
    }
    row |= {
        f"{method} (in flight)": np.nan if place is None else place
        for method, place in zip(METHODS, found.places, strict=True)
    }
    row["methods"] = found.agreement
    row["over repeats"] = (
        "not known: one run per load"
        if not entry["repeated"]
        else f"{sum(k.kind == found.kind for k in every)} of {len(every)} choices are "
        f"{found.kind}; N* " + words.span(_over(every, 2))
    )
    return row


def matched(campaign: Campaign) -> Figure:
    """TPOT of two configurations at the same running batch, per deployment and per GPU."""
    name = "confidence-matched"
    gone = no_judgement(campaign, name, "At an equal running batch", "an interpolated comparison")
    if gone:
        return gone
    rows = common.by_condition(campaign)
    rows = rows[rows["tpot_mean_ms"].notna() & rows["running_batch"].gt(0)]
    gpus = {c.name: c.gpus for c in campaign.manifest.configurations}
    by_run = common.metrics(campaign).set_index("run_id")["tpot_mean_ms"]
    values = {str(run): float(value) for run, value in by_run.items()}
    found: list[dict[str, Any]] = []
    apart: list[str] = []
    for first, second in all_pairs(campaign):
        for workload in ("decode", "mixed"):
            own = [
                rows[(rows["configuration"] == n) & (rows["workload"] == workload)]
                for n in (first, second)
            ]
            for a, b in product(*(list(side.groupby("series", sort=True)) for side in own)):
                one, two = a[1], b[1]
                if one["client"].iloc[0] != two["client"].iloc[0]:
                    continue
                lengths = [(f["isl"].iloc[0], f["osl"].iloc[0]) for f in (one, two)]
                if lengths[0][0] != lengths[1][0]:
                    continue  # another prompt length is another workload
                pairs = match(one, two, (gpus[first], gpus[second]), values=values)
                names = [common.label(campaign, n) for n in (second, first)]
                where = f"{' ÷ '.join(names)}, {workload}"
                if pairs.empty:
                    apart.append(f"{where}: the measured batches do not meet")
                found += [
                    {str(key): value for key, value in row.items()}
                    | {
                        "pair": where,
                        "colour": look(campaign, second).colour,
                        "ink": look(campaign, second).text,
                        "client": one["client"].iloc[0],
                        "lengths": " against ".join(
                            dict.fromkeys(words.lengths(*x) for x in lengths)
                        ),
                        "outputs": " / ".join(f"{x[1]:,.0f}" for x in reversed(lengths)),
                        "same_length": lengths[0] == lengths[1],
                        "mark": common.comparison(campaign, (first, second)).mark,
                        "all_runs": tuple(
                            sorted({r for f in (one, two) for q in f["runs"] for r in q})
                        ),
                    }
                    for row in pairs.to_dict("records")
                ]
    if not found:
        return Figure(
            id=name,
            title="At an equal running batch",
            missing=" ".join(
                [
                    (
                        "No two configurations decode in series of one client and prompt length "
                        "whose running batches meet; outside the measured range nothing is "
                        "interpolated."
                    ),
                    *(f"{text}." for text in dict.fromkeys(apart)),
                ]
            ),
        )
    frame = pd.DataFrame(found)
    ratio = 1 / frame["ratio"]  # second over first, as everywhere in this chapter
    top = common.top(frame, ratio.map(np.log).abs())
    most = 1 / float(top["ratio"])
    title = (
        f"At an equal running batch TPOT differs by {words.percent(abs(most - 1))} at most "
        f"({top['pair']}, batch {words.number(top['batch'])})"
    )
    per = {"deployment": "", "GPU": " per GPU"}
    drawn = pd.DataFrame(
        {
            "row": [str(i) for i in range(len(frame))],
            "label": [
                f"{r['pair']}, batch{per[r['basis']]} {words.number(r['batch'])}"
                + ("" if r["same_length"] else f" · out {r['outputs']}")
                for r in frame.to_dict("records")
            ],
            "ratio": ratio,
            "low": 1 / frame["high"],
            "high": 1 / frame["low"],
            "noise_low": np.nan,
            "noise_high": np.nan,
            "text": [words.factor(v, 3) for v in ratio],
            "colour": frame["colour"],
            "ink": frame["ink"],
        }
    ).head(14)
    runs = tuple(sorted({r for runs in frame["all_runs"] for r in runs}))
    stated = any(frame["basis"] == "GPU")
    notes = [
        (
            "One side's batch was measured; the other side's TPOT is interpolated between its own "
            "measured batches, both as logarithms. Nothing is extrapolated. Running batch: output "
            "rate × mean TPOT."
        ),
        (
            "No interval where a point that the ratio rests on was run once; the repeats elsewhere "
            "in this chapter tell what runs scatter by."
            if frame["low"].isna().any()
            else ""
        ),
        (
            f"Intervals: {words.percent(CONFIDENCE)} over runs, where every point that the ratio "
            "rests on was repeated; the running batch is taken as measured."
            if frame["low"].notna().any()
            else ""
        ),
    ]
    if not stated:
        notes.append(
            "Per GPU: the manifest states no GPUs for the pairs, or the same number on both sides, "
            "so per deployment is all there is to show."
        )
    if len(frame) > len(drawn):
        notes.append(f"Drawn: the first {len(drawn)} of {len(frame)}; the table has all.")
    notes += [f"{text}." for text in dict.fromkeys(apart)]
    return Figure(
        id=name,
        title=title,
        subtitle=(
            "Two engines at one client concurrency may run different batches. Here TPOT is set "
            "against TPOT where as many requests decode. Above 1 the first-named is slower. Output "
            "lengths are named where they differ (second / first)."
        ),
        chart=forest(drawn, "TPOT mean, second configuration ÷ first (log)"),
        table=pd.DataFrame(
            {
                "pair": frame["pair"],
                "client": frame["client"],
                "lengths": frame["lengths"],
                "equal batch per": frame["basis"],
                "batch": frame["batch"],
                "TPOT of the second (ms)": frame["second"],
                "TPOT of the first (ms)": frame["first"],
                "ratio": ratio,
                "ratio, from": 1 / frame["high"],
                "ratio, to": 1 / frame["low"],
                "measured at": [
                    {"first": "the first's point", "second": "the second's point"}.get(m, "both")
                    for m in frame["measured"]
                ],
                "comparison": frame["mark"],
            }
        ),
        alt=f"{title}.",
        source=common.records_of(campaign, len(runs)),
        runs=runs,
        notes=tuple(note for note in notes if note),
    )
