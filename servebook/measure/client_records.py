"""The records of one run as arrays, for definitions that are a client's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.runs import gap_positions, request_metrics
from servebook.read.definition import Floats, Records
from servebook.tables import Tables, of_run

__all__ = ["client_records"]


def client_records(tables: Tables) -> Callable[[str], Records]:
    """A function from run_id to that run's ``Records``; nothing is built before it is called."""
    # Closures, so that a campaign without such definitions pays nothing.

    @cache
    def whole() -> tuple[pd.DataFrame, dict[Any, Any]]:
        frame = request_metrics(tables)
        asked = tables.requests.select(["phase", "osl_requested"]).to_pandas()
        wanted = asked.loc[asked["phase"] == "profiling", "osl_requested"]
        frame["osl_requested"] = wanted.to_numpy(dtype=np.float64)
        groups = dict(frame.groupby("run_id", sort=False).indices.items())
        return frame, groups

    native = dict(
        zip(tables.runs["run_id"].to_pylist(), tables.runs["native"].to_pylist(), strict=True)
    )

    @cache
    def of(run_id: str) -> Records:
        frame, groups = whole()
        own = frame.iloc[groups.get(run_id, np.array([], dtype=np.int64))]
        gaps = of_run(tables, run_id).gaps
        request = gap_positions(gaps, own)
        here = request >= 0
        gap_ns, gap_tokens = (
            gaps[name].to_pandas().to_numpy(np.float64) for name in ("gap_ns", "tokens")
        )
        zero = own["start_ns"].min()
        return Records(
            status=own["status"].to_numpy(dtype=object),
            error_kind=own["error_kind"].fillna("").to_numpy(dtype=object),
            start_s=_seconds(own["start_ns"], zero),
            first_s=_seconds(own["first_token_ns"], zero),
            end_s=_seconds(own["end_ns"], zero),
            isl=own["isl"].to_numpy(dtype=np.float64),
            osl=own["osl"].to_numpy(dtype=np.float64),
            osl_requested=own["osl_requested"].to_numpy(dtype=np.float64),
            gap_ms=gap_ns[here] / 1e6,
            gap_request=request[here],
            gap_tokens=gap_tokens[here],
            native=json.loads(native[run_id]) if native.get(run_id) else {},
        )

    return of


def _seconds(column: pd.Series[Any], zero: Any) -> Floats:
    """Exact in ns before it becomes a float: epoch ns do not fit one."""
    ns = (column - zero).astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(ns / 1e9, dtype=np.float64)
