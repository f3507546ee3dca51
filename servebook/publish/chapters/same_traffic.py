"""Chapter 07, same traffic, different result: link use beside prefill rate for two layouts."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pandas as pd

from servebook.explain.factors import differing
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.reuse import plain
from servebook.publish.chapters.traffic import per_run
from servebook.publish.charts.paired import paired
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["headroom", "same_traffic"]

_ID = "same-traffic"
_RATE = "input_throughput_tok_s"
_ON = ["client", "isl", "osl", "concurrency"]
_SIZES = {1e3: "k", 1e6: "M", 1e9: "G", 1e12: "T"}


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
        why = say("traffic.no_counters")
        if not per_run(campaign).empty:
            why = say("same_traffic.same_traffic.why")
        return Figure(id=_ID, title=say("same_traffic.none"), missing=why)
    one, two = found
    labels = [common.label(campaign, r["configuration"]) for r in found]
    looks = theme.looks(campaign.manifest.configurations)
    look = looks[two["configuration"]]
    lines = []
    bits = max([s for s in _SIZES if one["sum_bps"] >= s], default=1.0)
    size = max([s for s in _SIZES if one["bytes_per_token"] >= s], default=1.0)
    for metric, label, unit, scale in (
        ("usual_util", say("same_traffic.same_traffic.usual_use_link"), "%", 100.0),
        (
            "sum_bps",
            say("same_traffic.same_traffic.links_node_together"),
            f"{_SIZES.get(bits, '')}bit/s",
            1 / bits,
        ),
        (
            "bytes_per_token",
            say("same_traffic.same_traffic.bytes_input_token"),
            f"{_SIZES.get(size, '')}B",
            1 / size,
        ),
        (_RATE, say("shared.prefill_rate"), "tokens/s", 1.0),
    ):
        a, b = one[metric] * scale, two[metric] * scale
        if pd.isna(a) or pd.isna(b) or not a > 0:
            continue
        ratio = b / a
        lines.append(
            {
                "row": metric,
                "label": f"{label}: {words.number(a)} → {words.rate(b, unit)}",
                "value": ratio,
                "text": words.factor(ratio, 3) if ratio >= 1 else f"1/{words.number(1 / ratio, 3)}",
                "first_colour": looks[one["configuration"]].colour,
                "tip": say(
                    "same_traffic.same_traffic.tip", a=words.number(a), b=words.number(b), unit=unit
                ),
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
        subtitle=say(
            "same_traffic.same_traffic.subtitle",
            lengths=words.lengths(one["isl"], one["osl"]),
            in_flight=common.in_flight(one["concurrency"]),
            client=one["client"],
            labels=labels[0],
            labels_2=labels[1],
            compared=common.marked(compared),
            sides=_sides(one, two),
        ),
        chart=paired(
            frame,
            say("same_traffic.same_traffic.chart", labels=labels[1], labels_2=labels[0]),
            ratio=True,
        ),
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
        source=say(
            "same_traffic.same_traffic.source",
            records_of=common.records_of(campaign, len(runs)),
            links=one["links"],
        ),
        runs=runs,
        notes=(say("same_traffic.same_traffic.note"),),
    )


def _sides(one: dict[Any, Any], two: dict[Any, Any]) -> str:
    least = min(len(one["run_id"]), len(two["run_id"]))
    if least < 2:
        return say("same_traffic.sides.run_side_interval")
    return say("same_traffic.sides.means_runs_side", least=least)


def _title(ratio: pd.Series, labels: list[str]) -> str:
    rate = ratio[_RATE]
    use = ratio.get("usual_util", ratio.get("sum_bps", float("nan")))
    prefill = say("same_traffic.title.prefill", rate=words.percent(1 - rate), labels=labels[0])
    if abs(use - 1) < 0.1:
        text = say(
            "same_traffic.title.nearly_traffic",
            use=words.factor(use, 3),
            labels=labels[1],
            prefill=prefill,
        )
    else:
        text = say(
            "same_traffic.title.carries_traffic",
            labels=labels[1],
            use=words.times(use),
            prefill=prefill,
        )
    per = ratio.get("bytes_per_token", float("nan"))
    return text + (
        say("same_traffic.title.bytes_token", per=words.times(per)) if per == per else ""
    )


def headroom(campaign: Campaign) -> Statement:
    """How full the links were, beside what the runs differed by, as a verdict."""
    name = "link-headroom"
    links = per_run(campaign)
    known = links.dropna(subset=["peak_util"])
    if known.empty:
        return Statement(id=name, sentence=say("traffic.no_counters"), marks=common.marks(campaign))
    runs = common.metrics(campaign).set_index("run_id")
    top = common.top(known, known["peak_util"])
    run = runs.loc[top["run_id"]]
    who = common.label(campaign, run["configuration"])
    # A link whose readings do not stand out of its idle level may have carried more.
    whose = say("same_traffic.headroom.whose") if len(known) < len(links) else ""
    text = say(
        "same_traffic.headroom.link_fuller_reading",
        whose=whose,
        peak_util=words.percent(top["peak_util"]),
        speed_bps=words.bits_per_second(top["speed_bps"]),
    )
    found = _pair(campaign)
    if found is not None:
        one, two = found
        a, b = (common.label(campaign, r["configuration"]) for r in found)
        use = two["usual_util"] / one["usual_util"]
        if abs(use - 1) < 0.1:
            text += say(
                "same_traffic.headroom.nearly_use_prefills",
                use=words.factor(use, 3),
                b=b,
                two=words.percent(1 - two[_RATE] / one[_RATE]),
                a=a,
            )
    return Statement(
        id=name,
        sentence=text + ".",
        more=say(
            "same_traffic.headroom.more",
            peak_window_s=words.duration(top["peak_window_s"]),
            workload=run["workload"],
            who=who,
        ),
        metric="peak link use",
        value=float(top["peak_util"]) * 100,
        unit="% of line rate",
        n=len(known),
        n_of="runs",
        low=float(known["usual_util"].min()) * 100,
        high=float(known["usual_util"].max()) * 100,
        interval=say("same_traffic.headroom.interval"),
        runs=tuple(known["run_id"]),
        figure=_ID if found is not None else "fabric-link-use",
        would_change=say("same_traffic.headroom.would_change"),
        # A nominal speed says nothing of a real link; a link half full has no such headroom.
        verdict=not known["noted"].any() and top["peak_util"] < 0.5,
        rank=27,
        marks=common.marks(campaign, runs=tuple(known["run_id"])),
    )
