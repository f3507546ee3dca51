"""A run as lanes over time: what each request in flight waited for, and what stopped them all.

Several runs share one picture: a parameter names the run that is shown, and the page puts a list
beside it. Without a script the first one stands there.
"""

from __future__ import annotations

import json
from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme
from servebook.publish.text import say

__all__ = ["LANE_PX", "timeline"]

LANE_PX = 17
#: What the expressions below take by its place from the run that is shown.
_SHOWN = ("begin_s", "end_s", "step_s", "n_lanes", "colour", "tint")
#: Room above the lanes for the remark, in lanes per lane.
_ROOM = 0.09


def timeline(blocks: pd.DataFrame, kinds: list[tuple[str, str]], runs: pd.DataFrame) -> Any:
    """Lanes from above to below over seconds.

    Args:
        blocks: run, kind, a and b (upper and lower edge in lanes: lane 3 is from 3 to 4), t0 and t1
            (in steps since the window's begin), in the order to draw.
        kinds: (kind, colour) in the order of the legend; the words "colour" and "tint" stand for
            the columns of the run that is shown.
        runs: run, label (in the list), begin_s and end_s (of the window), step_s (how long a step
            is), n_lanes, at_s (a second), remark (words above the lanes there, or ""), colour
            (of its configuration), tint (a light shade of it); the first is shown at first.

    """
    first = str(runs["run"].iloc[0])
    facts = {str(r["run"]): [r[name] for name in _SHOWN] for r in runs.to_dict("records")}
    here = alt.param(name="run", value=first)
    window = alt.param(name="shown", expr=f"({json.dumps(facts)})[run]")
    x = alt.X(
        "t0_s:Q",
        title=say("charts.engine_timeline.timeline.title_seconds_since_run"),
        scale=alt.Scale(domain=[alt.ExprRef("shown[0]"), alt.ExprRef("shown[1]")], nice=False),
        axis=alt.Axis(format="~g", tickCount=8),
    )
    y = alt.Y(
        "a:Q",
        title=say("charts.engine_timeline.timeline.title_requests_flight_lane"),
        scale=alt.Scale(
            domain=[alt.ExprRef("shown[3]"), alt.ExprRef(f"-{_ROOM} * shown[3]")], nice=False
        ),
        axis=alt.Axis(labels=False, grid=False),
    )
    fill = alt.Color(
        "kind:N",
        scale=alt.Scale(
            domain=[kind for kind, _ in kinds],
            range=[
                alt.ExprRef(f"shown[{_SHOWN.index(c)}]") if c in _SHOWN else c for _, c in kinds
            ],
        ),
        legend=alt.Legend(
            title=None, orient="top", direction="horizontal", symbolType="square", columns=4
        ),
    )
    bars = (
        alt.Chart(blocks)
        .transform_filter("datum.run === run")
        .transform_calculate(
            t0_s="shown[0] + datum.t0 * shown[2]", t1_s="shown[0] + datum.t1 * shown[2]"
        )
        .mark_rect(aria=False)
        .encode(x=x, x2=alt.X2("t1_s:Q"), y=y, y2=alt.Y2("b:Q"), color=fill)
        .properties(name="lanes")
    )
    rules = (
        alt.Chart(pd.DataFrame({"a": range(1, int(runs["n_lanes"].max()))}))
        .transform_filter("datum.a < shown[3]")
        .mark_rule(color="#ffffff", strokeWidth=2, aria=False)
        .encode(y=alt.Y("a:Q"))
    )
    layers = [bars, rules, *_remarks(runs)]
    height = LANE_PX * int(runs["n_lanes"].iloc[0]) + 110
    whole = theme.finish(alt.layer(*layers).add_params(here, window), height=height)
    notes: dict[str, Any] = {"zoom": "x"}
    if len(runs) > 1:
        values = [[str(r["run"]), str(r["label"])] for r in runs.to_dict("records")]
        notes["choices"] = {"param": "run", "values": values}
    return whole.properties(usermeta=notes)


def _remarks(runs: pd.DataFrame) -> list[Any]:
    """The arrow stands at its moment, the words on the side that has room."""
    said = runs[runs["remark"] != ""]
    late = said["at_s"] > said["begin_s"] + 0.55 * (said["end_s"] - said["begin_s"])
    layers = []
    for left in (False, True):
        rows = said[late == left]
        if rows.empty:
            continue
        text = [f"{t} ▼" if left else f"▼ {t}" for t in rows["remark"]]
        layers.append(
            alt.Chart(
                pd.DataFrame({"run": rows["run"], "t0_s": rows["at_s"], "a": 0, "text": text})
            )
            .transform_filter("datum.run === run")
            .mark_text(
                align="right" if left else "left",
                dx=5 if left else -5,
                baseline="bottom",
                dy=-3,
                color=theme.INK,
            )
            .encode(x=alt.X("t0_s:Q"), y=alt.Y("a:Q"), text=alt.Text("text:N"))
        )
    return layers
