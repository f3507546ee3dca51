"""Chapter 02, summaries: the runs that left no records, in the client's own figures alone."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from servebook.measure.metrics import METRICS
from servebook.measure.summaries import summaries
from servebook.publish import words
from servebook.publish.chapters import common
from servebook.publish.output import Figure
from servebook.publish.text import say
from servebook.read.campaign import Campaign

__all__ = ["summaries_alone"]

_NAME = "trust-summaries"
_SHOWN = (
    "duration_s",
    "request_throughput_req_s",
    "input_throughput_tok_s",
    "output_throughput_tok_s",
    *(
        f"{family}_{statistic}_ms"
        for family in ("ttft", "tpot", "itl", "e2e")
        for statistic in ("mean", "p50", "p99")
    ),
)


def summaries_alone(campaign: Campaign) -> Figure:
    """The figures of the runs of level "summary", marked as the client's own."""
    found = summaries(campaign.tables)
    if found.empty:
        return Figure(
            id=_NAME,
            title=say("trust_summaries.summaries_alone.title_runs_left_summary"),
            missing=say("trust_summaries.summaries_alone.missing"),
        )
    table = common.metrics(campaign).set_index("run_id")
    shown = found[(found["variant"] == "") & found["metric"].isin(_SHOWN)]
    wide = shown.set_index(["run_id", "metric"])["value"].unstack("metric")  # noqa: PD010
    wide = wide.reindex(index=pd.unique(found["run_id"]))
    columns = {
        f"{words.told(METRICS[name].label)} ({METRICS[name].unit})": wide[name].to_numpy()
        for name in _SHOWN
        if name in wide
    }
    rows = pd.DataFrame(
        {
            "run": wide.index,
            "requests in flight": table.loc[wide.index, "concurrency"].to_numpy(),
            **columns,
            "workload": table.loc[wide.index, "workload"].to_numpy(),
            "configuration": common.labels(campaign, table.loc[wide.index, "configuration"]),
            "client": table.loc[wide.index, "client"].to_numpy(),
            "level": "summary",
        }
    )
    means = shown[shown["definition"] != ""]
    notes = [
        f"{client}, {_metrics(part['metric'])}: {words.told(str(definition))}."
        for (client, definition), part in means.groupby(["client", "definition"], sort=True)
    ]
    rows = rows.dropna(axis="columns", how="all")
    runs = words.capital(words.count(len(rows), "run"))
    return Figure(
        id=_NAME,
        title=say("trust_summaries.summaries_alone.title_left_summary_alone", runs=runs),
        subtitle=say("trust_summaries.summaries_alone.subtitle"),
        table=rows.reset_index(drop=True),
        alt=say("trust_summaries.summaries_alone.alt", runs=runs),
        source=say(
            "trust_summaries.summaries_alone.source", provenance=common.provenance(campaign)
        ),
        runs=tuple(sorted(wide.index)),
        notes=tuple(notes),
        open_table=True,
    )


def _metrics(names: Iterable[str]) -> str:
    return words.listed(sorted({words.told(METRICS[m].label) for m in names}), most=4)
