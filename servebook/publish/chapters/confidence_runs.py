"""Chapter 09, single runs: how they swing within themselves, and whether their load was real."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure import honesty
from servebook.measure.bootstrap import LEAST_BLOCKS, Within, within_run
from servebook.measure.metrics import METRICS
from servebook.measure.ratio import CONFIDENCE
from servebook.measure.runs import request_metrics
from servebook.measure.within import SLICES, within_gaps
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.confidence_base import no_judgement, run_label
from servebook.publish.charts.shares import of_a_whole
from servebook.publish.charts.strip import strip
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["load_honesty", "within"]


def within(campaign: Campaign) -> Figure:
    """How much the figures of one run swing within it: block bootstrap over its time."""
    name = "confidence-within-run"
    gone = no_judgement(
        campaign, name, say("confidence_runs.within.gone"), say("shared.an_interval")
    )
    if gone:
        return gone
    table = common.metrics(campaign)
    requests = request_metrics(campaign.tables)
    grouped = requests.groupby("run_id", sort=False).indices
    wanted = [
        run
        for run in table[table["level"] == "records"].to_dict("records")
        if run["run_id"] in grouped and run["clock"] in ("epoch", "relative")
    ]
    lasts = {str(run["run_id"]): run["e2e_mean_ms"] / 1e3 for run in wanted}
    gaps = within_gaps(campaign.tables, requests, lasts)
    rows: list[dict[str, Any]] = []
    short: list[str] = []
    for run in wanted:
        name_of = str(run["run_id"])
        own = requests.iloc[grouped[name_of]]
        own = own[(own["status"] == "ok") & own["start_ns"].notna()]
        for metric, of, result in _found(own, gaps.get(name_of, {}), lasts[name_of]):
            if result.why:
                short.append(str(run["run_id"]))
            else:
                rows.append({**_kept(run), "metric": metric, "of": of, "found": result})
    n_short = len(set(short))
    if not rows:
        return Figure(
            id=name,
            title=say("confidence_runs.within.gone"),
            missing=(
                say("confidence_runs.within.missing_run_long_enough", least_blocks=LEAST_BLOCKS)
                if short
                else say("confidence_runs.within.missing_run_requests_common")
            ),
        )
    frame = pd.DataFrame(rows)
    half = [_half(f) for f in frame["found"]]
    top = common.top(frame, pd.Series(half))
    title = say(
        "confidence_runs.within.title_within_run_mean",
        half=words.percent(min(half)),
        half_2=words.percent(max(half)),
        runs=words.count(len(set(frame["run_id"])), "run"),
    ) + (
        say(
            "confidence_runs.within.title_too_short",
            runs=words.count(n_short, "run"),
            is_=say("confidence_runs.within.title_is")
            if n_short == 1
            else say("confidence_runs.within.title_are"),
        )
        if n_short
        else ""
    )
    heads: list[dict[str, Any]] = []
    dots, bars = [], []
    for row in frame.to_dict("records"):
        f: Within = row["found"]
        key = f"{row['run_id']}|{row['metric']}"
        look = theme.looks(campaign.manifest.configurations).get(str(row["configuration"]))
        heads.append(
            {
                "row": key,
                "label": say(
                    "confidence_runs.within.label",
                    metrics=words.told(METRICS[row["metric"]].label),
                    run_label=run_label(campaign, row),
                    told=_told(row["metric"], f.value),
                    n_blocks=f.n_blocks,
                ),
            }
        )
        dots.append(
            {
                "row": key,
                "value": 0.0,
                "colour": look.colour if look else theme.CONTEXT,
                "tip": say(
                    "confidence_runs.within.tip",
                    low=words.number(f.low),
                    high=words.number(f.high),
                    unit=words.unit(METRICS[row["metric"]].unit),
                ),
            }
        )
        bars.append({"row": key, "low": f.low / f.value - 1, "high": f.high / f.value - 1})
    return Figure(
        id=name,
        title=title,
        subtitle=say("confidence_runs.within.subtitle", confidence=words.percent(CONFIDENCE)),
        chart=strip(
            pd.DataFrame(heads),
            pd.DataFrame(dots),
            say("confidence_runs.within.x_title"),
            bars=pd.DataFrame(bars),
        ),
        table=pd.DataFrame(
            {
                "run": frame["run_id"],
                "metric": [words.told(METRICS[m].label) for m in frame["metric"]],
                "mean": [f.value for f in frame["found"]],
                "unit": [METRICS[m].unit for m in frame["metric"]],
                "within this run, from": [f.low for f in frame["found"]],
                "within this run, to": [f.high for f in frame["found"]],
                "values": [f.n for f in frame["found"]],
                "values are": frame["of"],
                "blocks": [f.n_blocks for f in frame["found"]],
                "block (s)": [f.block_s for f in frame["found"]],
            }
        ),
        alt=say("confidence_runs.within.alt", title=title, run_label=run_label(campaign, top)),
        source=common.records_of(campaign, len(set(frame["run_id"]))),
        runs=tuple(sorted(set(frame["run_id"]))),
        notes=(
            say("confidence_runs.within.note_method_run_cut", least_blocks=LEAST_BLOCKS),
            say("confidence_runs.within.note_output_throughput_here", slices=SLICES),
        ),
    )


def _found(
    own: pd.DataFrame, gaps: Mapping[str, Within], lasts: float
) -> Iterator[tuple[str, str, Within]]:
    """What swings within one run: metric, what its values are of, and how much.

    ``own`` holds the run's ok requests.
    """
    begin = own["start_ns"].min()
    for metric in ("ttft_ms", "tpot_ms"):
        known = own[own[metric].notna()]
        if len(known):
            when = (known["start_ns"] - begin).to_numpy(dtype=np.float64) / 1e9
            values = known[metric].to_numpy(dtype=np.float64)
            yield metric.replace("_ms", "_mean_ms"), "requests", within_run(values, when, lasts)
    of = {"itl_mean_ms": "gaps", "output_throughput_tok_s": say("confidence_runs.series")}
    for metric, result in gaps.items():
        yield metric, of[metric], result


def _told(metric: str, value: float) -> str:
    unit = METRICS[metric].unit
    return words.milliseconds(value) if unit == "ms" else words.rate(value, unit)


def _kept(run: Any) -> dict[str, Any]:
    return {k: run[k] for k in ("run_id", "configuration", "workload", "concurrency")}


def _half(found: Within) -> float:
    return max(0.0, round((found.high - found.low) / 2 / found.value, 6))


_COLOURS = {"yes": theme.CONTEXT, "no": theme.ALARM, "not told": theme.GRID}


def load_honesty(campaign: Campaign) -> Figure:
    """Whether load, sending and reading were what they should be: verdict words per run."""
    name = "confidence-load"
    gone = no_judgement(
        campaign,
        name,
        say("confidence_runs.load_honesty.load_called"),
        say("confidence_runs.load_honesty.verdict_client"),
    )
    if gone:
        return gone
    table = common.metrics(campaign)
    found = honesty.honesty(campaign.tables, table[table["level"] == "records"])
    if found.empty:
        return Figure(
            id=name,
            title=say("confidence_runs.load_honesty.load_called"),
            missing=say("confidence_runs.load_honesty.missing"),
        )
    parts, told = [], []
    for column, (question, good, bad) in honesty.QUESTIONS.items():
        counts = {
            "yes": int((found[column] == good).sum()),
            "no": int((found[column] == bad).sum()),
        }
        counts["not told"] = len(found) - sum(counts.values())
        shown = {good: counts["yes"], bad: counts["no"], "not told": counts["not told"]}
        label = f"{words.told(question)}: " + words.listed(
            f"{n} {words.told(word)}" for word, n in shown.items() if n
        )
        start = 0
        for kind, n in counts.items():
            if n:
                parts.append(
                    {
                        "row": column,
                        "label": label,
                        "part": words.told(kind),
                        "start": start / len(found),
                        "end": (start + n) / len(found),
                        "colour": _COLOURS[kind],
                        "tip": words.count(n, "run"),
                    }
                )
                start += n
        if counts["no"]:
            told.append(
                {
                    "load": say(
                        "confidence_runs.load_honesty.load",
                        no=counts["no"],
                        held=words.percent(honesty.HELD),
                    ),
                    "sending": say("confidence_runs.load_honesty.sending", no=counts["no"]),
                    "reading": say("confidence_runs.load_honesty.reading", no=counts["no"]),
                }[column]
            )
    title = (
        say(
            "confidence_runs.load_honesty.title_of",
            runs=words.count(len(found), "run"),
            told=words.listed(told),
        )
        if told
        else say(
            "confidence_runs.load_honesty.title_sign_load_client",
            runs=words.count(len(found), "run"),
        )
    )
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "confidence_runs.load_honesty.subtitle",
            held=words.percent(honesty.HELD),
            bunched_share=words.percent(honesty.BUNCHED_SHARE),
        ),
        chart=of_a_whole(pd.DataFrame(parts), say("confidence_runs.load_honesty.chart")),
        table=pd.DataFrame(
            {
                "run": found["run_id"],
                "set concurrency": found["concurrency"],
                "share of set (%)": 100 * found["achieved"],
                "load": found["load"],
                "requests with a due time": found["n_scheduled"],
                "delay over TTFT (%)": 100 * found["delay_share"],
                "sending": found["sending"],
                "gaps of length 0 (%)": 100 * found["zero_gap_share"],
                "gaps": found["n_gaps"],
                "reading": found["reading"],
            }
        ),
        alt=f"{title}. " + " ".join(f"{p}." for p in dict.fromkeys(q["label"] for q in parts)),
        source=common.records_of(campaign, len(found)),
        runs=tuple(sorted(found["run_id"])),
        notes=(say("confidence_runs.load_honesty.note"),),
    )
