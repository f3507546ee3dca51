"""Reader of llm-d Benchmark Reports.

- Written by llm-d-benchmark's converters, by inference-perf (``*.partial.*.yaml``) and by
  ``servebook export``: version 0.1, 0.2 and 0.2.1, as YAML (several documents too) or JSON.
- Specified in llm-d-benchmark (``docs/benchmark_report.md`` and its JSON schema).
- It cannot tell: single requests and gaps, so that nothing is recomputed; how the tool behind it
  defines a latency or what its duration holds. ``total`` and ``failures`` are as the converter
  made them: that of AIPerf gives valid requests and kinds of errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from servebook.errors import DumpError
from servebook.read.client_figures import numbers, statistics_ms
from servebook.read.documents import json_value, read_bytes, yaml
from servebook.read.files import sha256
from servebook.read.records import SUMMARY_ONLY, Aside, set_aside, workload
from servebook.read.source import File, Format, Source, relative
from servebook.read.times import moment_ns
from servebook.read.values import model_name, number, object_of, objects_in, whole
from servebook.tables import Tables, table

__all__ = ["FORMAT", "find", "read"]

_EXPECTED = "an llm-d Benchmark Report"
_YAML = (
    re.compile(rb"""(?m)^version:\s*['"]?0\.\d"""),
    re.compile(rb"(?m)^(?:results|metrics):"),
)
_JSON = (
    re.compile(rb'"version"\s*:\s*"?0\.\d'),
    re.compile(rb'"(?:request_performance|scenario|metrics)"\s*:\s*\{'),
    re.compile(rb'"(?:time_to_first_token|request_latency|requests)"\s*:'),
)
_LATENCIES = {
    "time_to_first_token": "ttft",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
    "request_latency": "e2e",
}
_TO_MS = {"s": 1e3, "s/token": 1e3, "ms": 1.0, "ms/token": 1.0}
_RATES = {
    "input_token_rate": "input_throughput_tok_s",
    "output_token_rate": "output_throughput_tok_s",
    "total_token_rate": "total_throughput_tok_s",
    "request_rate": "request_throughput_req_s",
    # 0.1
    "input_tokens_per_sec": "input_throughput_tok_s",
    "output_tokens_per_sec": "output_throughput_tok_s",
    "total_tokens_per_sec": "total_throughput_tok_s",
    "requests_per_sec": "request_throughput_req_s",
}
_NO_ERRORS = "the report does not say how many requests failed"
_PLAIN = re.compile(r"[\w .:+@-]{1,60}")
_SECONDS = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?")


def find(files: Sequence[File]) -> list[Source]:
    """The reports among ``files``."""
    return [
        Source("llmd_report", file.root, file.path, (file.path,))
        for file in files
        if _is_report(file.head)
    ]


def _is_report(head: bytes) -> bool:
    keys = _JSON if head.lstrip()[:1] == b"{" else _YAML
    return all(key.search(head) for key in keys)


def read(source: Source) -> Tables:
    """One summary row per report; raises DumpError where none can be used."""
    path = relative(source.main, source.root)
    try:
        data = read_bytes(source.main)
        found = [json_value(data)] if data.lstrip()[:1] == b"{" else yaml(data)
    except ValueError as error:
        raise DumpError(path, _EXPECTED, str(error), "copy the file again") from None
    base = str(source.options.get("run_id", source.main.stem))
    digest = sha256(source.main)
    rows: list[dict[str, Any]] = []
    aside: Aside = []
    for index, value in enumerate(found):
        run_id = base if not rows else f"{base}#{len(rows) + 1}"
        try:
            row = _row(value)
        except ValueError as error:
            aside.append((None, f"report {index}", f"expected {_EXPECTED}, found {error}"))
            continue
        rows.append(row | {"run_id": run_id, "path": path, "sha256": digest})
    if not rows:
        why = aside[0][2].rpartition(", found ")[2] if aside else "an empty file"
        raise DumpError(path, _EXPECTED, why, "export it again")
    return Tables(runs=table("runs", rows), set_aside=set_aside(path, aside))


FORMAT = Format("llmd_report", "runs", find, read)


def _row(report: Any) -> dict[str, Any]:
    top = object_of(report)
    version = str(top.get("version"))
    if not re.match(r"0\.[12](?:\.|$)", version):
        raise ValueError("a version that is neither 0.1 nor 0.2")
    scenario = object_of(top.get("scenario"))
    if version.startswith("0.1"):
        results, run = object_of(top.get("metrics")), object_of(top.get("metrics"))
        row = _asked_0_1(scenario)
    else:
        performance = object_of(object_of(top.get("results")).get("request_performance"))
        results, run = object_of(performance.get("aggregate")), object_of(top.get("run"))
        row = _asked_0_2(scenario)
    requests, notes = object_of(results.get("requests")), row.pop("notes")
    own = _native(results)
    duration, start, end = _times(object_of(run.get("time")), notes)
    if duration is not None:
        own["duration_s"] = duration
    total, failed = whole(requests.get("total")), whole(requests.get("failures"))
    incomplete = whole(requests.get("incomplete")) or 0
    if not own and total is None:
        raise ValueError("one without results of requests")
    if total is not None and failed is not None and failed + incomplete <= total:
        own |= {"n_ok": total - failed - incomplete, "n_failed": failed}
    elif total is not None:
        notes.append(_NO_ERRORS if failed is None else "more requests failed than were sent")
    lengths = [
        whole(round(mean))
        for key in ("input_length", "output_length")
        if (mean := number(object_of(requests.get(key)).get("mean"))) is not None and mean >= 0
    ]
    found = workload(*lengths) if len(lengths) == 2 else None
    return row | {
        "format": "llmd_report",
        "schema_version": version,
        "level": "summary",
        "clock": "none" if start is None else "epoch",
        "start_ns": start,
        "end_ns": end,
        "n_requests": total,
        "n_ok": own.get("n_ok"),
        "n_failed": own.get("n_failed"),
        "n_cancelled": incomplete or None,
        "complete": True,
        "workload": found,
        "workload_from": "lengths" if found else None,
        "native": json.dumps(dict(sorted(own.items()))) if own else None,
        "notes": [SUMMARY_ONLY, *notes],
    }


