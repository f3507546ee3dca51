"""What the counters are, what they could hide, and whether two of them agree."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure.readings import agreement, polls
from servebook.measure.timeline import outside
from servebook.publish import words
from servebook.publish.chapters.common import label
from servebook.publish.chapters.fabric_base import (
    evidence,
    measured,
    named,
    nothing,
    speed_words,
    way,
)
from servebook.publish.charts.deviations import around_zero
from servebook.publish.output import Figure, Section
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["agree", "hidden", "unwatched", "watched"]
_AGREE = 0.01  # two sources of one interface are one number within this


def watched(campaign: Campaign) -> Figure:
    """Which links were read, by what, when, how often, and beside how many runs."""
    name = "fabric-counters"
    fabric = measured(campaign)
    if fabric is None:
        return nothing(name, say("fabric_sources.watched.counters_wire"))
    rows = []
    for (source, device), group in fabric.intervals.groupby(["source", "device"], sort=True):
        beside = fabric.usage[
            (fabric.usage["source"] == source) & (fabric.usage["device"] == device)
        ]
        speeds = sorted(group["speed_bps"].dropna().unique().tolist())
        rows.append(
            {
                "Device": device,
                "Interfaces": group["interface"].nunique(),
                "Speed": words.listed([words.bits_per_second(s) for s in speeds]) or None,
                "Read every (s)": float((group["t1_ns"] - group["t0_ns"]).median()) / 1e9,
                "Intervals": len(group),
                "Runs beside it": beside["run_id"].nunique(),
                "From (UTC)": words.utc(int(group["t0_ns"].min())).removesuffix(" UTC"),
                "To (UTC)": words.utc(int(group["t1_ns"].max())).removesuffix(" UTC"),
                "Scope": ", ".join(sorted(group["scope"].unique())),
                "Format": group["format"].iloc[0],
                "File": source,
            }
        )
    frame = pd.DataFrame(rows)
    ports = fabric.intervals["physical"].nunique()
    sources = len(rows)
    runs = fabric.usage["run_id"].nunique()
    total = campaign.tables.runs.num_rows
    return Figure(
        id=name,
        title=say(
            "fabric_sources.watched.title",
            links=words.capital(words.count(ports, "link")),
            sources=words.count(sources, "source"),
            runs=runs,
            runs_2=words.count(total, "run"),
        ),
        subtitle=speed_words(campaign, fabric.intervals),
        table=frame,
        source=evidence(campaign, fabric.intervals),
        runs=tuple(sorted(fabric.usage["run_id"].unique())),
        notes=tuple(f"{words.told(text)}." for text in fabric.words),
        open_table=True,
    )


def unwatched(campaign: Campaign) -> Section:
    """The runs without counters and the counters without runs, in words."""
    name = "fabric-unwatched"
    fabric = measured(campaign)
    total = campaign.tables.runs.num_rows
    if fabric is None:
        return Section(
            name,
            (say("fabric_sources.unwatched.none_counters_beside", runs=words.count(total, "run")),),
        )
    without = outside(fabric.phases, fabric.intervals)
    placed = set(fabric.phases["run_id"])
    adrift = [r for r in campaign.tables.runs["run_id"].to_pylist() if r not in placed]
    told = []
    if len(without):
        keys = ["configuration", "workload"]
        by = without.groupby(keys, sort=True, dropna=False, as_index=False).size()
        told.append(
            say(
                "fabric_sources.unwatched.told_went_while_counter",
                runs=words.capital(words.count(len(without), "run")),
            )
            + words.listed(
                say("fabric_sources.unwatched.told_on", size=r["size"], workload=r["workload"])
                + label(campaign, named(r["configuration"]))
                for r in by.to_dict("records")
            )
            + say("fabric_sources.unwatched.told_nothing_chapter_says")
        )
    if adrift:
        told.append(
            say(
                "fabric_sources.unwatched.told_cannot_placed_beside",
                runs=words.capital(words.count(len(adrift), "run")),
                adrift=words.listed(adrift, most=4),
            )
        )
    alone = _alone(fabric.intervals, fabric.phases)
    if alone:
        told.append(
            say(
                "fabric_sources.unwatched.told_counters_overlap_run",
                alone=words.listed(alone, most=4),
            )
        )
    return Section(name, tuple(told) or (say("fabric_sources.all"),))


def _alone(intervals: pd.DataFrame, phases: pd.DataFrame) -> list[str]:
    return [
        str(source)
        for source, frame in intervals.groupby("source", sort=True)
        if not (
            (phases["t0_ns"] < frame["t1_ns"].max()) & (phases["t1_ns"] > frame["t0_ns"].min())
        ).any()
    ]


def hidden(campaign: Campaign) -> Figure:
    """How often each link was read, and the longest full-rate burst that a reading could hide."""
    name = "fabric-hidden-bursts"
    fabric = measured(campaign)
    if fabric is None:
        return nothing(name, say("fabric_sources.hidden.bursts_between_readings"))
    found = polls(fabric.intervals)
    burst = found["burst_s"].max()
    slowest = words.duration(float(found["poll_s"].max()))
    fastest = words.duration(float(found["poll_s"].min()))
    spacing = (
        fastest
        if fastest == slowest
        else say("fabric_sources.hidden.spacing", fastest=fastest, slowest=slowest)
    )
    if pd.isna(burst):
        title = say("fabric_sources.hidden.title_read_every_reading", spacing=spacing)
    else:
        title = say(
            "fabric_sources.hidden.title_read_every_counter",
            spacing=spacing,
            burst=words.duration(float(burst)),
        )
    return Figure(
        id=name,
        title=title,
        subtitle=say("fabric_sources.hidden.subtitle"),
        table=pd.DataFrame(
            {
                "Device": found["device"],
                "Interface": found["interface"],
                "Direction": [way(d) for d in found["direction"]],
                "Readings": found["n_intervals"],
                "Usual spacing (s)": found["poll_s"],
                "Longest (s)": found["longest_s"],
                "Longest burst it could hide (s)": found["burst_s"],
            }
        ),
        source=evidence(campaign, fabric.intervals),
        notes=(speed_words(campaign, fabric.intervals),),
    )


def agree(campaign: Campaign) -> Figure:
    """Bytes that two sources counted on one interface in the same time."""
    name = "fabric-sources"
    fabric = measured(campaign)
    if fabric is None:
        return nothing(name, say("fabric_sources.agree.sources_agree_counters"))
    found = agreement(fabric.intervals, campaign.ports).dropna(subset=["deviation"])
    if found.empty:
        return nothing(
            name,
            say("fabric_sources.agree.sources_agree_source"),
            say("fabric_sources.agree.interface_counted_sources"),
        )
    names = [_pair(row) for row in found.to_dict("records")]
    within = (found["deviation"].abs() <= _AGREE) | (
        found["deviation"].abs() <= found["edge_fraction"]
    )
    dots = pd.DataFrame(
        {
            "row": names,
            "deviation": found["deviation"],
            "verdict": np.where(within, "agrees", "unexplained"),
            "tip": [
                say(
                    "fabric_sources.agree.tip",
                    bytes=words.bytes_size(r["bytes"]),
                    other_bytes=words.bytes_size(r["other_bytes"]),
                )
                for r in found.to_dict("records")
            ],
        }
    )
    worst = float(found["deviation"].iloc[int(found["deviation"].abs().to_numpy().argmax())])
    n = len(found)
    title = (
        say(
            "fabric_sources.agree.title_sources_interface_agree",
            worst=words.percent(max(abs(worst), 1e-4)),
        )
        if within.all()
        else say(
            "fabric_sources.agree.title_sources_disagree",
            within=int((~within).sum()),
            pairs=words.count(n, "pair"),
            worst=words.percent(abs(worst)),
        )
    )
    return Figure(
        id=name,
        title=title,
        subtitle=say("fabric_sources.agree.subtitle"),
        chart=around_zero(
            dots,
            say("fabric_sources.agree.chart"),
            band=_AGREE,
            band_text=say("fabric_sources.agree.band_text"),
        ),
        table=pd.DataFrame(
            {
                "Sources": names,
                "Window (s)": (found["t1_ns"] - found["t0_ns"]) / 1e9,
                "First (bytes)": found["bytes"].round(),
                "Second (bytes)": found["other_bytes"].round(),
                "Deviation (%)": (found["deviation"] * 100).round(6),
                "Edges may explain (%)": found["edge_fraction"] * 100,
            }
        ),
        alt=f"{title}. "
        + " ".join(
            f"{row}: {words.deviation(d)}."
            for row, d in zip(names, found["deviation"], strict=True)
        ),
        source=evidence(campaign, fabric.intervals),
        notes=(say("fabric_sources.agree.note"),),
    )


def _pair(row: dict[object, object]) -> str:
    same = row["device"] == row["other_device"]
    one, other = ("source", "other_source") if same else ("device", "other_device")
    return f"{row[other]} / {row[one]}, {row['interface']} {way(str(row['direction']))}"
