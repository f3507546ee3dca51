"""Chapter 07, KV reuse: on against off, beside what one condition differs by without it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from servebook.measure.conditions import conditions
from servebook.measure.metrics import METRICS
from servebook.measure.pairs import pairs
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.reuse_prefix import prefix_words
from servebook.publish.charts.paired import paired
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["noise", "on_off", "on_off_statement", "plain"]

_ID = "kv-reuse"
_DRAWN = 3  # conditions in the chart
_SHOWN = ("output_throughput_tok_s", "ttft_mean_ms", "tpot_mean_ms")
_ON = ["configuration", "client", "workload", "isl_requested", "osl_requested", "concurrency"]


def _reuse(campaign: Campaign) -> dict[str, bool]:
    """Whether prompts were repeated for the cache, of the runs that say."""
    runs = campaign.tables.runs.select(["run_id", "cache_reuse"]).to_pylist()
    return {r["run_id"]: r["cache_reuse"] for r in runs if r["cache_reuse"] is not None}


@common.memo
def plain(campaign: Campaign) -> pd.DataFrame:
    """``conditions`` of the runs without cache reuse: a run with it is no repeat of one without."""
    reused = {run for run, on in _reuse(campaign).items() if on}
    every = common.metrics(campaign)
    return conditions(every[~every["run_id"].isin(reused)])


@common.memo
def _both(campaign: Campaign) -> pd.DataFrame:
    """On against off, per condition and metric: off, on (means), change, n_off, n_on, runs."""
    reuse = _reuse(campaign)
    every = common.metrics(campaign)
    known = every[every["run_id"].isin(reuse)]
    rows: list[dict[str, Any]] = []
    for key, part in known.groupby(_ON, sort=True, dropna=False):
        on = part[[reuse[r] for r in part["run_id"]]]
        off = part[[not reuse[r] for r in part["run_id"]]]
        if on.empty or off.empty:
            continue
        for metric in _SHOWN:
            a, b = float(off[metric].mean()), float(on[metric].mean())
            if a > 0 and b == b:
                rows.append(
                    dict(zip(_ON, key, strict=True))
                    | {
                        "metric": metric,
                        "off": a,
                        "on": b,
                        "change": b / a - 1,
                        "n_off": len(off),
                        "n_on": len(on),
                        "runs": (*off["run_id"], *on["run_id"]),
                    }
                )
    columns = [*_ON, "metric", "off", "on", "change", "n_off", "n_on", "runs"]
    return pd.DataFrame(rows, columns=columns)


@common.memo
def noise(campaign: Campaign) -> pd.DataFrame:
    """What one condition differs by with nothing changed on purpose: metric, deviation, what, runs.

    Repeats (each over the median of its condition), and pairs of two clients on one condition,
    which hold the clients' own differences, too.
    """
    reused = {run for run, on in _reuse(campaign).items() if on}
    every = common.metrics(campaign)
    every = every[~every["run_id"].isin(reused)]
    rows: list[dict[str, Any]] = []
    for condition in plain(campaign).to_dict("records"):
        if condition["n_runs"] < 2:
            continue
        same = every[every["run_id"].isin(condition["runs"])]
        for metric in _SHOWN:
            rows += [
                {
                    "metric": metric,
                    "deviation": run[metric] / condition[metric] - 1,
                    "what": say("reuse.noise.repeats_condition"),
                    "runs": (run["run_id"],),
                }
                for run in same.to_dict("records")
                if run[metric] > 0
            ]
    rows += [
        {
            "metric": pair["metric"],
            "deviation": pair["deviation"],
            "what": say("reuse.noise.clients_condition"),
            "runs": (pair["run_a"], pair["run_b"]),
        }
        for pair in pairs(every, _SHOWN).to_dict("records")
    ]
    return pd.DataFrame(rows, columns=["metric", "deviation", "what", "runs"])


def _nothing(campaign: Campaign) -> str:
    known = _reuse(campaign)
    off = [c.label for c in campaign.manifest.configurations if c.prefix_caching is False]
    cache = say("reuse.nothing.cache", off=words.listed(off, most=3)) if off else ""
    if not known:
        return say("reuse.nothing.run_campaign_states", cache=cache)
    return say("reuse.nothing.condition_run_kv", cache=cache)


def on_off(campaign: Campaign) -> Figure:
    """The change that reuse made, per condition, with the noise of unchanged conditions below."""
    found = _both(campaign)
    if found.empty:
        return Figure(
            id=_ID, title=say("reuse.on_off.title_kv_reuse_measured"), missing=_nothing(campaign)
        )
    around = noise(campaign)
    rows = _pairs(campaign, found)
    grey = around.merge(rows[["row", "metric"]].dropna(), on="metric")
    shown = found.groupby(_ON, dropna=False).ngroups
    rate = found[found["metric"] == "output_throughput_tok_s"]
    title = say("reuse.on_off.title_kv_reuse_changes") + words.listed(
        f"{words.deviation(r['change'])} ({common.label(campaign, r['configuration'])})"
        for r in rate.to_dict("records")
    )
    runs = tuple(sorted({r for f in (found, around) for runs in f["runs"] for r in runs}))
    return Figure(
        id=_ID,
        title=title,
        subtitle=say(
            "reuse.on_off.subtitle",
            sides=words.capital(_sides(found)),
            noise_words=_noise_words(around),
        ),
        chart=paired(
            rows,
            say("reuse.on_off.chart"),
            ratio=False,
            around=grey.assign(
                value=grey["deviation"],
                tip=[
                    f"{w}: {words.listed(r)}"
                    for w, r in zip(grey["what"], grey["runs"], strict=True)
                ],
            ),
        ),
        table=pd.DataFrame(
            {
                "Configuration": common.labels(campaign, found["configuration"]),
                "Client": found["client"],
                "Requests in flight": found["concurrency"],
                "Metric": [words.told(METRICS[m].label) for m in found["metric"]],
                "Unit": [METRICS[m].unit for m in found["metric"]],
                "Off": found["off"],
                "On": found["on"],
                "Change (%)": 100 * found["change"],
                "Runs off": found["n_off"],
                "Runs on": found["n_on"],
            }
        ),
        alt=f"{title}. {_noise_words(around)}",
        source=common.records_of(campaign, len(runs)),
        runs=runs,
        notes=(
            prefix_words(campaign, tuple({r for runs in found["runs"] for r in runs})),
            *(
                (say("shared.drawn_of_conditions_the_table_has", most_rows=_DRAWN, n_rows=shown),)
                if shown > _DRAWN
                else ()
            ),
        ),
    )


def _pairs(campaign: Campaign, found: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``paired``: all metrics of the conditions that change most."""
    looks = theme.looks(campaign.manifest.configurations)
    key = found[_ON].astype(str).agg("|".join, axis=1)
    size = found["change"].abs().groupby(key, sort=True).max()
    most = size.sort_values(ascending=False, kind="stable").head(_DRAWN).index
    rows: list[dict[str, Any]] = []
    said = None
    for at, row in zip(key[key.isin(most)], found[key.isin(most)].to_dict("records"), strict=True):
        look = looks[row["configuration"]]
        metric = METRICS[row["metric"]]
        values = f"{words.number(row['off'], 4)} → {words.number(row['on'], 4)} {metric.unit}"
        lengths = words.lengths_short(row["isl_requested"], row["osl_requested"])
        name = (
            f"{common.label(campaign, row['configuration'])} · {lengths}, c{row['concurrency']:.0f}"
        )
        if at != said:
            rows.append({"row": str(len(rows)), "label": name, "ink": look.text})
            said = at
        rows.append(
            {
                "row": str(len(rows)),
                "metric": row["metric"],
                "label": f"{words.told(metric.label)}: {values}",
                "value": row["change"],
                "text": words.deviation(row["change"]),
                "first_colour": look.colour,
                "colour": look.colour,
                "ink": look.text,
                "tip": say(
                    "reuse.pairs.tip",
                    values=values,
                    n_off=row["n_off"],
                    runs=words.count(row["n_on"], "run"),
                ),
            }
        )
    return pd.DataFrame(rows)


