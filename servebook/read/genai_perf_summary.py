"""GenAI-Perf's own summary, JSON or CSV, under our names, and what it means by it."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from servebook.read.client_figures import counts, numbers, statistics_ms
from servebook.read.definition import Definition, Records, statistic_of
from servebook.read.values import boolean, model_name, number, object_of, whole

__all__ = ["DEFINITIONS", "Settings", "metrics_of_csv", "native", "settings"]

_LATENCIES = {
    "time_to_first_token": "ttft",
    "inter_token_latency": "tpot",
    "request_latency": "e2e",
}
_RATES = {
    "request_throughput": "request_throughput_req_s",
    "output_token_throughput": "output_throughput_tok_s",
}
_UNIT_MS = {"ms": 1.0, "us": 1e-3, "ns": 1e-6, "s": 1e3, "sec": 1e3}
_ROW = re.compile(r"(?P<name>[A-Za-z ]+?)(?: \((?P<unit>[^()]*)\))?")


def _per_token(metric: str, records: Records) -> float:
    several = records.ok & (records.osl > 1)
    return statistic_of(metric, records.decode_ms[several] / (records.osl[several] - 1))


def _tokens(metric: str, records: Records) -> float:  # noqa: ARG001
    span = np.nanmax(records.end_s) - np.nanmin(records.start_s) if records.ok.any() else 0.0
    return float(records.osl[records.ok].sum() / span) if span > 0 else np.nan


def _with_failed(metric: str, records: Records) -> float:  # noqa: ARG001
    good = records.ok
    span = np.nanmax(records.end_s[good]) - np.nanmin(records.start_s[good]) if good.any() else 0.0
    return float(len(records.status) / span) if span > 0 else np.nan


DEFINITIONS: Mapping[str, Definition] = {
    "own_tokens": Definition(
        "GenAI-Perf counts the tokens of a reply with its own tokenizer; the dump holds no counts, "
        "ours are the server's or the length asked for",
        _per_token,
    ),
    "own_tokens_rate": Definition(
        "GenAI-Perf counts the tokens of a reply with its own tokenizer; the dump holds no counts, "
        "ours are the server's or the length asked for",
        _tokens,
    ),
    "latency_as_ttft": Definition(
        "GenAI-Perf calls the latency of a reply that is not streamed its TTFT; ours has none",
        lambda metric, records: statistic_of(metric, records.e2e_ms[records.ok]),
        lambda metric, records: bool(np.isnan(records.first_s[records.ok]).any()),
    ),
    "all_requests": Definition(
        "GenAI-Perf counts all requests, those without a reply too; ours are the ok ones",
        _with_failed,
        lambda metric, records: bool((~records.ok).any()),
    ),
}


@dataclass(frozen=True)
class Settings:
    """What the summary's ``input_config`` says was asked for; None where it does not."""

    model: str | None = None
    streaming: bool | None = None
    concurrency: int | None = None
    request_rate: float | None = None
    isl: int | None = None
    osl: int | None = None


def settings(summary: Mapping[str, Any]) -> Settings:
    """Settings of either layout: flat to 0.0.12, nested by section later."""
    config = object_of(summary.get("input_config"))
    entry, source = object_of(config.get("input")), object_of(config.get("endpoint"))
    names = config.get("model_names", config.get("model"))
    name = config.get("formatted_model_name")
    if isinstance(names, list) and names:
        name = names[0]
    elif isinstance(names, str):
        name = names
    tokens = object_of(entry.get("synthetic_tokens"))
    prompt = object_of(entry.get("prompt")) or entry
    stimulus = object_of(object_of(config.get("perf_analyzer")).get("stimulus"))
    return Settings(
        model=model_name(name),
        streaming=boolean(config.get("streaming", source.get("streaming"))),
        concurrency=_whole(config.get("concurrency", stimulus.get("concurrency"))),
        request_rate=number(config.get("request_rate", stimulus.get("request_rate"))),
        isl=_whole(config.get("synthetic_input_tokens_mean", tokens.get("mean"))),
        osl=_whole(
            config.get("output_tokens_mean", object_of(prompt.get("output_tokens")).get("mean"))
        ),
    )


def _whole(value: Any) -> int | None:
    found = whole(value)
    return found or None


def native(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The client's figures under our metric names. Its inter-token latency is our TPOT."""
    out: dict[str, Any] = {}
    for theirs, ours in _LATENCIES.items():
        values = object_of(metrics.get(theirs))
        factor = _UNIT_MS.get(str(values.get("unit")))
        if factor is not None:
            out |= statistics_ms(ours, values, factor)
    means = {name: object_of(metric).get("avg") for name, metric in metrics.items()}
    out |= numbers(means, _RATES) | counts(means, {"request_count": "n_ok"})
    if out:
        out["_definition"] = {
            "ttft": "latency_as_ttft",
            "tpot": "own_tokens",
            "output_throughput_tok_s": "own_tokens_rate",
            "request_throughput_req_s": "all_requests",
        }
    return dict(sorted(out.items()))


def metrics_of_csv(text: str) -> dict[str, Any]:
    """The metrics of a CSV twin in the form of the JSON summary, rounded as it is."""
    out: dict[str, Any] = {}
    columns: list[str] = []
    for row in csv.reader(text.splitlines()):
        if not row or not row[0].strip():
            continue
        if row[0] == "Metric":
            columns = row[1:]
            continue
        name = _ROW.fullmatch(row[0].strip())
        if name is None or not columns:
            continue
        values = {
            "avg" if column == "Value" else column: _float(cell)
            for column, cell in zip(columns, row[1:], strict=False)
        }
        key = name["name"].lower().replace(" ", "_")
        out.setdefault(key, {"unit": name["unit"] or "", **values})
    return out


def _float(cell: str) -> float | None:
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return None
