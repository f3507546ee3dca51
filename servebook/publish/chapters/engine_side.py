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
from servebook.read.campaign import Campaign

__all__ = ["confirmed", "in_the_engine", "over_time"]

_SLOTS, _TIME = "engine-slots", "engine-over-time"
_ROWS = 16
_NOTHING = (
    "No metrics of the engine lie beside the runs, so slots, queueing and cache hits are known "
    "from the client's side and the manifest alone. AIPerf saves them by itself where the server "
    "answers /metrics; docs/formats.md names the other ways."
)
_UNDRAWN = "Nothing to draw: no metrics of the engine lie beside the runs."
_NOTES = (
    (
        "A median over AIPerf's readings holds some from before and after the requests, which "
        "lowers it in short runs."
    ),
    (
        "Where requests wait although slots are free, the KV cache or the token budget of a step "
        "may hold them back."
    ),
)
_BASIS = {
    "statistics": "AIPerf's statistics over its own readings",
    "readings": "readings within the run",
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
        return f"{label}: the engine does not say how many requests ran"
    told = f"at most {words.count(int(most), 'request')} ran at once"
    queue = "none is known to have waited" if np.isnan(waited) else "none was seen waiting"
    if waited > 0:
        queue = f"up to {words.number(waited)} waited"
    if np.isnan(stated):
        return f"{label}: {told}, {queue}; the manifest states no slots"
    slots = f"the {words.number(stated)} slots of the manifest"
    if most > stated:
        return f"{label}: {told}, more than {slots}: the manifest is wrong or counts one of several"
    if most == stated and waited > 0:
        return f"{label}: {told} while {queue}, which confirms {slots}"
    if most == stated:
        return f"{label}: {told}, as many as {slots}, and {queue}"
    return f"{label}: {told}, fewer than {slots}, and {queue}"


def _cache(found: pd.DataFrame) -> str:
    share, looked_up = found["cache_hit_share"].dropna(), found["cache_query_tokens"].dropna()
    if len(share):
        span = words.percent(share.min())
        if share.max() > share.min():
            span += f" to {words.percent(share.max())}"
        runs = words.count(len(share), "run")
        return (
            f"Of the prompt tokens that were looked up, {span} were in the prefix cache ({runs})."
        )
    if len(looked_up) and not looked_up.any():
        return "The engine looked nothing up in a prefix cache: it is off, or does not count."
    return "The engine does not say what it found in a prefix cache."


def _pressure(found: pd.DataFrame) -> str:
    said = []
    kv, preempted = found["kv_use_max"].dropna(), found["preemptions"].dropna()
    if len(kv):
        said.append(f"the KV cache was at most {words.percent(kv.max())} full")
    if len(preempted):
        total = int(preempted.sum())
        times = f"requests were preempted {words.count(total, 'time')}"
        said.append(times if total else "no request was preempted")
    text = words.listed(said)
    return f"{words.capital(text)}." if text else "It says nothing of its KV cache."


def confirmed(campaign: Campaign) -> Statement:
    """Slots, queue, KV cache and cache hits as the engine tells them, by configuration."""
    found = _engine(campaign)
    if found.empty:
        return Statement(id="engine-says", sentence=_NOTHING, marks=common.marks(campaign))
    parts = [
        _verdict(campaign, name, runs)
        for name, runs in found.groupby("configuration", sort=False, dropna=False)
    ]
    sentence = f"The engine's own metrics: {'; '.join(parts)}. {_pressure(found)} {_cache(found)}"
    return Statement(
        id="engine-says",
        sentence=sentence,
        metric="running_max",
        value=None if np.isnan(found["running_max"].max()) else float(found["running_max"].max()),
        unit="requests",
        caption="most requests that ran at once",
        n=len(found),
        n_of="runs",
        interval="no interval: a maximum",
        runs=tuple(sorted(found["run_id"])),
        figure=_SLOTS,
        would_change=(
            "Metrics read more often: a queue that fills and empties between two readings is not "
            "seen."
        ),
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
    loads = ["no set concurrency" if np.isnan(c) else f"{int(c)} set" for c in rows["concurrency"]]
    return rows.assign(
        row=[f"{n} · {w} · {c}" for n, w, c in zip(names, rows["workload"], loads, strict=True)],
        set=rows["concurrency"],
        colour=[looks[c].colour if c in looks else theme.CONTEXT for c in rows["configuration"]],
        text=[
            f"{words.number(r)} ran" + (f", {words.number(w)} waited" if w > 0 else "")
            for r, w in zip(rows["running"], rows["waiting"], strict=True)
        ],
    ).reset_index(drop=True)


def in_the_engine(campaign: Campaign) -> Figure:
    """Requests that ran and waited in the engine, per condition, beside the set concurrency."""
    found = _engine(campaign)
    title = "What the engine ran and let wait"
    if found.empty or found["running_max"].isna().all():
        missing = _UNDRAWN if found.empty else "The engine does not say how many requests ran."
        return Figure(id=_SLOTS, title=title, missing=missing)
    rows = _conditions(campaign, found)
    queued = rows[rows["waiting"] > 0]
    title = (
        f"Requests waited in {words.count(len(queued), 'condition')} of {len(rows)}, at most "
        f"{words.number(queued['waiting'].max())} of them in the median reading"
        if len(queued)
        else f"In none of {words.count(len(rows), 'condition')} did requests wait in the median "
        "reading"
    )
    return Figure(
        id=_SLOTS,
        title=title,
        subtitle=(
            "Bars: the most that ran at once, then, in grey, those that waited in the median "
            "reading. Line: the set concurrency. Triangle: slots by the manifest. "
            f"n = {words.count(len(found), 'run')}."
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
                "running, median": found["running_p50"],
                "running, most": found["running_max"],
                "waiting, median": found["waiting_p50"],
                "waiting, most": found["waiting_max"],
                "KV cache in use, most (%)": 100 * found["kv_use_max"],
                "cache hits (% of tokens looked up)": 100 * found["cache_hit_share"],
                "preemptions": found["preemptions"],
                "engines": found["n_engines"],
                "from": [_BASIS[told] for told in found["told"]],
            }
        ),
        alt=f"{title}.",
        source=f"{campaign.manifest.provenance}: the engine's own metrics of "
        f"{words.count(len(found), 'run')}",
        runs=tuple(sorted(found["run_id"])),
        notes=_NOTES,
    )


def over_time(campaign: Campaign) -> Figure:
    """Requests that ran and waited over time, beside the runs and their concurrency."""
    name, steps = _use.engine_over_time(campaign.tables)
    title = "The engine over time"
    if steps.empty:
        why = (
            _UNDRAWN
            if _engine(campaign).empty
            else "Only statistics of whole runs are there: no time stands beside a reading. AIPerf "
            "keeps the readings with --server-metrics-formats json csv jsonl."
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
    title = (
        f"All of the set concurrency ran at some time in {full} of "
        f"{words.count(len(held), 'run')}; requests waited in {waited or 'none'}"
    )
    kv_text = f" KV cache: at most {words.percent(kv['value'].max())} full." if len(kv) else ""
    return Figure(
        id=_TIME,
        title=title,
        subtitle=(
            f"Readings of the engine ({words.count(steps['ts_ns'].nunique(), 'time')}); bands: "
            f"runs; dotted: the set concurrency.{kv_text} What happened between two readings stays "
            "unknown."
        ),
        chart=charts.over_time(
            pd.DataFrame(
                {
                    "t_s": (steps["ts_ns"] - begin) / 1e9,
                    "value": steps["value"],
                    "what": steps["metric"],
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
        source=f"{campaign.manifest.provenance}: {name}",
        runs=tuple(sorted(held.index)),
    )
