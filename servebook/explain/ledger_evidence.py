"""What a campaign's dumps say, looked up by the condition that a printed figure is of.

Everything here comes from the tables of a loaded campaign by the definitions of
``servebook.measure``. Of the printed figures only their condition is used (which configuration,
which run was printed for which metric), never a value.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from servebook.explain.ledger_rows import Printed
from servebook.measure.fabric import LINK, phases, usage_of
from servebook.measure.intervals import good, intervals
from servebook.measure.rails import located, preferred
from servebook.measure.runs import run_metrics
from servebook.measure.saturation import points
from servebook.read.campaign import Campaign

__all__ = ["MEASURED", "THROUGHPUT", "Evidence", "Found", "NotComputableError"]

#: Metric and statistic of a measured figure: the column of ``run_metrics`` that it is.
MEASURED = {
    ("input_throughput", "total"): "input_throughput_tok_s",
    ("output_throughput", "total"): "output_throughput_tok_s",
    ("total_throughput", "total"): "total_throughput_tok_s",
    ("ttft", "mean"): "ttft_mean_ms",
    ("tpot", "mean"): "tpot_mean_ms",
    ("tpot", "p99"): "tpot_p99_ms",
    ("itl", "median"): "itl_p50_ms",
    ("itl", "mean"): "itl_mean_ms",
    ("itl", "p99"): "itl_p99_ms",
}
#: The throughput that a workload is about.
THROUGHPUT = {
    "prefill": "input_throughput_tok_s",
    "decode": "output_throughput_tok_s",
    "mixed": "output_throughput_tok_s",
}


class NotComputableError(Exception):
    """A figure that the campaign does not allow to compute; the message says what is missing."""


@dataclass(frozen=True)
class Found:
    """A computed figure in its printed unit, the run_ids and counter files that it rests on."""

    value: float
    runs: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    how: str = ""


class Evidence:
    """Lookups in one campaign; tables are computed when first asked for."""

    def __init__(self, campaign: Campaign, printed: Sequence[Printed]) -> None:
        """Take the campaign and its printed figures; nothing is computed yet."""
        self.campaign = campaign
        self.printed = tuple(printed)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """``run_metrics`` with isl and osl (asked for, else rounded means) and cache_reuse."""
        frame = run_metrics(self.campaign.tables)
        for name in ("isl", "osl"):
            frame[name] = (
                frame[f"{name}_requested"].astype("Float64").fillna(frame[f"{name}_mean"].round())
            )
        frame["cache_reuse"] = self.campaign.tables.runs["cache_reuse"].to_pylist()
        return frame

    @cached_property
    def _records(self) -> list[dict[str, Any]]:
        return [{str(k): v for k, v in run.items()} for run in self.runs.to_dict("records")]

    def named(self, row: Printed) -> dict[str, Any]:
        """The run that a measured figure names, which must be of the figure's condition."""
        run = next((r for r in self._records if row.run in (r["run_id"], r["path"])), None)
        if run is None:
            raise NotComputableError(f"the campaign holds no run {row.run}")
        for name in ("configuration", "workload", "isl", "osl", "concurrency"):
            wanted = getattr(row, name)
            if wanted not in (None, "") and (pd.isna(run[name]) or run[name] != wanted):
                has = "none" if pd.isna(run[name]) else f"{run[name]}"
                raise NotComputableError(f"{row.run} has {name} {has}, the figure is of {wanted}")
        return run

    def find(
        self,
        column: str,
        *,
        configuration: str,
        workload: str,
        concurrency: int,
        isl: int | None = None,
        osl: int | None = None,
        reuse: bool = False,
        client: str = "",
        other_than: str = "",
    ) -> dict[str, Any]:
        """The one run of a condition for a derived figure over ``column``.

        Runs with cache reuse count only where it is asked for. Where clients overlap, the run
        counts for which the column was printed; ``client`` takes one of them alone, ``other_than``
        leaves one out.
        """
        hits = self._of(configuration, workload, isl, osl)
        hits = [r for r in hits if pd.notna(r["concurrency"]) and r["concurrency"] == concurrency]
        hits = [r for r in hits if (r["cache_reuse"] is True) == reuse]
        if client:
            hits = [r for r in hits if r["client"] == client]
        if other_than:
            hits = [r for r in hits if r["client"] != other_than]
        if len(hits) > 1:
            printed = self._printed_runs(column)
            named = [r for r in hits if r["run_id"] in printed or r["path"] in printed]
            hits = named or hits
        where = _words(configuration, workload, isl, osl, f"{concurrency} in flight")
        if len(hits) != 1:
            count = f"{len(hits)} runs that could be meant" if hits else "no run"
            raise NotComputableError(f"{count}: {where}")
        (run,) = hits
        if pd.isna(run[column]):
            raise NotComputableError(f"{column} is undefined in {run['run_id']}")
        return run

    def curve(
        self,
        column: str,
        *,
        configuration: str,
        workload: str,
        isl: int | None = None,
        osl: int | None = None,
    ) -> pd.DataFrame:
        """``saturation.points`` of a configuration, one run per concurrency."""
        hits = self._of(configuration, workload, isl, osl)
        known = sorted({int(r["concurrency"]) for r in hits if pd.notna(r["concurrency"])})
        if not known:
            where = _words(configuration, workload, isl, osl)
            raise NotComputableError(f"no run: {where}")
        chosen = [
            self.find(
                column,
                configuration=configuration,
                workload=workload,
                isl=isl,
                osl=osl,
                concurrency=c,
            )
            for c in known
        ]
        needed = ("configuration", "workload", "concurrency", "run_id", column)
        return points(
            pd.DataFrame([{name: run[name] for name in needed} for run in chosen]), column
        )

    def lengths(self, configuration: str, workload: str) -> list[tuple[int, int]]:
        """The (isl, osl) that a configuration ran of a workload, in order."""
        hits = self._of(configuration, workload, None, None)
        pairs = ((r["isl"], r["osl"]) for r in hits)
        return sorted({(int(i), int(o)) for i, o in pairs if pd.notna(i) and pd.notna(o)})

    def _of(
        self, configuration: str, workload: str, isl: int | None, osl: int | None
    ) -> list[dict[str, Any]]:
        wanted = {"configuration": configuration, "workload": workload, "isl": isl, "osl": osl}
        wanted = {name: value for name, value in wanted.items() if value not in (None, "")}
        return [
            run
            for run in self._records
            if run["level"] == "records"
            and all(pd.notna(run[name]) and run[name] == value for name, value in wanted.items())
        ]

    def _printed_runs(self, column: str) -> set[str]:
        return {r.run for r in self.printed if MEASURED.get((r.metric, r.stat)) == column}

    @cached_property
    def phases(self) -> pd.DataFrame:
        """``fabric.phases`` of the campaign."""
        return phases(self.campaign.tables.runs, self.campaign.tables.requests)

    @cached_property
    def intervals(self) -> pd.DataFrame:
        """The usable intervals of the campaign's counters."""
        return good(intervals(self.campaign.tables.samples, self.campaign.ports))

    @cached_property
    def by_link(self) -> dict[tuple[Hashable, ...], pd.DataFrame]:
        """``intervals`` of each link (``fabric.LINK``)."""
        return dict(iter(self.intervals.groupby(LINK, sort=True)))

    @cached_property
    def links(self) -> pd.DataFrame:
        """``fabric.usage`` of the uplinks in each run: one view per port, located."""
        tables, ports = self.campaign.tables, self.campaign.ports
        if not tables.samples.num_rows:
            raise NotComputableError("the campaign holds no interface counters")
        seen = located(usage_of(tables.samples, ports, tables.runs, tables.requests), ports)
        seen = preferred(seen[seen["role"] == "uplink"])
        if seen.empty:
            raise NotComputableError(
                "no counters of an uplink overlap a run (the manifest's ports tell the uplinks)"
            )
        return seen


def _words(configuration: str, workload: str, isl: int | None, osl: int | None, *more: str) -> str:
    lengths = f"{isl or 'any'} in / {osl or 'any'} out" if isl or osl else ""
    parts: Iterable[str] = (configuration, workload, lengths, *more)
    return ", ".join(part for part in parts if part)
