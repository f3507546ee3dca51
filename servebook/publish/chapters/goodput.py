"""Chapter 10: how many requests per second are served within the manifest's limits."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure.goodput import ATTAINED
from servebook.measure.goodput import goodput as _goodput
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.goodput_base import CONDITION, drawn, points, rows_of, shown
from servebook.publish.chapters.sweep import limits
from servebook.publish.charts.lines import over_concurrency
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign
from servebook.read.manifest_gates import slo_parts

__all__ = ["limits_in_words", "served", "verdict"]

_NO_LIMITS = (
    "The manifest states no limits, so no request can be called good or late. `slos: {ttft_ms: "
    "500, tpot_ms: 50}` in campaign.yaml, with your own limits in ms, makes this figure."
)
_FAMILIES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "request latency"}
_STATISTICS = {"": "mean ", "mean": "mean ", "p50": "median ", "max": "largest "}


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
            which = _STATISTICS.get(statistic or "", f"{statistic} ")
        parts.append(f"{which}{_FAMILIES[family]} at most {words.milliseconds(limit)}")
    return words.listed(parts)


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
    everything = rows_of(campaign)
    workload, rows = shown(campaign, "goodput_fraction")
    if rows.empty:
        return Figure(id=name, title=title, missing=_why_not(campaign))
    told = limits_in_words(dict(campaign.manifest.slos))
    title = _finding(rows, workload)
    above = rows[rows["goodput_req_s"] > 0]
    late = above[above["goodput_fraction"] < ATTAINED]
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
    if len(above):
        chart = over_concurrency(
            points(above, "goodput_req_s", "requests/s"),
            "requests/s within all limits (log)",
            remarks=_apart(late),
            limits=limits(campaign, above),
            y_format=",~g",
        )
    return Figure(
        id=name,
        title=title,
        subtitle=f"{drawn(rows, workload)} Limits of each request, from the manifest: "
        f"{told}. n = {rows['n_ok'].sum():,.0f} requests; {common.interval(rows['n_runs'])}. "
        "Higher is better.",
        chart=chart,
        table=common.table(
            table,
            [
                *CONDITION,
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
    workload, rows = shown(campaign, "goodput_fraction")
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
