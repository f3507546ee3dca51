"""Chapter 05, twins: the campaign's two opponents at one mixed condition, metric by metric."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure.conditions import factors
from servebook.measure.metrics import METRICS
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.gaps import WORKLOAD, mixed_rows
from servebook.publish.charts.ratios import around_one
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["twin", "twin_statement"]

_TWIN = (
    "ttft_p50_ms",
    "tpot_mean_ms",
    "itl_p50_ms",
    "itl_p99_ms",
    "output_throughput_tok_s",
)


def twin(campaign: Campaign) -> Figure:
    """The campaign's two opponents at the highest condition both ran, metric by metric."""
    name = "mixed-twin"
    rows = mixed_rows(campaign)
    if rows.empty:
        return common.absent(
            campaign, name, say("mixed_twin.twin.mixed_load_configurations"), WORKLOAD
        )
    pair = common.opponents(campaign, rows)
    found = {m: factors(rows, m, *pair) for m in _TWIN} if pair else {}
    shared = [f for f in found.values() if len(f)]
    if not pair or not shared:
        return Figure(
            id=name,
            title=say("mixed_twin.twin.title"),
            missing=say("mixed_twin.twin.missing"),
        )
    key = ["client", "isl", "osl", "concurrency"]
    at = shared[0].sort_values(["concurrency", "client"], kind="stable").iloc[-1][key]
    first, second = (common.label(campaign, n) for n in pair)
    look = theme.looks(campaign.manifest.configurations)[pair[1]]
    lines = []
    for metric, frame in found.items():
        same = frame[(frame[key] == at).all(axis=1)]
        if same.empty:
            continue
        row = same.iloc[0]
        ratio = row["candidate"] / row["baseline"]
        info = METRICS[metric]
        lines.append(
            {
                "metric": metric,
                "row": metric,
                "label": f"{words.told(info.label)}: {words.number(row['baseline'])} → "
                f"{words.rate(row['candidate'], info.unit)}",
                "ratio": ratio,
                "text": _said(ratio, info.better),
                "side": "left" if ratio < 1 else "right",
                "colour": look.colour,
                "ink": look.text,
                "baseline": row["baseline"],
                "candidate": row["candidate"],
                "n_baseline": row["n_baseline"],
                "n_candidate": row["n_candidate"],
                "runs": row["runs"],
            }
        )
    frame = pd.DataFrame(lines)
    title = _trade(frame, first, second)
    compared = common.comparison(campaign, pair)
    runs = tuple(sorted({run for runs in frame["runs"] for run in runs}))
    least = int(min(frame["n_baseline"].min(), frame["n_candidate"].min()))
    return Figure(
        id=name,
        title=title,
        subtitle=(
            say(
                "mixed_twin.twin.subtitle_runs",
                compared=common.marked(compared),
                in_flight=words.capital(common.in_flight(at["concurrency"])),
                lengths=words.lengths(at["isl"], at["osl"]),
                client=at["client"],
                n_baseline=frame["n_baseline"].max(),
                first=first,
                n_candidate=frame["n_candidate"].max(),
                second=second,
            )
            + (say("mixed_twin.twin.subtitle_interval_run") if least < 2 else ".")
        ),
        chart=around_one(frame, say("mixed_twin.twin.chart", second=second, first=first)),
        table=pd.DataFrame(
            {
                "metric": [words.told(METRICS[m].label) for m in frame["metric"]],
                "unit": [METRICS[m].unit for m in frame["metric"]],
                first: frame["baseline"],
                second: frame["candidate"],
                "ratio": frame["ratio"],
                say("mixed_twin.runs_of", name=first): frame["n_baseline"],
                say("mixed_twin.runs_of", name=second): frame["n_candidate"],
            }
        ),
        alt=f"{title}. " + " ".join(f"{r['label']} ({r['text']})." for r in lines),
        source=say(
            "shared.records_of",
            provenance=common.provenance(campaign),
            runs=words.count(len(runs), "run"),
        ),
        runs=runs,
    )


def twin_statement(campaign: Campaign) -> Statement:
    """What the second configuration gains and pays, as a verdict; in words where there is none."""
    name = "mixed-twin-verdict"
    figure = twin(campaign)
    pair = common.opponents(campaign, rows) if len(rows := mixed_rows(campaign)) else None
    if figure.table is None or pair is None:
        return Statement(id=name, sentence=figure.missing, marks=common.marks(campaign))
    table = figure.table
    apart = common.top(table, (table["ratio"].map(np.log)).abs())
    info = next(m for m in METRICS.values() if words.told(m.label) == apart["metric"])
    gain = apart["ratio"] if info.better == "higher" else 1 / apart["ratio"]
    least = int(min(table.iloc[:, -2].min(), table.iloc[:, -1].min()))
    used = common.metrics(campaign).set_index("run_id").loc[list(figure.runs)]
    compared = common.comparison(campaign, pair)
    return Statement(
        id=name,
        sentence=f"{figure.title}.",
        metric=str(apart["metric"]),
        value=float(max(apart["ratio"], 1 / apart["ratio"])),
        unit="ratio",
        caption=_which(gain, metric=apart["metric"]),
        n=int(used["n_ok"].sum()),
        n_of="requests",
        interval=(
            say("shared.no_interval_one_run_on_a")
            if least < 2
            else say("mixed_twin.twin_statement.interval", least=least)
        ),
        runs=figure.runs,
        figure=figure.id,
        would_change=(
            say("shared.repeats_on_both_sides_whose_ranges")
            if least < 2
            else say("mixed_twin.twin_statement.would_change")
        ),
        # With several settings apart the ratio is theirs together: no finding of one of them.
        verdict=len(compared.differ) == 1,
        rank=22,
        marks=common.marks(campaign, pair),
    )


def _said(ratio: float, better: str) -> str:
    """What a ratio of candidate to baseline means: "×2.0 better", within 5 % the difference."""
    if 1 / 1.05 <= ratio <= 1.05:
        return words.deviation(ratio - 1)
    gain = ratio if better == "higher" else 1 / ratio
    return _which(gain, metric=words.factor(max(gain, 1 / gain)), what="said")


def _which(gain: float, *, metric: str, what: str = "caption") -> str:
    return say(f"mixed_twin.{what}.{'better' if gain > 1 else 'worse'}", metric=metric)


def _trade(frame: pd.DataFrame, first: str, second: str) -> str:
    """What the second configuration gains and what it pays, from the largest ratios each way."""
    better, worse = [], []
    for row in frame.to_dict("records"):
        info = METRICS[row["metric"]]
        gain = row["ratio"] if info.better == "higher" else 1 / row["ratio"]
        if gain > 1.05:
            better.append((gain, words.told(info.label)))
        elif gain < 1 / 1.05:
            worse.append((1 / gain, words.told(info.label)))
    text = words.capital(say("mixed_twin.trade.text", second=second, first=first))
    if better and worse:
        (gain, what), (loss, price) = max(better), max(worse)
        return say(
            "mixed_twin.trade.better_worse",
            text=text,
            what=what,
            gain=words.times(gain),
            price=price,
            loss=words.times(loss),
        )
    if better:
        gain, what = max(better)
        return say(
            "mixed_twin.trade.better_nothing_worse", text=text, what=what, gain=words.times(gain)
        )
    if worse:
        loss, price = max(worse)
        return say(
            "mixed_twin.trade.worse_nothing_better", text=text, price=price, loss=words.times(loss)
        )
    return say("mixed_twin.trade.nothing_differs", text=text)
