"""What the cells of the fabric chapter share: measured tables, units, names of places and runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow.compute as pc

from servebook.measure.fabric import bytes_per_token, idle_of, phases, usage_of
from servebook.measure.fabric_nodes import node_usage
from servebook.measure.fabric_words import findings
from servebook.measure.intervals import intervals
from servebook.measure.rails import located, preferred
from servebook.publish import theme, words
from servebook.publish.chapters.common import label, memo, metrics
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = [
    "WORKLOADS",
    "Fabric",
    "Scale",
    "busier",
    "colour",
    "evidence",
    "measured",
    "named",
    "nothing",
    "ordered",
    "run_words",
    "scale",
    "speed_words",
    "way",
]

WORKLOADS = ("prefill", "decode", "mixed", "other")


@dataclass(frozen=True)
class Fabric:
    """The measured tables behind the chapter; ``seen``, ``tokens`` hold one view per port."""

    intervals: pd.DataFrame
    phases: pd.DataFrame
    idle: pd.DataFrame
    usage: pd.DataFrame  # every view
    seen: pd.DataFrame  # usage, one view per port and run, with its place
    tokens: pd.DataFrame  # bytes per token, likewise
    nodes: pd.DataFrame  # sums over the links of a node
    words: tuple[str, ...]  # what a reader must know about the readings


@memo
def measured(campaign: Campaign) -> Fabric | None:
    """The tables; None where the campaign holds no byte counters."""
    tables = campaign.tables
    spans = intervals(tables.samples, campaign.ports)
    if spans.empty:
        return None
    spans = located(spans, campaign.ports)
    times = phases(tables.runs, tables.requests)
    every = (tables.samples, campaign.ports, tables.runs, tables.requests)
    levels = idle_of(*every)
    use = located(usage_of(*every), campaign.ports)
    per_token = located(bytes_per_token(spans, times, metrics(campaign), levels), campaign.ports)
    # Several views of one host interface are no links of a node side by side.
    several = campaign.ports.filter(
        pc.fill_null(pc.not_equal(campaign.ports["role"], "host"), True)
    )
    return Fabric(
        intervals=spans,
        phases=times,
        idle=levels,
        usage=use,
        seen=preferred(use).reset_index(drop=True),
        tokens=preferred(per_token).reset_index(drop=True),
        nodes=node_usage(spans, times, several, levels),
        # Without runs: which of them were not watched is told with their workloads elsewhere.
        words=(
            *_without_level(use),
            *findings(spans, times.head(0), tables.runs.slice(0, 0)),
        ),
    )


def _without_level(use: pd.DataFrame) -> tuple[str, ...]:
    """Links that ran on while runs did, and of which no run's usual or peak is known."""
    ports = use.groupby(["device", "interface"], sort=True)["peak_bps"].count()
    silent = [" ".join(map(str, port)) for port in ports.index[ports == 0]]
    if not silent:
        return ()
    links = words.count(len(silent), "link")
    told = say("fabric_base.without_level.told", links=links, silent=words.listed(silent, most=4))
    return (told,)


def busier(seen: pd.DataFrame) -> pd.DataFrame:
    """Of the ``seen`` with a usual level, one row per run and link: the busier direction."""
    known = seen.dropna(subset=["usual_bps"])
    return known.sort_values(["usual_bps", "direction"], kind="stable").drop_duplicates(
        ["run_id", "physical"], keep="last"
    )


def nothing(figure: str, title: str, why: str = "") -> Figure:
    """The figure where the campaign lacks what it shows: counters, unless ``why`` says else."""
    return Figure(id=figure, title=title, missing=why or say("fabric_base.no_counters"))


@dataclass(frozen=True)
class Scale:
    """How link use is shown: percent where every speed is known, else a decimal rate."""

    column: str  # suffix of the columns of ``usage``: "util" or "bps"
    value: str  # the column of ``intervals``
    unit: str
    factor: float
    full: float | None  # 100 for percent

    def words(self, value: float) -> str:
        """A value of ``column`` as text."""
        if self.full is not None:
            return words.percent(value, 3 if value >= 0.01 else 2)
        return words.bits_per_second(value)