def _sides(found: pd.DataFrame) -> str:
    least = int(min(found["n_off"].min(), found["n_on"].min()))
    if least < 2:
        return say("reuse.sides.run_side_testable")
    return say("reuse.sides.means_runs_side", least=least)


def _noise_words(around: pd.DataFrame) -> str:
    rate = around[around["metric"] == "output_throughput_tok_s"]
    if rate.empty:
        return say("reuse.noise_words.condition_repeated_noise")
    parts = [
        f"{words.percent(part['deviation'].abs().max())} ({what})"
        for what, part in rate.groupby("what", sort=True)
    ]
    return say("reuse.noise_words.unchanged_conditions_differ", parts=words.listed(parts))


def _changes(values: pd.Series[float]) -> str:
    ends = dict.fromkeys(words.deviation(v) for v in (values.min(), values.max()))
    return say("reuse.changes").join(ends)


def on_off_statement(campaign: Campaign) -> Statement:
    """The same as a sentence."""
    found = _both(campaign)
    if found.empty:
        return Statement(
            id=f"{_ID}-verdict", sentence=_nothing(campaign), marks=common.marks(campaign)
        )
    rate = found[found["metric"] == "output_throughput_tok_s"]
    rows = rate if len(rate) else found
    top = common.top(rows, rows["change"].abs())
    least = int(min(rows["n_off"].min(), rows["n_on"].min()))
    return Statement(
        id=f"{_ID}-verdict",
        sentence=say(
            "reuse.on_off_statement.sentence_kv_reuse_against",
            metrics=words.told(METRICS[top["metric"]].label).lower(),
            changes=_changes(rows["change"]),
            run_side=say("reuse.on_off_statement.sentence_run_side_testable") if least < 2 else "",
            noise_words=_noise_words(noise(campaign)),
        ),
        metric=str(top["metric"]),
        value=float(top["change"]) * 100,
        unit="%",
        n=len({r for runs in rows["runs"] for r in runs}),
        n_of="runs",
        interval=say("shared.no_interval_one_run_on_a") if least < 2 else common.interval([least]),
        runs=tuple(sorted({r for runs in rows["runs"] for r in runs})),
        figure=_ID,
        would_change=say("reuse.on_off_statement.would_change"),
        marks=common.marks(campaign),
    )
