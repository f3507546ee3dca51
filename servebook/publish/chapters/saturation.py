"""Saturation of a sweep: what each series' throughput does as the load grows, and the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.saturation import saturation, steps
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.evidence import Sweep, condition_words, rows_of
from servebook.publish.charts.gains import per_doubling
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["finding_words", "findings", "gains", "lead", "main_finding", "remarks"]


def findings(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """``measure.saturation`` of each series, with its styled name; None of them lost."""
    curve = rows.assign(value=rows[metric], low=rows[f"{metric}_low"], high=rows[f"{metric}_high"])
    found = saturation(curve, ["series"])
    return found.assign(name=found["series"].map(rows.groupby("series")["name"].first()))


def finding_words(row: pd.Series[Any], unit: str) -> str:
    """What one series' throughput does over concurrency, as the end of a sentence."""
    peak = words.rate(row["peak_value"], unit)
    at = say("shared.at_in_flight", concurrency=row["peak_concurrency"])
    if row["finding"] == "reversal":
        return say(
            "saturation.finding_words.peaks_falls",
            peak=peak,
            at=at,
            drop_from_peak=words.percent(row["drop_from_peak"]),
            last_concurrency=row["last_concurrency"],
        )
    if row["finding"] == "plateau":
        if row["plateau_from"] == row["first_concurrency"]:
            return say(
                "saturation.finding_words.flat_flight",
                peak=peak,
                first_concurrency=row["first_concurrency"],
            )
        return say(
            "saturation.finding_words.levels_off_near", peak=peak, plateau_from=row["plateau_from"]
        )
    if row["finding"] == "not saturated":
        return say(
            "saturation.finding_words.still_grows_doubling",
            last_gain_per_doubling=words.percent(row["last_gain_per_doubling"]),
            last_concurrency=row["last_concurrency"],
            peak=peak,
        )
    return say("saturation.finding_words.reaches_too_few", peak=peak, at=at)


def remarks(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Words at the points where a series peaks or its plateau begins."""
    out = []
    for row in findings(rows, metric).to_dict("records"):
        place, text = None, ""
        if row["finding"] == "reversal":
            place, text = row["peak_concurrency"], say("saturation.peak")
        elif row["finding"] == "plateau" and row["plateau_from"] != row["first_concurrency"]:
            place, text = row["plateau_from"], say("saturation.plateau")
        elif row["finding"] == "not saturated":
            place, text = row["last_concurrency"], say("saturation.remarks")
        if place is not None:
            here = rows[(rows["series"] == row["series"]) & (rows["concurrency"] == place)]
            out.append({"concurrency": float(place), "value": here[metric].iloc[0], "text": text})
    frame = pd.DataFrame(out, columns=["concurrency", "value", "text"])
    # Series that end side by side say it once.
    return frame.sort_values("value", ascending=False, kind="stable").drop_duplicates(
        ["concurrency", "text"]
    )


def main_finding(rows: pd.DataFrame, metric: str) -> pd.Series[Any]:
    """The finding of the series with most concurrencies (of these, the one with the top value)."""
    leading = lead(rows, metric)["series"].iloc[0]
    found = findings(rows, metric)
    row: pd.Series[Any] = found[found["series"] == leading].iloc[0]
    return row


def lead(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows of the series with most concurrencies (of these, the highest value)."""
    sizes = rows.groupby("series").agg(n=("concurrency", "size"), top=(metric, "max"))
    best = str(sizes.sort_values(["n", "top"], ascending=False, kind="stable").index[0])
    line: pd.DataFrame = rows[rows["series"] == best]
    return line.sort_values("concurrency", kind="stable")


def gains(campaign: Campaign, sweep: Sweep) -> Figure:
    """What each step in concurrency gained, per doubling, and what that says of saturation."""
    name = f"{sweep.workload}-saturation"
    rows = rows_of(campaign, sweep.workload, sweep.throughput)
    title = say("saturation.gains.title_saturation", noun=sweep.noun)
    if rows.empty:
        return common.absent(campaign, name, title, sweep.workload)
    metric = sweep.throughput
    curve = rows.assign(value=rows[metric], low=rows[f"{metric}_low"], high=rows[f"{metric}_high"])
    found = findings(rows, metric)
    every = steps(curve, ["series"])
    if every.empty:
        return Figure(
            id=name,
            title=title,
            missing=say("saturation.gains.missing", workload=sweep.workload),
        )
    looks = rows.drop_duplicates("series").set_index("series")
    gain = 1 + every["gain_per_doubling"]
    chart_rows = pd.DataFrame(
        {
            "series": every["series"],
            "middle": np.sqrt(every["from_concurrency"] * every["to_concurrency"]),
            "concurrencies": [
                f"{a}→{b}"
                for a, b in zip(every["from_concurrency"], every["to_concurrency"], strict=True)
            ],
            "gain": gain,
            "text": [f"×{g:.2f}" for g in gain],
            "label": every["series"].map(looks["name"]),
            "name": every["series"].map(looks["label"]),
            **{key: every["series"].map(looks[key]) for key in ("colour", "ink", "shape", "dash")},
        }
    )
    kinds: dict[str, list[str]] = {}
    for row in found.sort_values("finding", kind="stable").to_dict("records"):
        kinds.setdefault(row["finding"], []).append(row["name"])
    said = {
        "plateau": say("saturation.gains.plateau"),
        "reversal": say("saturation.gains.reversal"),
        "not saturated": say("saturation.gains.not_saturated"),
        "too few points": say("saturation.gains.too_few_points"),
    }
    title = say("saturation.gains.title_throughput", noun=sweep.noun) + say(
        "saturation.gains.title_it"
    ).join(
        say("saturation.gains.title_for", said=said[kind], names=words.listed(names, most=2))
        for kind, names in kinds.items()
    )
    finding_table = found.set_index("series")
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "saturation.gains.subtitle",
            condition_words=condition_words(rows),
            n_ok=rows["n_ok"].sum(),
            runs=words.count(len(common.runs_of(rows)), "run"),
        ),
        chart=per_doubling(chart_rows),
        table=pd.DataFrame(
            {
                "configuration": chart_rows["label"],
                "step (requests in flight)": chart_rows["concurrencies"],
                "throughput ratio": every["ratio"],
                "gain per doubling (ratio)": gain,
                "share of proportional (%)": 100 * every["efficiency"],
                "within the range of repeats": every["within_repeats"].astype(object),
                "finding for the series": every["series"].map(finding_table["finding"]),
                "rule": every["series"].map(finding_table["rule"]),
            }
        ),
        alt=f"{title}. "
        + " ".join(
            f"{a}, {b}: {c}."
            for a, b, c in zip(
                chart_rows["label"], chart_rows["concurrencies"], chart_rows["text"], strict=True
            )
        ),
        source=common.source(campaign, rows),
        runs=common.runs_of(rows),
        notes=tuple(
            f"{row['name']}: {finding_words(row, sweep.unit)} ({words.told(str(row['rule']))})"
            + (
                say("saturation.gains.note", knee_concurrency=row["knee_concurrency"])
                if pd.notna(row["knee_concurrency"])
                else ""
            )
            + "."
            for _, row in found.iterrows()
        ),
    )
