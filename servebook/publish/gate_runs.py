"""The table that gates are checked on: per run all metrics, goodput, errors and use of links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.conditions import lengths
from servebook.measure.goodput import goodput
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.traffic import per_run
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["by_condition_name", "gate_runs"]


def gate_runs(campaign: Campaign, slos: dict[str, float] | None = None) -> pd.DataFrame:
    """One row per run: ``common.metrics``, ``gates.EXTRA`` and ``why_<metric>`` (a reason or "").

    ``slos`` replaces the manifest's limits: a baseline is judged by those of the campaign that is
    checked.
    """
    runs = common.metrics(campaign).copy()
    runs["configuration"] = runs["configuration"].fillna("no configuration")
    runs["client"] = runs["client"].fillna("unknown client")
    runs["workload"] = runs["workload"].fillna("other")
    good = goodput(campaign.tables, dict(campaign.manifest.slos) if slos is None else slos)
    good = good.set_index("run_id").reindex(runs["run_id"])
    for name in ("goodput_fraction", "goodput_req_s"):
        runs[name] = good[name].to_numpy()
        runs[f"why_{name}"] = good["why"].to_numpy()
    runs["error_fraction"], runs["why_error_fraction"] = _errors(runs)
    gpus = {c.name: c.gpus for c in campaign.manifest.configurations}
    n = runs["configuration"].map(gpus).astype("Float64").to_numpy(np.float64, na_value=np.nan)
    runs["output_per_gpu_tok_s"] = runs["output_throughput_tok_s"] / n
    runs["why_output_per_gpu_tok_s"] = np.where(
        np.isnan(n), "the manifest does not state the configuration's `gpus`", ""
    )
    return _links(campaign, runs)


def _errors(runs: pd.DataFrame) -> tuple[pd.Series[float], list[str]]:
    bad = runs[["n_failed", "n_cancelled"]].sum(axis="columns", skipna=False)
    lost = runs["n_lost"].fillna(0)
    share = (bad + lost) / (runs["n_requests"] + lost)
    why = np.where(share.isna(), "the dump does not tell how many requests failed", "")
    return share, list(why)


def _links(campaign: Campaign, runs: pd.DataFrame) -> pd.DataFrame:
    seen = per_run(campaign).set_index("run_id")
    ids = runs["run_id"]
    for name, column in (
        ("link_usual_util_fraction", "usual_util"),
        ("link_peak_util_fraction", "peak_util"),
    ):
        values = ids.map(seen[column]).astype("float64") if len(seen) else np.nan
        runs[name] = values
        runs[f"why_{name}"] = [
            "" if not np.isnan(value) else _why_no_link(run, seen)
            for run, value in zip(ids, np.broadcast_to(runs[name], len(runs)), strict=True)
        ]
    return runs


def _why_no_link(run: str, seen: pd.DataFrame) -> str:
    if seen.empty:
        return say("traffic.no_counters").partition(".")[0]
    if run not in seen.index:
        return "no link was watched during this run"
    return "the speed of the links is not stated"


def by_condition_name(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """The run tables with ``condition``, a name of one line that is the same in all of them.

    Lengths that no dump asked for are made alike over all tables together, as within a campaign.
    Sorted by configuration as it comes, workload, concurrency, run_id.
    """
    together = pd.concat(
        [frame.assign(_frame=i) for i, frame in enumerate(frames)], ignore_index=True
    )
    for name in ("isl", "osl"):
        together[name] = lengths(together, name)
    together["condition"] = [_name(row) for row in together.to_dict("records")]
    order = list(dict.fromkeys(together["configuration"]))
    together["_order"] = together["configuration"].map(order.index)
    together = together.sort_values(
        ["_order", "workload", "client", "isl", "osl", "concurrency", "run_id"], kind="stable"
    )
    return [
        part.drop(columns=["_frame", "_order"]).reset_index(drop=True)
        for part in (together[together["_frame"] == i] for i in range(len(frames)))
    ]


def _name(row: Mapping[Any, Any]) -> str:
    concurrency, rate = row["concurrency"], row["request_rate"]
    parts = [
        str(row["configuration"]),
        str(row["workload"]),
        words.lengths_short(_float(row["isl"]), _float(row["osl"])),
        f"c{concurrency}" if not pd.isna(concurrency) else "",
        f"{rate:g} requests/s" if isinstance(rate, float) and not np.isnan(rate) else "",
        str(row["client"]),
    ]
    reuse = row["cache_reuse"]
    parts += ["cache reuse"] if not pd.isna(reuse) and bool(reuse) else []
    return " ".join(part for part in parts if part)


def _float(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)
