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
from servebook.read.campaign import Campaign

__all__ = ["method", "repeats", "verdict"]


#: Rows that a picture holds; tables have all.
_MOST_ROWS = 16


def repeats(campaign: Campaign) -> Figure:
    """How far the runs of one condition lie apart, metric by metric."""
    name = "confidence-repeats"
    gone = no_judgement(campaign, name, "Repeats of one condition", "run-to-run scatter")
    if gone:
        return gone
    found = spreads(campaign)
    if found.empty:
        return Figure(
            id=name,
            title="Repeats of one condition",
            missing=(
                "No condition of this campaign ran twice (same configuration, client, workload, "
                "lengths and concurrency), so how far runs scatter is not known, and no number "
                "here has an interval over runs."
            ),
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
        label = (
            f"{METRICS[row['metric']].label}{where}: {words.number(row['mean'])} "
            f"{METRICS[row['metric']].unit}, scatter {words.percent(row['cv'])}"
        )
        heads.append({"row": key, "label": label})
        dots += [
            {
                "row": key,
                "value": value / row["mean"] - 1,
                "colour": look(campaign, row["configuration"]).colour,
                "tip": f"{run}: {words.number(value)} {METRICS[row['metric']].unit}",
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
    title = (
        f"Repeats of one condition lie up to {words.percent(top['range'])} apart "
        f"({METRICS[top['metric']].label})"
    )
    if len(rate):
        steady = common.top(rate, rate["range"])
        if steady["metric"] != top["metric"]:
            title += f"; their throughput up to {words.percent(steady['range'])}"
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
            + f", {words.span(n)} runs each. Dot: a run against the mean of its condition. Bar: "
            f"{words.percent(CONFIDENCE)} interval of that mean, Student's t on the log scale."
        ),
        chart=strip(
            pd.DataFrame(heads),
            pd.DataFrame(dots),
            "run ÷ mean of its condition − 1",
            bars=pd.DataFrame(bars),
        ),
        table=pd.DataFrame(
            {
                "configuration": common.labels(campaign, found["configuration"]),
                "condition": [condition_label(r) for r in found.to_dict("records")],
                "metric": [METRICS[m].label for m in found["metric"]],
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
                (f"Drawn: the {_MOST_ROWS} rows of {len(found)} that lie farthest apart.",)
                if len(found) > _MOST_ROWS
                else ()
            ),
            (
                "Scatter: standard deviation of the logarithms over runs, with its own interval "
                "from the chi-square distribution. It is wide: few runs hardly know their scatter."
            ),
            (
                "Runs that followed one another in one sitting scatter less than runs of another "
                "day; this scatter is a lower bound for those."
            ),
            (
                "Runs a side to find 5 %: for two configurations that scatter so, at a power of "
                f"{words.percent(POWER)}, if the scatter is what it looks like."
            ),
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
    gone = no_judgement(campaign, name, "What the intervals are worth", "an interval")
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
        design = f"{n} runs a side" if n == m else f"{n} runs against {m}, scatter {wide} to 1"
        dots += [
            {
                "row": f"{n} {m}",
                "label": f"{design}: Welch {words.percent(shares['Welch on logarithms'], 3)}, "
                f"bootstrap {words.percent(shares['percentile bootstrap'], 3)}",
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
    title = (
        f"Over three runs a percentile bootstrap covers {words.percent(short['share'])}, not "
        f"{words.percent(CONFIDENCE)}; the intervals used here cover "
        f"{words.percent(welch.min(), 3)} to {words.percent(welch.max(), 3)}"
    )
    error = float(np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / _SIMULATED))
    return Figure(
        id=name,
        title=title,
        subtitle=(
            f"{_SIMULATED:,} simulated campaigns per row, true ratio {_TRUTH}, runs "
            f"scatter by {words.percent(_SCATTER)} or as stated. Circle: Welch's t on logarithms. "
            "Diamond: percentile bootstrap over the same runs. Rule: the promised "
            f"{words.percent(CONFIDENCE)}."
        ),
        chart=against_promise(frame, CONFIDENCE, "campaigns whose interval holds the true ratio"),
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
        source="model: simulated runs, normal on the log scale, seeded",
        notes=(
            (
                f"A share of {_SIMULATED:,} simulations is itself uncertain by "
                f"{words.percent(2 * error)} (two standard errors)."
            ),
            (
                "Real runs need not be normal on the log scale, nor independent. If they are, the "
                f"interval covers {words.percent(COVERED[0], 3)} to {words.percent(COVERED[1], 3)} "
                "with three or more runs on each side, whatever their scatters, and "
                f"{words.percent(COVERED_BY_TWO[0], 3)} to {words.percent(COVERED_BY_TWO[1], 3)} "
                "with two on one side (integrated)."
            ),
        ),
    )


def verdict(campaign: Campaign) -> Statement:
    """How sure a comparison on this page can be, in one sentence."""
    name = "confidence-verdict"
    if campaign.manifest.provenance == "reconstructed":
        return Statement(
            id=name,
            sentence=(
                "Reconstructed dumps: no comparison on this page has an interval, and none is to "
                "be read as if it had."
            ),
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
            sentence=(
                f"{beyond} of {words.count(len(known), 'ratio')} between configurations "
                f"{'lies' if beyond == 1 else 'lie'} beyond run-to-run scatter; the design finds "
                f"differences from {words.percent(widest.detectable - 1)} on (80 % power, in the "
                "least sure of them)."
            ),
            metric="detectable difference",
            value=widest.detectable - 1,
            unit="fraction",
            n=len({r for runs in found["runs"] for r in runs}),
            n_of="runs",
            interval=f"Welch intervals over {least} or more runs a side",
            runs=tuple(sorted({r for runs in found["runs"] for r in runs})),
            would_change="more runs on the side that scatters most",
            **common_fields,
        )
    if scatter.empty:
        return Statement(
            sentence=(
                "No comparison on this page has an interval: no condition was run twice, so how "
                "far runs scatter is not known."
            ),
            metric="repeated conditions",
            value=0.0,
            unit="conditions",
            n=len(metrics),
            n_of="runs",
            interval="no interval: nothing was repeated",
            runs=tuple(sorted(metrics["run_id"])),
            would_change="three runs of each condition that is compared",
            **(common_fields | {"figure": "confidence-repeats"}),
        )
    top = common.top(scatter, scatter["range"])
    rate = scatter[scatter["metric"].str.contains("throughput")]
    steady = common.top(rate, rate["range"]) if len(rate) else top
    needed = runs_needed(float(steady["cv"]), STATED_MARGIN)
    where = f"{top['workload']}, {top['concurrency']} in flight"
    said = (
        "No ratio of two configurations has an interval, since one side ran once"
        if len(found)
        else "No two configurations ran one condition"
    )
    return Statement(
        sentence=(
            f"{said}; {top['n_runs']} repeats of one condition ({where}) differ by up to "
            f"{words.percent(float(steady['range']))} in {METRICS[steady['metric']].label.lower()} "
            f"and {words.percent(float(top['range']))} in {METRICS[top['metric']].label}: smaller "
            "differences are not shown."
        ),
        metric=f"range of repeats, {top['metric']}",
        value=float(top["range"]),
        unit="fraction",
        n=int(top["n_runs"]),
        n_of="runs",
        interval=words.spread(int(top["n_runs"])),
        runs=tuple(top["runs"]),
        would_change=(
            "repeats on both sides"
            + (
                f": at this scatter {needed} a side would find 5 % in throughput"
                if needed
                else " of every pair that is compared"
            )
        ),
        **(common_fields | {"figure": "confidence-repeats"}),
    )
