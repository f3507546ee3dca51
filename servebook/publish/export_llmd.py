"""Runs as llm-d Benchmark Reports 0.2, one document each.

Specified in llm-d-benchmark (``docs/benchmark_report.md`` and its JSON schema 0.2.1, of which 0.2
is a part). Every figure is recomputed from the records by our definitions; a run of which there
is a summary alone gives the client's own figures, and its description says so. What the campaign
does not state is left out; where the schema needs a word, it is "not stated".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd

from servebook import __version__
from servebook.measure.gap_values import MOST_AT_ONCE, GapValues, values_by_run
from servebook.measure.native import native
from servebook.measure.runs import request_metrics, run_metrics
from servebook.measure.selection import percentiles, summary
from servebook.read.campaign import Campaign
from servebook.read.manifest import Configuration

__all__ = ["VERSION", "reports"]

VERSION = "0.2"
_NOT_STATED = "not stated"
_QUANTILES = {
    "p0p1": 0.1,
    "p1": 1.0,
    "p5": 5.0,
    "p10": 10.0,
    "p25": 25.0,
    "p50": 50.0,
    "p75": 75.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "p99p9": 99.9,
}
_RATES = (
    ("input_token_rate", "input_throughput_tok_s", "tokens/s"),
    ("output_token_rate", "output_throughput_tok_s", "tokens/s"),
    ("total_token_rate", "total_throughput_tok_s", "tokens/s"),
    ("request_rate", "request_throughput_req_s", "queries/s"),
)
_LATENCIES = (
    ("time_to_first_token", "ttft", "ms"),
    ("time_per_output_token", "tpot", "ms/token"),
    ("inter_token_latency", "itl", "ms/token"),
    ("request_latency", "e2e", "ms"),
)
_SETTINGS = (
    "precision",
    "max_num_seqs",
    "max_num_batched_tokens",
    "prefix_caching",
    "chunked_prefill",
)
Row = Mapping[str, Any]


def reports(campaign: Campaign) -> Iterator[tuple[str, dict[str, Any]]]:
    """(run_id, report) of each run, in the order of the table ``runs``."""
    tables = campaign.tables
    requests = request_metrics(tables)
    gaps = values_by_run(tables, requests, requests["status"].to_numpy() == "ok")
    by_run = requests.groupby("run_id", sort=False).indices
    metrics: list[Any] = run_metrics(tables).to_dict("records")
    for run, row in zip(tables.runs.to_pylist(), metrics, strict=True):
        rows = by_run.get(run["run_id"], np.array([], dtype=np.int64))
        own = requests.iloc[rows]
        yield run["run_id"], _report(campaign, run, row, own, gaps.get(run["run_id"], GapValues()))


def _report(
    campaign: Campaign, run: Row, metrics: Row, requests: pd.DataFrame, gaps: GapValues
) -> dict[str, Any]:
    summary = run["level"] == "summary"
    figures = native(run["native"])[0] if summary else metrics
    aggregate = {
        "requests": _requests(metrics, requests, summary),
        "latency": _of_client(figures) if summary else _latency(requests, gaps, metrics),
        "throughput": {
            name: {"units": unit, "mean": value}
            for name, metric, unit in _RATES
            if (value := _known(figures.get(metric))) is not None
        },
    }
    configuration = campaign.manifest.configuration(run["configuration"] or "")
    load = _load(run, metrics)
    scenario = {
        "stack": [part] if configuration and (part := _engine(campaign, configuration)) else None,
        "load": load,
    }
    report = {
        "version": VERSION,
        "run": {
            "uid": _digest([campaign.name, run["run_id"], run["sha256"]]),
            "eid": _digest([campaign.name]),
            "time": _time(run, _known(figures.get("duration_s"))),
            "description": _description(campaign, run, summary),
            "keywords": [word for word in (campaign.name, run["workload"]) if word],
        },
        "scenario": scenario,
        "results": {"request_performance": {"aggregate": aggregate}},
    }
    found = _without_nothing(report)
    assert isinstance(found, dict)
    return found


def _description(campaign: Campaign, run: Row, summary: bool) -> str:
    source = (
        "as its own summary states them"
        if summary
        else f"recomputed from its records by Servebook {__version__}"
    )
    return (
        f"run {run['run_id']} of campaign {campaign.name}"
        + (f", configuration {run['configuration']}" if run["configuration"] else "")
        + f": figures of {run['client'] or 'the client'}, {source}; {campaign.manifest.provenance}"
    )


def _requests(metrics: Row, requests: pd.DataFrame, summary: bool) -> dict[str, Any] | None:
    total = _known(metrics["n_requests"])
    if total is None:
        return None
    ok = requests[requests["status"] == "ok"]
    return {
        "total": int(total),
        "failures": _count(metrics["n_failed"]),
        "incomplete": _count(metrics["n_cancelled"]),
        "input_length": None if summary else _statistics(ok["isl"], "count"),
        "output_length": None if summary else _statistics(ok["osl"], "count"),
    }


def _latency(requests: pd.DataFrame, gaps: GapValues, metrics: Row) -> dict[str, Any]:
    ok = requests[requests["status"] == "ok"]
    osl = ok["osl"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        per_token = np.where(osl > 0, ok["e2e_ms"].to_numpy() / osl, np.nan)
    return {
        "time_to_first_token": _statistics(ok["ttft_ms"], "ms"),
        "normalized_time_per_output_token": _statistics(per_token, "ms/token"),
        "time_per_output_token": _statistics(ok["tpot_ms"], "ms/token"),
        # A gap between chunks of several tokens is no time per token.
        "inter_token_latency": (
            _of_gaps(gaps, "ms/token") if metrics["itl_basis"] == "token" else None
        ),
        "request_latency": _statistics(ok["e2e_ms"], "ms"),
    }


def _of_client(figures: Row) -> dict[str, Any]:
    """The statistics of a client's summary; without a mean the schema has no place for them."""
    names = {"mean": "mean", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"} | {
        "p999": "p99p9",
        "max": "max",
    }
    out = {}
    for name, family, unit in _LATENCIES:
        stated = {
            theirs: value
            for ours, theirs in names.items()
            if (value := _known(figures.get(f"{family}_{ours}_ms"))) is not None
        }
        if "mean" in stated:
            out[name] = {"units": unit, **stated}
    return out


