"""Chapter 07: what one factor does alone, where configurations differ in nothing else."""

from __future__ import annotations

import pandas as pd

from servebook.explain.decompose import separated
from servebook.explain.factors import bundles, level
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.chapters.decomposition_grid import METRIC
from servebook.publish.chapters.reuse import plain
from servebook.publish.output import Figure
from servebook.read.campaign import Campaign

__all__ = ["alone"]


def alone(campaign: Campaign) -> Figure:
    """What one factor does alone, wherever two configurations differ in nothing else."""
    name = "decomposition-alone"
    frames = [
        separated(plain(campaign), campaign.manifest.configurations, metric, workload).assign(
            workload=workload, metric=metric
        )
        for workload, metric in METRIC.items()
    ]
    found = pd.concat([f for f in frames if len(f)] or frames[:1], ignore_index=True)
    if found.empty:
        names = [c.label for c in campaign.manifest.configurations]
        return Figure(
            id=name,
            title="No factor was measured alone",
            missing=(
                "No two configurations of this campaign that differ in one factor only ran the "
                f"same condition ({words.listed(names, most=4) or 'no configuration is stated'}), "
                "so no cause can be told from another by measurement."
            ),
        )
    settings = {c.name: c for c in campaign.manifest.configurations}
    compound = [b for b in bundles(campaign.manifest.configurations) if len(b.factors) > 1]
    parted = set(found["factor"])
    mixed = [n for b in compound for n in b.factors if n not in parted]
    best = common.top(found, found["ratio"].map(lambda r: max(r, 1 / r)))
    title = (
        f"{words.capital(words.listed(dict.fromkeys(found['factor'])))} "
        f"{'are' if common.several(found['factor']) else 'is'} measured alone: up to "
        f"{words.times(max(best['ratio'], 1 / best['ratio']), 3)} ({best['factor']}, "
        f"{best['workload']})"
    )
    if mixed:
        title += f"; {words.listed(mixed)} never"
    return Figure(
        id=name,
        title=title,
        subtitle=(
            "SINGLE VARIABLE: pairs of configurations that differ in one factor only, at one "
            "condition. A factor above 1: the first is better. Throughput in tokens/s."
        ),
        table=pd.DataFrame(
            {
                "Factor": found["factor"],
                "First": common.labels(campaign, found["baseline"]),
                "Level": [
                    level(settings[b], f)
                    for b, f in zip(found["baseline"], found["factor"], strict=True)
                ],
                "Second": common.labels(campaign, found["candidate"]),
                "Level of it": [
                    level(settings[b], f)
                    for b, f in zip(found["candidate"], found["factor"], strict=True)
                ],
                "Workload": found["workload"],
                "Client": found["client"],
                "Requests in flight": found["concurrency"],
                "First over second": found["ratio"],
            }
        ),
        open_table=len(found) <= 8,
        source=common.records_of(campaign, len({r for runs in found["runs"] for r in runs})),
        runs=tuple(sorted({r for runs in found["runs"] for r in runs})),
        notes=(
            (
                "Layout is TP and PP; DP and EP that follow from the number of GPUs are not "
                "counted "
                "as settings of their own."
            ),
        ),
    )
