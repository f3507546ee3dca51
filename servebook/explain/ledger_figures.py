"""Printed figures of runs: each metric of ``published.csv`` as arithmetic on run metrics.

Every function takes a printed figure's condition and the evidence, and returns the computed value
in the printed unit. Conditions in ``stat`` are read ("c64/c16", "c32 to c64"), values never.

- ceiling: mean of the points that a step with a gain below ``PLATEAU_GAIN`` per doubling leads to,
  of the configuration's prefill curve that ``saturation`` calls a plateau;
- saturation concurrency: where the plateau begins, or the peak of a curve that falls after it;
- onset of head-of-line blocking: first concurrency with p99 above ``HOL_RATIO`` x median ITL;
- unsaturated range of two curves: up to the lower of the concurrencies at which they peak;
- centre of several ratios: their geometric mean; of a range: that of its two ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from servebook.explain.ledger_evidence import (
    MEASURED,
    THROUGHPUT,
    Evidence,
    Found,
    NotComputableError,
)
from servebook.explain.ledger_rows import Printed
from servebook.measure.saturation import PLATEAU_GAIN, saturation, steps
from servebook.measure.trust import isolation

__all__ = ["HOL_RATIO", "RUN_FIGURES", "ceiling", "measured", "printed_unit"]

HOL_RATIO = 10.0
_PAIR = re.compile(r"c(\d+)\s*(/|to|minus)\s*c(\d+)")
_PER_UNIT = {"tok/s": 1.0, "ms": 1.0, "s": 1e-3, "x": 1.0}
_STANDARD = "AIPerf"  # the standard client of a cross-check
Figure = Callable[[Printed, Evidence], Found]


def printed_unit(column: str, unit: str) -> float:
    """What a value of the column is multiplied with to stand in a printed unit."""
    if unit not in _PER_UNIT or (unit in ("ms", "s")) != column.endswith("_ms"):
        raise NotComputableError(f"{column} has no unit {unit or '(none)'}")
    return _PER_UNIT[unit]


def measured(row: Printed, evidence: Evidence) -> Found:
    """A metric of one run as it is: the run that the figure names, else its condition's."""
    column = MEASURED[row.metric, row.stat]
    run = evidence.named(row) if row.run else _at(row, evidence, column)
    if pd.isna(run[column]):
        raise NotComputableError(f"{column} is undefined in {run['run_id']}")
    return Found(float(run[column]) * printed_unit(column, row.unit), (run["run_id"],), (), column)


def ceiling(evidence: Evidence, configuration: str, isl: int | None, osl: int | None) -> Found:
    """Prefill ceiling of a configuration in tokens/s; see the module for its definition.

    Lengths that were not run as prefill are ignored: a mixed load meets the same ceiling.
    """
    ran = evidence.lengths(configuration, "prefill")
    wanted = [pair for pair in ran if pair == (isl, osl)] or ran
    column = THROUGHPUT["prefill"]
    plateaus = []
    for inputs, outputs in wanted:
        curve = evidence.curve(
            column, configuration=configuration, workload="prefill", isl=inputs, osl=outputs
        )
        finding = saturation(curve).iloc[0]
        if finding["finding"] == "plateau":
            gains = steps(curve)
            flat = gains[gains["gain_per_doubling"] < PLATEAU_GAIN]["to_concurrency"]
            held = curve[curve["concurrency"].isin(flat)]
            plateaus.append((float(held["value"].mean()), _runs_of(curve)))
    if len(plateaus) != 1:
        found = f"{len(plateaus)} prefill curves with a plateau" if wanted else "no prefill curve"
        raise NotComputableError(f"{found} in {configuration}: no one ceiling")
    return Found(*plateaus[0], how="mean of the points where the curve stands still")


def _at(row: Printed, evidence: Evidence, column: str, **changes: Any) -> dict[str, Any]:
    """The run of the row's condition, with what differs from it in ``changes``."""
    condition: dict[str, Any] = {
        "configuration": row.configuration,
        "workload": row.workload,
        "isl": row.isl,
        "osl": row.osl,
        "concurrency": row.concurrency,
    } | changes
    if condition["concurrency"] is None:
        raise NotComputableError("the figure names no concurrency")
    return evidence.find(column, **condition)


