"""What the engine itself says, beside the client's load: slots, queueing, KV cache, cache hits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from servebook.measure import engine_use as _use
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.charts import engine_side as charts
from servebook.publish.output import Figure, Statement
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["confirmed", "in_the_engine", "over_time"]

_SLOTS, _TIME = "engine-slots", "engine-over-time"
_ROWS = 16
_NOTES = (
    "engine_side.note_median_aiperf_readings",
    "engine_side.note_requests_wait_although",
)
_BASIS = {
    "statistics": "engine_side.statistics",
    "readings": "engine_side.readings",
}


@common.memo
def _engine(campaign: Campaign) -> pd.DataFrame:
    """``engine_use`` with the slots that the manifest states, in the manifest's order."""
    found = _use.engine_use(campaign.tables)
    stated = {c.name: c.max_num_seqs for c in campaign.manifest.configurations}
    order = {c.name: i for i, c in enumerate(campaign.manifest.configurations)}
    found = found.assign(
        stated=[
            np.nan if (n := stated.get(c)) is None else float(n) for c in found["configuration"]
        ],
        order=[order.get(c, len(order)) for c in found["configuration"]],
    )
    return found.sort_values(
        ["order", "workload", "concurrency", "run_id"], kind="stable", ignore_index=True
    )


def _verdict(campaign: Campaign, name: Any, runs: pd.DataFrame) -> str:
    """One configuration's sentence on its slots and its queue."""
    label = common.label(campaign, None if pd.isna(name) else str(name))
    most, waited = runs["running_max"].max(), runs["waiting_max"].max()
    stated = runs["stated"].iloc[0]
    if np.isnan(most):
        return say("engine_side.verdict.engine_say_many", label=label)
    told = say("engine_side.verdict.told", requests=words.count(int(most), "request"))
    queue = (
        say("engine_side.verdict.queue_none_known_waited")
        if np.isnan(waited)
        else say("engine_side.verdict.queue_none_seen_waiting")
    )
    if waited > 0:
        queue = say("engine_side.verdict.queue_waited", waited=words.number(waited))
    if np.isnan(stated):
        return say("engine_side.verdict.manifest_states_slots", label=label, told=told, queue=queue)
    slots = say("engine_side.verdict.slots", stated=words.number(stated))
    if most > stated:
        return say("engine_side.verdict.manifest_wrong_counts", label=label, told=told, slots=slots)
    if most == stated and waited > 0:
        return say(
            "engine_side.verdict.while_confirms", label=label, told=told, queue=queue, slots=slots
        )
    if most == stated:
        return say("engine_side.verdict.many", label=label, told=told, slots=slots, queue=queue)
    return say("engine_side.verdict.fewer", label=label, told=told, slots=slots, queue=queue)


def _cache(found: pd.DataFrame) -> str:
    share, looked_up = found["cache_hit_share"].dropna(), found["cache_query_tokens"].dropna()
    if len(share):
        span = words.percent(share.min())
        if share.max() > share.min():
            span += say("engine_side.cache.span", share=words.percent(share.max()))
        runs = words.count(len(share), "run")
        return say("engine_side.cache.prompt_tokens_looked", span=span, runs=runs)
    if len(looked_up) and not looked_up.any():
        return say("engine_side.cache.engine_looked_nothing")
    return say("engine_side.cache.engine_say_found")


def _pressure(found: pd.DataFrame) -> str:
    said = []
    kv, preempted = found["kv_use_max"].dropna(), found["preemptions"].dropna()
    if len(kv):
        said.append(say("engine_side.pressure.kv_cache_full", kv=words.percent(kv.max())))
    if len(preempted):
        total = int(preempted.sum())
        times = say("engine_side.pressure.times", times=words.count(total, "time"))
        said.append(times if total else say("engine_side.pressure.request_preempted"))
    text = words.listed(said)
    return f"{words.capital(text)}." if text else say("engine_side.pressure.says_nothing_kv")


