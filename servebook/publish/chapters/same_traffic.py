"""Chapter 07, same traffic, different result: link use beside prefill rate for two layouts."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pandas as pd

from servebook.explain.factors import differing
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.reuse import plain
from servebook.publish.chapters.traffic import NO_COUNTERS, per_run
from servebook.publish.charts.paired import paired
from servebook.publish.output import Figure, Statement
from servebook.read.campaign import Campaign

__all__ = ["headroom", "same_traffic"]

_ID = "same-traffic"
_RATE = "input_throughput_tok_s"
_ON = ["client", "isl", "osl", "concurrency"]
_SIZES = {1e3: "k", 1e6: "M", 1e9: "G", 1e12: "T"}
_NONE = "Same traffic, different result: nothing to compare"


def _watched(campaign: Campaign) -> pd.DataFrame:
    """Prefill conditions with the traffic of their runs (means over repeats)."""
    links = per_run(campaign)
    every = plain(campaign)
    rows = every[every["workload"] == "prefill"].explode("runs").rename(columns={"runs": "run_id"})
    both = rows.merge(links, on="run_id")
    values = [c for c in links.columns if c not in ("run_id", "noted", "devices")]
    # What two devices count of one traffic need not be the same.
    keys = ["configuration", "devices", *_ON]
    if both.empty:
        return both
    return both.groupby(keys, sort=True, as_index=False).agg(
        {**dict.fromkeys(values, "mean"), _RATE: "first", "n_ok": "first", "run_id": tuple}
    )


def _pair(campaign: Campaign) -> tuple[dict[Any, Any], dict[Any, Any]] | None:
    """Two configurations at one watched prefill condition: fewest factors apart, most in flight."""
    rows = _watched(campaign)
    if rows.empty:
        return None
    settings = {c.name: c for c in campaign.manifest.configurations}
    best: tuple[tuple[int, int], tuple[dict[Any, Any], dict[Any, Any]]] | None = None
    for _, part in rows.groupby(["devices", *_ON], sort=True):
        for a, b in combinations(part.to_dict("records"), 2):
            apart = len(differing([settings[a["configuration"]], settings[b["configuration"]]]))
            rank = (-apart, int(a["concurrency"]))
            ordered = (a, b) if a[_RATE] >= b[_RATE] else (b, a)
            if best is None or rank > best[0]:
                best = (rank, ordered)
    return best[1] if best else None


def same_traffic(campaign: Campaign) -> Figure:
    """Ratios of link use, bytes per token and prefill rate of two layouts, around 1."""
    found = _pair(campaign)
    if found is None:
        why = NO_COUNTERS
        if not per_run(campaign).empty:
            why = (
                "No prefill condition was watched by counters on two configurations, so the same "
                "traffic has no second result beside it."
            )
        return Figure(id=_ID, title=_NONE, missing=why)
    one, two = found
    labels = [common.label(campaign, r["configuration"]) for r in found]
    looks = theme.looks(campaign.manifest.configurations)
    look = looks[two["configuration"]]
    lines = []
    bits = max([s for s in _SIZES if one["sum_bps"] >= s], default=1.0)
    size = max([s for s in _SIZES if one["bytes_per_token"] >= s], default=1.0)
    for metric, label, unit, scale in (
        ("usual_util", "usual use of a link", "%", 100.0),
        ("sum_bps", "links of a node together", f"{_SIZES.get(bits, '')}bit/s", 1 / bits),
        ("bytes_per_token", "bytes per input token", f"{_SIZES.get(size, '')}B", 1 / size),
        (_RATE, "prefill rate", "tokens/s", 1.0),
    ):
        a, b = one[metric] * scale, two[metric] * scale
        if pd.isna(a) or pd.isna(b) or not a > 0:
            continue
        ratio = b / a
        lines.append(
            {
                "row": metric,
                "label": f"{label}: {words.number(a)} → {words.number(b)} {unit}",
                "value": ratio,
                "text": words.factor(ratio, 3) if ratio >= 1 else f"1/{words.number(1 / ratio, 3)}",
                "first_colour": looks[one["configuration"]].colour,
                "tip": f"{words.number(a)} and {words.number(b)} {unit}",
                "colour": look.colour,
                "ink": look.text,
                "metric": label,
                "unit": unit,
                "a": a,
                "b": b,
            }
        )
    frame = pd.DataFrame(lines)
    compared = common.comparison(campaign, (one["configuration"], two["configuration"]))
    runs = tuple(sorted({*one["run_id"], *two["run_id"]}))
    title = _title(frame.set_index("row")["value"], labels)
    return Figure(
        id=_ID,
        title=title,
        subtitle=(
            f"Prefill, {words.lengths(one['isl'], one['osl'])}, "
            f"{common.in_flight(one['concurrency'])}, {one['client']}. Hollow: {labels[0]}; "
            f"filled: {labels[1]}. {compared.words} {_sides(one, two)}"
        ),
        chart=paired(frame, f"{labels[1]} ÷ {labels[0]} (log)", ratio=True),
        table=pd.DataFrame(
            {
                "Quantity": frame["metric"],
                "Unit": frame["unit"],
                labels[0]: frame["a"],
                labels[1]: frame["b"],
                "Ratio": frame["value"],
            }
        ),
        alt=f"{title}. " + " ".join(f"{r['label']} ({r['text']})." for r in lines),
        source=f"{common.records_of(campaign, len(runs))} and counters of {one['links']:.0f} links",
        runs=runs,
        notes=(
            (
                "Link use is the mean over the uplinks and both directions of what each usually "
                "carries. Bytes per token: gross, the busier direction, all uplinks."
            ),
        ),
    )


def _sides(one: dict[Any, Any], two: dict[Any, Any]) -> str:
    least = min(len(one["run_id"]), len(two["run_id"]))
    if least < 2:
        return "One run on a side: no interval."
    return f"Means over {least} runs a side or more."


def _title(ratio: pd.Series, labels: list[str]) -> str:
    rate = ratio[_RATE]
    use = ratio.get("usual_util", ratio.get("sum_bps", float("nan")))
    prefill = f"prefills {words.percent(1 - rate)} slower than {labels[0]}"
    if abs(use - 1) < 0.1:
        text = f"Nearly the same traffic ({words.factor(use, 3)}), but {labels[1]} {prefill}"
    else:
        text = f"{labels[1]} carries {words.times(use)} the traffic and {prefill}"
    per = ratio.get("bytes_per_token", float("nan"))
    return text + (f": {words.times(per)} the bytes per token" if per == per else "")


def headroom(campaign: Campaign) -> Statement:
    """How full the links were, beside what the runs differed by, as a verdict."""
    name = "link-headroom"
    links = per_run(campaign)
    known = links.dropna(subset=["peak_util"])
    if known.empty:
        return Statement(id=name, sentence=NO_COUNTERS, marks=common.marks(campaign))
    runs = common.metrics(campaign).set_index("run_id")
    top = common.top(known, known["peak_util"])
    run = runs.loc[top["run_id"]]
    who = common.label(campaign, run["configuration"])
    # A link whose readings do not stand out of its idle level may have carried more.
    whose = " whose level is known" if len(known) < len(links) else ""
    text = (
        f"No link{whose} was fuller than {words.percent(top['peak_util'])} of "
        f"{words.bits_per_second(top['speed_bps'])} (reading over "
        f"{words.duration(top['peak_window_s'])}, {run['workload']} on {who})"
    )
    found = _pair(campaign)
    if found is not None:
        one, two = found
        a, b = (common.label(campaign, r["configuration"]) for r in found)
        use = two["usual_util"] / one["usual_util"]
        if abs(use - 1) < 0.1:
            text += (
                f"; with nearly the same use ({words.factor(use, 3)}) {b} prefills "
                f"{words.percent(1 - two[_RATE] / one[_RATE])} slower than {a}"
            )
    text += ": not the average bandwidth of the links holds these runs up; how long a step waits "
    text += "for its slowest exchange, use does not show"
    return Statement(
        id=name,
        sentence=text + ".",
        metric="peak link use",
        value=float(top["peak_util"]) * 100,
        unit="% of line rate",
        n=len(known),
        n_of="runs",
        low=float(known["usual_util"].min()) * 100,
        high=float(known["usual_util"].max()) * 100,
        interval="range of the usual use over runs",
        runs=tuple(known["run_id"]),
        figure=_ID if found is not None else "fabric-link-use",
        would_change=(
            "counters read more often that show bursts near the line rate, drops or pauses on the "
            "ports, or a run that fills the links"
        ),
        # A nominal speed says nothing of a real link; a link half full has no such headroom.
        verdict=not known["noted"].any() and top["peak_util"] < 0.5,
        rank=27,
        marks=common.marks(campaign, runs=tuple(known["run_id"])),
    )
