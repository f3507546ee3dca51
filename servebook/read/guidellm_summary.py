"""guidellm's own summary under our metric names, and what it means by its figures.

Groups without a request are distributions of 0.0 with a count of 0: missing, not zero. The figures
are those of the group "successful". Rates are distributions over time of which only the mean means
anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from servebook.read.client_figures import counts, numbers, statistics_ms
from servebook.read.definition import (
    Definition,
    Floats,
    Records,
    statistic_name,
    statistic_of,
)
from servebook.read.values import number, object_of, whole

__all__ = ["DEFINITIONS", "mean_of", "native"]

#: guidellm's metric -> (ours, factor to ms). Its inter-token latency is our TPOT; its own TPOT has
#: no counterpart and stands beside ours under its name.
_LATENCIES = {
    "time_to_first_token_ms": ("ttft", "", 1.0),
    "inter_token_latency_ms": ("tpot", "", 1.0),
    "time_per_output_token_ms": ("tpot", "@time_per_output_token_ms", 1.0),
    "request_latency": ("e2e", "", 1e3),
}
_PERCENTILES = ("p50", "p90", "p95", "p99")
_RATES = {
    "requests_per_second": "request_throughput_req_s",
    "prompt_tokens_per_second": "input_throughput_tok_s",
    "output_tokens_per_second": "output_throughput_tok_s",
    "tokens_per_second": "total_throughput_tok_s",
}
_COUNTS = {"successful": "n_ok", "errored": "n_failed", "incomplete": "n_cancelled"}


def native(
    benchmark: Mapping[str, Any], made: Mapping[str, Any], *, old: bool, inside: bool
) -> dict[str, Any]:
    """The client's own values under our metric names and units, with its definitions' codes.

    ``made`` counts the requests by how they ended. ``old``: the layout of 0.3. ``inside``: its
    TPOT holds the TTFT.
    """
    out: dict[str, Any] = {}
    for theirs, (ours, variant, factor) in _LATENCIES.items():
        found = _successful(benchmark, theirs)
        values = {"mean": found.get("mean"), "max": found.get("max")}
        values |= {p: object_of(found.get("percentiles")).get(p) for p in _PERCENTILES}
        known = statistics_ms(ours, values, factor)
        out |= {f"{name}{variant}": value for name, value in known.items()}
    out |= numbers({name: _successful(benchmark, name).get("mean") for name in _RATES}, _RATES)
    if (duration := number(benchmark.get("duration"))) is not None and duration > 0:
        out["duration_s"] = duration
    out |= counts(made, _COUNTS)
    if not out:
        return {}
    steps = {f"ttft_{p}_ms": "guidellm_step" for p in _PERCENTILES}
    out["_definition"] = steps | {
        "tpot": "guidellm_itl",
        "@time_per_output_token_ms": "guidellm_tpot" if inside else "guidellm_tpot_old",
        "e2e": "guidellm_latency",
        "throughput": "guidellm_span" if old else "guidellm_window",
        "duration": "guidellm_duration",
        "n_ok": "no_error_recorded",
    }
    return dict(sorted(out.items()))


def mean_of(benchmark: Mapping[str, Any], metric: str) -> float | None:
    """The mean of a metric over successful requests; None where there were none."""
    return number(_successful(benchmark, metric).get("mean"))


def _successful(benchmark: Mapping[str, Any], metric: str) -> Mapping[str, Any]:
    found = object_of(object_of(benchmark.get("metrics")).get(metric))
    found = object_of(found.get("successful"))
    return found if whole(found.get("count")) else {}


def _statistic(metric: str, values: Floats, weights: Floats | None = None) -> float:
    """A statistic as guidellm takes it: weighted, and percentiles without interpolation."""
    weights = np.ones_like(values) if weights is None else weights
    known = ~np.isnan(values) & (weights > 0)
    values, weights = values[known], weights[known]
    name = statistic_name(metric)
    if not values.size:
        return np.nan
    if name == "mean":
        return float(np.average(values, weights=weights))
    if name not in _PERCENTILES:
        return statistic_of(metric, values)
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order] / weights.sum())
    place = np.searchsorted(share, int(name[1:]) / 100, side="left")
    return float(values[order][min(int(place), len(order) - 1)])


def _tails_s(records: Records) -> Floats:
    """Per request: from its last token to the end of its response."""
    tails = records.native.get("_tail_ns")
    if not isinstance(tails, list) or len(tails) != len(records.status):
        return np.full(len(records.status), np.nan)
    return np.asarray(tails, dtype=np.float64) / 1e9


def _step(metric: str, records: Records) -> float:
    return _statistic(metric, records.ttft_ms[records.ok])


def _latency(metric: str, records: Records) -> float:
    return _statistic(metric, (records.e2e_ms + _tails_s(records) * 1e3)[records.ok])


def _itl(metric: str, records: Records) -> float:
    ok = records.ok & (records.osl > 1)
    return _statistic(metric, records.decode_ms[ok] / (records.osl[ok] - 1), records.osl[ok] - 1)


def _tpot(metric: str, records: Records) -> float:
    ok = records.ok
    return _statistic(metric, records.e2e_ms[ok] / records.osl[ok], records.osl[ok])


def _tpot_old(metric: str, records: Records) -> float:
    ok = records.ok
    return _statistic(metric, records.decode_ms[ok] / records.osl[ok], records.osl[ok])


def _span(metric: str, records: Records) -> float:
    ok = records.ok
    ends = (records.end_s + _tails_s(records))[ok]
    if not ok.any() or np.isnan(ends).any():
        return np.nan
    span = float(ends.max() - records.start_s[ok].min())
    return _amount(metric, records.isl[ok].sum(), records.osl[ok].sum(), ok.sum(), span)


def _window(metric: str, records: Records) -> float:
    window = records.native.get("_window_s")
    if not isinstance(window, list) or len(window) != 2:
        return np.nan
    start, end = window
    ok = records.ok
    ends = (records.end_s + _tails_s(records))[ok]
    half_tick = 1e-6  # epoch seconds as floats step by 0.24 us
    counted = ((ends >= start - half_tick) & (ends <= end + half_tick)).sum()
    first, last, osl = records.first_s[ok], records.end_s[ok], records.osl[ok]
    prompts = records.isl[ok][(first >= start - half_tick) & (first <= end + half_tick)].sum()
    # Tokens are taken as evenly spaced from the first to the last.
    spacing = np.where(osl > 1, (last - first) / np.maximum(osl - 1, 1), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.ceil((start - half_tick - first) / spacing)
        after = np.floor((end + half_tick - first) / spacing) + 1
    alone = (first >= start - half_tick) & (first <= end + half_tick)
    inside = np.clip(after, 0, osl) - np.clip(before, 0, osl)
    tokens = np.where(spacing > 0, inside, osl * alone).sum()
    return _amount(metric, prompts, tokens, counted, end - start)


def _amount(metric: str, isl: float, osl: float, count: float, span: float) -> float:
    amounts = {
        "request_throughput_req_s": count,
        "input_throughput_tok_s": isl,
        "output_throughput_tok_s": osl,
        "total_throughput_tok_s": isl + osl,
    }
    return float(amounts[metric] / span) if metric in amounts and span > 0 else np.nan


def _duration(_metric: str, records: Records) -> float:
    if records.native.get("_trimmed"):
        return np.nan
    ends = records.end_s + _tails_s(records)
    known = ends[~np.isnan(ends)]
    return float(known.max() - np.nanmin(records.start_s)) if known.size else np.nan


_STEP = "takes percentiles without interpolation"
DEFINITIONS: Mapping[str, Definition] = {
    "guidellm_step": Definition(
        f"guidellm {_STEP} (the value at which that share is reached); ours interpolate", _step
    ),
    "guidellm_latency": Definition(
        "guidellm's latency ends with the response, after the usage that follows the last token, "
        f"and it {_STEP}; ours ends with the last token",
        _latency,
    ),
    "guidellm_itl": Definition(
        "guidellm weights each request's time per token by its tokens, so that its mean is a ratio "
        f"of sums, and {_STEP}; ours is the mean of the requests' ratios",
        _itl,
        lambda metric, _records: statistic_name(metric) != "max",
    ),
    "guidellm_tpot": Definition(
        "what guidellm calls TPOT is the whole time to the last token, TTFT inside, divided by all "
        "tokens and weighted by them; ours leaves out the first token and its time",
        _tpot,
    ),
    "guidellm_tpot_old": Definition(
        "what this guidellm calls TPOT is the time from the first to the last token divided by all "
        "tokens and weighted by them; ours divides by the tokens after the first",
        _tpot_old,
    ),
    "guidellm_window": Definition(
        "guidellm counts what happened inside its measured window, which ends with a response and "
        "leaves out warm-up and cool-down; ours is all ok requests over their span",
        _window,
    ),
    "guidellm_span": Definition(
        "guidellm divides by the span of its successful requests, to the end of the last response; "
        "ours is the span of all requests, to the last token",
        _span,
    ),
    "guidellm_duration": Definition(
        "guidellm's window ends with a response and leaves out warm-up and cool-down; ours runs "
        "from the first start to the last token",
        _duration,
    ),
}
