"""Chapter 09, repeats: how far runs scatter, what the intervals are worth, and the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.coverage import (
    COVERED,
    COVERED_BY_TWO,
    bootstrap_coverage,
    coverage,
    simulated,
)
from servebook.measure.metrics import METRICS
from servebook.measure.ratio import CONFIDENCE, POWER, runs_needed
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.confidence_base import (
    STATED_MARGIN,
    condition_label,
    look,
    no_judgement,
    ratio_rows,
    spreads,
)
from servebook.publish.charts.coverage import against_promise
from servebook.publish.charts.strip import strip
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["method", "repeats", "verdict"]


#: Rows that a picture holds; tables have all.
_MOST_ROWS = 16


def repeats(campaign: Campaign) -> Figure:
    """How far the runs of one condition lie apart, metric by metric."""
    name = "confidence-repeats"
    gone = no_judgement(
        campaign,
        name,
        say("confidence_repeats.repeats.repeats_condition"),
        say("confidence_repeats.repeats.run_run_scatter"),
    )
    if gone:
        return gone
    found = spreads(campaign)
    if found.empty:
        return Figure(
            id=name,
            title=say("confidence_repeats.repeats.repeats_condition"),
            missing=say("confidence_repeats.repeats.missing"),
        )
    n_conditions = len(found[["series", "concurrency"]].drop_duplicates())
    heads: list[dict[str, Any]] = []
    dots, bars = [], []
    widest = found.sort_values("range", ascending=False, kind="stable").head(_MOST_ROWS)
    for row in found.loc[sorted(widest.index)].to_dict("records"):
        where = (
            ""
            if n_conditions == 1
            else f" · {common.label(campaign, row['configuration'])}, "
            + condition_label(row, lengths=False)
        )
        key = f"{row['series']}|{row['concurrency']}|{row['metric']}"
        label = say(
            "confidence_repeats.repeats.label",
            metrics=words.told(METRICS[row["metric"]].label),
            where=where,
            mean=words.number(row["mean"]),
            unit=words.unit(METRICS[row["metric"]].unit),
            cv=words.percent(row["cv"]),
        )
        heads.append({"row": key, "label": label})
        dots += [
            {
                "row": key,
                "value": value / row["mean"] - 1,
                "colour": look(campaign, row["configuration"]).colour,
                "tip": f"{run}: {words.rate(value, METRICS[row['metric']].unit)}",
            }
            for run, value in zip(row["runs"], row["values"], strict=True)
        ]
        bars.append(
            {
                "row": key,
                "low": row["mean_low"] / row["mean"] - 1,
                "high": row["mean_high"] / row["mean"] - 1,
            }
        )
    top = common.top(found, found["range"])
    rate = found[found["metric"].isin(("output_throughput_tok_s", "input_throughput_tok_s"))]
    title = say(
        "confidence_repeats.repeats.title_repeats_condition_lie",
        range=words.percent(top["range"]),
        metrics=words.told(METRICS[top["metric"]].label),
    )
    if len(rate):
        steady = common.top(rate, rate["range"])
        if steady["metric"] != top["metric"]:
            title += say(
                "confidence_repeats.repeats.title_throughput", range=words.percent(steady["range"])
            )
    n = sorted(set(found["n_runs"]))
    return Figure(
        id=name,
        title=title,
        subtitle=(
            f"{words.count(n_conditions, 'repeated condition')}"
            + (
                f" ({common.label(campaign, top['configuration'])}, {condition_label(top)})"
                if n_conditions == 1
                else ""
            )
            + say(
                "confidence_repeats.repeats.subtitle",
                n=words.span(n),
                confidence=words.percent(CONFIDENCE),
            )
        ),
        chart=strip(
            pd.DataFrame(heads),
            pd.DataFrame(dots),
            say("confidence_repeats.x_title"),
            bars=pd.DataFrame(bars),
        ),
        table=pd.DataFrame(
            {
                "configuration": common.labels(campaign, found["configuration"]),
                "condition": [condition_label(r) for r in found.to_dict("records")],
                "metric": [words.told(METRICS[m].label) for m in found["metric"]],
                "unit": [METRICS[m].unit for m in found["metric"]],
                "runs": found["n_runs"],
                "mean": found["mean"],
                "mean, interval from": found["mean_low"],
                "mean, interval to": found["mean_high"],
                "scatter (%)": 100 * found["cv"],
                "scatter, interval from (%)": 100 * found["cv_low"],
                "scatter, interval to (%)": 100 * found["cv_high"],
                "highest over lowest (%)": 100 * found["range"],
                "runs a side to find 5 %": [
                    runs_needed(cv, STATED_MARGIN) or np.nan for cv in found["cv"]
                ],
            }
        ),
        alt=f"{title}. " + " ".join(f"{d}." for d in (h["label"] for h in heads)),
        source=common.records_of(campaign, len({r for runs in found["runs"] for r in runs})),
        runs=tuple(sorted({r for runs in found["runs"] for r in runs})),
        notes=(
            *(
                (
                    say(
                        "confidence_repeats.repeats.note_drawn_rows_lie",
                        most_rows=_MOST_ROWS,
                        n_found=len(found),
                    ),
                )
                if len(found) > _MOST_ROWS
                else ()
            ),
            say("confidence_repeats.repeats.note_scatter_standard_deviation"),
            say("confidence_repeats.repeats.note_runs_followed_another"),
            say("confidence_repeats.repeats.note_runs_side_find", power=words.percent(POWER)),
        ),
    )


_SIMULATED = 2000
#: Runs on either side, and how many times the first side's scatter is the second's.
_DESIGNS = ((3, 3, 1), (5, 5, 1), (10, 10, 1), (3, 10, 2), (10, 3, 2))
_SCATTER = 0.05
_TRUTH = 1.3
_SEED = 20_251_129


def method(campaign: Campaign) -> Figure:
    """Whether the intervals keep their promise, on simulated campaigns of known truth."""
    name = "confidence-method"
    gone = no_judgement(
        campaign, name, say("confidence_repeats.method.gone"), say("shared.an_interval")
    )
    if gone:
        return gone
    looks = {
        "Welch on logarithms": (theme.PLAIN, "circle"),
        "percentile bootstrap": (theme.CONTEXT, "diamond"),
    }
    dots = []
    for n, m, wide in _DESIGNS:
        arms = simulated(
            n, m, campaigns=_SIMULATED, seed=_SEED + n, truth=_TRUTH,
            scatter_first=wide * _SCATTER, scatter_second=_SCATTER,
        )  # fmt: skip
        shares = {
            "Welch on logarithms": coverage(*arms, _TRUTH),
            "percentile bootstrap": bootstrap_coverage(*arms, _TRUTH, seed=_SEED, resamples=499),
        }
        design = (
            say("confidence_repeats.method.design_runs_side", n=n)
            if n == m
            else say("confidence_repeats.method.design_runs_against_scatter", n=n, m=m, wide=wide)
        )
        dots += [
            {
                "row": f"{n} {m}",
                "label": say(
                    "confidence_repeats.method.label",
                    design=design,
                    welch_on_logarithms=words.percent(shares["Welch on logarithms"], 3),
                    percentile_bootstrap=words.percent(shares["percentile bootstrap"], 3),
                ),
                "share": share,
                "colour": looks[kind][0],
                "shape": looks[kind][1],
                "n": n,
                "m": m,
                "wide": float(wide),
                "method": kind,
            }
            for kind, share in shares.items()
        ]
    frame = pd.DataFrame(dots)
    short = frame[(frame["method"] == "percentile bootstrap") & (frame["row"] == "3 3")].iloc[0]
    welch = frame[frame["method"] == "Welch on logarithms"]["share"]
    title = say(
        "confidence_repeats.method.title",
        share=words.percent(short["share"]),
        confidence=words.percent(CONFIDENCE),
        welch=words.percent(welch.min(), 3),
        welch_2=words.percent(welch.max(), 3),
    )
    error = float(np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / _SIMULATED))
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "confidence_repeats.method.subtitle",
            simulated=_SIMULATED,
            truth=_TRUTH,
            scatter=words.percent(_SCATTER),
            confidence=words.percent(CONFIDENCE),
        ),
        chart=against_promise(frame, CONFIDENCE, say("confidence_repeats.method.chart")),
        table=pd.DataFrame(
            {
                "runs, first side": frame["n"],
                "runs, second side": frame["m"],
                "scatter, first / second": frame["wide"],
                "method": frame["method"],
                "intervals that hold the truth (%)": 100 * frame["share"],
                "simulated campaigns": _SIMULATED,
            }
        ),
        alt=f"{title}.",
        source=say("confidence_repeats.method.source"),
        notes=(
            say(
                "confidence_repeats.method.note_share_simulations_itself",
                simulated=_SIMULATED,
                error=words.percent(2 * error),
            ),
            say(
                "confidence_repeats.method.note_real_runs_need",
                covered=words.percent(COVERED[0], 3),
                covered_2=words.percent(COVERED[1], 3),
                covered_by_two=words.percent(COVERED_BY_TWO[0], 3),
                covered_by_two_2=words.percent(COVERED_BY_TWO[1], 3),
            ),
        ),
    )


def verdict(campaign: Campaign) -> Statement:
    """How sure a comparison on this page can be, in one sentence."""
    name = "confidence-verdict"
    if campaign.manifest.provenance == "reconstructed":
        return Statement(
            id=name,
            sentence=say("confidence_repeats.verdict.sentence_reconstructed_dumps_comparison"),
            marks=common.marks(campaign),
        )
    metrics = common.metrics(campaign)
    found, scatter = ratio_rows(campaign), spreads(campaign)
    pair = common.opponents(campaign, common.by_condition(campaign))
    known = [f.ratio for f in found["found"] if f.ratio.known] if len(found) else []
    common_fields: dict[str, Any] = {
        "id": name,
        "verdict": True,
        "rank": 58,
        "marks": common.marks(campaign, pair),
        "figure": "confidence-ratios",
    }
    if known:
        beyond = sum(r.beyond_noise for r in known)
        widest = max(known, key=lambda r: r.detectable)
        least = min(min(r.n_first, r.n_second) for r in known)
        return Statement(
            sentence=say(
                "confidence_repeats.verdict.sentence_between_configurations_beyond",
                beyond=beyond,
                ratios=words.count(len(known), "ratio"),
                lies=say("confidence_repeats.verdict.sentence_lies")
                if beyond == 1
                else say("confidence_repeats.verdict.sentence_lie"),
                detectable=words.percent(widest.detectable - 1),
            ),
            metric="detectable difference",
            value=widest.detectable - 1,
            unit="fraction",
            n=len({r for runs in found["runs"] for r in runs}),
            n_of="runs",
            interval=say("confidence_repeats.verdict.interval_welch_intervals_runs", least=least),
            runs=tuple(sorted({r for runs in found["runs"] for r in runs})),
            would_change=say("confidence_repeats.verdict.would_change_runs_side_scatters"),
            **common_fields,
        )
    if scatter.empty:
        return Statement(
            sentence=say("confidence_repeats.verdict.sentence_comparison_page_interval"),
            metric="repeated conditions",
            value=0.0,
            unit="conditions",
            n=len(metrics),
            n_of="runs",
            interval=say("confidence_repeats.verdict.interval_interval_nothing_repeated"),
            runs=tuple(sorted(metrics["run_id"])),
            would_change=say("confidence_repeats.verdict.would_change_three_runs_condition"),
            **(common_fields | {"figure": "confidence-repeats"}),
        )
    top = common.top(scatter, scatter["range"])
    rate = scatter[scatter["metric"].str.contains("throughput")]
    steady = common.top(rate, rate["range"]) if len(rate) else top
    needed = runs_needed(float(steady["cv"]), STATED_MARGIN)
    where = say(
        "confidence_repeats.verdict.where", workload=top["workload"], concurrency=top["concurrency"]
    )
    said = (
        say("confidence_repeats.verdict.ratio_configurations_interval")
        if len(found)
        else say("confidence_repeats.verdict.configurations_ran_condition")
    )
    return Statement(
        sentence=say(
            "confidence_repeats.verdict.sentence_repeats_condition_differ",
            said=said,
            n_runs=top["n_runs"],
            where=where,
            range=words.percent(float(steady["range"])),
            metrics=words.told(METRICS[steady["metric"]].label).lower(),
            range_2=words.percent(float(top["range"])),
            metrics_2=words.told(METRICS[top["metric"]].label),
        ),
        metric=f"range of repeats, {top['metric']}",
        value=float(top["range"]),
        unit="fraction",
        n=int(top["n_runs"]),
        n_of="runs",
        interval=words.spread(int(top["n_runs"])),
        runs=tuple(top["runs"]),
        would_change=(
            say("confidence_repeats.verdict.would_change_repeats_both_sides")
            + (
                say("confidence_repeats.verdict.would_change_scatter_side_would", needed=needed)
                if needed
                else say("confidence_repeats.verdict.would_change_every_pair_compared")
            )
        ),
        **(common_fields | {"figure": "confidence-repeats"}),
    )
