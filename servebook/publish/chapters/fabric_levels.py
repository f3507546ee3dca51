"""How full the wire is: per workload, per port, and for all links of a node together."""

from __future__ import annotations

from typing import Any

import pandas as pd

from servebook.publish import words
from servebook.publish.chapters.common import in_flight, label, marks
from servebook.publish.chapters.fabric_base import (
    Scale,
    busier,
    colour,
    evidence,
    measured,
    named,
    nothing,
    ordered,
    scale,
    speed_words,
)
from servebook.publish.charts.fabric_levels import levels
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["link_use", "peak"]


def link_use(campaign: Campaign) -> Figure:
    """Usual, peak and floor per configuration and workload, zoomed and on the whole axis."""
    name = "fabric-link-use"
    fabric = measured(campaign)
    if fabric is None:
        return nothing(name, say("fabric_levels.link_use.link_use_counters"))
    rows = _by_workload(campaign, fabric.seen)
    if not rows:
        return nothing(
            name, say("fabric_levels.link_use.link_use_run"), say("fabric_base.not_watched")
        )
    unit = scale(fabric.seen)
    drawn = pd.DataFrame([_level_row(campaign, row, unit) for row in rows])
    top = max(float(drawn["peak"].max()), 1e-9)
    some = bool(fabric.seen[f"peak_{unit.column}"].isna().any())
    title = _use_title(campaign, rows, unit, some)
    return Figure(
        id=name,
        title=title,
        subtitle=(say("fabric_levels.link_use.subtitle") + speed_words(campaign, fabric.seen)),
        chart=levels(drawn, words.unit(unit.unit), limit=top * 1.65, full=unit.full),
        table=pd.DataFrame(
            [
                {
                    "Workload": row["workload"],
                    "Configuration": label(campaign, row["configuration"]),
                    "Runs": len(row["runs"]),
                    "Links": row["links"],
                    f"Usual ({unit.unit})": row[f"usual_{unit.column}"] * unit.factor,
                    f"Least usual ({unit.unit})": row["least_usual"][unit.column] * unit.factor,
                    f"Most usual ({unit.unit})": row["most_usual"][unit.column] * unit.factor,
                    f"Peak ({unit.unit})": row[f"peak_{unit.column}"] * unit.factor,
                    "Window of the peak (s)": row["peak_window_s"],
                    f"Floor ({unit.unit})": row[f"floor_{unit.column}"] * unit.factor,
                }
                for row in rows
            ]
        ),
        alt=f"{title}. " + " ".join(f"{d['label']}: {d['tip']}." for d in drawn.to_dict("records")),
        source=evidence(campaign, fabric.seen),
        runs=tuple(sorted({run for row in rows for run in row["runs"]})),
        notes=(
            say("fabric_levels.counted"),
            say("fabric_levels.link_use.note"),
        ),
    )


def _by_workload(campaign: Campaign, seen: pd.DataFrame) -> list[dict[str, Any]]:
    """One row per configuration and workload, over runs and links, the busier direction of each."""
    out = []
    keys = ["workload", "configuration"]
    for (workload, configuration), group in busier(seen).groupby(keys, sort=True, dropna=False):
        top = group.sort_values("peak_bps", kind="stable").iloc[-1]
        row: dict[str, Any] = {
            "workload": workload if isinstance(workload, str) else "other",
            "configuration": configuration if isinstance(configuration, str) else None,
            "runs": sorted(set(group["run_id"])),
            "links": group["physical"].nunique(),
            "peak_window_s": float(top["peak_window_s"]),
            "least_usual": {s: float(group[f"usual_{s}"].min()) for s in ("bps", "util")},
            "most_usual": {s: float(group[f"usual_{s}"].max()) for s in ("bps", "util")},
        }
        for kind, pick in (("usual", "median"), ("peak", "max"), ("floor", "min")):
            for suffix in ("bps", "util"):
                row[f"{kind}_{suffix}"] = float(group[f"{kind}_{suffix}"].agg(pick))
        out.append(row)
    frame = pd.DataFrame({"workload": [r["workload"] for r in out], "at": range(len(out))})
    frame["configuration"] = [r["configuration"] for r in out]
    return [out[i] for i in ordered(campaign, frame)["at"]] if out else []


