"""Chapter 10, second part: speed for one user against use of a GPU, and the cost of tokens."""

from __future__ import annotations

import pandas as pd

from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.goodput_base import CONDITION, drawn, points, rows_of, shown
from servebook.publish.chapters.sweep import limits
from servebook.publish.charts.frontier import frontier as _frontier
from servebook.publish.charts.lines import over_concurrency
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["cost", "frontier"]


def frontier(campaign: Campaign) -> Figure:
    """Output tokens/s per GPU against those of one user, and which conditions nothing beats."""
    name, title = "goodput-frontier", say("goodput_cost.frontier.gpu_tokens_against")
    workload, rows = shown(campaign, "frontier")
    if rows.empty:
        return Figure(id=name, title=title, missing=say("goodput_cost.no_gpus"))
    rows = rows.assign(best=_unbeaten(rows))
    best = rows[rows["best"]]
    sides = list(dict.fromkeys(best["name"]))
    lead = words.listed(sides, most=3)
    n_series = rows["series"].nunique()
    title = (
        say("goodput_cost.frontier.title_frontier_alone_gives", lead=words.capital(lead))
        if len(sides) == 1 and n_series > 1
        else say("goodput_cost.frontier.title_frontier_between_gpu", lead=lead)
    )
    unstated = [c.label for c in campaign.manifest.configurations if c.gpus is None]
    notes = [
        say("goodput_cost.frontier.note_output_rate_user"),
        say("goodput_cost.frontier.note_grey_band_joins"),
    ]
    if unstated:
        notes.append(
            say("goodput_cost.frontier.note_left_because_gpus", unstated=words.listed(unstated))
        )
    return Figure(
        id=name,
        title=title,
        subtitle=say("goodput_cost.frontier.subtitle", drawn=drawn(rows, workload)),
        chart=_frontier(
            rows[["concurrency", "series", "name", "colour", "ink", "shape", "best"]].assign(
                user=rows["output_per_user_tok_s"],
                gpu=rows["gpu_tok_s"],
                label=[words.wrapped(name) for name in rows["name"]],
                text=[str(c) for c in rows["concurrency"]],
                first=~rows.duplicated("series"),
                tip=[
                    say("goodput_cost.frontier.tip", u=words.number(u), g=words.number(g))
                    for u, g in zip(rows["output_per_user_tok_s"], rows["gpu_tok_s"], strict=True)
                ],
            )
        ),
        table=common.table(
            rows,
            [
                ("name", "configuration"),
                ("client", "client"),
                ("concurrency", "requests in flight"),
                ("output_per_user_tok_s", "tokens/s of one user"),
                ("gpu_tok_s", "tokens/s per GPU"),
                ("best", "on the frontier"),
                ("n_runs", "runs"),
                ("n_ok", "ok requests"),
            ],
        ),
        alt=f"{title}. "
        + " ".join(
            say(
                "goodput_cost.frontier.alt",
                name=r["name"],
                concurrency=r["concurrency"],
                output_per_user_tok_s=words.number(r["output_per_user_tok_s"]),
                gpu_tok_s=words.number(r["gpu_tok_s"]),
            )
            for r in rows.to_dict("records")
        ),
        source=say("goodput_cost.frontier.source", source=common.source(campaign, rows)),
        runs=common.runs_of(rows),
        notes=tuple(notes),
    )


def _unbeaten(rows: pd.DataFrame) -> list[bool]:
    """Whether no other row has at least as much of both and more of one."""
    user, gpu = rows["output_per_user_tok_s"].to_numpy(), rows["gpu_tok_s"].to_numpy()
    return [
        not bool(((user >= u) & (gpu >= g) & ((user > u) | (gpu > g))).any())
        for u, g in zip(user, gpu, strict=True)
    ]


def cost(campaign: Campaign) -> Figure:
    """What a million tokens cost over concurrency."""
    name, title = "goodput-cost", say("goodput_cost.cost.cost_million_tokens")
    price = campaign.manifest.price
    if price is None:
        return Figure(id=name, title=title, missing=say("goodput_cost.no_price"))
    everything = rows_of(campaign)
    workload, rows = shown(campaign, "cost_output")
    if rows.empty:
        workload, rows = shown(campaign, "cost_input")
    if rows.empty:
        return Figure(id=name, title=title, missing=say("goodput_cost.no_gpus"))
    metric, what = ("cost_input", "input") if workload == "prefill" else ("cost_output", "output")
    least = common.bottom(rows, rows[metric])
    title = say(
        "goodput_cost.cost.title",
        workload=words.capital(workload),
        what=what,
        least=words.number(least[metric]),
        currency=price.currency,
        concurrency=int(least["concurrency"]),
        name=least["name"],
    )
    rate = say("goodput_cost.cost.rate", per_gpu_hour=price.per_gpu_hour, currency=price.currency)
    return Figure(
        id=name,
        title=title,
        subtitle=say("goodput_cost.cost.subtitle", drawn=drawn(rows, workload), rate=rate),
        chart=over_concurrency(
            points(rows, metric, price.currency),
            say("goodput_cost.cost.chart", currency=price.currency, what=what),
            limits=limits(campaign, rows),
            y_format=",~g",
        ),
        table=common.table(
            everything.dropna(subset=["cost_output", "cost_input"], how="all"),
            [
                *CONDITION,
                ("cost_output", f"{price.currency} per million output tokens"),
                ("cost_input", f"{price.currency} per million input tokens"),
                ("n_runs", "runs"),
            ],
        ),
        alt=f"{title}.",
        source=say("goodput_cost.cost.source", source=common.source(campaign, rows)),
        runs=common.runs_of(rows),
        notes=(
            say("goodput_cost.cost.note_price_gpus_throughput"),
            *([say("goodput_cost.cost.note_price", note=price.note)] if price.note else []),
        ),
    )