def _pair(row: Printed) -> tuple[int, int]:
    """The two concurrencies that ``stat`` names, in its order."""
    found = _PAIR.search(row.stat)
    if not found:
        raise NotComputableError(f"no two concurrencies in the statistic {row.stat!r}")
    return int(found[1]), int(found[3])


def _pair_of(row: Printed, evidence: Evidence, column: str) -> tuple[float, float, tuple[str, ...]]:
    one, two = (_at(row, evidence, column, concurrency=c) for c in _pair(row))
    return float(one[column]), float(two[column]), (one["run_id"], two["run_id"])


def _throughput(row: Printed) -> str:
    if row.workload not in THROUGHPUT:
        raise NotComputableError(f"no throughput is told for the workload {row.workload!r}")
    return THROUGHPUT[row.workload]


def _curve(row: Printed, evidence: Evidence, column: str, configuration: str = "") -> pd.DataFrame:
    return evidence.curve(
        column,
        configuration=configuration or row.configuration,
        workload=row.workload,
        isl=row.isl,
        osl=row.osl,
    )


def _runs_of(*curves: pd.DataFrame) -> tuple[str, ...]:
    return tuple(sorted({run for curve in curves for runs in curve["runs"] for run in runs}))


def _n_gaps(row: Printed, evidence: Evidence) -> Found:
    held = _isolated(row, evidence, "prefill")
    return Found(float(held["found_value"].sum(skipna=False)), tuple(held["run_id"]))


def _output_tokens(row: Printed, evidence: Evidence) -> Found:
    held = _isolated(row, evidence, "decode")
    return Found(float(held["holds"].all()), tuple(held["run_id"]))


def _isolated(row: Printed, evidence: Evidence, workload: str) -> pd.DataFrame:
    metrics = evidence.runs[evidence.runs["configuration"] == row.configuration]
    checks = isolation(evidence.campaign.tables, metrics[metrics["workload"] == workload])
    if checks.empty or checks["holds"].isna().any():
        raise NotComputableError(f"the {workload} runs do not tell")
    return checks


def _tool_deviation(row: Printed, evidence: Evidence) -> Found:
    """|standard client - other| / standard client, at one concurrency or the largest of all."""
    column = "total_throughput_tok_s"
    found = []
    for at in [row.concurrency] if row.concurrency else _shared(row, evidence):
        mine = _at(row, evidence, column, concurrency=at, client=_STANDARD)
        other = _at(row, evidence, column, concurrency=at, other_than=_STANDARD)
        share = abs(mine[column] - other[column]) / mine[column] * 100
        found.append((float(share), (mine["run_id"], other["run_id"])))
    if not found:
        raise NotComputableError("no concurrency was measured by two clients")
    runs = tuple(sorted({run for _, pair in found for run in pair}))
    return Found(max(share for share, _ in found), runs)


def _shared(row: Printed, evidence: Evidence) -> list[int]:
    """Concurrencies at which the standard client and another one ran the row's condition."""
    runs = evidence.runs
    same = runs[(runs["configuration"] == row.configuration) & (runs["workload"] == row.workload)]
    standard = same["client"] == _STANDARD
    one, two = (set(same[of]["concurrency"].dropna()) for of in (standard, ~standard))
    return sorted(int(c) for c in one & two)


def _step_ratio(row: Printed, evidence: Evidence) -> Found:
    column = _throughput(row)
    ran = [int(c) for c in _curve(row, evidence, column)["concurrency"]]
    before = [c for c in ran if c < (row.concurrency or 0)]
    if not before:
        raise NotComputableError("no lower concurrency was measured")
    now, old = (_at(row, evidence, column, concurrency=c) for c in (row.concurrency, before[-1]))
    return Found(float(now[column] / old[column]), (now["run_id"], old["run_id"]))