def scale(frame: pd.DataFrame) -> Scale:
    """The scale for rows with ``speed_bps`` and ``rate_bps`` or ``peak_bps``."""
    if not frame.empty and frame["speed_bps"].notna().all():
        return Scale("util", "util_fraction", "% of line rate", 100.0, 100.0)
    column = "rate_bps" if "rate_bps" in frame else "peak_bps"
    top = float(frame[column].max()) if frame[column].notna().any() else 0.0
    for unit, size in (("Tbit/s", 1e12), ("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if top >= size:
            return Scale("bps", "rate_bps", unit, 1 / size, None)
    return Scale("bps", "rate_bps", "bit/s", 1.0, None)


def speed_words(campaign: Campaign, frame: pd.DataFrame) -> str:
    """What percent means here: the speeds of the links, and where the manifest has them from."""
    speeds = sorted(frame["speed_bps"].dropna().unique().tolist())
    if frame["speed_bps"].isna().any() or not speeds:
        return say("fabric_base.speed_words.speed_stated_every")
    text = say(
        "fabric_base.speed_words.text",
        s=words.listed([words.bits_per_second(s) for s in speeds], last="or"),
    )
    ports = frame[["device", "interface"]].drop_duplicates()
    links = set(ports.itertuples(index=False, name=None))
    notes = [p.speed_note for p in campaign.manifest.ports if (p.device, p.interface) in links]
    told = list(dict.fromkeys(note for note in notes if note))
    return text + (f" ({'; '.join(told)})." if told else say("fabric_base.speed_words.direction"))


def way(direction: str) -> str:
    """The direction of the port that counts as a word: out, in."""
    return words.told("out" if direction == "tx" else "in")


def colour(campaign: Campaign, configuration: str | None) -> str:
    """The colour of a configuration's marks; grey without one."""
    looks = theme.looks(campaign.manifest.configurations)
    found = looks.get(configuration) if configuration is not None else None
    return found.colour if found else theme.CONTEXT


def ordered(campaign: Campaign, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows by workload, then configuration in manifest order, then concurrency."""
    place = {c.name: i for i, c in enumerate(campaign.manifest.configurations)}
    keys = pd.DataFrame(
        {
            "workload": [_index(WORKLOADS, w) for w in frame["workload"]],
            "configuration": [place.get(c, len(place)) for c in frame["configuration"]],
        },
        index=frame.index,
    )
    if "concurrency" in frame:
        keys["concurrency"] = frame["concurrency"].astype("Float64").fillna(-1)
    sorted_keys = keys.sort_values(list(keys.columns), kind="stable")
    return frame.loc[sorted_keys.index].reset_index(drop=True)


def _index(names: tuple[str, ...], name: object) -> int:
    return names.index(name) if isinstance(name, str) and name in names else len(names)


def run_words(campaign: Campaign, run: Mapping[Any, Any]) -> str:
    """A run in words: "mixed · 16 slots · c8"."""
    parts = [str(run["workload"]), label(campaign, named(run["configuration"]))]
    if "concurrency" in run and pd.notna(run["concurrency"]):
        parts.append(f"c{int(run['concurrency'])}")
    return " · ".join(parts)


def named(value: object) -> str | None:
    """A configuration's name as text; None where a frame holds none."""
    return value if isinstance(value, str) else None


def evidence(campaign: Campaign, frame: pd.DataFrame, noun: str = "link") -> str:
    """Where the numbers are from: provenance, number of links (or ``noun``) and of runs."""
    links = frame["physical"].nunique()
    told = [words.count(links, noun)]
    if "run_id" in frame:
        told.append(words.count(frame["run_id"].nunique(), "run"))
    return say(
        "fabric_base.evidence",
        provenance=words.told(campaign.manifest.provenance),
        told=words.listed(told, last="in"),
    )