def _statistics(values: Any, units: str) -> dict[str, Any] | None:
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    if not known.size:
        return None
    points = np.percentile(known, list(_QUANTILES.values()))
    return {
        "units": units,
        "mean": float(known.mean()),
        "stddev": float(known.std()),
        "min": float(known.min()),
        **{name: float(point) for name, point in zip(_QUANTILES, points, strict=True)},
        "max": float(known.max()),
    }


def _of_gaps(gaps: GapValues, units: str) -> dict[str, Any] | None:
    """The statistics of gaps in ms; of many a piece at a time."""
    if len(gaps) <= MOST_AT_ONCE:
        return _statistics(np.concatenate([np.empty(0), *gaps.pieces()]) / 1e6, units)
    about = summary(gaps.pieces)
    mean = about.total / about.n
    square = sum(float(((piece - mean) ** 2).sum()) for piece in gaps.pieces())
    points = percentiles(gaps.pieces, list(_QUANTILES.values()), about, 1e6)
    return {
        "units": units,
        "mean": mean / 1e6,
        "stddev": float(np.sqrt(square / about.n)) / 1e6,
        "min": min(int(piece.min()) for piece in gaps.pieces() if len(piece)) / 1e6,
        **dict(zip(_QUANTILES, points, strict=True)),
        "max": about.largest / 1e6,
    }


def _time(run: Row, duration_s: float | None) -> dict[str, Any]:
    epoch = run["clock"] == "epoch"
    return {
        "start": _iso(run["start_ns"]) if epoch else None,
        "end": _iso(run["end_ns"]) if epoch else None,
        "duration": None if duration_s is None else f"PT{duration_s:.6f}S",
    }


def _iso(ns: int | None) -> str | None:
    if ns is None:
        return None
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _load(run: Row, metrics: Row) -> dict[str, Any] | None:
    isl = _length(run["isl_requested"], metrics["isl_mean"])
    if isl is None:
        return None  # the schema cannot do without it
    standardized = {
        "tool": run["client"] or _NOT_STATED,
        "tool_version": run["client_version"] or _NOT_STATED,
        "source": "unknown",
        "input_seq_len": isl,
        "output_seq_len": _length(run["osl_requested"], metrics["osl_mean"]),
        "rate_qps": run["request_rate"],
        "concurrency": run["concurrency"],
    }
    return {
        "metadata": {"cfg_id": _digest(standardized)},
        "standardized": standardized,
        "native": {"args": None},
    }


def _length(asked: int | None, measured: float) -> dict[str, Any] | None:
    """The length asked for, else the mean measured; the kind of distribution is not known."""
    value = asked if asked is not None else _known(measured)
    return None if value is None else {"distribution": "other", "value": value}


def _engine(campaign: Campaign, c: Configuration) -> dict[str, Any] | None:
    model = campaign.manifest.model.name
    if not (c.engine and c.gpu and c.gpus and model):
        return None  # the schema cannot do without them
    sizes = {"tp": c.tp, "dp": c.dp, "ep": c.ep, "pp": c.pp}
    standardized = {
        "kind": "inference_engine",
        "tool": c.engine,
        "tool_version": c.engine_version or _NOT_STATED,
        "role": "replica",
        "replicas": 1,
        "model": {"name": model},
        "accelerator": {
            "model": c.gpu,
            "count": c.gpus,
            "parallelism": {name: size for name, size in sizes.items() if size is not None},
        },
    }
    config = {name: value for name in _SETTINGS if (value := getattr(c, name)) is not None}
    return {
        "metadata": {
            "label": c.name,
            "cfg_id": _digest([standardized, config]),
            "description": c.label,
        },
        "standardized": standardized,
        "native": {"config": config},
    }


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _known(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(value)


def _count(value: Any) -> int | None:
    known = _known(value)
    return None if known is None else int(known)


#: Objects that the schema demands although they may be empty.
_KEPT = ("native", "parallelism", "aggregate", "config")


def _without_nothing(value: Any) -> Any:
    """Without what is null, and without objects that are empty for it."""
    if isinstance(value, list):
        return [_without_nothing(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_nothing(item) for key, item in value.items() if item is not None}
    return {key: item for key, item in kept.items() if item not in ({}, []) or key in _KEPT}
