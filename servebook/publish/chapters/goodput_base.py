"""What goodput, frontier and cost share: rows per condition, and which are drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd

from servebook.measure.conditions import conditions
from servebook.measure.goodput import goodput
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.text import say
from servebook.read.campaign import Campaign
from servebook.read.manifest_gates import slo_parts

__all__ = ["CONDITION", "drawn", "limits_in_words", "points", "rows_of", "shown"]

#: The columns of a table that tell a row's condition, as ``common.table`` takes them.
CONDITION = (
    ("name", "configuration"),
    ("workload", "load"),
    ("client", "client"),
    ("isl", "input tokens"),
    ("osl", "output tokens"),
    ("concurrency", "requests in flight"),
)
_FAMILIES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL"}
_STATISTICS = {
    "": "goodput.statistics.mean",
    "mean": "goodput.statistics.mean",
    "p50": "goodput.statistics.p50",
    "max": "goodput.statistics.max",
}
_VALUES = (
    "goodput_req_s",
    "goodput_fraction",
    "request_throughput_req_s",
    "gpu_tok_s",
    "frontier",
    "output_per_user_tok_s",
    "output_throughput_tok_s",
    "cost_output",
    "cost_input",
)


def limits_in_words(slos: dict[str, float]) -> str:
    """The limits as a list of words.

    >>> limits_in_words({"ttft_ms": 200.0, "itl_p99_ms": 15.0})
    'TTFT at most 200 ms and p99 ITL at most 15 ms'
    """
    parts = []
    for name, limit in slos.items():
        family, statistic = slo_parts(name)
        which = ""
        if family == "itl":
            known = _STATISTICS.get(statistic or "")
            which = say(known) if known else f"{statistic} "
        parts.append(
            say(
                "goodput.limits_in_words.part",
                which=which,
                family=_FAMILIES.get(family) or say("goodput.e2e"),
                limit=words.milliseconds(limit),
            )
        )
    return words.listed(parts)


@common.memo
def rows_of(campaign: Campaign) -> pd.DataFrame:
    """``conditions`` with goodput, tokens/s per GPU and cost, in manifest order, with looks."""
    found = goodput(campaign.tables, dict(campaign.manifest.slos)).set_index("run_id")
    runs = common.metrics(campaign).copy()
    for name in ("goodput_req_s", "goodput_fraction"):
        runs[name] = runs["run_id"].map(found[name])
    gpus = {c.name: c.gpus for c in campaign.manifest.configurations}
    n = runs["configuration"].map(gpus).astype("Float64").to_numpy(np.float64, na_value=np.nan)
    runs["gpu_tok_s"] = runs["output_throughput_tok_s"] / n
    runs["frontier"] = runs["gpu_tok_s"] * runs["output_per_user_tok_s"]  # both are known
    price = campaign.manifest.price
    per_s = n * price.per_gpu_hour / 3600 if price else np.full(len(runs), np.nan)
    for name in ("output", "input"):
        rate = runs[f"{name}_throughput_tok_s"]
        # A prefill run makes next to no output and a decode run takes in next to no input.
        other = {"output": "prefill", "input": "decode"}[name]
        rate = rate.where((rate > 0) & (runs["workload"] != other))
        runs[f"cost_{name}"] = per_s / rate * 1e6
    return common.styled(campaign, conditions(runs, _VALUES))


def shown(campaign: Campaign, metric: str) -> tuple[str, pd.DataFrame]:
    """The load that is drawn and its rows: mixed if it has values, else decode, else any.

    Of one load, the lengths, client and use of a cache that most conditions share: others ask for
    other work, or measure it otherwise.
    """
    rows = rows_of(campaign)
    known = rows.dropna(subset=[metric])
    for workload in ("mixed", "decode", "prefill", "other"):
        part = known[known["workload"] == workload]
        if len(part):
            keys = ("isl", "osl", "client", "reuse")
            kinds = [str(kind) for kind in zip(*(part[key] for key in keys), strict=True)]
            most = max(sorted(set(kinds)), key=kinds.count)
            part = part[[kind == most for kind in kinds]].reset_index(drop=True)
            return workload, common.styled(campaign, part)
    return "", known


def drawn(rows: pd.DataFrame, workload: str) -> str:
    """The load and its lengths at the head of a subtitle."""
    lengths = words.lengths(float(rows["isl"].iloc[0]), float(rows["osl"].iloc[0]))
    client = rows["client"].iloc[0]
    return say(
        "goodput_base.drawn", workload=words.capital(workload), lengths=lengths, client=client
    )


def points(rows: pd.DataFrame, metric: str, unit: str) -> pd.DataFrame:
    """What ``charts.lines`` draws of a metric: one row per condition."""
    return rows[["concurrency", "series", "label", "colour", "ink", "shape", "dash"]].assign(
        value=rows[metric],
        low=rows[f"{metric}_low"],
        high=rows[f"{metric}_high"],
        tip=[words.rate(v, unit) for v in rows[metric]],
    )
