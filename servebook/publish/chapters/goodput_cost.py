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
from servebook.read.campaign import Campaign

__all__ = ["cost", "frontier"]

_NO_GPUS = (
    "The manifest states the number of GPUs of no configuration that was run with answers of "
    "several tokens; `gpus:` of each makes this figure."
)
_NO_PRICE = (
    "The manifest gives no price. `price: {per_gpu_hour: 4.2, currency: USD}` in campaign.yaml, "
    "with your own price, makes this figure."
)


def frontier(campaign: Campaign) -> Figure:
    """Output tokens/s per GPU against those of one user, and which conditions nothing beats."""
    name, title = "goodput-frontier", "A GPU's tokens against a user's"
    workload, rows = shown(campaign, "frontier")
    if rows.empty:
        return Figure(id=name, title=title, missing=_NO_GPUS)
    rows = rows.assign(best=_unbeaten(rows))
    best = rows[rows["best"]]
    sides = list(dict.fromkeys(best["name"]))
    lead = words.listed(sides, most=3)
    n_series = rows["series"].nunique()
    title = (
        f"{words.capital(lead)} is the frontier alone: no other gives more tokens per GPU at the "
        "same speed for a user"
        if len(sides) == 1 and n_series > 1
        else f"The frontier between a GPU's tokens and a user's speed runs over {lead}"
    )
    unstated = [c.label for c in campaign.manifest.configurations if c.gpus is None]
    notes = [
        (
            "Output rate per user: 1 / mean TPOT. Per GPU: output tokens of ok requests / duration "
            "/ GPUs of the configuration. On the frontier: no other condition has more of both."
        ),
        "The grey band joins the conditions of the frontier; nothing between them was run.",
    ]
    if unstated:
        notes.append(f"Left out, because their GPUs are not stated: {words.listed(unstated)}.")
    return Figure(
        id=name,
        title=title,
        subtitle=f"{drawn(rows, workload)} Numbers at points are requests in flight. Up and right "
        "is better.",
        chart=_frontier(
            rows[["concurrency", "series", "name", "colour", "ink", "shape", "best"]].assign(
                user=rows["output_per_user_tok_s"],
                gpu=rows["gpu_tok_s"],
                label=[words.wrapped(name) for name in rows["name"]],
                text=[str(c) for c in rows["concurrency"]],
                first=~rows.duplicated("series"),
                tip=[
                    f"{words.number(u)} of a user, {words.number(g)} per GPU"
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
            f"{r['name']}, {r['concurrency']} in flight: {words.number(r['output_per_user_tok_s'])}"
            f" tokens/s of a user, {words.number(r['gpu_tok_s'])} per GPU."
            for r in rows.to_dict("records")
        ),
        source=f"{common.source(campaign, rows)}; GPUs: manifest",
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
    name, title = "goodput-cost", "Cost of a million tokens"
    price = campaign.manifest.price
    if price is None:
        return Figure(id=name, title=title, missing=_NO_PRICE)
    everything = rows_of(campaign)
    workload, rows = shown(campaign, "cost_output")
    if rows.empty:
        workload, rows = shown(campaign, "cost_input")
    if rows.empty:
        return Figure(id=name, title=title, missing=_NO_GPUS)
    metric, what = ("cost_input", "input") if workload == "prefill" else ("cost_output", "output")
    least = common.bottom(rows, rows[metric])
    title = (
        f"{words.capital(workload)}: a million {what} tokens cost at least "
        f"{words.number(least[metric])} {price.currency}, with {int(least['concurrency'])} in "
        f"flight ({least['name']})"
    )
    rate = f"{price.per_gpu_hour:g} {price.currency} per GPU and hour"
    return Figure(
        id=name,
        title=title,
        subtitle=f"{drawn(rows, workload)} At {rate}. Lower is better.",
        chart=over_concurrency(
            points(rows, metric, price.currency),
            f"{price.currency} per million {what} tokens (log)",
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
        source=f"{common.source(campaign, rows)}; price and GPUs: manifest",
        runs=common.runs_of(rows),
        notes=(
            (
                "Price x GPUs / throughput while the run lasted. Each column puts the whole price "
                "on its own tokens; the two are not to be added. Idle hours, hosts, network and "
                "power are in it only if the price holds them."
            ),
            *([f"Price: {price.note}."] if price.note else []),
        ),
    )
