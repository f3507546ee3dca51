"""What the engine itself says of each run: what ran, what waited, KV cache, cache hits.

Readings count that fall into a run (clock "epoch") or that belong to it by their place. Gauges of
several engines are added up at each time of a reading, with the value that each had last (the
fullest KV cache counts alone); counters are differences per engine, added up, and unknown once one
fell. Statistics that a client made of readings stand in for readings where there are none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from servebook.tables import Tables

__all__ = ["GAUGES", "engine_over_time", "engine_use"]

GAUGES = ("running", "waiting", "kv_use_fraction", "slots", "cache_hit_fraction")
_TOTALS = (
    "cache_hit_tokens",
    "cache_query_tokens",
    "preemptions",
    "prompt_tokens",
    "generation_tokens",
)
#: Fewer readings than these tell no median.
_FEW = 5
_VALUES = (
    "running_p50",
    "running_max",
    "waiting_p50",
    "waiting_max",
    "kv_use_max",
    "slots",
    "cache_hit_share",
    *_TOTALS,
)


def engine_use(tables: Tables) -> pd.DataFrame:
    """One row per run of which an engine says something.

    Columns: run_id, configuration, workload, concurrency, source, told ("readings" or
    "statistics"), n_engines, n_readings (times; NaN for statistics), running_p50, running_max,
    waiting_p50, waiting_max (requests, summed over engines), kv_use_max (0 to 1), slots,
    cache_hit_share (0 to 1; NaN where nothing was looked up), and the counters' increase within
    the run: cache_hit_tokens, cache_query_tokens, preemptions, prompt_tokens, generation_tokens.
    Where statistics of several engines are added up, medians and maxima are sums of theirs. What
    the source that says most leaves out is taken from the next.
    """
    engine = tables.engine.to_pandas()
    rows = []
    for run in tables.runs.to_pylist():
        found = _best(engine, run) if len(engine) else None
        if found is not None:
            keys = ("run_id", "configuration", "workload", "concurrency")
            rows.append({key: run[key] for key in keys} | found)
    columns = ["run_id", "configuration", "workload", "concurrency", "source", "told"]
    columns += ["n_engines", "n_readings", *_VALUES]
    out = pd.DataFrame(rows, columns=columns)
    numbers = ["concurrency", "n_readings", *_VALUES]
    return out.astype(dict.fromkeys(numbers, "float64"))


def _best(engine: pd.DataFrame, run: dict[str, Any]) -> dict[str, Any] | None:
    """The source that says most of a run: readings before statistics, more before fewer."""
    offers = []
    for source, own in engine.groupby("source", sort=True):
        owned = own[own["run_id"].eq(run["run_id"])] if own["run_id"].notna().any() else own
        inside = _inside(owned, run)
        if len(inside):
            offers.append((0, -inside["start_ns"].nunique(), str(source), inside, owned))
        statistics = owned[owned["run_id"].notna() & ~_is_reading(owned)]
        if len(statistics):
            offers.append((1, 0, str(source), statistics, owned))
    if not offers:
        return None
    # A handful of readings says less than a client's statistics over all of its own.
    offers.sort(key=lambda o: (o[0] == 0 and -o[1] < _FEW, *o[:3]))
    first, *others = [
        _statistics(rows) if kind else _readings(rows, owned, run)
        for kind, _, _, rows, owned in offers
    ]
    for other in others:  # what the first does not say
        first |= {name: value for name, value in other.items() if np.isnan(first[name])}
    kind, _, source, rows, _ = offers[0]
    return {
        "source": source,
        "told": "statistics" if kind else "readings",
        "n_engines": rows["engine"].nunique(),
        "n_readings": np.nan if kind else rows["start_ns"].nunique(),
        **first,
        "cache_hit_share": _share(first),
    }


def _is_reading(rows: pd.DataFrame) -> pd.Series[bool]:
    return rows["statistic"].eq("reading")


def _inside(rows: pd.DataFrame, run: dict[str, Any]) -> pd.DataFrame:
    if run["clock"] != "epoch" or run["start_ns"] is None or run["end_ns"] is None:
        return rows.iloc[:0]
    inside = rows["start_ns"].between(run["start_ns"], run["end_ns"])
    return rows[_is_reading(rows) & inside]


def _summed(rows: pd.DataFrame, metric: str) -> pd.Series[float]:
    """One gauge over time for all engines: each keeps its last value until the next."""
    own = rows[rows["metric"] == metric]
    if own.empty:
        return pd.Series(dtype="float64")
    wide = own.pivot_table(index="start_ns", columns="engine", values="value", aggfunc="last")
    held = wide.sort_index().ffill().dropna()
    if metric in ("kv_use_fraction", "cache_hit_fraction"):
        return held.max(axis=1)
    return held.sum(axis=1)


def _readings(inside: pd.DataFrame, owned: pd.DataFrame, run: dict[str, Any]) -> dict[str, float]:
    out: dict[str, float] = {}
    for name in ("running", "waiting"):
        values = _summed(inside, name)
        out[f"{name}_p50"] = float(values.median()) if len(values) else np.nan
        out[f"{name}_max"] = float(values.max()) if len(values) else np.nan
    for name, column in (("kv_use_fraction", "kv_use_max"), ("slots", "slots")):
        values = _summed(inside, name)
        out[column] = float(values.max()) if len(values) else np.nan
    hit = _summed(inside, "cache_hit_fraction")
    out["_hit"] = float(hit.median()) if len(hit) else np.nan
    readings = owned[_is_reading(owned)]
    for name in _TOTALS:
        out[name] = _increase(readings[readings["metric"] == name], run)
    return out


def _increase(rows: pd.DataFrame, run: dict[str, Any]) -> float:
    """How far a counter rose in a run; from the last reading before it, where there is one."""
    total, found = 0.0, False
    for _, own in rows.groupby("engine", sort=True):
        own = own.sort_values("start_ns", kind="stable")
        before = own[own["start_ns"] <= run["start_ns"]].tail(1)
        inside = own[own["start_ns"].between(run["start_ns"], run["end_ns"])]
        values = pd.concat([before, inside])["value"].to_numpy()
        if len(values) < 2:
            continue
        if (np.diff(values) < 0).any():  # the engine was started anew
            return np.nan
        total, found = total + float(values[-1] - values[0]), True
    return total if found else np.nan


def _statistics(rows: pd.DataFrame) -> dict[str, float]:
    def of(metric: str, statistic: str, how: str = "sum") -> float:
        own = rows[(rows["metric"] == metric) & (rows["statistic"] == statistic)]["value"]
        return float(own.agg(how)) if len(own) else np.nan

    out = {
        f"{name}_{statistic}": of(name, statistic)
        for name in ("running", "waiting")
        for statistic in ("p50", "max")
    }
    out["kv_use_max"] = of("kv_use_fraction", "max", "max")
    out["slots"] = of("slots", "max")
    out["_hit"] = of("cache_hit_fraction", "p50", "max")
    return out | {name: of(name, "total") for name in _TOTALS}


def _share(values: dict[str, float]) -> float:
    """Tokens found over tokens looked up (or all prompt tokens); else the engine's own ratio."""
    own = values.pop("_hit")
    looked_up = values["cache_query_tokens"]
    if np.isnan(looked_up) and not np.isnan(values["cache_hit_tokens"]):
        looked_up = values["prompt_tokens"]
    if looked_up > 0:
        return values["cache_hit_tokens"] / looked_up
    return own if np.isnan(looked_up) else np.nan


def engine_over_time(tables: Tables) -> tuple[str, pd.DataFrame]:
    """The source whose readings fall into most runs, and its gauges over time.

    Columns: ts_ns, metric (running, waiting, kv_use_fraction), value (summed over engines; the
    fullest KV cache). Empty where no source has readings within a run.
    """
    engine = tables.engine.to_pandas()
    use = engine_use(tables)
    read = use[use["told"] == "readings"]
    if read.empty:
        return "", pd.DataFrame({"ts_ns": [], "metric": [], "value": []})
    counts = read.groupby("source")["n_readings"].agg(["size", "sum"]).reset_index()
    best = counts.sort_values(["size", "sum", "source"], ascending=[False, False, True])
    source = str(best["source"].iloc[0])
    own = engine[(engine["source"] == source) & _is_reading(engine)]
    parts = []
    for metric in ("running", "waiting", "kv_use_fraction"):
        values = _summed(own, metric)
        parts.append(
            pd.DataFrame({"ts_ns": values.index, "metric": metric, "value": values.to_numpy()})
        )
    return source, pd.concat(parts, ignore_index=True).astype({"ts_ns": "int64"})
