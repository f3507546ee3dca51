"""Each port on its own, and all links of a node together."""

from __future__ import annotations

from typing import Any

import pandas as pd

from servebook.measure.rails import MIN_PORTS, spread
from servebook.publish import theme, words
from servebook.publish.chapters.common import label
from servebook.publish.chapters.fabric_base import (
    Fabric,
    Scale,
    evidence,
    measured,
    named,
    nothing,
    ordered,
    run_words,
    scale,
    speed_words,
    way,
)
from servebook.publish.charts.fabric_ports import ports
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["each_port", "nodes"]

_CLOSE = 0.08  # of the axis: medians nearer than this would write over each other


def each_port(campaign: Campaign) -> Figure:
    """Usual use of each port over the runs, sorted, outliers named."""
    name = "fabric-ports"
    fabric = measured(campaign)
    if fabric is None:
        return nothing(name, say("fabric_ports.each_port.use_port_counters"))
    known = fabric.seen.dropna(subset=["usual_bps"])
    if known.empty:
        return nothing(
            name, say("fabric_ports.each_port.use_port_run"), say("fabric_base.not_watched")
        )
    unit = scale(known)
    keys = ["physical", "direction"]
    values = known.groupby(keys, sort=True, as_index=False).agg(
        value=(f"usual_{unit.column}", "median"),
        device=("device", "first"),
        role=("role", "first"),
        interface=("interface", "first"),
        rail=("rail", "first"),
        node=("node", "first"),
        n_runs=("run_id", "nunique"),
    )
    ranked = spread(values.assign(name=[_port_name(v) for v in values.to_dict("records")]))
    n_ports = ranked["physical"].nunique()
    table = _port_table(ranked, unit)
    if n_ports == 1:
        only = ranked.iloc[0]
        return Figure(
            id=name,
            title=say("fabric_ports.each_port.title"),
            table=table,
            missing=say("fabric_ports.each_port.missing", name=only["name"]),
            source=evidence(campaign, known),
            runs=tuple(sorted(known["run_id"].unique())),
        )
    apart = ranked[ranked["outlier"]]
    title = _port_title(ranked, apart)
    dots = pd.DataFrame(
        {
            "rank": ranked["rank"],
            "value": ranked["value"] * unit.factor,
            "way": [way(d) for d in ranked["direction"]],
            "port": ranked["name"],
            "name": [r.interface if r.outlier else "" for r in ranked.itertuples()],
            "colour": [theme.INK if o else theme.CONTEXT for o in ranked["outlier"]],
            "tip": [unit.words(v) for v in ranked["value"]],
        }
    )
    limit = float(dots["value"].max()) * 1.15 or 1.0
    return Figure(
        id=name,
        title=title,
        subtitle=(say("fabric_ports.each_port.subtitle") + speed_words(campaign, known)),
        chart=ports(dots, _middles(ranked, unit, limit), words.unit(unit.unit), limit),
        table=table,
        alt=say("fabric_ports.each_port.alt", title=title),
        source=evidence(campaign, known),
        runs=tuple(sorted(known["run_id"].unique())),
        notes=(
            say("fabric_base.sees"),
            say("fabric_ports.apart", least=MIN_PORTS),
        ),
    )


def _port_table(ranked: pd.DataFrame, unit: Scale) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "Port": ranked["name"],
            "Node": ranked["node"],
            "Rail": ranked["rail"],
            "Direction": [way(d) for d in ranked["direction"]],
            "Rank": ranked["rank"],
            f"Usual ({unit.unit})": ranked["value"] * unit.factor,
            "From the median (%)": (ranked["deviation"] * 100).round(6),
            "Stands apart": ranked["outlier"],
            "Runs": ranked["n_runs"],
        }
    )


def _port_name(port: dict[Any, Any]) -> str:
    owner = port["node"] if port["role"] == "host" and port["node"] else port["device"]
    return f"{owner} {port['interface']}"


