"""Saturation over concurrency: plateau, knee, reversal and "not saturated" are separate findings.

Everything rests on steps between neighbouring concurrencies. A step's gain is expressed per
doubling of the concurrency, gain = ratio ^ (1 / doublings) - 1, so that 8 to 12 and 8 to 64
compare: 1.0 means that throughput doubles with the concurrency, 0 that it stands still.

Rules (thresholds are parameters of ``saturation`` and belong beside the finding):

- **too few points**: fewer than three concurrencies; the steps are given, no finding is made.
- **reversal**: the last point lies more than ``reversal_drop`` below the level before it (more than
  ``single_drop`` where it or a point of that level is a single run).
- **plateau**: the last step gains less than ``plateau_gain`` per doubling, or it and the step
  before it together do, where that one already did (a single run a few percent up is no growth);
  the plateau starts at the lowest concurrency within ``plateau_band`` of the level after which
  no point lies as far below it as a reversal does.
- **not saturated in the measured range**: else; the top value is a lower bound of what the system
  can do.
- **knee**, beside any of these: the concurrency after which every step gains less than
  ``knee_gain`` per doubling; none if the first step already does, or the last one does not.

The level is the median of the points before the last that lie within ``plateau_band`` of the
highest of them. The highest itself is no level: of many points that scatter one always lies high,
and a drop from it finds a reversal in every plateau that is long enough. One run of 3 % scatter
drops by ``reversal_drop`` by chance in one plateau of six, by ``single_drop`` in one of 45.

Repeats of one concurrency count as their mean. Where a finding turns on a step smaller than the
range of the repeats, ``within_repeats`` says so; with single runs there is no range to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = [
    "KNEE_GAIN",
    "PLATEAU_BAND",
    "PLATEAU_GAIN",
    "REVERSAL_DROP",
    "SINGLE_DROP",
    "points",
    "saturation",
    "steps",
]

PLATEAU_GAIN = 0.05
PLATEAU_BAND = 0.05
REVERSAL_DROP = 0.05
SINGLE_DROP = 0.09
KNEE_GAIN = 0.5

Floats = npt.NDArray[np.float64]

_GROUPS = ("configuration", "workload")
_POINT = ("concurrency", "value", "low", "high", "n_runs")


def points(run_metrics: pd.DataFrame, metric: str, by: Sequence[str] = _GROUPS) -> pd.DataFrame:
    """The curve of ``metric`` over concurrency, one row per group and concurrency, sorted.

    Columns: those of ``by``, concurrency, value (mean over repeats), low, high (range over
    repeats), n_runs, runs (tuple of run_ids). Runs without a concurrency or a value are left out.
    Runs of one group are taken for repeats: add "client" to ``by``, or filter, where they are not.
    """
    known = run_metrics[run_metrics["concurrency"].notna() & run_metrics[metric].notna()]
    rows = [
        {
            **dict(zip((*by, "concurrency"), key, strict=True)),
            "value": float(group[metric].mean()),
            "low": float(group[metric].min()),
            "high": float(group[metric].max()),
            "n_runs": len(group),
            "runs": tuple(sorted(group["run_id"])),
        }
        for key, group in known.groupby([*by, "concurrency"], dropna=False, sort=True)
    ]
    columns = [*by, "concurrency", "value", "low", "high", "n_runs", "runs"]
    return pd.DataFrame(rows, columns=columns).astype({"concurrency": "int64", "n_runs": "int64"})


def steps(curve: pd.DataFrame, by: Sequence[str] = _GROUPS) -> pd.DataFrame:
    """The steps of ``points``, one row per neighbouring pair.

    Columns: those of ``by``, from_concurrency, to_concurrency, ratio (of the values), doublings,
    gain_per_doubling, efficiency (ratio of the values over ratio of the concurrencies),
    within_repeats (the ranges of the two points overlap; null where both are single runs).
    """
    rows = []
    for key, group in _groups(curve, by):
        records = group.to_dict("records")
        for before, after in pairwise(records):
            ratio = after["value"] / before["value"] if before["value"] else np.nan
            load = after["concurrency"] / before["concurrency"]
            rows.append(
                key
                | {
                    "from_concurrency": before["concurrency"],
                    "to_concurrency": after["concurrency"],
                    "ratio": ratio,
                    "doublings": float(np.log2(load)),
                    "gain_per_doubling": float(ratio ** (1 / np.log2(load)) - 1),
                    "efficiency": ratio / load,
                    "within_repeats": _overlap(before, after),
                }
            )
    columns = [
        *by,
        "from_concurrency",
        "to_concurrency",
        "ratio",
        "doublings",
        "gain_per_doubling",
        "efficiency",
        "within_repeats",
    ]
    return pd.DataFrame(rows, columns=columns).astype({"within_repeats": "boolean"})


def saturation(
    curve: pd.DataFrame,
    by: Sequence[str] = _GROUPS,
    *,
    plateau_gain: float = PLATEAU_GAIN,
    plateau_band: float = PLATEAU_BAND,
    reversal_drop: float = REVERSAL_DROP,
    single_drop: float = SINGLE_DROP,
    knee_gain: float = KNEE_GAIN,
) -> pd.DataFrame:
    """One row per group of ``points``: what the curve shows.

    Columns: those of ``by``, finding ("too few points", "reversal", "plateau", "not saturated"),
    n_points, first_concurrency, last_concurrency, peak_value, peak_concurrency, lower_bound (the
    peak is one: not saturated or too few points), last_value, drop_from_peak (fraction),
    plateau_from (concurrency), knee_concurrency, last_gain_per_doubling, within_repeats (the
    finding turns on a difference smaller than the range of the repeats; null: single runs), rule
    (the rule with its threshold, in words). Concurrencies are null where they do not apply.
    """
    step_table = steps(curve, by)
    rows = []
    for key, group in _groups(curve, by):
        own = step_table
        for name, value in key.items():
            own = own[own[name].isna() if pd.isna(value) else own[name] == value]
        gains = own["gain_per_doubling"].to_numpy(dtype=np.float64)
        records = group.to_dict("records")
        values = group["value"].to_numpy(dtype=np.float64)
        top, last = records[int(values.argmax())], records[-1]
        peak = float(top["value"])
        row: dict[str, Any] = key | {
            "n_points": len(records),
            "first_concurrency": records[0]["concurrency"],
            "last_concurrency": last["concurrency"],
            "peak_value": peak,
            "peak_concurrency": top["concurrency"],
            "last_value": float(last["value"]),
            "drop_from_peak": 1 - float(last["value"]) / peak if peak else np.nan,
            "last_gain_per_doubling": gains[-1] if len(gains) else np.nan,
            "within_repeats": pd.NA,
        }
        if len(records) < 3:
            finding, rule = "too few points", "a finding needs three concurrencies"
        else:
            level, near = _level(values, plateau_band)
            singles = bool((group["n_runs"].to_numpy()[near] < 2).any())
            most = single_drop if singles or last["n_runs"] < 2 else reversal_drop
            held = values >= (1 - most) * level
            if not held[-1]:
                finding = "reversal"
                rule = f"the last point lies more than {100 * most:.0f} % below the level before it"
                row["within_repeats"] = _overlap(top, last)
            elif gains[-1] < plateau_gain or _levelled(records, gains, plateau_gain):
                finding = "plateau"
                counted = "step gains" if gains[-1] < plateau_gain else "two steps together gain"
                rule = f"the last {counted} less than {100 * plateau_gain:g} % per doubling"
                start = len(held) - int(np.argmin(held[::-1])) if not held.all() else 0
                start += int(np.argmax(values[start:] >= (1 - plateau_band) * level))
                row["plateau_from"] = records[start]["concurrency"]
            else:
                finding = "not saturated"
                rule = f"the last step still gains at least {100 * plateau_gain:g} % per doubling"
                row["within_repeats"] = _overlap(records[-2], last)
        row |= {
            "finding": finding,
            "rule": rule,
            "lower_bound": finding in ("not saturated", "too few points"),
            "knee_concurrency": _knee(records, gains, knee_gain) if len(records) > 2 else None,
        }
        rows.append(row)
    columns = [
        *by,
        "finding",
        "n_points",
        "first_concurrency",
        "last_concurrency",
        "peak_value",
        "peak_concurrency",
        "lower_bound",
        "last_value",
        "drop_from_peak",
        "plateau_from",
        "knee_concurrency",
        "last_gain_per_doubling",
        "within_repeats",
        "rule",
    ]
    whole = [name for name in columns if name.endswith("concurrency") or name == "plateau_from"]
    return pd.DataFrame(rows, columns=columns).astype(
        dict.fromkeys(whole, "Int64") | {"within_repeats": "boolean", "lower_bound": bool}
    )


def _level(values: Floats, band: float) -> tuple[float, npt.NDArray[np.intp]]:
    """The level before the last point, and the places of the points that make it."""
    before = values[:-1]
    near = np.flatnonzero(before >= (1 - band) * before.max())
    return float(np.median(before[near])), near


def _levelled(records: list[dict[Any, Any]], gains: Any, plateau_gain: float) -> bool:
    """Whether the step before the last stood still and both together gain too little to matter."""
    if gains[-2] >= plateau_gain:
        return False
    first, last = records[-3], records[-1]
    doublings = np.log2(last["concurrency"] / first["concurrency"])
    return bool((last["value"] / first["value"]) ** (1 / doublings) - 1 < plateau_gain)


def _knee(records: list[dict[Any, Any]], gains: Any, knee_gain: float) -> Any:
    """Concurrency at the end of the last step that gains ``knee_gain``; None at either end."""
    enough = np.flatnonzero(gains >= knee_gain)
    if not len(enough) or enough[-1] == len(gains) - 1:
        return None
    return records[int(enough[-1]) + 1]["concurrency"]


def _overlap(one: dict[Any, Any], other: dict[Any, Any]) -> Any:
    if one["n_runs"] < 2 and other["n_runs"] < 2:
        return pd.NA
    return bool(one["low"] <= other["high"] and other["low"] <= one["high"])


def _groups(curve: pd.DataFrame, by: Sequence[str]) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    curve = curve[[*by, *_POINT]]  # a caller's frame may have a hundred columns more
    if not by:
        return [({}, curve)] if len(curve) else []
    return [
        (
            dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True)),
            group.sort_values("concurrency", kind="stable"),
        )
        for key, group in curve.groupby(list(by), dropna=False, sort=True)
    ]
