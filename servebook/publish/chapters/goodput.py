"""Chapter 10: how many requests per second are served within the manifest's limits."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure.goodput import ATTAINED
from servebook.measure.goodput import goodput as _goodput
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.goodput_base import (
    CONDITION,
    drawn,
    limits_in_words,
    points,
    rows_of,
    shown,
)
from servebook.publish.chapters.sweep import limits
from servebook.publish.charts.lines import over_concurrency
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["served", "verdict"]


def _why_not(campaign: Campaign) -> str:
    """Why no condition has a goodput, though there are limits."""
    why = _goodput(campaign.tables, dict(campaign.manifest.slos))["why"]
    told = sorted(set(why) - {""})
    return (
        say("goodput.why_not.run_can_judged")
        + (words.listed(told, most=4) or say("goodput.why_not.run_comparable"))
        + "."
    )


def served(campaign: Campaign) -> Figure:
    """Requests per second within all limits over concurrency."""
    name, title = "goodput", say("goodput.served.goodput_requests_within")
    if not campaign.manifest.slos:
        return Figure(id=name, title=title, missing=say("goodput.no_limits"))
    everything = rows_of(campaign)
    workload, rows = shown(campaign, "goodput_fraction")
    if rows.empty:
        return Figure(id=name, title=title, missing=_why_not(campaign))
    told = limits_in_words(dict(campaign.manifest.slos))
    title = _finding(rows, workload)
    above = rows[rows["goodput_req_s"] > 0]
    late = above[above["goodput_fraction"] < ATTAINED]
    notes = [
        say("goodput.served.note_goodput_requests_ok"),
        say("goodput.served.note_words_point_give", attained=words.percent(ATTAINED)),
    ]
    nothing = rows[rows["goodput_req_s"] == 0]
    if len(nothing):
        where = [f"{r['name']} c{r['concurrency']}" for r in nothing.to_dict("records")]
        notes.append(say("goodput.served.note_drawn_because_request", where=words.listed(where)))
    table = everything.dropna(subset=["goodput_fraction"]).assign(
        share=lambda t: 100 * t["goodput_fraction"]
    )
    chart = None
    if len(above):
        chart = over_concurrency(
            points(above, "goodput_req_s", "requests/s"),
            say("goodput.served.chart"),
            remarks=_apart(late),
            limits=limits(campaign, above),
            y_format=",~g",
        )
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "goodput.served.subtitle",
            drawn=drawn(rows, workload),
            told=told,
            n_ok=rows["n_ok"].sum(),
            interval=common.interval(rows["n_runs"]),
        ),
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
        source=say("goodput.served.source", source=common.source(campaign, rows)),
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
            text = say(
                "goodput.apart.text", goodput_fraction=words.percent(row["goodput_fraction"])
            )
            kept.append({"concurrency": row["concurrency"], "value": value, "text": text})
    return pd.DataFrame(kept, columns=["concurrency", "value", "text"])


def _described(rows: pd.DataFrame) -> str:
    return " ".join(
        say(
            "goodput.described",
            name=r["name"],
            concurrency=r["concurrency"],
            goodput_req_s=words.rate(r["goodput_req_s"], "requests/s"),
            goodput_fraction=words.percent(r["goodput_fraction"]),
        )
        for r in rows.to_dict("records")
    )


def _finding(rows: pd.DataFrame, workload: str) -> str:
    """The highest goodput, and up to which load its series serves enough requests in time."""
    top = common.top(rows, rows["goodput_req_s"])
    line = rows[rows["series"] == top["series"]].sort_values("concurrency", kind="stable")
    served_up_to = line[line["goodput_fraction"] >= ATTAINED]
    text = say(
        "goodput.finding.text",
        workload=words.capital(workload),
        goodput_req_s=words.rate(top["goodput_req_s"], "requests/s"),
        concurrency=int(top["concurrency"]),
    )
    if common.several(rows["series"]):
        text += f" ({top['name']})"
    if served_up_to.empty:
        return say(
            "goodput.finding.load_requests_keep", text=text, attained=words.percent(ATTAINED)
        )
    last = int(served_up_to["concurrency"].max())
    above = line[line["concurrency"] > last]
    if above.empty:
        return say("goodput.finding.highest_load_keep", text=text, attained=words.percent(ATTAINED))
    after = above.iloc[0]
    return say(
        "goodput.finding.requests_keep_limits",
        text=text,
        concurrency=int(after["concurrency"]),
        goodput_fraction=words.percent(after["goodput_fraction"]),
    )


def verdict(campaign: Campaign) -> Statement:
    """The highest goodput as a sentence."""
    name = "goodput-peak"
    if not campaign.manifest.slos:
        return Statement(id=name, sentence=say("goodput.no_limits"), marks=common.marks(campaign))
    workload, rows = shown(campaign, "goodput_fraction")
    if rows.empty:
        return Statement(id=name, sentence=_why_not(campaign), marks=common.marks(campaign))
    top = common.top(rows, rows["goodput_req_s"])
    return Statement(
        id=name,
        sentence=say(
            "goodput.verdict.sentence",
            finding=_finding(rows, workload),
            limits_in_words=limits_in_words(dict(campaign.manifest.slos)),
        ),
        metric="goodput_req_s",
        value=float(top["goodput_req_s"]),
        unit="requests/s",
        caption=say("goodput.verdict.caption"),
        n=int(top["n_ok"]),
        n_of="requests",
        low=_known(top["goodput_req_s_low"]),
        high=_known(top["goodput_req_s_high"]),
        interval=words.spread(int(top["n_runs"])),
        runs=tuple(top["runs"]),
        figure="goodput",
        would_change=say("goodput.verdict.would_change"),
        marks=common.marks(campaign, runs=common.runs_of(rows)),
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