def _ceiling(row: Printed, evidence: Evidence) -> Found:
    return ceiling(evidence, row.configuration, row.isl, row.osl)


def _share_of_ceiling(row: Printed, evidence: Evidence) -> Found:
    top = ceiling(evidence, row.configuration, row.isl, row.osl)
    run = _at(row, evidence, THROUGHPUT["prefill"])
    return Found(float(run[THROUGHPUT["prefill"]]) / top.value * 100, top.runs)


def _saturation_concurrency(row: Printed, evidence: Evidence) -> Found:
    curve = _curve(row, evidence, _throughput(row))
    finding = saturation(curve).iloc[0]
    names = {"plateau": "plateau_from", "reversal": "peak_concurrency"}
    if finding["finding"] not in names:
        raise NotComputableError(f"the curve's finding: {finding['finding']}")
    how = f"{finding['finding']}: {finding['rule']}"
    return Found(float(finding[names[finding["finding"]]]), _runs_of(curve), how=how)


def _saturated(row: Printed, evidence: Evidence) -> Found:
    curve = _curve(row, evidence, _throughput(row))
    finding = saturation(curve).iloc[0]
    if finding["finding"] == "too few points":
        raise NotComputableError(finding["rule"])
    return Found(float(finding["finding"] != "not saturated"), _runs_of(curve), how=finding["rule"])


def _throughput_ratio(row: Printed, evidence: Evidence) -> Found:
    column = _throughput(row)
    if len(row.sides) != 2:
        over, under, runs = _pair_of(row, evidence, column)
        return Found(over / under, runs)
    if row.concurrency is not None:
        return _side_by_side(row, evidence, column)
    ratios, runs = _ratios(row, evidence, column, unsaturated="unsaturated" in row.stat)
    choose = max if row.stat.startswith("max") else min
    return Found(choose(ratios.values()), runs)


def _side_by_side(row: Printed, evidence: Evidence, column: str) -> Found:
    one, two = (_at(row, evidence, column, configuration=side) for side in row.sides)
    return Found(float(one[column] / two[column]), (one["run_id"], two["run_id"]))


def _ratios(
    row: Printed, evidence: Evidence, column: str, *, unsaturated: bool = False
) -> tuple[dict[int, float], tuple[str, ...]]:
    """First configuration over second at each concurrency that both ran."""
    curves = [_curve(row, evidence, column, side) for side in row.sides]
    one, two = (c.set_index("concurrency")["value"] for c in curves)
    shared = sorted(set(one.index) & set(two.index))
    if unsaturated:
        peaks = [int(side.index[int(side.to_numpy().argmax())]) for side in (one, two)]
        shared = [c for c in shared if c <= min(peaks)]
    if not shared:
        raise NotComputableError("no concurrency was measured on both sides")
    return {int(c): float(one[c] / two[c]) for c in shared}, _runs_of(*curves)


def _tpot_ratio(row: Printed, evidence: Evidence) -> Found:
    return _side_by_side(row, evidence, "tpot_mean_ms")


def _precision_share(row: Printed, evidence: Evidence) -> Found:
    ratios, runs = _ratios(_as(row, "decode"), evidence, "tpot_mean_ms")
    return Found(_centre(ratios.values()), runs, how="geometric mean of the decode TPOT ratios")


def _node_share(row: Printed, evidence: Evidence) -> Found:
    ratios, runs = _ratios(_as(row, "prefill"), evidence, THROUGHPUT["prefill"], unsaturated=True)
    turned = "/".join(reversed(row.sides))
    precision = _precision_share(_as(row, "decode", turned), evidence)
    middle = _centre((min(ratios.values()), max(ratios.values())))
    return Found(middle / precision.value, tuple(sorted({*runs, *precision.runs})))


def _as(row: Printed, workload: str, configuration: str = "") -> Printed:
    return replace(row, workload=workload, configuration=configuration or row.configuration)


