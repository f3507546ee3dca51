"""Chapter 02, load: was the set concurrency in flight, and what the clocks allow."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure import load
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.charts.deviations import around_zero
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["clocks", "load_held"]

#: Below this share of the set concurrency the load was not what it is called.
LOAD_HELD = 0.9


def load_held(campaign: Campaign) -> Figure:
    """Little's law: how much of the set concurrency was really in flight."""
    found = load.littles_law(campaign.tables, common.metrics(campaign))
    every = common.by_condition(campaign)
    known = found[found["ratio"].notna() & (found["ratio"] > 0)].set_index("run_id")
    rows = every[[any(r in known.index for r in runs) for runs in every["runs"]]]
    if rows.empty:
        return Figure(
            id="trust-load",
            title=say("trust_load.load_held.title_little_law_load"),
            missing=say("trust_load.load_held.missing"),
        )
    rows = common.styled(campaign, rows)
    ratios = [known.loc[[r for r in runs if r in known.index], "ratio"] for runs in rows["runs"]]
    rows = rows.assign(
        ratio=[r.median() for r in ratios],
        ratio_low=[r.min() if len(r) > 1 else np.nan for r in ratios],
        ratio_high=[r.max() if len(r) > 1 else np.nan for r in ratios],
        name=[f"{n} · {w}" for n, w in zip(rows["name"], rows["workload"], strict=True)],
    )
    worst = common.bottom(known, known["ratio"])
    low = worst.name
    share = words.percent(worst["ratio"])
    title = (
        say("trust_load.load_held.title_throughput_latency_gives", share=share)
        if worst["ratio"] >= LOAD_HELD
        else say("trust_load.load_held.title_run_set_concurrency", share=share, low=low)
        if (known["ratio"] < LOAD_HELD).sum() == 1
        else say(
            "trust_load.load_held.title_runs_set_concurrency",
            value=(known["ratio"] < LOAD_HELD).sum(),
            n_known=len(known),
            load_held=words.percent(LOAD_HELD),
            share=share,
        )
    )
    dots = pd.DataFrame(
        {
            "row": [say("trust_load.load_held.row", w=w) for w in rows["workload"]],
            "deviation": rows["ratio"] - 1,
            "verdict": ["agrees" if r >= LOAD_HELD else "unexplained" for r in rows["ratio"]],
            "tip": [
                say(
                    "trust_load.load_held.tip",
                    name=r["name"],
                    concurrency=r["concurrency"],
                    ratio=words.number(r["ratio"] * r["concurrency"]),
                )
                for r in rows.to_dict("records")
            ],
        }
    ).sort_values("row", kind="stable")
    return Figure(
        id="trust-load",
        title=title,
        subtitle=say(
            "trust_load.load_held.subtitle",
            load_held=words.percent(1 - LOAD_HELD),
            runs=words.count(len(known), "run"),
        ),
        chart=around_zero(
            dots,
            say("trust_load.load_held.chart"),
            band=1 - LOAD_HELD,
            band_text=say("trust_load.load_held.band_text", load_held=words.percent(1 - LOAD_HELD)),
        ),
        table=pd.DataFrame(
            {
                "run": found["run_id"],
                "configuration": common.labels(campaign, found["configuration"]),
                "workload": found["workload"],
                "requests in flight, set": found["concurrency"],
                "throughput × latency": found["throughput_x_latency"],
                "mean in flight": found["mean_in_flight"],
                "share of set (%)": 100 * found["ratio"],
                "time with all in flight (%)": 100 * found["full_share"],
                "most at once": found["peak_in_flight"],
            }
        ),
        alt=f"{title}.",
        source=common.records_of(campaign, len(known)),
        runs=tuple(sorted(known.index)),
        notes=(common.defined("mean_in_flight"),),
    )


def clocks(campaign: Campaign) -> Figure:
    """What the times of each run can be laid over, and how late its client was."""
    found = load.clocks(campaign.tables, common.metrics(campaign))
    kinds = found["clock"].value_counts()
    late = found[found["late"].eq(True).fillna(False)]
    said = {
        "epoch": say("trust_load.clocks.epoch"),
        "relative": say("trust_load.clocks.relative"),
        "none": say("trust_load.clocks.none"),
    }
    title = words.capital(
        words.listed(
            say(
                "trust_load.clocks.title_with",
                runs=words.count(int(kinds[k]), "run"),
                said=said.get(k, k),
            )
            for k in ("epoch", "relative", "none")
            if k in kinds
        )
    )
    if len(late):
        title += say("trust_load.clocks.title_client_sent_late", n_late=len(late))
    elif (found["n_scheduled"] > 0).any():
        title += say("trust_load.clocks.title_client_sent_late_2")
    return Figure(
        id="trust-clocks",
        title=title,
        subtitle=say("trust_load.clocks.subtitle", late_share=words.percent(load.LATE_SHARE)),
        table=pd.DataFrame(
            {
                "run": found["run_id"],
                "clock": found["clock"],
                "late": [
                    words.unknown()
                    if pd.isna(v)
                    else say("trust_load.clocks.late_yes")
                    if v
                    else say("trust_load.clocks.late_no")
                    for v in found["late"]
                ],
                "requests with a schedule": found["n_scheduled"],
                "send delay mean (ms)": found["send_delay_mean_ms"],
                "send delay p99 (ms)": [
                    np.nan if few else value
                    for few, value in zip(
                        found["n_scheduled"] < 662, found["send_delay_p99_ms"], strict=True
                    )
                ],
                "send delay max (ms)": found["send_delay_max_ms"],
                "TTFT mean (ms)": found["ttft_mean_ms"],
                "gaps of length 0 (%)": 100 * found["zero_gap_share"],
            }
        ),
        source=common.dumps_of(campaign, found["run_id"]),
        runs=tuple(sorted(found["run_id"])),
        notes=tuple(
            f"{words.told(clock)}: {words.told(meaning)}."
            for clock, meaning in sorted(
                set(found[["clock", "meaning"]].itertuples(index=False, name=None))
            )
        ),
    )
