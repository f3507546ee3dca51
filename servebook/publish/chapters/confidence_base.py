"""Chapter 09, what its cells share: which campaigns may be judged, ratios of runs, words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.equivalence import MARGIN, Equivalence, equivalence
from servebook.measure.gate import Gate, gate
from servebook.measure.percentiles import below_floor
from servebook.measure.spread import elsewhere, spread
from servebook.publish import theme, words
from servebook.publish.chapters import common
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = [
    "OF_WORKLOAD",
    "STATED_MARGIN",
    "all_pairs",
    "condition_label",
    "enough",
    "look",
    "no_judgement",
    "null_words",
    "ratio_rows",
    "run_label",
    "spreads",
]

#: What a workload is compared in.
OF_WORKLOAD: Mapping[str, tuple[str, ...]] = {
    "prefill": ("input_throughput_tok_s", "ttft_p50_ms"),
    "decode": ("output_throughput_tok_s", "tpot_mean_ms"),
    "mixed": ("output_throughput_tok_s", "ttft_p50_ms", "tpot_mean_ms", "itl_p99_ms"),
    "other": ("output_throughput_tok_s", "ttft_p50_ms", "tpot_mean_ms", "itl_p99_ms"),
}
_FEWEST = ("n_ok_least", "n_gaps_least")
_CONDITION = ["client", "workload", "isl", "osl", "reuse", "concurrency"]


def no_judgement(campaign: Campaign, figure: str, title: str, what: str) -> Figure | None:
    """The figure of a reconstructed campaign: why ``what`` is not given; None for others."""
    if campaign.manifest.provenance != "reconstructed":
        return None
    return Figure(
        id=figure,
        title=title,
        missing=say("confidence_base.no_judgement.missing", what=words.capital(what)),
    )


def look(campaign: Campaign, configuration: str) -> theme.Look:
    """Colour, ink and marker of a configuration."""
    return theme.looks(campaign.manifest.configurations)[configuration]


def condition_label(row: Mapping[Any, Any] | pd.Series[Any], *, lengths: bool = True) -> str:
    """A condition in words: "mixed, 768 in / 128 out, 8 in flight"."""
    parts = [str(row["workload"])]
    parts += [words.lengths(row["isl"], row["osl"])] if lengths else []
    return ", ".join([*parts, say("shared.in_flight", concurrency=row["concurrency"])])


def run_label(campaign: Campaign, run: Mapping[Any, Any] | pd.Series[Any]) -> str:
    """A run in words: "16 slots, mixed, 8 in flight"."""
    name = None if pd.isna(run["configuration"]) else str(run["configuration"])
    load = (
        ""
        if pd.isna(run["concurrency"])
        else say("confidence_base.run_label.load", concurrency=int(run["concurrency"]))
    )
    return f"{common.label(campaign, name)}, {run['workload']}{load}"


def all_pairs(campaign: Campaign) -> list[tuple[str, str]]:
    """All pairs of configurations that ran, each (first, second) as their ratio is formed.

    The manifest's baseline and candidate come first; the others in manifest order.
    """
    present = set(common.by_condition(campaign)["configuration"])
    names = [c.name for c in campaign.manifest.configurations if c.name in present]
    pairs = list(combinations(names, 2))
    main = campaign.manifest.baseline, campaign.manifest.candidate
    if main[0] in names and main[1] in names:
        rest = [p for p in pairs if set(p) != set(main)]
        return [(str(main[0]), str(main[1])), *rest]
    return pairs


@common.memo
def spreads(campaign: Campaign) -> pd.DataFrame:
    """``measure.spread`` of every repeated condition, in the metrics of its workload."""
    conditions, metrics = common.by_condition(campaign), common.metrics(campaign)
    every = list(dict.fromkeys(m for own in OF_WORKLOAD.values() for m in own))
    found = spread(conditions, metrics, every)
    fewest = conditions.set_index(["series", "concurrency"])
    kept = [
        row["metric"] in OF_WORKLOAD[row["workload"]]
        and enough(fewest.loc[(row["series"], row["concurrency"])], row["metric"])
        for row in found.to_dict("records")
    ]
    return found[np.array(kept, dtype=bool)].reset_index(drop=True)


def enough(condition: Mapping[Any, Any] | pd.Series[Any], metric: str) -> bool:
    """Whether each run of a row of ``conditions`` has the values that a percentile takes."""
    found = re.search(r"_p(\d+)_", metric)
    n = condition["n_gaps_least" if metric.startswith("itl") else "n_ok_least"]
    return found is None or not below_floor(float(found.group(1)), float(n))


@common.memo
def ratio_rows(campaign: Campaign) -> pd.DataFrame:
    """One row per pair of configurations, condition that both ran, and metric.

    Percentiles of fewer values than their floor in any run are left out. Columns: first, second
    (configurations), those of a condition, metric, n_ok_least, n_gaps_least (of the run with the
    fewest, either side), values_first, values_second (tuples over runs), found (``Equivalence`` of
    second / first), gate (``Gate``),
    noise (highest / lowest - 1 of the repeats that tell most; NaN), noise_row (their row of
    ``spread`` or None), runs_first, runs_second, runs.
    """
    conditions = common.by_condition(campaign)
    metrics = common.metrics(campaign)
    by_run = metrics.set_index("run_id")
    rows: list[dict[str, Any]] = []
    for first, second in all_pairs(campaign):
        sides = [conditions[conditions["configuration"] == n] for n in (first, second)]
        both = sides[0].merge(sides[1], on=_CONDITION, suffixes=("_a", "_b"))
        for row in both.to_dict("records"):
            runs = [list(row["runs_a"]), list(row["runs_b"])]
            opened = _gate(campaign, first, second, by_run.loc[[*runs[0], *runs[1]]])
            for metric in OF_WORKLOAD.get(row["workload"], OF_WORKLOAD["other"]):
                a, b = (by_run.loc[r, metric].to_numpy(dtype=np.float64) for r in runs)
                if not (np.isfinite(a).all() and np.isfinite(b).all() and min(*a, *b) > 0):
                    continue
                fewest = {k: min(row[f"{k}_a"], row[f"{k}_b"]) for k in _FEWEST}
                if not enough(fewest, metric):
                    continue
                noise = elsewhere(spreads(campaign), metric, row["workload"])
                if noise is None and "throughput" in metric:  # that of the other kind of token
                    noise = elsewhere(spreads(campaign), "output_throughput_tok_s", "mixed")
                rows.append(
                    {name: row[name] for name in _CONDITION}
                    | {
                        "first": first,
                        "second": second,
                        "metric": metric,
                        **fewest,
                        "values_first": tuple(a),
                        "values_second": tuple(b),
                        "found": equivalence(b, a),  # second / first
                        "gate": opened,
                        "noise": np.nan if noise is None else float(noise["range"]),
                        "noise_row": noise,
                        "runs_first": tuple(runs[0]),
                        "runs_second": tuple(runs[1]),
                        "runs": tuple(sorted({*runs[0], *runs[1]})),
                    }
                )
    columns = ["first", "second", *_CONDITION, "metric", *_FEWEST, "values_first", "values_second"]
    columns += ["found", "gate", "noise", "noise_row", "runs_first", "runs_second", "runs"]
    return pd.DataFrame(rows, columns=columns)


def _gate(campaign: Campaign, first: str, second: str, runs: pd.DataFrame) -> Gate:
    one, two = (campaign.manifest.configuration(name) for name in (first, second))
    if one is None or two is None:
        raise KeyError(f"no configuration {first} or {second}")
    return gate(one, two, runs.reset_index())


def null_words(found: Equivalence, noise: pd.Series[Any] | None, campaign: Campaign) -> str:
    """What the runs allow to say about "no effect"."""
    margin = words.percent(found.margin)
    if found.finding == "not testable":
        apart = words.percent(max(found.ratio.value, 1 / found.ratio.value) - 1)
        text = say("confidence_base.null_words.text", why=words.told(found.ratio.why), apart=apart)
        if noise is None:
            return say("confidence_base.null_words.condition_repeated_nothing", text=text)
        where = f"{common.label(campaign, noise['configuration'])}, " + condition_label(
            noise, lengths=False
        )
        return say(
            "confidence_base.null_words.condition_differs_elsewhere",
            text=text,
            range=words.percent(float(noise["range"])),
            n_runs=noise["n_runs"],
            where=where,
        )
    largest = say("confidence_base.null_words.largest", largest=words.percent(found.largest))
    return {
        "same within the margin": say(
            "confidence_base.null_words.same_within_the_margin", largest=largest, margin=margin
        ),
        "different, yet within the margin": say(
            "confidence_base.null_words.different_yet_within_the_margin",
            largest=largest,
            margin=margin,
        ),
        "different": say(
            "confidence_base.null_words.different", largest=words.percent(found.largest)
        ),
        "undecided": say("confidence_base.null_words.undecided", margin=margin, largest=largest),
    }[found.finding]


#: The margin of equivalence that the chapter states.
STATED_MARGIN = MARGIN