def _centre(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def _throughput_change(row: Printed, evidence: Evidence) -> Found:
    column = _throughput(row)
    if "on against off" in row.stat:
        off, on = (_at(row, evidence, column, reuse=reuse) for reuse in (False, True))
        return Found(float(on[column] / off[column] - 1) * 100, (off["run_id"], on["run_id"]))
    old, new, runs = _pair_of(row, evidence, column)
    return Found((new / old - 1) * 100, runs)


def _ttft_ratio(row: Printed, evidence: Evidence) -> Found:
    over, under, runs = _pair_of(row, evidence, "ttft_mean_ms")
    return Found(over / under, runs)


def _queue_time(row: Printed, evidence: Evidence) -> Found:
    over, under, runs = _pair_of(row, evidence, "ttft_mean_ms")
    return Found((over - under) * printed_unit("ttft_mean_ms", row.unit), runs)


def _efficiency(row: Printed, evidence: Evidence) -> Found:
    old, new, runs = _pair_of(row, evidence, _throughput(row))
    low, high = _pair(row)
    return Found(new / old / (high / low) * 100, runs)


def _p99_over_mean(row: Printed, evidence: Evidence) -> Found:
    run = _at(row, evidence, "tpot_p99_ms")
    return Found(float(run["tpot_p99_ms"] / run["tpot_mean_ms"]), (run["run_id"],))


def _one(column: str, scale: float = 1.0, of: str = "") -> Figure:
    """A column of the condition's run; ``of`` is the printed column that tells which run."""

    def figure(row: Printed, evidence: Evidence) -> Found:
        run = _at(row, evidence, of or column)
        if pd.isna(run[column]):
            raise NotComputableError(f"{column} is undefined in {run['run_id']}")
        return Found(float(run[column]) * scale, (run["run_id"],), how=column)

    return figure


def _median_over_decode(row: Printed, evidence: Evidence) -> Found:
    mixed = _at(row, evidence, "itl_p50_ms")
    alone = _at(row, evidence, "tpot_mean_ms", workload="decode", isl=None, osl=None)
    runs = (mixed["run_id"], alone["run_id"])
    return Found(float(mixed["itl_p50_ms"] / alone["tpot_mean_ms"]), runs)


def _hol_onset(row: Printed, evidence: Evidence) -> Found:
    median = _curve(row, evidence, "itl_p50_ms")
    p99 = _curve(row, evidence, "itl_p99_ms")
    ratio = p99.set_index("concurrency")["value"] / median.set_index("concurrency")["value"]
    above = [int(c) for c in ratio.index if ratio[c] > HOL_RATIO]
    below = [int(c) for c in ratio.index if not above or c < above[0]]
    wanted = below[-1:] if row.stat.startswith("last") else above[:1]
    if not wanted:
        raise NotComputableError(f"p99 / median crosses {HOL_RATIO:g} nowhere in the range")
    return Found(float(wanted[0]), _runs_of(median, p99))


RUN_FIGURES: Mapping[str, Figure] = {
    "n_gaps": _n_gaps,
    "output_tokens": _output_tokens,
    "tool_deviation": _tool_deviation,
    "throughput_step_ratio": _step_ratio,
    "ceiling": _ceiling,
    "share_of_ceiling": _share_of_ceiling,
    "saturation_concurrency": _saturation_concurrency,
    "saturated": _saturated,
    "throughput_ratio": _throughput_ratio,
    "throughput_change": _throughput_change,
    "tpot_ratio": _tpot_ratio,
    "precision_share": _precision_share,
    "node_share": _node_share,
    "ttft_ratio": _ttft_ratio,
    "queue_time": _queue_time,
    "scaling_efficiency": _efficiency,
    "output_throughput_per_user": _one("output_per_user_tok_s", of="tpot_mean_ms"),
    "tpot_p99_over_mean": _p99_over_mean,
    "itl_p99_over_median": _one("itl_p99_over_p50", of="itl_p99_ms"),
    "itl_median_over_decode_tpot": _median_over_decode,
    "stall_share": _one("stall_share_estimate", 100, of="itl_p50_ms"),
    "hol_onset_concurrency": _hol_onset,
}
