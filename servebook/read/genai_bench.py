"""Reader of genai-bench experiments.

- Written by genai-bench (0.0.5 seen; older files lack ``_time_unit`` and are in seconds): a folder
  with ``experiment_metadata.json`` and one JSON file per scenario and concurrency.
- Specified by its source alone (``genai_bench/metrics``).
- It cannot tell: when a request started (a record holds durations only), gaps between tokens,
  requests of one output token and less or of more than 1,000 tokens/s, which it drops. Its TTFT
  and TPOT, (latency - TTFT) / (tokens - 1), are ours, but its statistics leave out the first and
  last requests where a warm-up or cool-down ratio was given, while its duration holds them. Its
  duration ends with the poll, once a second, that finds the run finished.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from servebook.errors import DumpError
from servebook.read.documents import json_value, read_bytes, slim_document
from servebook.read.errorkind import error_kind
from servebook.read.files import sha256
from servebook.read.genai_bench_summary import DEFINITIONS, UNITS, Trim, native, scenario, trim
from servebook.read.records import NO_STARTS, SUMMARY_ONLY, Aside, Requests, set_aside, workload
from servebook.read.source import File, Format, Source, relative
from servebook.read.values import (
    model_name,
    number,
    object_of,
    text,
    time_ns,
    token_count,
    whole,
)
from servebook.tables import Tables, table

__all__ = ["FORMAT", "find", "read"]

_POINT = (b'"aggregated_metrics"', b'"num_concurrency"', b'"run_duration"')
_METADATA = (b'"traffic_scenario"', b'"benchmark_version"', b'"api_backend"')
_RECORDS = ("individual_request_metrics",)
_EXPECTED = "a result of genai-bench"
_PLAIN = re.compile(r"[\w .+-]{1,40}")


def find(files: Sequence[File]) -> list[Source]:
    """The points among ``files``, each with the metadata of its folder."""
    beside: dict[Path, Path] = {}
    points: dict[Path, list[File]] = defaultdict(list)
    for file in files:
        if all(key in file.head for key in _POINT):
            points[file.path.parent].append(file)
        elif all(key in file.head for key in _METADATA):
            beside.setdefault(file.path.parent, file.path)
    out = []
    for folder, found in points.items():
        metadata = beside.get(folder)
        own = () if metadata is None else (metadata,)
        options: dict[str, object] = {} if metadata is None else {"metadata": metadata}
        out += [Source("genai_bench", f.root, f.path, (f.path, *own), dict(options)) for f in found]
    return out


def read(source: Source) -> Tables:
    """The tables of one point; raises DumpError where nothing of it can be used."""
    path = relative(source.main, source.root)
    # Twice through the file, since its unit may stand behind the records.
    value = object_of(slim_document(source.main, path, _EXPECTED, {_RECORDS: lambda _: None}))
    aggregated = object_of(value.get("aggregated_metrics"))
    unit = value.get("_time_unit", "s")
    if unit not in UNITS:
        raise DumpError(path, "_time_unit of s or ms", "another one", "export the run again")
    aside: Aside = []
    about = _metadata(source, aside)
    records = value.get("individual_request_metrics")
    requests = Requests(str(source.options.get("run_id", source.main.stem)))
    n = len(records) if isinstance(records, list) else 0
    cut = trim(about, n)
    numbers = itertools.count()

    def add(record: Any) -> None:
        index = next(numbers)
        try:
            requests.add(request_id=str(index), phase="profiling", **_row(record, UNITS[unit]))
        except ValueError as error:
            aside.append((None, f"request {index}", str(error)))

    if n:
        slim_document(source.main, path, _EXPECTED, {_RECORDS: add})
    if len(requests) and not _any_tokens(requests):
        found = "none in any (an embedding or rerank task)"
        raise DumpError(path, "replies with output tokens", found, "leave it out")
    own = native(aggregated, UNITS[unit], _among_used(requests, cut, n))
    if not len(requests) and not own:
        found = aside[0][2].rpartition(", found ")[2] if aside else "one without any figure"
        raise DumpError(path, _EXPECTED, found, "export the run again")
    run = _run(source, requests, aggregated, about, own)
    run["notes"] += _notes(requests, about, cut)
    if len(requests):
        counted = whole(aggregated.get("num_requests"))
        n_set_aside = sum(kind.startswith("request") for _, kind, _ in aside)
        known = counted is not None
        run["n_lost"] = max(0, (counted or 0) - len(requests) - n_set_aside) if known else None
    return Tables(
        runs=table("runs", [run]),
        requests=requests.requests(),
        gaps=requests.gaps(),
        set_aside=set_aside(path, aside),
    )


def _any_tokens(requests: Requests) -> bool:
    if pc.any(pc.not_equal(requests.values("status"), "failed")).as_py():
        return True
    kinds = requests.values("error_kind")
    return kinds.null_count > 0 or set(kinds.unique().to_pylist()) != {"stream_error"}


def _among_used(requests: Requests, cut: Trim, n: int) -> Trim:
    """How many of the requests that are used lie in the ends that the client leaves out."""
    places = pc.cast(requests.values("request_id"), pa.int64()).to_numpy()
    return Trim(int((places < cut.first).sum()), int((places >= n - cut.last).sum()))


FORMAT = Format("genai_bench", "runs", find, read, DEFINITIONS)


def _metadata(source: Source, aside: Aside) -> dict[str, Any]:
    path = cast("Path | None", source.options.get("metadata"))
    if path is None:
        return {}
    try:
        return object_of(json_value(read_bytes(path)))
    except ValueError as error:
        name = relative(path, source.root)
        aside.append((None, "metadata", f"expected one object in {name}, found {error}"))
        return {}


def _row(record: Any, ns: float) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise ValueError("expected a JSON object, found another value")
    code = record.get("error_code")
    osl, isl = (
        token_count(record.get(name), name) for name in ("num_output_tokens", "num_input_tokens")
    )
    row: dict[str, Any] = {"isl": isl, "start_ns": 0, "flags": []}
    if code is not None:
        kind = error_kind(whole(code), str(record.get("error_message") or ""))
        status = "cancelled" if kind == "cancelled" else "failed"
        return row | {"status": status, "error_kind": kind}
    first, end = (
        time_ns(record.get(name), name, ns, what="a time") for name in ("ttft", "e2e_latency")
    )
    if first is not None and end is not None and first > end:
        raise ValueError("expected ttft within e2e_latency, found a longer one")
    if not osl:
        row |= {"status": "failed", "error_kind": "stream_error"}
    else:
        row |= {"status": "ok", "osl": osl}
    return row | {"first_token_ns": first, "end_ns": end}


def _run(
    source: Source,
    requests: Requests,
    aggregated: Mapping[str, Any],
    about: Mapping[str, Any],
    own: Mapping[str, Any],
) -> dict[str, Any]:
    isl, osl = scenario(aggregated.get("scenario"))
    by_concurrency = aggregated.get("iteration_type", "num_concurrency") == "num_concurrency"
    by_rate = aggregated.get("iteration_type") in ("request_rate", "qps", "num_qps")
    level = number(aggregated.get("num_concurrency"))
    row: dict[str, Any] = {
        "run_id": requests.run_id,
        "format": "genai_bench",
        "client": "genai-bench",
        "client_version": text(about.get("benchmark_version")),
        "path": relative(source.main, source.root),
        "sha256": sha256(source.main),
        "model": model_name(about.get("api_model_name")) or model_name(about.get("model")),
        "concurrency": whole(level) or None if by_concurrency else None,
        "request_rate": level if by_rate else None,
        "isl_requested": isl,
        "osl_requested": osl,
        "clock": "none",
        "complete": True,
        "native": json.dumps(own) if own else None,
        "notes": [],
    }
    if len(requests):
        row |= requests.counts() | {"level": "records", "start_ns": None, "end_ns": None}
        row["streaming"] = requests.values("first_token_ns").null_count < len(requests) or None
        row["workload"] = workload(requests.median("isl"), requests.median("osl"))
        row["notes"].append(NO_STARTS)
    else:
        row |= {"level": "summary", "n_ok": own.get("n_ok"), "n_failed": own.get("n_failed")}
        row["n_requests"] = whole(aggregated.get("num_requests"))
        row["workload"] = workload(isl, osl)
        row["notes"].append(SUMMARY_ONLY)
    row["workload_from"] = "lengths" if row["workload"] else None
    return row


def _notes(requests: Requests, about: Mapping[str, Any], cut: Trim) -> list[str]:
    notes = []
    if len(requests):
        notes.append(
            "the client's duration ends with the poll, once a second, that finds the run finished: "
            "throughputs of a short run are too low"
        )
    if cut.first or cut.last:
        ends = (
            f"the first {cut.first} and the last {cut.last}"
            if cut.first and cut.last
            else f"the first {cut.first}"
            if cut.first
            else f"the last {cut.last}"
        )
        notes.append(
            f"the client leaves {ends} requests out of its statistics; here they count, because "
            "its duration holds them"
        )
    engine = [text(about.get(f"server_{key}")) for key in ("engine", "version")]
    gpus = [text(about.get(f"server_gpu_{key}")) for key in ("count", "type")]
    words = [w for w in (*engine, *(("on", *gpus) if all(gpus) else ())) if w]
    if words and all(_PLAIN.fullmatch(word) for word in words):
        notes.append(f"whoever ran the client called the server {' '.join(words)}")
    return notes
