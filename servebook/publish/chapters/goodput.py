"""Chapter 10: requests within the limits, speed for one user against use of a GPU, cost."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure.conditions import conditions
from servebook.measure.goodput import ATTAINED
from servebook.measure.goodput import goodput as _goodput
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.sweep import limits
from servebook.publish.charts.frontier import frontier as _frontier
from servebook.publish.charts.lines import over_concurrency
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign
from servebook.read.manifest_gates import slo_parts

__all__ = ["cost", "frontier", "served", "verdict"]

_VALUES = (
    "goodput_req_s",
    "goodput_fraction",
    "request_throughput_req_s",
    "gpu_tok_s",
    "frontier",
    "output_per_user_tok_s",
    "output_throughput_tok_s",
    "cost_output",
    "cost_input",
)
_NO_LIMITS = (
    "The manifest states no limits, so no request can be called good or late. `slos: {ttft_ms: "
    "500, tpot_ms: 50}` in campaign.yaml, with your own limits in ms, makes this figure."
)
_NO_GPUS = (
    "The manifest states the number of GPUs of no configuration that was run with answers of "
    "several tokens; `gpus:` of each makes this figure."
)
_NO_PRICE = (
    "The manifest gives no price. `price: {per_gpu_hour: 4.2, currency: USD}` in campaign.yaml, "
    "with your own price, makes this figure."
)
_FAMILIES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "request latency"}
_STATISTICS = {"": "", "mean": "", "p50": "median ", "max": "largest "}


def limits_in_words(slos: dict[str, float]) -> str:
    """The limits as a list of words.

    >>> limits_in_words({"ttft_ms": 200.0, "itl_p99_ms": 15.0})
    'TTFT at most 200 ms and p99 ITL at most 15 ms'
    """
    parts = []
    for name, limit in slos.items():
        family, statistic = slo_parts(name)
        which = ""
        if family == "itl":
            which = _STATISTICS.get(statistic or "mean", f"{statistic} ")
            which = "mean " if statistic in ("", "mean") else which
        parts.append(f"{which}{_FAMILIES[family]} at most {words.milliseconds(limit)}")
    return words.listed(parts)


@common.memo
def _rows(campaign: Campaign) -> pd.DataFrame:
    """``conditions`` with goodput, tokens/s per GPU and cost, in manifest order, with looks."""
    found = _goodput(campaign.tables, dict(campaign.manifest.slos)).set_index("run_id")
    runs = common.metrics(campaign).copy()
    for name in ("goodput_req_s", "goodput_fraction"):
        runs[name] = runs["run_id"].map(found[name])
    gpus = {c.name: c.gpus for c in campaign.manifest.configurations}
    n = runs["configuration"].map(gpus).astype("Float64").to_numpy(np.float64, na_value=np.nan)
    runs["gpu_tok_s"] = runs["output_throughput_tok_s"] / n
    runs["frontier"] = runs["gpu_tok_s"] * runs["output_per_user_tok_s"]  # both are known
    price = campaign.manifest.price
    per_s = n * price.per_gpu_hour / 3600 if price else np.full(len(runs), np.nan)
    for name in ("output", "input"):
        rate = runs[f"{name}_throughput_tok_s"]
        # A prefill run makes next to no output and a decode run takes in next to no input.
        other = {"output": "prefill", "input": "decode"}[name]
        rate = rate.where((rate > 0) & (runs["workload"] != other))
        runs[f"cost_{name}"] = per_s / rate * 1e6
    return common.styled(campaign, conditions(runs, _VALUES))


def _shown(campaign: Campaign, metric: str) -> tuple[str, pd.DataFrame]:
    """The load that is drawn and its rows: mixed if it has values, else decode, else any.

    Of one load, the lengths, client and use of a cache that most conditions share: others ask for
    other work, or measure it otherwise.
    """
    rows = _rows(campaign)
    known = rows.dropna(subset=[metric])
    for workload in ("mixed", "decode", "prefill", "other"):
        part = known[known["workload"] == workload]
        if len(part):
            keys = ("isl", "osl", "client", "reuse")
            kinds = [str(kind) for kind in zip(*(part[key] for key in keys), strict=True)]
            most = max(sorted(set(kinds)), key=kinds.count)
            part = part[[kind == most for kind in kinds]].reset_index(drop=True)
            return workload, common.styled(campaign, part)
    return "", known


def _drawn(rows: pd.DataFrame, workload: str) -> str:
    """The load and its lengths at the head of a subtitle."""
    lengths = words.lengths(float(rows["isl"].iloc[0]), float(rows["osl"].iloc[0]))
    client = rows["client"].iloc[0]
    return f"{words.capital(workload)} load, {lengths} tokens, measured by {client}."


def _points(rows: pd.DataFrame, metric: str, unit: str) -> pd.DataFrame:
    return rows[["concurrency", "series", "label", "colour", "ink", "shape", "dash"]].assign(
        value=rows[metric],
        low=rows[f"{metric}_low"],
        high=rows[f"{metric}_high"],
        tip=[words.rate(v, unit) for v in rows[metric]],
    )


def _why_not(campaign: Campaign) -> str:
    """Why no condition has a goodput, though there are limits."""
    why = _goodput(campaign.tables, dict(campaign.manifest.slos))["why"]
    told = sorted(set(why) - {""})
    return "No run can be judged: " + (words.listed(told, most=4) or "no run is comparable") + "."


def served(campaign: Campaign) -> Figure:
    """Requests per second within all limits over concurrency."""
    name, title = "goodput", "Goodput: requests within the limits"
    if not campaign.manifest.slos:
        return Figure(id=name, title=title, missing=_NO_LIMITS)
    everything = _rows(campaign)
    workload, rows = _shown(campaign, "goodput_fraction")
    if rows.empty:
        return Figure(id=name, title=title, missing=_why_not(campaign))
    told = limits_in_words(dict(campaign.manifest.slos))
    title = _finding(rows, workload)
    drawn = rows[rows["goodput_req_s"] > 0]
    late = drawn[drawn["goodput_fraction"] < ATTAINED]
    notes = [
        (
            "Goodput: requests that are ok and keep every limit / duration; failed, cancelled and "
            "lost ones keep none. A request of one output token has no TPOT and no ITL to keep."
        ),
        (
            f"Words at a point give the share of requests within the limits where it is below "
            f"{words.percent(ATTAINED)}, the share that DistServe (OSDI 2024) asks for."
        ),
    ]
    nothing = rows[rows["goodput_req_s"] == 0]
    if len(nothing):
        where = [f"{r['name']} c{r['concurrency']}" for r in nothing.to_dict("records")]
        notes.append(f"Not drawn, because no request kept the limits: {words.listed(where)}.")
    table = everything.dropna(subset=["goodput_fraction"]).assign(
        share=lambda t: 100 * t["goodput_fraction"]
    )
    chart = None
    if len(drawn):
        chart = over_concurrency(
            _points(drawn, "goodput_req_s", "requests/s"),
            "requests/s within all limits (log)",
            remarks=_apart(late),
            limits=limits(campaign, drawn),
            y_format=",~g",
        )
    return Figure(
        id=name,
        title=title,
        subtitle=f"{_drawn(rows, workload)} Limits of each request, from the manifest: "
        f"{told}. Higher is better.",
        chart=chart,
        table=common.table(
            table,
            [
                ("name", "configuration"),
                ("workload", "load"),
                ("client", "client"),
                ("isl", "input tokens"),
                ("osl", "output tokens"),
                ("concurrency", "requests in flight"),
                ("goodput_req_s", "goodput (requests/s)"),
                ("share", "requests within the limits (%)"),
                ("request_throughput_req_s", "requests/s"),
                ("n_runs", "runs"),
                ("n_ok", "ok requests"),
            ],
        ),
        alt=f"{title}. " + _described(rows),
        source=f"{common.source(campaign, rows)}; limits: manifest",
        runs=common.runs_of(rows),
        notes=(*notes, *common.left_out_notes(campaign, workload)),
    )


def _apart(late: pd.DataFrame) -> pd.DataFrame:
    """Words at the points that lie low, but not one over another: the table has all."""
    kept: list[dict[str, object]] = []
    beside: dict[int, list[float]] = {}
    for row in late.sort_values("goodput_req_s", kind="stable").to_dict("records"):
        value, others = row["goodput_req_s"], beside.setdefault(row["concurrency"], [])
        if all(value > 1.4 * other for other in others):
            others.append(value)
            text = f"{words.percent(row['goodput_fraction'])} within"
            kept.append({"concurrency": row["concurrency"], "value": value, "text": text})
    return pd.DataFrame(kept, columns=["concurrency", "value", "text"])


def _described(rows: pd.DataFrame) -> str:
    return " ".join(
        f"{r['name']}, {r['concurrency']} in flight: {words.rate(r['goodput_req_s'], 'requests/s')}"
        f", {words.percent(r['goodput_fraction'])} within."
        for r in rows.to_dict("records")
    )


def _finding(rows: pd.DataFrame, workload: str) -> str:
    """The highest goodput, and up to which load its series serves enough requests in time."""
    top = common.top(rows, rows["goodput_req_s"])
    line = rows[rows["series"] == top["series"]].sort_values("concurrency", kind="stable")
    served_up_to = line[line["goodput_fraction"] >= ATTAINED]
    text = (
        f"{words.capital(workload)}: goodput peaks at "
        f"{words.rate(top['goodput_req_s'], 'requests/s')} with {int(top['concurrency'])} in flight"
    )
    if common.several(rows["series"]):
        text += f" ({top['name']})"
    if served_up_to.empty:
        return f"{text}; at no load do {words.percent(ATTAINED)} of its requests keep the limits"
    last = int(served_up_to["concurrency"].max())
    above = line[line["concurrency"] > last]
    if above.empty:
        return f"{text}; up to the highest load {words.percent(ATTAINED)} or more keep the limits"
    after = above.iloc[0]
    return (
        f"{text}; at {int(after['concurrency'])} only "
        f"{words.percent(after['goodput_fraction'])} of requests keep the limits"
    )


def verdict(campaign: Campaign) -> Statement:
    """The highest goodput as a sentence."""
    name = "goodput-peak"
    if not campaign.manifest.slos:
        return Statement(id=name, sentence=_NO_LIMITS, marks=common.marks(campaign))
    workload, rows = _shown(campaign, "goodput_fraction")
    if rows.empty:
        return Statement(id=name, sentence=_why_not(campaign), marks=common.marks(campaign))
    top = common.top(rows, rows["goodput_req_s"])
    return Statement(
        id=name,
        sentence=f"{_finding(rows, workload)}. The limits are "
        f"{limits_in_words(dict(campaign.manifest.slos))}.",
        metric="goodput_req_s",
        value=float(top["goodput_req_s"]),
        unit="requests/s",
        caption="requests/s within the limits",
        n=int(top["n_ok"]),
        n_of="requests",
        low=_known(top["goodput_req_s_low"]),
        high=_known(top["goodput_req_s_high"]),
        interval=words.spread(int(top["n_runs"])),
        runs=tuple(top["runs"]),
        figure="goodput",
        would_change="Other limits, or other lengths of prompts and answers.",
        marks=common.marks(campaign, runs=common.runs_of(rows)),
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def frontier(campaign: Campaign) -> Figure:
    """Output tokens/s per GPU against those of one user, and which conditions nothing beats."""
    name, title = "goodput-frontier", "A GPU's tokens against a user's"
    workload, rows = _shown(campaign, "frontier")
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
        subtitle=f"{_drawn(rows, workload)} Numbers at points are requests in flight. Up and right "
        "is better.",
        chart=_frontier(
            rows[["concurrency", "series", "name", "colour", "ink", "shape", "best"]].assign(
                user=rows["output_per_user_tok_s"],
                gpu=rows["gpu_tok_s"],
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
    everything = _rows(campaign)
    workload, rows = _shown(campaign, "cost_output")
    if rows.empty:
        workload, rows = _shown(campaign, "cost_input")
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
        subtitle=f"{_drawn(rows, workload)} At {rate}. Lower is better.",
        chart=over_concurrency(
            _points(rows, metric, price.currency),
            f"{price.currency} per million {what} tokens (log)",
            limits=limits(campaign, rows),
            y_format=",~g",
        ),
        table=common.table(
            everything.dropna(subset=["cost_output", "cost_input"], how="all"),
            [
                ("name", "configuration"),
                ("workload", "load"),
                ("client", "client"),
                ("isl", "input tokens"),
                ("osl", "output tokens"),
                ("concurrency", "requests in flight"),
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
