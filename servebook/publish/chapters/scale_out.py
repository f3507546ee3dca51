"""Chapter 08, more nodes: computed from the measured use of the links, with its assumptions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from servebook.explain import scaleout
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.traffic import NO_COUNTERS, per_run
from servebook.publish.charts.scaleout import projected
from servebook.publish.output import Figure, Section, Statement
from servebook.read.campaign import Campaign

__all__ = ["assumptions", "ceiling_statement", "more_nodes"]

_ID = "scale-out"
_TITLE = "More nodes: nothing to compute from"
_CURVE = tuple(float(2**k) for k in range(5))
_BREAKS = (
    (
        "Messages get smaller: one batch over more GPUs gives each fewer tokens per step, "
        "and the cost "
        "of carrying a byte goes up while the bytes stay."
    ),
    (
        "Incast: with M nodes each destination receives from M − 1 sides at once; the "
        "average stays "
        "low while buffers fill."
    ),
    "Popular experts: the port in front of one carries more than the mean.",
    (
        "The slowest link: an exchange of all with all ends with its last message, so a "
        "step pays for "
        "the tail, not for the mean."
    ),
    "Topology: beyond one switch the spines' oversubscription is the real ceiling.",
)
_ASSUMED = (
    "experts are spread evenly over the nodes and asked for evenly",
    "each node goes on to process as many tokens as it did when it was measured",
    "the fabric between the nodes does not block",
    "the bytes of a token do not depend on the number of nodes",
)


@common.memo
def _measured(campaign: Campaign) -> pd.DataFrame | str:
    """Usual and peak use in prefill at the highest concurrency, per configuration of several nodes.

    Columns: configuration, nodes, usual, peak, window_s, runs. Words where there are none.
    """
    links = per_run(campaign)
    if links.empty:
        return NO_COUNTERS
    several = {c.name: c.nodes for c in campaign.manifest.configurations if (c.nodes or 0) > 1}
    if not several:
        return (
            "No configuration of this campaign runs on several nodes, so no traffic between nodes "
            "was measured that could be put in."
        )
    runs = common.metrics(campaign)[["run_id", "configuration", "workload", "concurrency"]]
    both = links.merge(runs, on="run_id")
    both = both[both["configuration"].isin(several) & (both["workload"] == "prefill")]
    both = both.dropna(subset=["usual_util"])
    if both.empty:
        return "No prefill run on several nodes was watched on links whose speed is stated."
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
        return Figure(id=_ID, title=_TITLE, missing=found, source="model: (M − 1) / M")
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
                "tip": f"{kind}: {words.percent(r['util_fraction'], 3)}",
            }
            for r in curve.to_dict("records")
        ]
        limit = scaleout.ceiling(value, base)
        ends.append(
            {
                "series": kind,
                "ceiling": 100 * limit,
                "label": f"{kind}: ceiling\n{words.percent(limit, 3)}",
                "colour": colour,
                "ink": ink,
            }
        )
    for row in found.to_dict("records"):
        usual, peak = (scaleout.projection(row[k], row["nodes"]) for k in ("usual", "peak"))
        table += [
            {
                "Configuration measured": common.label(campaign, row["configuration"]),
                "Nodes": "any number" if math.isinf(n) else f"{n:g}",
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
    title = (
        f"Computed, not measured: no number of nodes takes a link beyond {words.times(factor)} "
        f"its use on {_nodes(base)}: {words.percent(ends[0]['ceiling'] / 100)} usual and "
        f"{words.percent(ends[1]['ceiling'] / 100)} peak"
    )
    runs = tuple(sorted({r for runs in found["runs"] for r in runs}))
    return Figure(
        id=_ID,
        title=title,
        subtitle=(
            f"Model: (M − 1) / M of the traffic leaves its node. Put in: prefill of "
            f"{common.label(campaign, top['configuration'])}, usual "
            f"{words.percent(top['usual'], 3)}, peak {words.percent(top['peak'], 3)} over "
            f"{words.duration(top['window_s'])}. Averages over time; bursts are not in it."
        ),
        chart=projected(
            pd.DataFrame(points), pd.DataFrame(ends), base, "use of a link, % of line rate", 100.0
        ),
        table=pd.DataFrame(table),
        alt=f"{title}. " + " ".join(f"On {_nodes(p['nodes'])} {p['tip']}." for p in points),
        source=f"model: (M − 1) / M; put in: {campaign.manifest.provenance} counters of prefill",
        runs=runs,
        notes=(f"Assumed: {words.listed(_ASSUMED)}. What gives way first stands below.",),
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
            f"The computation assumes that {words.listed(_ASSUMED)}.",
            "Before the mean bandwidth is used up, other things give way: " + " ".join(_BREAKS),
            (
                f"None of these shows in the counters of {watched}: they average over {window} and "
                f"were read on {_nodes(found['nodes'].iloc[0])}. Runs on four nodes or "
                "more, with queue depths, pauses and marks of the ports, would show them."
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
        sentence=(
            f"By computation, not measurement: on any number of nodes a link carries at most "
            f"{words.percent(limit)} of its rate where {words.percent(top['usual'])} was usual on "
            f"{_nodes(top['nodes'])} ({words.percent(peak)} from the peak), as long as "
            "experts are spread evenly and the fabric does not block."
        ),
        metric="ceiling of link use",
        value=100 * limit,
        unit="% of line rate",
        n=len(top["runs"]),
        n_of="runs",
        low=100 * limit,
        high=100 * peak,
        interval="from the usual use to the peak: a model, no interval",
        runs=tuple(top["runs"]),
        figure=_ID,
        would_change="runs on four nodes or more",
        verdict=True,
        rank=58,
        marks=(*common.marks(campaign), "model"),
    )
