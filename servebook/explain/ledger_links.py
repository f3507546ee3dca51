"""Printed figures of links: utilisation, rates, sums and cost per token of the uplinks.

Which runs a figure without a concurrency rests on: those with the highest concurrency of its
configuration and workload (the mean, where two are equal), which are known before any value is;
a peak rests on all runs of the workload. How ports become one figure:

- usual, floor: mean over ports and directions of each one's usual (median of the plateau) or
  floor, as ``fabric.usage`` defines them;
- peak: the highest interval of the highest port, with its poll interval as window;
- low and high side of an oscillation: 5th and 95th percentile of a port's intervals inside the
  middle 90 % of the run, mean over ports;
- one port and another: the usual of the highest and of the lowest port, each the mean of its two
  directions;
- rate of a server: sum over its uplinks of their usual rates, mean over servers and directions;
- relative network cost: floor utilisation / output tokens per second, gross.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from servebook.explain.ledger_evidence import THROUGHPUT, Evidence, Found, NotComputableError
from servebook.explain.ledger_figures import Figure
from servebook.explain.ledger_rows import Printed
from servebook.measure.fabric import LINK

__all__ = ["LINK_FIGURES", "usual"]

_TRIM = 0.05  # of a run's time, at each end: where ``fabric.usage`` looks, too
_SIDES = {"low side": 5, "high side": 95}
_RELATIVE = re.compile(r"relative to c(\d+)")
_PAIR = re.compile(r"c(\d+)\s*(?:/|to)\s*c(\d+)")


def usual(evidence: Evidence, configuration: str, workload: str) -> Found:
    """Usual utilisation in % of the uplinks, at the highest concurrency of the workload."""
    rows = _rows(evidence, configuration, workload, None)
    return _found(rows, float(rows["usual_util"].mean()))


def _rows(
    evidence: Evidence,
    configuration: str,
    workload: str,
    concurrency: int | None,
    *,
    every: bool = False,
) -> pd.DataFrame:
    """Uplinks in the runs that a figure rests on; see the module."""
    links = evidence.links
    rows = links[(links["configuration"] == configuration) & (links["workload"] == workload)]
    if rows.empty:
        raise NotComputableError(f"no counters of uplinks: {workload} runs of {configuration}")
    if every:
        shown = rows[rows["why"] == ""]
        rows = rows if shown.empty else shown
    else:
        at = rows["concurrency"].max() if concurrency is None else concurrency
        rows = rows[(rows["concurrency"] == at).fillna(False).to_numpy(dtype=bool)]
        if rows.empty:
            raise NotComputableError(f"no counters of uplinks at {at} in flight")
    silent = [why for why in rows["why"] if why]
    if silent:
        raise NotComputableError(silent[0])
    if rows["usual_util"].isna().any():
        raise NotComputableError("the manifest does not state the speed of every uplink")
    return rows


def _found(rows: pd.DataFrame, value: float, scale: float = 100.0) -> Found:
    runs, sources = (tuple(sorted(set(rows[name]))) for name in ("run_id", "source"))
    return Found(value * scale, runs, sources)


def _utilisation(row: Printed, evidence: Evidence) -> Found:
    peak = row.stat == "peak"
    rows = _rows(
        evidence,
        row.configuration,
        row.workload,
        row.concurrency,
        every=peak and row.concurrency is None,
    )
    if row.stat.startswith("usual"):
        return _found(rows, float(rows["usual_util"].mean()))
    if row.stat == "floor":
        return _found(rows, float(rows["floor_util"].mean()))
    if peak:
        return _found(rows, float(rows["peak_util"].max()))
    for side, percentile in _SIDES.items():
        if row.stat.startswith(side):
            return _found(rows, _side(rows, evidence, percentile))
    if "port" in row.stat:
        ports = _ports(rows)
        return _found(rows, float(ports.min() if row.stat.startswith("another") else ports.max()))
    raise NotComputableError(f"no definition of the statistic {row.stat!r}")


def _ports(rows: pd.DataFrame) -> pd.Series[float]:
    """Usual use of each port over its directions and the runs."""
    return rows.groupby(["device", "interface"], sort=True)["usual_util"].mean()


def _side(rows: pd.DataFrame, evidence: Evidence, percentile: int) -> float:
    frames = evidence.by_link
    when = {run["run_id"]: run for run in evidence.phases.to_dict("records")}
    sides = []
    for run_id, *link in rows[["run_id", *LINK]].itertuples(index=False, name=None):
        t0, t1 = int(when[run_id]["t0_ns"]), int(when[run_id]["t1_ns"])
        trim = int((t1 - t0) * _TRIM)
        frame = frames[tuple(link)]
        inside = (frame["t0_ns"] >= t0 + trim) & (frame["t1_ns"] <= t1 - trim)
        sides.append(np.percentile(frame["util_fraction"][inside], percentile))
    return float(np.mean(sides))


def _link_rate(row: Printed, evidence: Evidence) -> Found:
    rows = _rows(evidence, row.configuration, row.workload, row.concurrency)
    return _found(rows, float(rows["usual_bps"].mean()), 1e-9)


def _server_rate(row: Printed, evidence: Evidence) -> Found:
    rows = _rows(evidence, row.configuration, row.workload, row.concurrency)
    servers = rows.groupby(["run_id", "node", "direction"], sort=True)["usual_bps"].sum()
    if servers.empty:
        raise NotComputableError("the manifest does not say which server an uplink belongs to")
    return _found(rows, float(servers.mean()), 1e-9)


def _utilisation_ratio(row: Printed, evidence: Evidence) -> Found:
    if len(row.sides) == 2:
        return _over(*(usual(evidence, side, row.workload) for side in row.sides))
    pair = _PAIR.search(row.stat)
    if pair:
        floor = replace(row, stat="floor")
        return _over(
            *(_utilisation(replace(floor, concurrency=int(c)), evidence) for c in pair.groups())
        )
    return _prefill_over_decode(row, evidence)


def _prefill_over_decode(row: Printed, evidence: Evidence) -> Found:
    """The least or largest of prefill's usual over decode's, among configurations with both."""
    links = evidence.links
    ratios = []
    for name in sorted(set(links["configuration"].dropna())):
        ran = set(links[links["configuration"] == name]["workload"])
        if {"prefill", "decode"} <= ran:
            ratios.append(_over(*(usual(evidence, name, w) for w in ("prefill", "decode"))))
    if not ratios:
        raise NotComputableError("no configuration has counters for prefill and for decode")
    choose = max if row.stat.startswith("max") else min
    return Found(
        choose(r.value for r in ratios),
        tuple(sorted({run for r in ratios for run in r.runs})),
        tuple(sorted({c for r in ratios for c in r.counters})),
    )


def _over(one: Found, two: Found) -> Found:
    return Found(
        one.value / two.value,
        tuple(sorted({*one.runs, *two.runs})),
        tuple(sorted({*one.counters, *two.counters})),
    )


def _rail_skew(row: Printed, evidence: Evidence) -> Found:
    rows = _rows(evidence, row.configuration, row.workload, row.concurrency)
    ports = _ports(rows)
    return _found(rows, float(ports.max() / ports.min()), 1.0)


def _cost(row: Printed, evidence: Evidence, concurrency: int) -> Found:
    """Floor utilisation (%) over output tokens per second of the decode run."""
    at = replace(row, concurrency=concurrency, stat="floor")
    floor = _utilisation(at, evidence)
    run = evidence.find(
        THROUGHPUT["decode"],
        configuration=row.configuration,
        workload=row.workload,
        isl=row.isl,
        osl=row.osl,
        concurrency=concurrency,
    )
    runs = tuple(sorted({*floor.runs, run["run_id"]}))
    return Found(floor.value / float(run[THROUGHPUT["decode"]]), runs, floor.counters)


def _cost_per_token(row: Printed, evidence: Evidence) -> Found:
    base = _RELATIVE.search(row.stat)
    if base is None or row.concurrency is None:
        raise NotComputableError(f"no reference in the statistic {row.stat!r}")
    return _over(_cost(row, evidence, row.concurrency), _cost(row, evidence, int(base[1])))


def _cost_change(row: Printed, evidence: Evidence) -> Found:
    pair = _PAIR.search(row.stat)
    if pair is None:
        raise NotComputableError(f"no two concurrencies in the statistic {row.stat!r}")
    ratio = _over(_cost(row, evidence, int(pair[2])), _cost(row, evidence, int(pair[1])))
    return replace(ratio, value=(ratio.value - 1) * 100)


LINK_FIGURES: Mapping[str, Figure] = {
    "link_utilisation": _utilisation,
    "link_rate": _link_rate,
    "server_uplink_rate": _server_rate,
    "utilisation_ratio": _utilisation_ratio,
    "rail_skew": _rail_skew,
    "network_cost_per_token": _cost_per_token,
    "network_cost_change": _cost_change,
}
