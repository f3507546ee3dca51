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
from servebook.publish.text import say
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
            title=say("decomposition_alone.alone.title_factor_measured_alone"),
            missing=say(
                "decomposition_alone.alone.missing_configurations_campaign_differ",
                names=words.listed(names, most=4)
                or say("decomposition_alone.alone.missing_configuration_stated"),
            ),
        )
    settings = {c.name: c for c in campaign.manifest.configurations}
    compound = [b for b in bundles(campaign.manifest.configurations) if len(b.factors) > 1]
    parted = set(found["factor"])
    mixed = [n for b in compound for n in b.factors if n not in parted]
    best = common.top(found, found["ratio"].map(lambda r: max(r, 1 / r)))
    title = say(
        "decomposition_alone.alone.title_measured_alone",
        factor=words.capital(words.listed(map(words.told, dict.fromkeys(found["factor"])))),
        are=say("decomposition_alone.alone.title_are")
        if common.several(found["factor"])
        else say("decomposition_alone.alone.title_is"),
        ratio=words.times(max(best["ratio"], 1 / best["ratio"]), 3),
        factor_2=words.told(best["factor"]),
        workload=best["workload"],
    )
    if mixed:
        title += say(
            "decomposition_alone.alone.title_never", mixed=words.listed(map(words.told, mixed))
        )
    return Figure(
        id=name,
        title=title,
        subtitle=say("decomposition_alone.alone.subtitle"),
        table=pd.DataFrame(
            {
                "Factor": found["factor"],
                "First over second": found["ratio"],
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
            }
        ),
        open_table=len(found) <= 8,
        source=common.records_of(campaign, len({r for runs in found["runs"] for r in runs})),
        runs=tuple(sorted({r for runs in found["runs"] for r in runs})),
        notes=(say("decomposition_alone.alone.note"),),
    )
