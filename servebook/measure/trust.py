"""What a reader must know before believing the numbers: isolation, failures, accounting, flags.

Load (Little's law, clocks, delays of the client) is in ``servebook.measure.load``; two clients on
one condition are in ``servebook.measure.pairs``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.limits import LEAST_WAVES
from servebook.measure.runs import request_metrics
from servebook.tables import Tables

__all__ = [
    "LEAST_DURATION_S",
    "LEAST_WAVES",
    "LENGTH_TOLERANCE",
    "accounting",
    "failures",
    "isolation",
    "lengths",
    "run_flags",
]

#: Lengths that differ by more than this share from those asked for are named.
LENGTH_TOLERANCE = 0.02
LEAST_DURATION_S = 30.0

_RUN = ("run_id", "configuration", "workload", "concurrency")


def isolation(tables: Tables, run_metrics: pd.DataFrame) -> pd.DataFrame:
    """Whether prefill runs held no decode, and decode runs all of it; one row per such run.

    Columns: run_id, configuration, workload, concurrency, n_ok, expected (what the row checks,
    in words), expected_value, found_value, holds (null where the dump does not say).
    For a prefill run: inter-token gaps, 0 expected. For a decode run: output tokens, ok requests
    x the OSL asked for; per request where the dump says what each was asked for.
    """
    requests = request_metrics(tables)
    asked = _asked(tables)
    rows = []
    for run in run_metrics.to_dict("records"):
        common = {name: run[name] for name in _RUN} | {"n_ok": run["n_ok"]}
        if run["workload"] == "prefill":
            rows.append(
                common
                | {
                    "expected": "no inter-token gap",
                    "expected_value": 0.0,
                    "found_value": run["n_gaps"],
                    "holds": pd.NA if np.isnan(run["n_gaps"]) else run["n_gaps"] == 0,
                }
            )
        elif run["workload"] == "decode":
            own = requests[(requests["run_id"] == run["run_id"]) & (requests["status"] == "ok")]
            wanted = asked.loc[own.index]
            where = "as each request asked for"
            if wanted.isna().any() or not len(own):
                where = "requests x OSL asked for"
                one = run["osl_requested"]
                total = np.nan if pd.isna(one) else float(one) * len(own)
            else:
                total = float(wanted.sum())
            found = float(own["osl"].sum()) if len(own) else np.nan
            known = not (np.isnan(total) or np.isnan(found))
            rows.append(
                common
                | {
                    "expected": f"output tokens: {where}",
                    "expected_value": total,
                    "found_value": found,
                    "holds": bool(total == found) if known else pd.NA,
                }
            )
    columns = [*_RUN, "n_ok", "expected", "expected_value", "found_value", "holds"]
    return pd.DataFrame(rows, columns=columns).astype({"holds": "boolean"})


def failures(tables: Tables, run_metrics: pd.DataFrame) -> pd.DataFrame:
    """How the requests of each run ended, told apart; one row per run and kind that occurred.

    Columns: run_id, configuration, workload, concurrency, kind, n, share (of the run's requests
    with a record, NaN for lost ones), counted_as (ok, failed, cancelled, lost), meaning (words).
    Kinds: the readers' error kinds (http_500, stream_broken, stream_error, timeout, ...),
    cancelled, short_output (ok, but fewer tokens than asked for), lost (sent, no record). Runs
    without any have no row.
    """
    requests = request_metrics(tables)
    rows = []
    grouped = requests.groupby("run_id", sort=False).indices
    for run in run_metrics.to_dict("records"):
        own = requests.iloc[grouped.get(run["run_id"], np.array([], dtype=np.int64))]
        bad = own[own["status"] != "ok"]
        kinds = bad["error_kind"].fillna("other").where(bad["status"] == "failed", "cancelled")
        found = [
            (str(kind), int(n), "cancelled" if kind == "cancelled" else "failed")
            for kind, n in kinds.value_counts().sort_index().items()
        ]
        if not len(own):  # a summary alone
            found += [
                ("other", int(run[name]), counted)
                for name, counted in (("n_failed", "failed"), ("n_cancelled", "cancelled"))
                if run[name] > 0
            ]
        if run["n_short_output"] > 0:
            found.append(("short_output", int(run["n_short_output"]), "ok"))
        if run["n_lost"] > 0:
            found.append(("lost", int(run["n_lost"]), "lost"))
        rows += [
            {name: run[name] for name in _RUN}
            | {
                "kind": kind,
                "n": n,
                "share": n / run["n_requests"]
                if counted != "lost" and run["n_requests"]
                else np.nan,
                "counted_as": counted,
                "meaning": _meaning(kind),
            }
            for kind, n, counted in found
        ]
    columns = [*_RUN, "kind", "n", "share", "counted_as", "meaning"]
    return pd.DataFrame(rows, columns=columns).astype({"n": "int64", "share": "float64"})


def accounting(tables: Tables) -> pd.DataFrame:
    """Records in = records used + records set aside, one row per file that holds records.

    Columns: path, run_ids (tuple), n_used (requests of any phase), n_profiling, n_warmup,
    n_set_aside, n_in (the sum of used and set aside), reasons (tuple of "k x reason"). Files whose
    records were all set aside have no run_ids. Summaries alone have no records and no row.
    """
    runs = tables.runs.select(["run_id", "path", "level"]).to_pandas()
    runs = runs[runs["level"] != "summary"]
    requests = tables.requests.select(["run_id", "phase"]).to_pandas()
    counts = pd.crosstab(requests["run_id"], requests["phase"])
    aside = tables.set_aside.select(["path", "reason"]).to_pandas()
    rows = []
    for path in sorted(set(runs["path"].dropna()) | set(aside["path"].dropna())):
        own = sorted(runs.loc[runs["path"] == path, "run_id"])
        here = counts.reindex(own, fill_value=0)
        reasons = aside.loc[aside["path"] == path, "reason"].value_counts().sort_index()
        used = int(here.to_numpy().sum())
        rows.append(
            {
                "path": path,
                "run_ids": tuple(own),
                "n_used": used,
                "n_profiling": int(here["profiling"].sum()) if "profiling" in here else 0,
                "n_warmup": int(here["warmup"].sum()) if "warmup" in here else 0,
                "n_set_aside": int(reasons.sum()),
                "n_in": used + int(reasons.sum()),
                "reasons": tuple(f"{n:,} x {reason}" for reason, n in reasons.items()),
            }
        )
    columns = ["path", "run_ids", "n_used", "n_profiling", "n_warmup", "n_set_aside", "n_in"]
    return pd.DataFrame(rows, columns=[*columns, "reasons"])


def lengths(run_metrics: pd.DataFrame) -> pd.DataFrame:
    """Lengths asked for against lengths measured; one row per run and side that states both.

    Columns: run_id, configuration, workload, concurrency, side (isl, osl), requested, measured
    (mean of ok requests), deviation (measured / requested - 1), off (above 2 %).
    """
    rows = []
    for run in run_metrics.to_dict("records"):
        for side in ("isl", "osl"):
            requested, measured = run[f"{side}_requested"], run[f"{side}_mean"]
            if pd.isna(requested) or pd.isna(measured) or not requested:
                continue
            deviation = float(measured) / float(requested) - 1
            rows.append(
                {name: run[name] for name in _RUN}
                | {
                    "side": side,
                    "requested": int(requested),
                    "measured": float(measured),
                    "deviation": deviation,
                    "off": abs(deviation) > LENGTH_TOLERANCE,
                }
            )
    columns = [*_RUN, "side", "requested", "measured", "deviation", "off"]
    return pd.DataFrame(rows, columns=columns).astype({"off": bool})


def run_flags(run_metrics: pd.DataFrame) -> pd.DataFrame:
    """Runs too short to rest much on; one row per run.

    Columns: run_id, configuration, workload, concurrency, duration_s, n_ok, waves (ok requests /
    concurrency), short (below 30 s; null where unknown), few_waves (below 3; null where unknown).
    """
    out = run_metrics[[*_RUN, "duration_s", "n_ok"]].reset_index(drop=True)
    load = out["concurrency"].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        out["waves"] = np.where(load > 0, out["n_ok"].to_numpy() / load, np.nan)
    for name, column, least in (
        ("short", "duration_s", LEAST_DURATION_S),
        ("few_waves", "waves", LEAST_WAVES),
    ):
        out[name] = out[column].astype("Float64") < least  # unknown stays null
    return out


def _asked(tables: Tables) -> pd.Series[Any]:
    """Output tokens asked for, aligned with ``request_metrics`` by position."""
    table = tables.requests.select(["phase", "osl_requested"]).to_pandas()
    wanted = table.loc[table["phase"] == "profiling", "osl_requested"]
    return pd.Series(wanted.to_numpy(dtype=np.float64))


def _meaning(kind: str) -> str:
    return {
        "stream_error": "an error inside the stream, or a success of the client without tokens",
        "stream_broken": "the connection ended before the answer did",
        "cancelled": "cut off by the client",
        "short_output": "ended before the output length asked for, although told not to",
        "lost": "sent to the server, but the client wrote no record",
        "timeout": "the client gave up waiting",
        "connection": "the server could not be reached",
    }.get(kind, "HTTP error of the server" if kind.startswith("http_") else "other error")