def confirmed(campaign: Campaign) -> Statement:
    """Slots, queue, KV cache and cache hits as the engine tells them, by configuration."""
    found = _engine(campaign)
    if found.empty:
        return Statement(
            id="engine-says", sentence=say("engine_side.nothing"), marks=common.marks(campaign)
        )
    # First the configuration whose queue was the longest: there its slots are seen at their limit.
    groups = sorted(
        found.groupby("configuration", sort=False, dropna=False),
        key=lambda group: -np.nan_to_num(group[1]["waiting_max"].max()),
    )
    first, *others = (_verdict(campaign, name, runs) for name, runs in groups)
    pressure, cache = _pressure(found), _cache(found)
    more = say("engine_side.confirmed.more_alone", pressure=pressure, cache=cache)
    if others:
        parts = "; ".join(others)
        more = say("engine_side.confirmed.more", parts=parts, pressure=pressure, cache=cache)
    return Statement(
        id="engine-says",
        sentence=say("engine_side.confirmed.sentence", part=first),
        more=more,
        metric="running_max",
        value=None if np.isnan(found["running_max"].max()) else float(found["running_max"].max()),
        unit="requests",
        caption=say("engine_side.confirmed.caption"),
        n=len(found),
        n_of="runs",
        interval=say("engine_side.confirmed.interval"),
        runs=tuple(sorted(found["run_id"])),
        figure=_SLOTS,
        would_change=say("engine_side.confirmed.would_change"),
        marks=common.marks(campaign, runs=found["run_id"]),
    )


def _conditions(campaign: Campaign, found: pd.DataFrame) -> pd.DataFrame:
    """One row per condition: the largest values over its repeats, the fullest conditions first."""
    keys = ["order", "configuration", "workload", "concurrency"]
    rows = found.groupby(keys, sort=True, dropna=False).agg(
        running=("running_max", "max"), waiting=("waiting_p50", "max"), stated=("stated", "first")
    )
    rows = rows.reset_index().dropna(subset=["running"]).fillna({"waiting": 0.0})
    if len(rows) > _ROWS:
        rows = rows.sort_values("concurrency", ascending=False, kind="stable").head(_ROWS)
        rows = rows.sort_values(["order", "workload", "concurrency"], kind="stable")
    looks = theme.looks(campaign.manifest.configurations)
    names = common.labels(campaign, rows["configuration"])
    loads = [
        say("engine_side.conditions.loads_set_concurrency")
        if np.isnan(c)
        else say("engine_side.conditions.loads_set", c=int(c))
        for c in rows["concurrency"]
    ]
    return rows.assign(
        row=[f"{n} · {w} · {c}" for n, w, c in zip(names, rows["workload"], loads, strict=True)],
        set=rows["concurrency"],
        colour=[looks[c].colour if c in looks else theme.CONTEXT for c in rows["configuration"]],
        text=[
            say("engine_side.conditions.ran", r=words.number(r))
            + (say("engine_side.conditions.waited", w=words.number(w)) if w > 0 else "")
            for r, w in zip(rows["running"], rows["waiting"], strict=True)
        ],
    ).reset_index(drop=True)


def in_the_engine(campaign: Campaign) -> Figure:
    """Requests that ran and waited in the engine, per condition, beside the set concurrency."""
    found = _engine(campaign)
    title = say("engine_side.in_the_engine.title_engine_ran_let")
    if found.empty or found["running_max"].isna().all():
        missing = (
            say("engine_side.undrawn") if found.empty else say("engine_side.in_the_engine.missing")
        )
        return Figure(id=_SLOTS, title=title, missing=missing)
    rows = _conditions(campaign, found)
    queued = rows[rows["waiting"] > 0]
    readings = found["n_readings"].dropna()
    title = (
        say(
            "engine_side.in_the_engine.title_requests_waited_median",
            conditions=words.count(len(queued), "condition"),
            n_rows=len(rows),
            waiting=words.number(queued["waiting"].max()),
        )
        if len(queued)
        else say(
            "engine_side.in_the_engine.title_none_requests_wait",
            conditions=words.count(len(rows), "condition"),
        )
    )
    return Figure(
        id=_SLOTS,
        title=title,
        subtitle=say("engine_side.in_the_engine.subtitle", runs=words.count(len(found), "run"))
        + (
            say("engine_side.in_the_engine.subtitle_readings", n_readings=words.span(readings))
            if len(readings)
            else ""
        ),
        chart=charts.running_and_waiting(
            rows, rows.rename(columns={"stated": "slots"}).dropna(subset=["slots"])
        ),
        table=pd.DataFrame(
            {
                "run": found["run_id"],
                "configuration": common.labels(campaign, found["configuration"]),
                "workload": found["workload"],
                "requests in flight, set": found["concurrency"],
                "slots by the manifest": found["stated"],
                "readings": found["n_readings"],
                "running, median": found["running_p50"],
                "running, most": found["running_max"],
                "waiting, median": found["waiting_p50"],
                "waiting, most": found["waiting_max"],
                "KV cache in use, most (%)": 100 * found["kv_use_max"],
                "cache hits (% of tokens looked up)": 100 * found["cache_hit_share"],
                "preemptions": found["preemptions"],
                "engines": found["n_engines"],
                "from": [say(_BASIS[told]) for told in found["told"]],
            }
        ),
        alt=f"{title}.",
        source=say(
            "engine_side.in_the_engine.source",
            provenance=common.provenance(campaign),
            runs=words.count(len(found), "run"),
        ),
        runs=tuple(sorted(found["run_id"])),
        notes=tuple(map(say, _NOTES)),
    )


