"""Chapter 08, more nodes: computed from the measured use of the links, with its assumptions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from servebook.explain import scaleout
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.traffic import per_run
from servebook.publish.charts.scaleout import projected
from servebook.publish.output import Figure, Section, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["assumptions", "ceiling_statement", "more_nodes"]

_ID = "scale-out"
_CURVE = tuple(float(2**k) for k in range(5))
_BREAKS = (
    "scale_out.breaks_messages_get_smaller",
    "scale_out.breaks_incast_nodes_destination",
    "scale_out.breaks_popular_experts_port",
    "scale_out.breaks_slowest_link_exchange",
    "scale_out.breaks_topology_beyond_switch",
)
_ASSUMED = (
    "scale_out.assumed_experts_spread_evenly",
    "scale_out.assumed_node_goes_process",
    "scale_out.assumed_fabric_between_nodes",
    "scale_out.assumed_bytes_token_depend",
)


@common.memo
def _measured(campaign: Campaign) -> pd.DataFrame | str:
    """Usual and peak use in prefill at the highest concurrency, per configuration of several nodes.

    Columns: configuration, nodes, usual, peak, window_s, runs. Words where there are none.
    """
    links = per_run(campaign)
    if links.empty:
        return say("traffic.no_counters")
    several = {c.name: c.nodes for c in campaign.manifest.configurations if (c.nodes or 0) > 1}
    if not several:
        return say("scale_out.measured.configuration_campaign_runs")
    runs = common.metrics(campaign)[["run_id", "configuration", "workload", "concurrency"]]
    both = links.merge(runs, on="run_id")
    both = both[both["configuration"].isin(several) & (both["workload"] == "prefill")]
    both = both.dropna(subset=["usual_util"])
    if both.empty:
        return say("scale_out.measured.prefill_run_several")
    rows = []
    for name, part in both.groupby("configuration", sort=False):
        at = part[part["concurrency"] == part["concurrency"].max()]
        top = common.top(part, part["peak_util"])
        rows.append(
            {
                "configuration": name,
                "nodes": float(several[str(name)] or 0),
                "usual": float(at["usual_util"].mean()),
                "peak": float(top["peak_util"]),
                "window_s": float(top["peak_window_s"]),
                "runs": tuple(sorted({*at["run_id"], top["run_id"]})),
            }
        )
    order = {c.name: i for i, c in enumerate(campaign.manifest.configurations)}
    found: pd.DataFrame = pd.DataFrame(rows)
    return found.assign(_o=found["configuration"].map(order)).sort_values("_o", kind="stable").drop(
        columns="_o"
    ).reset_index(drop=True)  # fmt: skip


def _nodes(n: float) -> str:
    return words.count(int(n), "node", spelled=True)


def more_nodes(campaign: Campaign) -> Figure:
    """Link use over the number of nodes by the model, from usual and peak, to its ceiling."""
    found = _measured(campaign)
    if isinstance(found, str):
        return Figure(
            id=_ID,
            title=say("scale_out.title"),
            missing=found,
            source=say("scale_out.more_nodes.source_model"),
        )
    base = float(found["nodes"].iloc[0])
    same = found[found["nodes"] == base]
    looks = theme.looks(campaign.manifest.configurations)
    # The configuration with the highest use carries the curves; the table has all.
    top = common.top(same, same["usual"])
    look = looks[top["configuration"]]
    points: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    table: list[dict[str, Any]] = []
    for kind, colour, ink in (
        ("usual", look.colour, look.text),
        ("peak", theme.INK, theme.INK),
    ):
        value = float(top[kind])
        curve = scaleout.projection(value, base, [n for n in _CURVE if n >= 1])
        points += [
            {
                "nodes": r["nodes"],
                "value": 100 * r["util_fraction"],
                "series": kind,
                "tip": f"{words.told(kind)}: {words.percent(r['util_fraction'], 3)}",
            }
            for r in curve.to_dict("records")
        ]
        limit = scaleout.ceiling(value, base)
        ends.append(
            {
                "series": kind,
                "ceiling": 100 * limit,
                "label": say(
                    "scale_out.more_nodes.label",
                    kind=words.told(kind),
                    limit=words.percent(limit, 3),
                ),
                "colour": colour,
                "ink": ink,
            }
        )
    for row in found.to_dict("records"):
        usual, peak = (scaleout.projection(row[k], row["nodes"]) for k in ("usual", "peak"))
        table += [
            {
                "Configuration measured": common.label(campaign, row["configuration"]),
                "Nodes": say("scale_out.more_nodes.nodes") if math.isinf(n) else f"{n:g}",
                "Measured": n == row["nodes"],
                "Leaves the node (%)": 100 * share,
                "Traffic per node (measured = 1)": growth,
                "Use of a link, usual (%)": 100 * u,
                "Use of a link, peak (%)": 100 * p,
            }
            for n, share, growth, u, p in zip(
                usual["nodes"],
                usual["share_leaving"],
                usual["growth"],
                usual["util_fraction"],
                peak["util_fraction"],
                strict=True,
            )
        ]
    factor = scaleout.growth(math.inf, base)
    title = say(
        "scale_out.more_nodes.title",
        factor=words.times(factor),
        nodes=_nodes(base),
        ceiling=words.percent(ends[0]["ceiling"] / 100),
        ceiling_2=words.percent(ends[1]["ceiling"] / 100),
    )
    runs = tuple(sorted({r for runs in found["runs"] for r in runs}))
    return Figure(
        id=_ID,
        title=title,
        subtitle=say(
            "scale_out.more_nodes.subtitle",
            configuration=common.label(campaign, top["configuration"]),
            usual=words.percent(top["usual"], 3),
            peak=words.percent(top["peak"], 3),
            window_s=words.duration(top["window_s"]),
        ),
        chart=projected(
            pd.DataFrame(points), pd.DataFrame(ends), base, say("scale_out.more_nodes.chart"), 100.0
        ),
        table=pd.DataFrame(table),
        alt=f"{title}. "
        + " ".join(
            say("scale_out.more_nodes.alt", nodes=_nodes(p["nodes"]), tip=p["tip"]) for p in points
        ),
        source=say(
            "scale_out.more_nodes.source_model_put_counters",
            provenance=common.provenance(campaign),
        ),
        runs=runs,
        notes=(say("scale_out.more_nodes.note", assumed=words.listed(map(say, _ASSUMED))),),
    )


def assumptions(campaign: Campaign) -> Section:
    """What the computation assumes, and what gives way before the mean bandwidth does."""
    found = _measured(campaign)
    if isinstance(found, str):
        return Section(id="scale-out-assumptions", paragraphs=(found,))
    watched = common.label(campaign, found["configuration"].iloc[0])
    window = words.duration(float(np.max(found["window_s"])))
    return Section(
        id="scale-out-assumptions",
        paragraphs=(
            say(
                "scale_out.assumptions.paragraphs_computation_assumes",
                assumed=words.listed(map(say, _ASSUMED)),
            ),
            say("scale_out.assumptions.paragraphs_before_mean_bandwidth")
            + " ".join(map(say, _BREAKS)),
            say(
                "scale_out.assumptions.paragraphs_none_shows_counters",
                watched=watched,
                window=window,
                nodes=_nodes(found["nodes"].iloc[0]),
            ),
        ),
    )


def ceiling_statement(campaign: Campaign) -> Statement:
    """The ceiling as a sentence that says it is computed."""
    found = _measured(campaign)
    if isinstance(found, str):
        return Statement(id=f"{_ID}-verdict", sentence=found, marks=common.marks(campaign))
    top = common.top(found, found["usual"])
    limit = scaleout.ceiling(float(top["usual"]), float(top["nodes"]))
    peak = scaleout.ceiling(float(top["peak"]), float(top["nodes"]))
    return Statement(
        id=f"{_ID}-verdict",
        sentence=say(
            "scale_out.ceiling_statement.sentence",
            limit=words.percent(limit),
            usual=words.percent(top["usual"]),
            nodes=_nodes(top["nodes"]),
            peak=words.percent(peak),
        ),
        metric="ceiling of link use",
        value=100 * limit,
        unit="% of line rate",
        n=len(top["runs"]),
        n_of="runs",
        low=100 * limit,
        high=100 * peak,
        interval=say("scale_out.ceiling_statement.interval"),
        runs=tuple(top["runs"]),
        figure=_ID,
        would_change=say("scale_out.ceiling_statement.would_change"),
        verdict=True,
        rank=58,
        marks=(*common.marks(campaign), "model"),
    )
