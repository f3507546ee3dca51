"""Chapter 02, load: was the set concurrency in flight, and what the clocks allow."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure import load
from servebook.measure.metrics import METRICS
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.charts.deviations import around_zero
from servebook.publish.output import Figure
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
            title="Little's law: the load",
            missing="No run with a set concurrency has records that say how long it took.",
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
        f"Throughput × latency gives back at least {share} of the set concurrency"
        if worst["ratio"] >= LOAD_HELD
        else f"In one run only {share} of the set concurrency was in flight on average ({low})"
        if (known["ratio"] < LOAD_HELD).sum() == 1
        else f"In {(known['ratio'] < LOAD_HELD).sum()} of {len(known)} runs less than "
        f"{words.percent(LOAD_HELD)} of the set concurrency was in flight; at worst {share}"
    )
    dots = pd.DataFrame(
        {
            "row": [f"{w} runs" for w in rows["workload"]],
            "deviation": rows["ratio"] - 1,
            "verdict": ["agrees" if r >= LOAD_HELD else "unexplained" for r in rows["ratio"]],
            "tip": [
                f"{r['name']}, {r['concurrency']} in flight: "
                f"{words.number(r['ratio'] * r['concurrency'])} on average"
                for r in rows.to_dict("records")
            ],
        }
    ).sort_values("row", kind="stable")
    return Figure(
        id="trust-load",
        title=title,
        subtitle=(
            "Little's law: requests/s × mean latency = requests in flight. What is missing is the "
            "ramp at either end of a run and the client's pauses between requests; short runs miss "
            f"more. Shaded: within {words.percent(1 - LOAD_HELD)}. n = "
            f"{words.count(len(known), 'run')}."
        ),
        chart=around_zero(
            dots,
            "mean requests in flight ÷ set concurrency − 1",
            band=1 - LOAD_HELD,
            band_text=f"within {words.percent(1 - LOAD_HELD)}",
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
        notes=(f"{METRICS['mean_in_flight'].label}: {METRICS['mean_in_flight'].definition}.",),
    )


def clocks(campaign: Campaign) -> Figure:
    """What the times of each run can be laid over, and how late its client was."""
    found = load.clocks(campaign.tables, common.metrics(campaign))
    kinds = found["clock"].value_counts()
    late = found[found["late"].eq(True).fillna(False)]
    said = {"epoch": "a wall clock", "relative": "a clock of its own", "none": "durations only"}
    title = words.capital(
        words.listed(
            f"{words.count(int(kinds[k]), 'run')} with {said.get(k, k)}"
            for k in ("epoch", "relative", "none")
            if k in kinds
        )
    )
    if len(late):
        title += f"; in {len(late)} the client sent late"
    elif (found["n_scheduled"] > 0).any():
        title += "; no client sent late"
    return Figure(
        id="trust-clocks",
        title=title,
        subtitle=(
            "Late: the mean delay between scheduled and sent exceeds "
            f"{words.percent(load.LATE_SHARE)} of the mean TTFT (coordinated omission). A dash: "
            "the client does not record when it meant to send."
        ),
        table=pd.DataFrame(
            {
                "run": found["run_id"],
                "clock": found["clock"],
                "late": [
                    words.UNKNOWN if pd.isna(v) else "yes" if v else "no" for v in found["late"]
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
            f"{clock}: {meaning}."
            for clock, meaning in sorted(
                set(found[["clock", "meaning"]].itertuples(index=False, name=None))
            )
        ),
    )