def _native(results: Mapping[str, Any]) -> dict[str, Any]:
    """Latencies and rates with a unit that is known, under our metric names."""
    out: dict[str, Any] = {}
    latency = object_of(results.get("latency"))
    for theirs, ours in _LATENCIES.items():
        values = object_of(latency.get(theirs))
        factor = _TO_MS.get(str(values.get("units")))
        if factor is not None:
            out |= statistics_ms(ours, values, factor)
    rates = {
        name: stated.get("mean") if isinstance(stated, dict) else stated
        for name, stated in object_of(results.get("throughput")).items()
    }
    out |= numbers(rates, _RATES)
    return {name: value for name, value in out.items() if value >= 0}


def _asked_0_2(scenario: Mapping[str, Any]) -> dict[str, Any]:
    load = object_of(object_of(scenario.get("load")).get("standardized"))
    engines = [
        said
        for part in objects_in(scenario.get("stack"))
        if (said := object_of(part.get("standardized"))).get("kind") == "inference_engine"
    ]
    notes = []
    for engine in engines:
        gpus = object_of(engine.get("accelerator"))
        sizes = object_of(gpus.get("parallelism"))
        shape = " ".join(f"{k}={n}" for k in ("tp", "dp", "pp", "ep") if (n := whole(sizes.get(k))))
        words = [
            f"{whole(engine.get('replicas')) or 1} x {_plain(engine.get('role')) or 'engine'}",
            _plain(engine.get("tool")),
            _gpus(gpus),
            shape,
        ]
        notes.append(f"the report names {', '.join(word for word in words if word)}")
    names = [model_name(object_of(engine.get("model")).get("name")) for engine in engines]
    tool = _plain(load.get("tool"))
    return {
        "client": f"llm-d Benchmark Report ({tool})" if tool else "llm-d Benchmark Report",
        "client_version": _plain(load.get("tool_version")),
        "model": next((name for name in names if name), None),
        "concurrency": whole(load.get("concurrency")) or None,
        "request_rate": number(load.get("rate_qps")) or None,
        "isl_requested": _length(load.get("input_seq_len")),
        "osl_requested": _length(load.get("output_seq_len")),
        "notes": notes,
    }


def _asked_0_1(scenario: Mapping[str, Any]) -> dict[str, Any]:
    load, host = object_of(scenario.get("load")), object_of(scenario.get("host"))
    gpus = [words for part in objects_in(host.get("accelerator")) if (words := _gpus(part))]
    args, tool = object_of(load.get("args")), _plain(load.get("name"))
    rate = number(args.get("qps_values"))
    return {
        "client": f"llm-d Benchmark Report ({tool})" if tool else "llm-d Benchmark Report",
        "model": model_name(object_of(scenario.get("model")).get("name")),
        "request_rate": rate if rate and rate > 0 else None,
        "concurrency": whole(args.get("max_concurrency", args.get("max-concurrency"))) or None,
        "notes": [f"the report names {', '.join(gpus)}"] if gpus else [],
    }


def _gpus(accelerator: Mapping[str, Any]) -> str | None:
    name, count = _plain(accelerator.get("model")), whole(accelerator.get("count"))
    return f"{count} x {name}" if name and count else None


def _length(value: Any) -> int | None:
    mean = number(object_of(value).get("value"))
    return (whole(round(mean)) or None) if mean is not None and mean >= 0 else None


def _plain(value: Any) -> str | None:
    """A short plain name; of an image or a path the last part, which names no host."""
    name = value.rpartition("/")[2] if isinstance(value, str) else ""
    return name if _PLAIN.fullmatch(name) else None


def _times(
    time: Mapping[str, Any], notes: list[str]
) -> tuple[float | None, int | None, int | None]:
    """Duration in s, and start and end in epoch ns where the report states both, in order."""
    stated = time.get("duration")
    duration = number(stated)
    if isinstance(stated, str) and (parts := _SECONDS.fullmatch(stated)):
        try:
            hours, minutes, seconds = (float(part or 0) for part in parts.groups())
            duration = hours * 3600 + minutes * 60 + seconds
        except ValueError:
            duration = None
    start, end = _epoch_ns(time.get("start")), _epoch_ns(time.get("end", time.get("stop")))
    if start is not None and end is not None and start <= end:
        notes.append("start and end are those that the report states, not of its requests")
        return duration or None, start, end
    if start is not None and end is not None:
        notes.append("the report's end lies before its start: neither is used")
    return duration or None, None, None


def _epoch_ns(value: Any) -> int | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return None  # local time of an unknown zone
        found = moment_ns(value)
        return found if 10**18 <= found < 9 * 10**18 else None
    seconds = number(value)
    return round(seconds * 1e9) if seconds is not None and 1e9 <= seconds < 9e9 else None
