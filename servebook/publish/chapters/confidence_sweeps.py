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
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["matched", "saturation_agreement"]

_THROUGHPUT = {"prefill": "input_throughput_tok_s"}


def saturation_agreement(campaign: Campaign) -> Figure:
    """Where each sweep saturates by three methods, and whether they and the repeats agree."""
    name = "confidence-saturation"
    gone = no_judgement(
        campaign,
        name,
        say("confidence_sweeps.saturation_agreement.saturation_three_methods"),
        say("confidence_sweeps.saturation_agreement.knee"),
    )
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
            title=say("confidence_sweeps.saturation_agreement.saturation_three_methods"),
            missing=say("confidence_sweeps.saturation_agreement.missing"),
        )
    counts = pd.Series([e["found"].agreement for e in entries]).value_counts()
    said = {
        "agree": say("confidence_sweeps.saturation_agreement.agree"),
        "two agree": say("confidence_sweeps.saturation_agreement.two_agree"),
        "disagree": say("confidence_sweeps.saturation_agreement.disagree"),
        "one alone": say("confidence_sweeps.saturation_agreement.one_alone"),
        "no knee in range": say("confidence_sweeps.saturation_agreement.no_knee_in_range"),
    }
    parts = [
        say(
            "confidence_sweeps.saturation_agreement.part",
            counts=counts[k],
            n_entries=len(entries),
            said=said[k],
        )
        for k in said
        if k in counts
    ]
    title = words.capital("; ".join(parts))
    table = pd.DataFrame([_knee_row(e) for e in entries])
    runs = tuple(sorted({r for e in entries for r in e["runs"]}))
    return Figure(
        id=name,
        title=title,
        subtitle=say("confidence_sweeps.saturation_agreement.subtitle", agree_within=AGREE_WITHIN),
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
            say("confidence_sweeps.saturation_agreement.note_closed_loop_little"),
            say("confidence_sweeps.saturation_agreement.note_repeats_every_choice"),
        ),
    )


def _agreement(found: Knees) -> str:
    if found.agreement == "no knee in range":
        return {
            "not saturated": say("confidence_sweeps.agreement.not_saturated"),
            "flat": say("confidence_sweeps.agreement.flat"),
        }.get(found.kind, say("confidence_sweeps.agreement.knee_range"))
    known = [p for p in found.places if p is not None]
    methods = {
        "agree": say("confidence_sweeps.agreement.agree"),
        "two agree": say("confidence_sweeps.agreement.two_agree"),
        "disagree": say("confidence_sweeps.agreement.disagree"),
        "one alone": say("confidence_sweeps.saturation_agreement.one_alone"),
    }[found.agreement]
    return f"{words.told(found.kind)}, {methods} ({words.span(known, 2)})"


def _places(entries: list[dict[str, Any]]) -> pd.DataFrame:
    rows = [
        {
            "row": e["series"],
            "method": number,
            "name": words.told(METHODS[number]),
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
        say("confidence_sweeps.knee_row.known_run_load")
        if not entry["repeated"]
        else say(
            "confidence_sweeps.knee_row.choices",
            value=sum(k.kind == found.kind for k in every),
            n_every=len(every),
            kind=words.told(found.kind),
        )
        + words.span(_over(every, 2))
    )
    return row


def matched(campaign: Campaign) -> Figure:
    """TPOT of two configurations at the same running batch, per deployment and per GPU."""
    name = "confidence-matched"
    gone = no_judgement(
        campaign,
        name,
        say("confidence_sweeps.matched.equal_running_batch"),
        say("confidence_sweeps.matched.interpolated_comparison"),
    )
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
                    apart.append(say("confidence_sweeps.matched.apart", where=where))
                found += [
                    {str(key): value for key, value in row.items()}
                    | {
                        "pair": where,
                        "colour": look(campaign, second).colour,
                        "ink": look(campaign, second).text,
                        "client": one["client"].iloc[0],
                        "lengths": say("confidence_sweeps.matched.lengths").join(
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
            title=say("confidence_sweeps.matched.equal_running_batch"),
            missing=" ".join(
                [
                    say("confidence_sweeps.matched.missing"),
                    *(f"{text}." for text in dict.fromkeys(apart)),
                ]
            ),
        )
    frame = pd.DataFrame(found)
    ratio = 1 / frame["ratio"]  # second over first, as everywhere in this chapter
    top = common.top(frame, ratio.map(np.log).abs())
    most = 1 / float(top["ratio"])
    title = say(
        "confidence_sweeps.matched.title",
        most=words.percent(abs(most - 1)),
        pair=top["pair"],
        batch=words.number(top["batch"]),
    )
    per = {"deployment": "", "GPU": say("confidence_sweeps.matched.gpu")}
    drawn = pd.DataFrame(
        {
            "row": [str(i) for i in range(len(frame))],
            "label": [
                say(
                    "confidence_sweeps.matched.label_batch",
                    pair=r["pair"],
                    per=per[r["basis"]],
                    batch=words.number(r["batch"]),
                )
                + (
                    ""
                    if r["same_length"]
                    else say("confidence_sweeps.matched.label_out", outputs=r["outputs"])
                )
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
        say("confidence_sweeps.matched.note_side_batch_measured"),
        (
            say("confidence_sweeps.matched.note_interval_point_ratio")
            if frame["low"].isna().any()
            else ""
        ),
        (
            say(
                "confidence_sweeps.matched.note_intervals_runs_every",
                confidence=words.percent(CONFIDENCE),
            )
            if frame["low"].notna().any()
            else ""
        ),
    ]
    if not stated:
        notes.append(say("confidence_sweeps.matched.note_gpu_manifest_states"))
    if len(frame) > len(drawn):
        notes.append(
            say(
                "confidence_sweeps.matched.note_drawn_first_table",
                n_drawn=len(drawn),
                n_frame=len(frame),
            )
        )
    notes += [f"{text}." for text in dict.fromkeys(apart)]
    return Figure(
        id=name,
        title=title,
        subtitle=say("confidence_sweeps.matched.subtitle"),
        chart=forest(drawn, say("confidence_sweeps.matched.chart")),
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
                    {
                        "first": say("confidence_sweeps.matched.first"),
                        "second": say("confidence_sweeps.matched.second"),
                    }.get(m, "both")
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