def _level_row(campaign: Campaign, row: dict[str, Any], unit: Scale) -> dict[str, Any]:
    usual, peak_, floor = (row[f"{kind}_{unit.column}"] for kind in ("usual", "peak", "floor"))
    window = words.duration(row["peak_window_s"])
    return {
        "row": f"{row['workload']}\t{row['configuration']}",
        "label": f"{row['workload']} · {label(campaign, row['configuration'])} "
        f"({words.count(len(row['runs']), 'run')})",
        "usual": usual * unit.factor,
        "peak": peak_ * unit.factor,
        "floor": floor * unit.factor,
        "text": say(
            "fabric_levels.level_row.text", words=unit.words(usual), words_2=unit.words(peak_)
        ),
        "colour": colour(campaign, row["configuration"]),
        "tip": say(
            "fabric_levels.level_row.tip",
            words=unit.words(usual),
            words_2=unit.words(peak_),
            window=window,
            words_3=unit.words(floor),
        ),
    }


def _use_title(campaign: Campaign, rows: list[dict[str, Any]], unit: Scale, some: bool) -> str:
    """The title; ``some``: of other links or runs no level is known."""
    top = max(rows, key=lambda row: row[f"peak_{unit.column}"])
    low = unit.words(min(row["least_usual"][unit.column] for row in rows))
    high = unit.words(max(row["most_usual"][unit.column] for row in rows))
    return say(
        "fabric_levels.use_title.usually_carries_highest",
        link_level=say("fabric_levels.use_title.link_level_known")
        if some
        else say("fabric_levels.use_title.link"),
        low=low if low == high else say("fabric_levels.use_title.to", low=low, high=high),
        words=unit.words(top[f"peak_{unit.column}"]),
        workload=top["workload"],
        configuration=label(campaign, top["configuration"]),
    )


def peak(campaign: Campaign) -> Statement:
    """The highest reading of any link while a run went on, with its window."""
    name = "fabric-peak"
    fabric = measured(campaign)
    if fabric is None or fabric.seen["peak_bps"].isna().all():
        why = (
            say("fabric_levels.peak.why_holds_byte_counters")
            if fabric is None
            else say("fabric_levels.peak.why_run_watched_closely")
        )
        return Statement(
            id=name,
            sentence=say("fabric_levels.peak.sentence_wire_carried_known", why=why),
            marks=marks(campaign),
        )
    unit = scale(fabric.seen)
    column = f"peak_{unit.column}"
    known = fabric.seen.dropna(subset=[column])
    top = known.sort_values(column, kind="stable").to_dict("records")[-1]
    usual = unit.words(top[f"usual_{unit.column}"])
    rate = (
        say(
            "fabric_levels.peak.rate",
            words=unit.words(top[column]),
            speed_bps=words.bits_per_second(top["speed_bps"]),
        )
        if unit.full is not None
        else unit.words(top[column])
    )
    nominal = _nominal(campaign, top)
    untold = len(fabric.seen) - len(known)
    # A link whose readings do not stand out of its idle level may have carried more.
    whose = say("fabric_levels.peak.whose") if untold else ""
    return Statement(
        id=name,
        sentence=say(
            "fabric_levels.peak.sentence_link_carried_usual",
            whose=whose,
            rate=rate,
            nominal=nominal,
            peak_window_s=words.duration(top["peak_window_s"]),
            condition=_condition(campaign, top),
            usual=usual,
        ),
        metric="peak link use",
        value=top[column] * unit.factor,
        unit=words.unit(unit.unit),
        n=int(known["n_inside"].sum()),
        n_of="readings inside runs",
        interval=say("fabric_levels.peak.interval"),
        runs=(str(top["run_id"]),),
        figure="fabric-link-use",
        would_change=say("fabric_levels.peak.would_change"),
        verdict=True,
        rank=60,
        marks=marks(campaign, runs=(str(top["run_id"]),)),
    )


def _condition(campaign: Campaign, run: dict[Any, Any]) -> str:
    """The run in a sentence: "decode on 16 slots, 16 requests in flight"."""
    told = say(
        "fabric_levels.condition.told",
        workload=run["workload"],
        named=label(campaign, named(run["configuration"])),
    )
    known = pd.notna(run["concurrency"])
    return f"{told}, {in_flight(run['concurrency'])}" if known else told


def _nominal(campaign: Campaign, link: dict[Any, Any]) -> str:
    """The manifest's remark on the speed, where the speed is not the device's own."""
    for port in campaign.manifest.ports:
        if (port.device, port.interface) == (link["device"], link["interface"]):
            return f" ({port.speed_note})" if port.speed_note else ""
    return ""
