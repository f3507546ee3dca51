"""Chapter 09, the wire: what links carry as a floor plus a slope, with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.cost_line import LEAST_FOR_INTERVAL, CostLine, cost_line
from servebook.measure.ratio import CONFIDENCE
from servebook.measure.run_bytes import run_totals
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.confidence_base import look, no_judgement
from servebook.publish.chapters.fabric_base import measured
from servebook.publish.charts.cost_line import over_load
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["cost_lines"]

_PER = {"input": "input tokens/s", "output": "output tokens/s", "total": "tokens/s in and out"}


def cost_lines(campaign: Campaign) -> Figure:
    """What the links carry as a floor plus a slope per token, with intervals where they exist."""
    name = "confidence-cost-line"
    title = say("confidence_cost.cost_lines.title")
    gone = no_judgement(campaign, name, title, say("confidence_cost.cost_lines.gone"))
    if gone:
        return gone
    fabric = measured(campaign)
    if fabric is None or fabric.tokens.empty:
        return Figure(
            id=name,
            title=title,
            missing=say("confidence_cost.cost_lines.missing_byte_counters_lie"),
        )
    fits = _fits(campaign, run_totals(fabric.tokens))
    lines = [f for f in fits if not np.isnan(f["gross"].slope)]
    if not lines:
        whys = words.listed(f"{f['name']}: {words.told(f['gross'].why)}" for f in fits) or say(
            "confidence_cost.cost_lines.whys"
        )
        return Figure(
            id=name,
            title=title,
            missing=say(
                "confidence_cost.cost_lines.missing_line_can_drawn", whys=words.capital(whys)
            ),
        )
    best = min(lines, key=lambda f: (bool(f["gross"].why), -f["gross"].n))
    title = _line_title(best)
    points, drawn = [], []
    for f in lines:
        line: CostLine = f["gross"]
        style = look(campaign, f["configuration"])
        x = f["points"]["tokens_s"]
        points += [
            {
                "series": f["name"],
                "x": p["tokens_s"],
                "y": p["gross_bps"] / 1e6,
                "colour": style.colour,
                "shape": style.shape,
                "tip": say(
                    "confidence_cost.cost_lines.tip",
                    name=f["name"],
                    concurrency=p["concurrency"],
                    gross_bps=words.bits_per_second(p["gross_bps"]),
                    tokens_s=words.rate(p["tokens_s"]),
                ),
            }
            for p in f["points"].to_dict("records")
        ]
        drawn.append(
            {
                "series": f["name"],
                "label": f["name"],
                "colour": style.colour,
                "ink": style.text,
                "x_low": float(x.min()),
                "x_high": float(x.max()),
                "y_low": line.at(float(x.min())) / 1e6,
                "y_high": line.at(float(x.max())) / 1e6,
                "floor": line.floor / 1e6,
                "floor_low": line.floor_interval[0] / 1e6,
                "floor_high": line.floor_interval[1] / 1e6,
            }
        )
    runs = tuple(sorted({r for f in fits for r in f["runs"]}))
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "confidence_cost.cost_lines.subtitle",
            confidence=words.percent(CONFIDENCE),
            least_for_interval=LEAST_FOR_INTERVAL,
        ),
        chart=over_load(
            pd.DataFrame(points),
            pd.DataFrame(drawn),
            say("confidence_cost.cost_lines.chart_tokens_mixed_runs"),
            say("confidence_cost.cost_lines.chart_mbit_links"),
        ),
        table=pd.DataFrame([_line_row(f, kind) for f in lines for kind in ("gross", "net")]),
        alt=f"{title}.",
        source=say(
            "confidence_cost.cost_lines.source",
            provenance=common.provenance(campaign),
            runs=words.count(len(runs), "run"),
        ),
        runs=runs,
        notes=(
            say("confidence_cost.cost_lines.note_floor_line_load"),
            say("confidence_cost.cost_lines.note_interval_regression_takes"),
            say("confidence_cost.cost_lines.note_net_idle_line"),
            *(
                say(
                    "confidence_cost.cost_lines.note_idle_level_steady",
                    name=f["name"],
                    runs=words.count(f["unsteady"], "run"),
                )
                for f in lines
                if f["unsteady"]
            ),
            *(f"{f['name']}: {words.told(f['gross'].why)}." for f in fits if f["gross"].why),
        ),
    )


def _fits(campaign: Campaign, totals: pd.DataFrame) -> list[dict[str, Any]]:
    """Lines per configuration and workload over conditions, gross and net."""
    busier = totals.sort_values(["bytes", "direction"], kind="stable")[::-1]
    busier = busier.dropna(subset=["gross", "configuration", "concurrency"])
    busier = busier.drop_duplicates("run_id", keep="first")
    duration = common.metrics(campaign).set_index("run_id")["duration_s"]
    conditions = common.by_condition(campaign)
    series = {run: row["series"] for row in conditions.to_dict("records") for run in row["runs"]}
    watched = busier[busier["run_id"].isin(series)].copy()
    seconds = watched["run_id"].map(duration).astype(float)
    watched["series"] = watched["run_id"].map(series)
    watched["tokens_s"] = watched["tokens"] / seconds
    watched["gross_bps"] = watched["gross"] * watched["tokens_s"] * 8
    watched["net_bps"] = watched["net"] * watched["tokens_s"] * 8
    out = []
    for _, part in watched.groupby("series", sort=True):
        points = part.groupby("concurrency", sort=True)[["tokens_s", "gross_bps", "net_bps"]].mean()
        first = part.iloc[0]
        x = points["tokens_s"].tolist()
        out.append(
            {
                "configuration": first["configuration"],
                "workload": first["workload"],
                "name": f"{common.label(campaign, first['configuration'])} · {first['workload']}",
                "basis": _PER[first["basis"]],
                "points": points.reset_index(),
                "gross": cost_line(x, points["gross_bps"].tolist()),
                "net": cost_line(x, points["net_bps"].tolist())
                if points["net_bps"].notna().all()
                else None,
                "runs": tuple(part["run_id"]),
                "unsteady": int((part["net"].notna() & ~part["idle_steady"].astype(bool)).sum()),
            }
        )
    return out


def _line_title(best: dict[str, Any]) -> str:
    line: CostLine = best["gross"]
    slope = words.number(line.slope / 8)
    text = say(
        "confidence_cost.line_title.token",
        workload=words.capital(best["workload"]),
        split=best["name"].split(" · ")[0],
        slope=slope,
    )
    if line.why:
        return say(
            "confidence_cost.line_title.floor",
            text=text,
            floor=words.bits_per_second(line.floor),
            why=line.why,
        )
    low, high = (v / 8 for v in line.slope_interval)
    text += say("confidence_cost.line_title.to", low=words.number(low), high=words.number(high))
    if line.floor_interval[0] <= 0 <= line.floor_interval[1]:
        return say("confidence_cost.line_title.floor_cannot_told", text=text, n=line.n)
    return say(
        "confidence_cost.line_title.floor_2", text=text, floor=words.bits_per_second(line.floor)
    )


def _line_row(fit: dict[str, Any], kind: str) -> dict[str, Any]:
    line: CostLine | None = fit[kind]
    nan = float("nan")
    if line is None:
        line = CostLine(
            nan,
            nan,
            (nan, nan),
            (nan, nan),
            nan,
            0,
            CONFIDENCE,
            say("confidence_cost.line_row.line"),
        )
    return {
        "configuration": fit["name"],
        "over": fit["basis"],
        "bytes": "gross" if kind == "gross" else say("confidence_cost.line_row.bytes"),
        "conditions": line.n,
        "floor (Mbit/s)": line.floor / 1e6,
        "floor, interval from (Mbit/s)": line.floor_interval[0] / 1e6,
        "floor, interval to (Mbit/s)": line.floor_interval[1] / 1e6,
        "slope (B/token)": line.slope / 8,
        "slope, interval from (B/token)": line.slope_interval[0] / 8,
        "slope, interval to (B/token)": line.slope_interval[1] / 8,
        "scatter around the line (Mbit/s)": line.scatter / 1e6,
        "why no interval": line.why,
    }