def over_time(campaign: Campaign) -> Figure:
    """Requests that ran and waited over time, beside the runs and their concurrency."""
    name, steps = _use.engine_over_time(campaign.tables)
    title = say("engine_side.over_time.title_engine_time")
    if steps.empty:
        why = (
            say("engine_side.undrawn")
            if _engine(campaign).empty
            else say("engine_side.over_time.why")
        )
        return Figure(id=_TIME, title=title, missing=why)
    found = _engine(campaign).set_index("run_id")
    runs = pd.DataFrame(campaign.tables.runs.select(["run_id", "start_ns", "end_ns"]).to_pylist())
    own = found[(found["source"] == name) & (found["told"] == "readings")]
    runs = runs[runs["run_id"].isin(own.index)].sort_values("start_ns", kind="stable")
    begin, end = int(runs["start_ns"].min()), int(runs["end_ns"].max())
    margin = (end - begin) // 20
    steps = steps[steps["ts_ns"].between(begin - margin, end + margin)]
    kv = steps[steps["metric"] == "kv_use_fraction"]
    steps = steps[steps["metric"] != "kv_use_fraction"]
    held = own.loc[runs["run_id"]]
    full = int((held["running_max"] >= held["concurrency"]).sum())
    waited = int((held["waiting_max"] > 0).sum())
    title = say(
        "engine_side.over_time.title_set_concurrency_ran",
        full=full,
        runs=words.count(len(held), "run"),
        waited=waited or say("engine_side.over_time.none"),
    )
    kv_text = (
        say("engine_side.over_time.kv_text", value=words.percent(kv["value"].max()))
        if len(kv)
        else ""
    )
    return Figure(
        id=_TIME,
        title=title,
        subtitle=say(
            "engine_side.over_time.subtitle",
            times=words.count(steps["ts_ns"].nunique(), "time"),
            kv_text=kv_text,
        ),
        chart=charts.over_time(
            pd.DataFrame(
                {
                    "t_s": (steps["ts_ns"] - begin) / 1e9,
                    "value": steps["value"],
                    "what": [words.told(str(metric)) for metric in steps["metric"]],
                }
            ),
            pd.DataFrame(
                {
                    "start_s": ((runs["start_ns"] - begin) / 1e9).to_numpy(),
                    "end_s": ((runs["end_ns"] - begin) / 1e9).to_numpy(),
                    "set": held["concurrency"].to_numpy(),
                    "text": held["workload"].fillna("").to_numpy(),
                    "fill": [theme.PHASES.get(w, theme.PHASES["other"]) for w in held["workload"]],
                }
            ),
        ),
        table=pd.DataFrame(
            {
                "time (UTC)": [words.utc(int(t)) for t in steps["ts_ns"]],
                "seconds since the first run began": (steps["ts_ns"] - begin) / 1e9,
                "what": steps["metric"],
                "requests": steps["value"],
            }
        ).reset_index(drop=True),
        alt=f"{title}.",
        source=f"{common.provenance(campaign)}: {name}",
        runs=tuple(sorted(held.index)),
    )
