"""The metrics of each run, recomputed from its records by one definition each.

Only profiling requests count; latencies are those of ok requests. Definitions stand in
``servebook.measure.metrics``. A run that holds a summary alone (``level`` "summary") has its
counts and NaN for every value: the client's own figures are never mixed with recomputed ones.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from servebook.gap_table import GapTable
from servebook.measure.each_run import each_run
from servebook.measure.gap_values import gap_positions, statistics, values_by_run
from servebook.measure.metrics import COUNTS, ITL_STATISTICS, LATENCIES, STATISTICS, VALUES
from servebook.measure.once import once
from servebook.tables import Tables

__all__ = [
    "IDENTITY",
    "TOKEN_GAP_TOLERANCE",
    "gap_metrics",
    "gap_positions",
    "request_metrics",
    "run_metrics",
]

IDENTITY = (
    "run_id",
    "campaign",
    "configuration",
    "format",
    "client",
    "client_version",
    "model",
    "path",
    "workload",
    "concurrency",
    "request_rate",
    "repeat",
    "isl_requested",
    "osl_requested",
    "isl_mean",
    "osl_mean",
    "level",
    "clock",
    "start_ns",
    "end_ns",
    "duration_from",
    "itl_basis",
)

#: How far the number of gaps may lie from the number of output tokens after the first before a
#: gap is no longer called a token gap (chat endpoints send one empty chunk ahead).
TOKEN_GAP_TOLERANCE = 0.05

_Q = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
_NS_PER_MS, _NS_PER_S = 1e6, 1e9
Floats = npt.NDArray[np.float64]


def request_metrics(tables: Tables) -> pd.DataFrame:
    """One row per profiling request, in the order of the table ``requests``.

    Columns: run_id, request_id, status, error_kind, short_output (bool), start_ns, end_ns,
    first_token_ns, scheduled_ns (Int64, null where unknown), isl, osl (float, NaN where unknown),
    e2e_ms, ttft_ms, tpot_ms, ttft_from_scheduled_ms, send_delay_ms (NaN where undefined).
    In runs whose clock is "none" times count from each request's own start.
    """
    return _of_requests(tables, _profiling(tables))


def _profiling(tables: Tables) -> pa.Table:
    profiling = pc.equal(tables.requests["phase"], "profiling")
    if not profiling.null_count and pc.all(profiling).as_py():
        return tables.requests  # no copy of them
    return tables.requests.filter(profiling)


def _of_requests(tables: Tables, table: pa.Table, *, named: bool = True) -> pd.DataFrame:
    """``request_metrics``; a text per request takes much memory, so request_id can be left out."""
    clock = dict(
        zip(
            tables.runs["run_id"].to_pylist(),
            tables.runs["clock"].to_pylist(),
            strict=True,
        )
    )
    run_id = _repeating(table["run_id"])
    names = {"request_id": table["request_id"].to_pandas().astype(object)} if named else {}
    out = pd.DataFrame(
        {
            "run_id": run_id,
            **names,
            "status": _repeating(table["status"]),
            "error_kind": _repeating(table["error_kind"]),
            "short_output": _has_flag(table["flags"], "short_output"),
        }
    )
    for name in ("scheduled_ns", "start_ns", "first_token_ns", "end_ns"):
        out[name] = table[name].to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    for name in ("isl", "osl", "cached_tokens"):
        out[name] = _floats(table[name])
    own_start = run_id.map(lambda run: clock.get(run) == "none").to_numpy(dtype=bool)
    # Without a common clock the request's start is its own zero.
    out.loc[own_start, "start_ns"] = out.loc[own_start, "start_ns"].fillna(0)
    out["e2e_ms"] = _difference_ms(out["end_ns"], out["start_ns"])
    out["ttft_ms"] = _difference_ms(out["first_token_ns"], out["start_ns"])
    osl = out["osl"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = _difference_ms(out["end_ns"], out["first_token_ns"]) / (osl - 1)
    out["tpot_ms"] = np.where(osl >= 2, tpot, np.nan)
    out["ttft_from_scheduled_ms"] = _difference_ms(out["first_token_ns"], out["scheduled_ns"])
    out["send_delay_ms"] = _difference_ms(out["start_ns"], out["scheduled_ns"])
    return out


def _repeating(column: pa.ChunkedArray) -> pd.Series[Any]:
    """A column of few different texts: each of them is one object."""
    names = column.unique()
    objects = names.to_pandas().astype(object).to_numpy()
    code = pc.index_in(column, value_set=names).to_numpy()
    return pd.Series(objects[code] if len(objects) else objects, dtype=object)


def gap_metrics(tables: Tables, requests: pd.DataFrame, status: str = "ok") -> pd.DataFrame:
    """The gaps of the profiling requests with this status, in the order of the table ``gaps``.

    Columns: request (row position in ``requests``, as returned by ``request_metrics``), index,
    end_ns (Int64, null where unknown), gap_ns (int64). Gaps without a length are
    left out.
    """
    gaps = tables.gaps
    position = gap_positions(gaps, requests)
    if isinstance(gaps, GapTable):  # these columns alone are built
        gaps = pa.table({name: gaps[name] for name in ("index", "end_ns", "gap_ns")})
    wanted = requests["status"].to_numpy() == status
    keep = (position >= 0) & ~gaps["gap_ns"].is_null().to_numpy()
    keep[keep] = wanted[position[keep]]
    mask = pa.array(keep)
    gaps = gaps.filter(mask)
    return pd.DataFrame(
        {
            "request": position[keep],
            "index": gaps["index"].to_numpy(),
            "end_ns": gaps["end_ns"].to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get),
            "gap_ns": gaps["gap_ns"].to_numpy(),
        }
    )


@once
def run_metrics(tables: Tables) -> pd.DataFrame:
    """One row per run, in the order of the table ``runs``: identity, counts and values.

    Columns: those of ``IDENTITY``; the counts ``n_*`` of ``metrics.COUNTS`` (float, NaN where the
    dump does not say); ``gaps_per_output_token``; the values of ``metrics.VALUES`` (float, NaN
    where undefined). ``duration_from`` is "records", "client" (its stopwatch, where records have
    no common clock) or "". ``itl_basis`` is "token", "chunk" (several tokens a chunk) or "".
    """
    runs = tables.runs.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    profiling = _profiling(tables)
    requests = _of_requests(tables, profiling, named=False)
    names = profiling.select(["run_id", "request_id"])
    gaps = values_by_run(tables, names, requests["status"].to_numpy() == "ok")
    pooled = each_run(statistics, ((own, ITL_STATISTICS) for own in gaps.values()))
    itl = dict(zip(gaps, (found for _, found in pooled), strict=True))
    by_run = requests.groupby("run_id", sort=False).indices
    rows = []
    for _, run in runs.iterrows():
        row: dict[str, Any] = {name: run.get(name) for name in IDENTITY if name in runs}
        rows_of_run = by_run.get(run["run_id"])
        if run["level"] == "summary" or rows_of_run is None:
            row |= _summary(run)
        else:
            n_gaps = len(gaps.get(run["run_id"], ()))
            none = dict.fromkeys(ITL_STATISTICS, np.nan)
            # Of a single run there is nothing to leave out, and much to copy.
            alone = len(rows_of_run) == len(requests)
            own = requests if alone else requests.iloc[rows_of_run]
            row |= _measured(run, own, n_gaps, itl.get(run["run_id"], none))
        rows.append(row)
    counts = [m.name for m in COUNTS]
    values = [m.name for m in VALUES]
    out = pd.DataFrame(rows, columns=[*IDENTITY, *counts, "gaps_per_output_token", *values])
    floats = [*counts, "gaps_per_output_token", *values, "isl_mean", "osl_mean", "request_rate"]
    out[floats] = out[floats].astype("float64")
    whole = ["concurrency", "repeat", "isl_requested", "osl_requested", "start_ns", "end_ns"]
    out[whole] = out[whole].astype("Int64")
    return out


def _measured(
    run: pd.Series[Any], requests: pd.DataFrame, n_gaps: int, itl: dict[str, float]
) -> dict[str, Any]:
    status = requests["status"].to_numpy()
    ok = requests if (status == "ok").all() else requests[status == "ok"]
    row: dict[str, Any] = {
        "n_requests": len(requests),
        "n_ok": len(ok),
        "n_failed": int((status == "failed").sum()),
        "n_cancelled": int((status == "cancelled").sum()),
        "n_lost": run["n_lost"] if pd.notna(run["n_lost"]) else np.nan,
        "n_gaps": n_gaps,
        "n_short_output": int(ok["short_output"].sum()),
        "isl_mean": ok["isl"].mean(),
        "osl_mean": ok["osl"].mean(),
    }
    duration_s, row["duration_from"] = _duration_s(run, requests)
    row["duration_s"] = duration_s
    # A sum with an unknown part is unknown, not smaller.
    tokens_in, tokens_out = ok["isl"].sum(skipna=False), ok["osl"].sum(skipna=False)
    for name, amount in (
        ("input_throughput_tok_s", tokens_in),
        ("output_throughput_tok_s", tokens_out),
        ("total_throughput_tok_s", tokens_in + tokens_out),
        ("request_throughput_req_s", len(ok)),
        ("mean_in_flight", requests["e2e_ms"].sum() / 1e3),
    ):
        row[name] = amount / duration_s if duration_s > 0 else np.nan
    for family in LATENCIES:
        if family == "itl":
            found = itl
        else:
            values = ok[f"{family}_ms"].to_numpy()
            values = values[~np.isnan(values)]
            row[f"n_{family}"] = len(values)
            found = _statistics(values, STATISTICS)
        row |= {f"{family}_{statistic}_ms": value for statistic, value in found.items()}
    for name, column, rows, statistic in (
        ("ttft_from_scheduled_mean_ms", "ttft_from_scheduled_ms", ok, "mean"),
        ("ttft_from_scheduled_p99_ms", "ttft_from_scheduled_ms", ok, "p99"),
        ("send_delay_mean_ms", "send_delay_ms", requests, "mean"),
        ("send_delay_max_ms", "send_delay_ms", requests, "max"),
    ):
        row[name] = _statistics(rows[column].dropna().to_numpy(), (statistic,))[statistic]
    # Tokens after the first of each request: as many as its gaps, if each chunk is one token.
    later_tokens = float((ok["osl"] - 1).clip(lower=0).sum())
    row["gaps_per_output_token"] = n_gaps / later_tokens if later_tokens > 0 else np.nan
    row["itl_basis"] = _itl_basis(n_gaps, row["gaps_per_output_token"])
    tpot, median = row["tpot_mean_ms"], row["itl_p50_ms"]
    row["output_per_user_tok_s"] = 1e3 / tpot if tpot > 0 else np.nan
    row["running_batch"] = row["output_throughput_tok_s"] * tpot / 1e3
    row["itl_p99_over_p50"] = row["itl_p99_ms"] / median if median > 0 else np.nan
    row["stall_share_estimate"] = (
        (tpot - median) / tpot if row["itl_basis"] == "token" and tpot > 0 else np.nan
    )
    return row


def _summary(run: pd.Series[Any]) -> dict[str, Any]:
    """Counts that the reader took from the client's summary; no value is ours."""
    names = ("n_requests", "n_ok", "n_failed", "n_cancelled", "n_lost", "n_gaps")
    return {name: run[name] if pd.notna(run[name]) else np.nan for name in names} | {
        "duration_from": "",
        "itl_basis": "",
    }