def _middles(ranked: pd.DataFrame, unit: Scale, limit: float) -> pd.DataFrame:
    """The median of each direction with its words; one for both where they cannot be told apart."""
    middles = {
        way(str(d)): float(v) * unit.factor
        for d, v in ranked.drop_duplicates("direction")[["direction", "middle"]].itertuples(
            index=False, name=None
        )
    }
    if max(middles.values()) - min(middles.values()) < _CLOSE * limit:
        middles = {words.listed(middles): max(middles.values())}
    return pd.DataFrame(
        [{"value": v, "words": say("fabric_ports.middles.words", w=w)} for w, v in middles.items()]
    )


def _port_title(ranked: pd.DataFrame, apart: pd.DataFrame) -> str:
    n_ports = words.count(ranked["physical"].nunique(), "port")
    if len(apart):
        ways = {
            str(who): ", ".join(
                f"{way(r['direction'])} {words.deviation(r['deviation'])}"
                for r in group.to_dict("records")
            )
            for who, group in apart.groupby("name", sort=True)
        }
        told = words.listed([f"{who} ({text})" for who, text in ways.items()], most=3)
        verb = words.plural(len(ways), "stands", "stand")
        return say("fabric_ports.port_title.apart_median", told=told, verb=verb, n_ports=n_ports)
    worst = ranked["deviation"].abs().max()
    if pd.isna(worst):
        return say("fabric_ports.port_title.usually_carry_nothing", n_ports=n_ports)
    return say(
        "fabric_ports.port_title.share_traffic_within",
        n_ports=n_ports,
        worst=words.percent(float(worst)),
    )


def nodes(campaign: Campaign) -> Figure:
    """All links of a node together: usual, peak and floor per run, role and direction."""
    name = "fabric-nodes"
    title = say("fabric_ports.nodes.title")
    fabric = measured(campaign)
    if fabric is None:
        return nothing(name, title)
    frame = _sums(fabric)
    if frame.empty:
        return nothing(
            name,
            title,
            say("fabric_ports.nodes.manifest_gives_port"),
        )
    return _node_figure(campaign, name, frame)


def _sums(fabric: Fabric) -> pd.DataFrame:
    return fabric.nodes[fabric.nodes["n_counted"] > 0].reset_index(drop=True)


def _node_figure(campaign: Campaign, name: str, frame: pd.DataFrame) -> Figure:
    unit = scale(frame.dropna(subset=["usual_bps"]))
    shown = ordered(campaign, frame)
    known = shown.dropna(subset=["usual_bps"])
    if known.empty:
        reasons = words.listed(sorted(set(shown["why"])), most=2)
        return nothing(name, say("fabric_ports.node_figure.links_node_together"), reasons)
    top = known.sort_values("peak_bps", kind="stable").to_dict("records")[-1]
    return Figure(
        id=name,
        title=say(
            "fabric_ports.node_figure.title",
            n_ports=top["n_ports"],
            role=_role(top["role"]),
            node=top["node"],
            words=unit.words(top[f"peak_{unit.column}"]),
            run_words=run_words(campaign, top),
            way=way(top["direction"]),
        ),
        subtitle=say("fabric_ports.node_figure.subtitle_links_added_reading")
        + (say("fabric_ports.node_figure.subtitle_sum_speeds") if unit.full else ""),
        table=pd.DataFrame(
            {
                "Run": shown["run_id"],
                "Workload": shown["workload"],
                "Configuration": [label(campaign, named(c)) for c in shown["configuration"]],
                "Concurrency": shown["concurrency"],
                "Node": shown["node"],
                "Role": shown["role"],
                "Direction": [way(d) for d in shown["direction"]],
                "Links": shown["n_ports"],
                f"Usual ({unit.unit})": shown[f"usual_{unit.column}"] * unit.factor,
                f"Peak ({unit.unit})": shown[f"peak_{unit.column}"] * unit.factor,
                f"Floor ({unit.unit})": shown[f"floor_{unit.column}"] * unit.factor,
                "Usual (Gbit/s)": shown["usual_bps"] / 1e9,
                "Why not": shown["why"],
            }
        ),
        source=evidence(campaign, frame.assign(physical=frame["node"]), "node"),
        runs=tuple(sorted(known["run_id"].unique())),
        notes=(say("fabric_base.sees"),),
    )


def _role(role: object) -> str:
    return words.plural(2, role if isinstance(role, str) and role else "link")
