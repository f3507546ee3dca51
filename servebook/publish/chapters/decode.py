"""Chapter 04: who decodes faster, at equal concurrency and at an equal running batch."""

from __future__ import annotations

import pandas as pd

from servebook.publish import words
from servebook.publish.chapters import common, sweep
from servebook.publish.chapters.evidence import (
    Sweep,
    condition_words,
    evidence,
    points,
    rows_of,
)
from servebook.publish.chapters.saturation import gains
from servebook.publish.charts.lines import over_concurrency
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["running_batch", "saturation", "throughput", "tpot", "ttft", "verdict"]

_DECODE = Sweep("decode", "output_throughput_tok_s", "output tokens/s")


def throughput(campaign: Campaign) -> Figure:
    """Output tokens per second over concurrency."""
    return sweep.throughput(campaign, _DECODE)


def tpot(campaign: Campaign) -> Figure:
    """Time per output token over concurrency."""
    return sweep.latency(campaign, _DECODE, "tpot", "mean", "TPOT")


def ttft(campaign: Campaign) -> Figure:
    """Time to first token over concurrency: beyond the slots it is a queue."""
    return sweep.latency(campaign, _DECODE, "ttft", "p50", "TTFT")


def saturation(campaign: Campaign) -> Figure:
    """What each step in concurrency gained."""
    return gains(campaign, _DECODE)


def running_batch(campaign: Campaign) -> Figure:
    """TPOT against the running batch: what a step costs at the batch that really ran."""
    name = "decode-running-batch"
    metric = "tpot_mean_ms"
    rows = rows_of(campaign, "decode", metric)
    rows = rows[rows["running_batch"].notna() & (rows["running_batch"] > 0)]
    if rows.empty:
        return common.absent(
            campaign, name, say("decode.running_batch.decode_running_batch"), "decode"
        )
    worst = common.bottom(rows, (rows["running_batch"] / rows["concurrency"]))
    share = worst["running_batch"] / worst["concurrency"]
    title = (
        say(
            "decode.running_batch.title_requests_flight_decode",
            concurrency=worst["concurrency"],
            running_batch=words.number(worst["running_batch"]),
            name=worst["name"],
        )
        if share < 0.9
        else say("decode.running_batch.title_nearly_requests_flight", share=words.percent(share))
    )
    table = common.table(
        rows,
        [
            ("name", "configuration"),
            ("concurrency", "requests in flight"),
            ("running_batch", "running batch"),
            (metric, "TPOT mean (ms)"),
            ("output_throughput_tok_s", "output tokens/s"),
            ("n_ok", "ok requests"),
            ("n_runs", "runs"),
        ],
    )
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "decode.running_batch.subtitle",
            condition_words=condition_words(rows),
            evidence=evidence(campaign, rows),
        ),
        chart=over_concurrency(
            points(rows, metric, "ms", x="running_batch"),
            say("decode.running_batch.chart"),
            x_title=say("decode.running_batch.x_title"),
            remarks=_elsewhere(rows, metric),
            y_format=",~g",
        ),
        table=table,
        alt=f"{title}. "
        + " ".join(
            say(
                "decode.running_batch.alt",
                name=r["name"],
                concurrency=r["concurrency"],
                running_batch=words.number(r["running_batch"]),
                r=words.milliseconds(r[metric]),
            )
            for r in rows.to_dict("records")
        ),
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=(common.defined("running_batch"),),
    )


def _elsewhere(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The set concurrency as words at the points that lie far from it: slots, not load, bind."""
    far = rows[rows["running_batch"] < 0.9 * rows["concurrency"]]
    words_there = [say("shared.in_flight", concurrency=c) for c in far["concurrency"]]
    return pd.DataFrame(
        {"concurrency": far["running_batch"], "value": far[metric], "text": words_there}
    )


def verdict(campaign: Campaign) -> Statement:
    """The chapter's sentence for the top of the page."""
    # A comparison stands at the top with the running batch that explains it: chapter 07.
    return sweep.verdict(campaign, _DECODE, rank=30, pairs=False)