def _duration_s(run: pd.Series[Any], requests: pd.DataFrame) -> tuple[float, str]:
    if run["clock"] == "none":
        native = json.loads(run["native"]) if isinstance(run["native"], str) else {}
        value = native.get("duration_s")
        return (float(value), "client") if value else (np.nan, "")
    first = requests["start_ns"].min()
    # A request that failed at once may carry a start alone.
    last = max(
        (v for v in (requests["end_ns"].max(), requests["start_ns"].max()) if pd.notna(v)),
        default=pd.NA,
    )
    if pd.isna(first) or pd.isna(last):
        return np.nan, ""
    return (int(last) - int(first)) / _NS_PER_S, "records"


def _itl_basis(n_gaps: int, per_token: float) -> str:
    if not n_gaps:
        return ""
    return "token" if abs(per_token - 1) <= TOKEN_GAP_TOLERANCE else "chunk"


def _statistics(values: Floats, statistics: tuple[str, ...]) -> dict[str, float]:
    if not values.size:
        return dict.fromkeys(statistics, np.nan)
    names = [s for s in statistics if s in _Q]
    out = dict(zip(names, np.percentile(values, [_Q[s] for s in names]), strict=True))
    out |= {"mean": values.mean(), "max": values.max()}
    return {s: float(out[s]) for s in statistics}


def _has_flag(column: pa.ChunkedArray, flag: str) -> npt.NDArray[np.bool_]:
    flags = column.combine_chunks()
    out = np.zeros(len(flags), dtype=bool)
    here = pc.fill_null(pc.equal(pc.list_flatten(flags), flag), False)
    out[pc.list_parent_indices(flags).filter(here).to_numpy()] = True
    return out


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _difference_ms(later: pd.Series[Any], earlier: pd.Series[Any]) -> Floats:
    """Exact in ns before it becomes a float: epoch ns do not fit a float."""
    ns = (later - earlier).astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(ns / _NS_PER_MS, dtype=np.float64)
