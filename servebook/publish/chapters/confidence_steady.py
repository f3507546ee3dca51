"""Chapter 09, the steady part of a run: where it lies, and what leaving the rest out changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from servebook.measure import steady
from servebook.measure.metrics import METRICS
from servebook.measure.runs import request_metrics
from servebook.measure.trust import LEAST_WAVES
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.chapters.confidence_base import no_judgement, run_label
from servebook.publish.charts.steady import in_flight_over_time
from servebook.publish.charts.strip import strip
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["steady_effect", "steady_figures", "steady_window"]
#: A change beyond this is named in the title; one beyond the second is a dot of its own.
_NOTABLE = 0.05
_DRAWN = 0.01


@common.memo
def steady_figures(campaign: Campaign) -> pd.DataFrame:
    """``measure.steady`` of the campaign: one row per run with a window, and metric."""
    return steady.steady(campaign.tables, common.metrics(campaign))


def _headline(found: pd.DataFrame) -> pd.Series[bool]:
    """The rows of the throughput that a workload is about: input for prefill, else output."""
    own = (found["workload"] == "prefill").map(
        {True: "input_throughput_tok_s", False: "output_throughput_tok_s"}
    )
    return found["metric"] == own


def steady_window(campaign: Campaign, run: str = "") -> Figure:
    """Requests in flight over the time of one run, with its steady window.

    Without ``run`` (a run_id) the run whose window changes a throughput most is shown.
    """
    name = "confidence-steady-window"
    gone = no_judgement(
        campaign,
        name,
        say("confidence_steady.steady_window.steady_part_run"),
        say("confidence_steady.steady_window.steady_window"),
    )
    if gone:
        return gone
    found = steady_figures(campaign)
    spans, why = steady.windows(campaign.tables, common.metrics(campaign))
    if run and run not in spans:
        reason = (
            words.told(why[run]) if run in why else say("confidence_steady.steady_window.missing")
        )
        return Figure(
            id=name,
            title=say("confidence_steady.steady_window.steady_part_run"),
            missing=f"{run}: {reason}.",
        )
    rates = found[_headline(found)]
    if rates.empty:
        return Figure(
            id=name,
            title=say("confidence_steady.steady_window.steady_part_run"),
            missing=say("confidence_steady.no_window"),
        )
    shown = run or str(common.top(rates, rates["change"].abs())["run_id"])
    own = found[found["run_id"] == shown]
    one = spans[shown]
    every = common.metrics(campaign)
    row = every[every["run_id"] == shown].iloc[0]
    requests = request_metrics(campaign.tables)
    mine = requests[requests["run_id"] == shown].dropna(subset=["start_ns", "end_ns"])
    times, level = steady.in_flight(
        mine["start_ns"].to_numpy(dtype=np.int64), mine["end_ns"].to_numpy(dtype=np.int64)
    )
    levels = pd.DataFrame({"second": (times - one.first_ns) / 1e9, "level": level})
    last = (one.last_ns - one.first_ns) / 1e9
    start, end = (t / 1e9 for t in (one.t0_ns - one.first_ns, one.t1_ns - one.first_ns))
    rate = own[_headline(own)]
    most = common.top(rate, rate["change"].abs()) if len(rate) else None
    look = theme.looks(campaign.manifest.configurations).get(str(row["configuration"]))
    waves = float(own["waves"].iloc[0]) if len(own) else float("nan")
    title = say(
        "confidence_steady.steady_window.title_run_steady_fills",
        share=words.percent(one.share),
        ramp_s=words.duration(one.ramp_s),
        drain_s=words.duration(one.drain_s),
    )
    if most is not None:
        title += say(
            "confidence_steady.steady_window.title_steady_part_alone",
            metrics=words.told(METRICS[most["metric"]].label).lower(),
            change=words.deviation(round(float(most["change"]), 4)),
        )
    window = pd.DataFrame(
        [
            {
                "start": start,
                "end": end,
                "last": last,
                "limit": one.level,
                "inside": say(
                    "confidence_steady.steady_window.inside",
                    end=words.duration(end - start),
                    waves=words.number(waves),
                ),
            }
        ]
    )
    return Figure(
        id=name,
        title=title,
        subtitle=(
            f"{run_label(campaign, row)} ({shown})"
            + ("" if run else say("confidence_steady.steady_window.subtitle_run_throughput_window"))
            + say(
                "confidence_steady.steady_window.subtitle_wave_many_requests",
                rule=say("confidence_steady.rule"),
            )
        ),
        chart=in_flight_over_time(_thinned(levels), window, look.colour if look else theme.CONTEXT),
        table=pd.DataFrame(
            {
                "metric": [words.told(METRICS[m].label) for m in own["metric"]],
                "unit": [METRICS[m].unit for m in own["metric"]],
                "whole run": own["whole"],
                "steady window": own["window"],
                "change (%)": 100 * own["change"],
                "lowest of window and shifts": own["low"],
                "highest of window and shifts": own["high"],
                "requests in the window": own["n_window"],
                "gaps in the window": own["n_gaps_window"],
            }
        ),
        alt=f"{title}.",
        source=common.records_of(campaign, 1),
        runs=(shown,),
        notes=(
            say(
                "confidence_steady.steady_window.note_shifts_window_moved",
                shift=words.percent(steady.SHIFT),
            ),
            *(
                ()
                if one.reached
                else (
                    say(
                        "confidence_steady.steady_window.note_never_flight_once",
                        requests=words.count(one.level, "request"),
                    ),
                )
            ),
        ),
    )


_MOST_STEPS = 1500


def _thinned(levels: pd.DataFrame) -> pd.DataFrame:
    """At most so many steps: in each stretch of steps the last one; the first and last stay."""
    if len(levels) <= _MOST_STEPS:
        return levels
    kept = np.unique(np.linspace(0, len(levels) - 1, _MOST_STEPS).round().astype(int))
    return levels.iloc[kept]


def steady_effect(campaign: Campaign) -> Figure:
    """What leaving ramp-up and drain out changes, over all runs, and how it hangs on the window."""
    name = "confidence-steady-effect"
    gone = no_judgement(
        campaign,
        name,
        say("confidence_steady.steady_effect.gone"),
        say("confidence_steady.steady_window.steady_window"),
    )
    if gone:
        return gone
    found = steady_figures(campaign)
    _, why = steady.windows(campaign.tables, common.metrics(campaign))
    if found.empty:
        return Figure(
            id=name,
            title=say("confidence_steady.steady_effect.gone"),
            missing=say("confidence_steady.no_window"),
        )
    found = found[_headline(found) | ~found["metric"].str.contains("throughput")]
    runs = found.drop_duplicates("run_id")
    few = runs[runs["few_waves"]]
    heads: list[dict[str, Any]] = []
    bars, dots = [], []
    for metric, part in found.groupby("metric", sort=False):
        info = METRICS[str(metric)]
        heads.append(
            {
                "row": metric,
                "label": say(
                    "confidence_steady.steady_effect.label",
                    info=words.told(info.label),
                    change=words.deviation(round(float(part["change"].median()), 4)),
                    sensitivity=words.percent(float(part["sensitivity"].median())),
                ),
            }
        )
        bars.append({"row": metric, "low": part["change"].min(), "high": part["change"].max()})
        dots += [
            {
                "row": metric,
                "value": row["change"],
                "colour": theme.ALARM if row["few_waves"] else theme.PLAIN,
                "tip": f"{row['run_id']}: {words.number(row['whole'])} → "
                f"{words.rate(row['window'], info.unit)}",
            }
            for row in part.to_dict("records")
            if abs(row["change"]) > _DRAWN
        ]
    rates = found[_headline(found)]
    far = rates[rates["change"].abs() > _NOTABLE]["run_id"].nunique()
    n = len(runs)
    top = common.top(rates, rates["change"].abs()) if len(rates) else None
    title = say(
        "confidence_steady.steady_effect.title_without_ramp_drain",
        far=far,
        n=n,
        notable=words.percent(_NOTABLE),
    )
    if top is not None and abs(top["change"]) >= 0.0005:
        title += say(
            "confidence_steady.steady_effect.title_by_at_most",
            change=words.deviation(float(top["change"])),
        )
    if len(few):
        title += say(
            "confidence_steady.steady_effect.title_fewer_waves",
            runs=words.count(len(few), "run"),
            least_waves=LEAST_WAVES,
        )
    return Figure(
        id=name,
        title=title,
        subtitle=say(
            "confidence_steady.steady_effect.subtitle",
            rule=say("confidence_steady.rule"),
            n=n,
            drawn=words.percent(_DRAWN),
            least_waves=LEAST_WAVES,
        ),
        chart=strip(
            pd.DataFrame(heads),
            pd.DataFrame(dots, columns=["row", "value", "colour", "tip"]),
            say("confidence_steady.steady_effect.x_title"),
            bars=pd.DataFrame(bars),
        ),
        table=_effects(found),
        alt=f"{title}. " + " ".join(f"{h['label']}." for h in heads),
        source=common.records_of(campaign, n),
        runs=tuple(sorted(runs["run_id"])),
        notes=(
            say("confidence_steady.steady_effect.note_figures_page_whole"),
            *(
                (
                    say(
                        "confidence_steady.steady_effect.note_window",
                        items=words.listed(
                            f"{k} ({words.told(v)})" for k, v in sorted(why.items())
                        ),
                    ),
                )
                if why
                else ()
            ),
        ),
    )


def _effects(found: pd.DataFrame) -> pd.DataFrame:
    """One row per run: its window, its throughput in it, and the changes of its latencies."""
    changes = found.pivot_table(index="run_id", columns="metric", values="change")
    rate = found[_headline(found)].set_index("run_id")
    out = pd.DataFrame(
        {
            "run": rate.index,
            "ramp-up (s)": rate["ramp_s"].to_numpy(),
            "drain (s)": rate["drain_s"].to_numpy(),
            "share of the run (%)": 100 * rate["share"].to_numpy(),
            "requests in the window": rate["n_window"].to_numpy(),
            "gaps in the window": rate["n_gaps_window"].to_numpy(),
            "waves": rate["waves"].to_numpy(),
            "few waves": [
                say("confidence_steady.effects.few_waves_yes")
                if f
                else say("confidence_steady.effects.few_waves_no")
                for f in rate["few_waves"]
            ],
            "throughput, whole run (tokens/s)": rate["whole"].to_numpy(),
            "in the window": rate["window"].to_numpy(),
            "change (%)": 100 * rate["change"].to_numpy(),
            "shifted, lowest": rate["low"].to_numpy(),
            "shifted, highest": rate["high"].to_numpy(),
        }
    )
    for metric in ("ttft_mean_ms", "tpot_mean_ms", "itl_p99_ms"):
        if metric in changes:
            known = changes[metric].reindex(rate.index).to_numpy()
            out[f"change of {METRICS[metric].label} (%)"] = 100 * known
    return out
