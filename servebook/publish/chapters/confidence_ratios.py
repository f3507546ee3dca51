"""Chapter 09, ratios: may they be formed, what interval they have, what their method is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.gate import Gate
from servebook.measure.metrics import METRICS
from servebook.measure.ratio import CONFIDENCE, POWER
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.confidence_base import (
    STATED_MARGIN,
    all_pairs,
    condition_label,
    look,
    no_judgement,
    null_words,
    ratio_rows,
)
from servebook.publish.chapters.confidence_steady import steady_figures
from servebook.publish.charts.forest import forest
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["comparable", "ratios"]

_MOST_ROWS = 16


def comparable(campaign: Campaign) -> Figure:
    """What each pair of configurations differs in, from the manifest and from the dumps."""
    name = "confidence-comparable"
    pairs = all_pairs(campaign)
    if not pairs:
        return Figure(
            id=name,
            title=say("confidence_ratios.comparable.title_may_configurations_compared"),
            missing=say("confidence_ratios.comparable.missing"),
        )
    rows = []
    found = ratio_rows(campaign)
    for first, second in pairs:
        own = found[(found["first"] == first) & (found["second"] == second)]
        gates = {
            f"{row['workload']} {row['concurrency']}": row["gate"] for row in own.to_dict("records")
        }
        stated = common.comparison(campaign, (first, second))
        differ = list(dict.fromkeys(n for g in gates.values() for n in g.from_dumps))
        rows.append(
            {
                "first": common.label(campaign, first),
                "second": common.label(campaign, second),
                "mark": stated.mark,
                "stated": words.listed(words.told(n) for n in stated.differ if n not in differ)
                or say("confidence_ratios.nothing"),
                "dumps": words.listed(map(words.told, differ))
                or (
                    say("confidence_ratios.nothing")
                    if gates
                    else say("confidence_ratios.comparable.dumps")
                ),
                "load": "; ".join(
                    f"{where}: {words.listed(opened.load)}"
                    for where, opened in gates.items()
                    if opened.load
                )
                or (say("confidence_ratios.alike") if gates else words.unknown()),
                "one_sided": words.listed(map(words.told, stated.one_sided))
                or say("confidence_ratios.nothing"),
                "unstated": words.listed(map(words.told, stated.unstated))
                or say("confidence_ratios.nothing"),
                "conditions": len(own[["workload", "isl", "osl", "concurrency"]].drop_duplicates()),
            }
        )
    frame = pd.DataFrame(rows)
    single = frame[frame["mark"] == "SINGLE VARIABLE"]
    shared = frame[frame["conditions"] > 0]
    title = say(
        "confidence_ratios.comparable.title_configurations_single_stated",
        n_single=len(single),
        pairs=words.count(len(frame), "pair"),
        differs=say("confidence_ratios.comparable.title_differs")
        if len(single) == 1
        else say("confidence_ratios.comparable.title_differ"),
        pairs_2=words.count(len(shared), "pair"),
    )
    return Figure(
        id=name,
        title=title,
        subtitle=say("confidence_ratios.comparable.subtitle"),
        table=common.table(
            frame,
            [
                ("first", "configuration"),
                ("second", "against"),
                ("mark", "mark"),
                ("conditions", "conditions that both ran"),
                ("stated", "differs by the manifest"),
                ("dumps", "differs by the dumps"),
                ("load", "load where both ran"),
                ("one_sided", "stated for one side only"),
                ("unstated", "stated for neither"),
            ],
        ),
        source=say("confidence_ratios.comparable.source"),
        runs=tuple(sorted(common.metrics(campaign)["run_id"])),
        notes=(
            say("confidence_ratios.comparable.note_setting_nobody_stated"),
            say("confidence_ratios.comparable.note_dumps_client_version"),
        ),
        open_table=True,
    )


def ratios(campaign: Campaign) -> Figure:
    """Every ratio of two configurations with its interval, or why it has none."""
    name = "confidence-ratios"
    gone = no_judgement(
        campaign, name, say("confidence_ratios.ratios.gone"), say("shared.an_interval")
    )
    if gone:
        return gone
    found = ratio_rows(campaign)
    if found.empty:
        return Figure(
            id=name,
            title=say("confidence_ratios.ratios.gone"),
            missing=say("confidence_ratios.ratios.missing"),
        )
    drawn = found.head(_MOST_ROWS)
    title = _ratio_title(found)
    rows = pd.DataFrame([_forest_row(campaign, row) for row in drawn.to_dict("records")])
    known = sum(f.ratio.known for f in found["found"])
    marks = list(dict.fromkeys(common.marked(g.comparison) for g in found["gate"]))
    notes = [
        say("confidence_ratios.shared"),
        say("confidence_ratios.ratios.note_percentiles_fewer_values"),
    ]
    if known > 1:
        notes.append(
            say(
                "confidence_ratios.ratios.note_intervals_stand_here",
                known=known,
                confidence=words.percent(CONFIDENCE),
                known_2=words.number(known * (1 - CONFIDENCE)),
            )
        )
    if known:
        notes.append(
            say(
                "confidence_ratios.ratios.note_detectable_smallest_true", power=words.percent(POWER)
            )
        )
    if len(found) > len(drawn):
        notes.append(
            say(
                "confidence_ratios.ratios.note_drawn_first_ratios",
                n_drawn=len(drawn),
                n_found=len(found),
            )
        )
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "confidence_ratios.ratios.subtitle",
            marks=" ".join(marks[:2]),
            confidence=words.percent(CONFIDENCE),
            stated_margin=words.percent(STATED_MARGIN),
        ),
        chart=forest(rows, say("confidence_ratios.ratios.chart"), margin=STATED_MARGIN),
        table=_ratio_table(campaign, found),
        alt=f"{title}. " + " ".join(f"{r['label']}: {r['text']}." for r in rows.to_dict("records")),
        source=common.records_of(campaign, len({r for runs in found["runs"] for r in runs})),
        runs=tuple(sorted({r for runs in found["runs"] for r in runs})),
        notes=tuple(notes),
    )


def _ratio_title(found: pd.DataFrame) -> str:
    known = found[[f.ratio.known for f in found["found"]]]
    if len(known):
        beyond = sum(f.ratio.beyond_noise for f in known["found"])
        least = max(f.ratio.detectable for f in known["found"]) - 1
        text = say(
            "confidence_ratios.ratio_title.sure_may_miss",
            beyond=beyond,
            intervals=words.count(len(known), "interval"),
            leaves=say("confidence_ratios.ratio_title.leaves")
            if beyond == 1
            else say("confidence_ratios.ratio_title.leave"),
            least=words.percent(least),
        )
        return (
            text
            if len(known) == len(found)
            else say(
                "confidence_ratios.ratio_title.none", text=text, n_found=len(found) - len(known)
            )
        )
    apart = found.assign(apart=[abs(np.log(f.ratio.value)) for f in found["found"]])
    top = common.top(apart, apart["apart"])
    value = top["found"].ratio.value
    arms = sorted(
        {
            (len(a), len(b))
            for a, b in zip(found["values_first"], found["values_second"], strict=True)
        }
    )
    told = words.listed(
        say("confidence_ratios.ratio_title.told", b=b, runs=words.plural(b, "run"), a=a)
        for a, b in arms
    )
    text = say(
        "confidence_ratios.ratio_title.ratio_configurations_interval",
        told=told,
        metrics=words.told(METRICS[top["metric"]].label),
        value=words.factor(value),
    )
    if np.isnan(top["noise"]):
        return say("confidence_ratios.ratio_title.nothing_repeated_set", text=text)
    return say(
        "confidence_ratios.ratio_title.while_repeats_condition",
        text=text,
        noise=words.factor(1 + top["noise"]),
    )


def _forest_row(campaign: Campaign, row: dict[Any, Any]) -> dict[str, Any]:
    ratio, style = row["found"].ratio, look(campaign, row["second"])
    info = METRICS[row["metric"]]
    value = words.factor(ratio.value)
    text = (
        say(
            "confidence_ratios.forest_row.to",
            value=value,
            low=words.number(ratio.low),
            high=words.number(ratio.high),
        )
        if ratio.known
        else say("confidence_ratios.forest_row.interval", value=value)
    )
    mark = "" if row["gate"].mark == "SINGLE VARIABLE" else f" · {row['gate'].mark}"
    several = len(all_pairs(campaign)) > 1
    pair = (
        f"{common.label(campaign, row['second'])} ÷ {common.label(campaign, row['first'])}, "
        if several
        else ""
    )
    return {
        "row": "|".join(
            str(row[k])
            for k in (
                "first",
                "second",
                "client",
                "workload",
                "isl",
                "osl",
                "concurrency",
                "metric",
            )
        ),
        "label": say(
            "confidence_ratios.forest_row.label",
            info=words.told(info.label),
            pair=pair,
            workload=row["workload"],
            concurrency=row["concurrency"],
            mark=mark,
        ),
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        "noise_low": 1 / (1 + row["noise"]),
        "noise_high": 1 + row["noise"],
        "text": text,
        "colour": style.colour,
        "ink": style.text,
    }


def _ratio_table(campaign: Campaign, found: pd.DataFrame) -> pd.DataFrame:
    inside = steady_figures(campaign).set_index(["run_id", "metric"])["window"]
    rows = []
    for row in found.to_dict("records"):
        test = row["found"]
        ratio = test.ratio
        rows.append(
            {
                "configuration": common.label(campaign, row["second"]),
                "against": common.label(campaign, row["first"]),
                "condition": condition_label(row),
                "metric": words.told(METRICS[row["metric"]].label),
                "unit": METRICS[row["metric"]].unit,
                "mean over runs": float(np.exp(np.log(row["values_second"]).mean())),
                "runs": ratio.n_first,
                "mean of the other": float(np.exp(np.log(row["values_first"]).mean())),
                "runs of the other": ratio.n_second,
                "fewest requests in a run": row["n_ok_least"],
                "fewest gaps in a run": row["n_gaps_least"],
                "ratio": ratio.value,
                "interval from": ratio.low,
                "interval to": ratio.high,
                "ratio in the steady windows": _in_windows(row, inside),
                "degrees of freedom": ratio.df,
                "detectable (%)": 100 * (ratio.detectable - 1),
                "p of equivalence": test.p_value,
                "no effect": null_words(test, row["noise_row"], campaign),
                "comparison": _opened(row["gate"]),
            }
        )
    return pd.DataFrame(rows)


def _in_windows(row: dict[Any, Any], inside: pd.Series[float]) -> float:
    """The same ratio from the steady windows of the runs; NaN where a run has none."""
    logs = []
    for side in ("second", "first"):
        keys = [(run, row["metric"]) for run in row[f"runs_{side}"]]
        if not all(key in inside.index for key in keys):
            return float("nan")
        logs.append(float(np.log(inside.loc[keys]).mean()))
    return float(np.exp(logs[0] - logs[1]))


def _opened(gate: Gate) -> str:
    """What a comparison is one of, and where the load differed."""
    text = common.marked(gate.comparison)
    if not gate.load:
        return text
    return say("confidence_ratios.opened", text=text, load="; ".join(map(words.told, gate.load)))
