"""Reader of GenAI-Perf runs and of Perf Analyzer's profile export.

- Written by NVIDIA GenAI-Perf (0.0.x, the forerunner of AIPerf): ``profile_export.json`` by its
  Perf Analyzer (one experiment per load level, raw responses with their times), and its summary
  ``profile_export_genai_perf.json`` and ``.csv``.
- Specified in Perf Analyzer's documentation of its profile export and by GenAI-Perf's source.
  Read after these; no real dump of it was at hand.
- It cannot tell: token counts, unless the server sent its usage or every reply had to have one
  length (``min_tokens`` = ``max_tokens``); errors, which make Perf Analyzer stop or leave no reply;
  engine, GPUs. Its TTFT and request latency are ours; its "inter-token latency" is our TPOT, by
  tokens that it counts itself. Times are the wall clock's, so that a correction of the clock can
  turn them back.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.compute as pc

from servebook.errors import DumpError
from servebook.read.codecs import SUFFIXES
from servebook.read.documents import json_value, read_bytes, slim_document
from servebook.read.files import read_text, sha256
from servebook.read.genai_perf_records import call_of, held, released, start_of
from servebook.read.genai_perf_summary import (
    DEFINITIONS,
    Settings,
    metrics_of_csv,
    native,
    settings,
)
from servebook.read.json_inside import Place
from servebook.read.records import SUMMARY_ONLY, Aside, Requests, set_aside, workload
from servebook.read.source import File, Format, Source, relative
from servebook.read.values import number, object_of, text, whole
from servebook.tables import Tables, table

__all__ = ["FORMAT", "find", "read"]

_EXPORT = re.compile(rb'"experiments"\s*:\s*\[\s*\{')
_EXPERIMENT = re.compile(rb'"(?:experiment|requests)"\s*:')
_METRIC = re.compile(rb'"(?:request_latency|request_throughput|time_to_first_token)"\s*:\s*\{')
_CONFIG = re.compile(rb'"(?:perf_analyzer|formatted_model_name|genai_perf)"\s*:')
#: AIPerf's table begins alike, but has other columns.
_CSV = re.compile(rb"Metric,avg,min,max,p99,p95,p90,p75,p50,p25\r?\n|Metric,Value\r?\n")
_CSV_ROW = re.compile(rb'(?m)^"?(?:Request Latency|Time To First Token|Request Throughput) \(')
_EPOCH_NS = 10**18


def find(files: Sequence[File]) -> list[Source]:
    """The runs among ``files``: the export, summary and CSV of one folder and name."""
    runs: dict[tuple[Path, str], dict[str, File]] = defaultdict(dict)
    for file in files:
        kind = _kind(file.head)
        if kind == "csv" and "aiperf" in file.path.name.lower():
            continue
        if kind is not None:
            runs[file.path.parent, _stem(file.path.name)].setdefault(kind, file)
    out = []
    for parts in runs.values():
        main = next(parts[kind] for kind in ("export", "summary", "csv") if kind in parts)
        options: dict[str, object] = {kind: file.path for kind, file in parts.items()}
        paths = tuple(sorted(file.path for file in parts.values()))
        out.append(Source("genai_perf", main.root, main.path, paths, options))
    return out


def _kind(head: bytes) -> str | None:
    if _EXPORT.search(head) and _EXPERIMENT.search(head):
        return "export"
    if head.lstrip()[:1] == b"{" and _METRIC.search(head) and _CONFIG.search(head):
        return "summary"
    return "csv" if _CSV.match(head) and _CSV_ROW.search(head) else None


def _stem(name: str) -> str:
    for suffix in (*SUFFIXES, ".json", ".csv", "_genai_perf"):
        name = name.removesuffix(suffix)
    return name


def read(source: Source) -> Tables:
    """The tables of one dump, a run per experiment; raises DumpError where nothing is left."""
    path = relative(source.main, source.root)
    parts = {kind: cast("Path", p) for kind, p in source.options.items() if kind in _PARTS}
    others: Aside = []
    summary = _summary(parts, source, others)
    asked, own = settings(summary), native(summary)
    run_id = str(source.options.get("run_id", source.main.stem))
    if "export" not in parts:
        if not own:
            found = "no metric that is known"
            raise DumpError(path, "a summary of GenAI-Perf", found, "export the run again")
        return Tables(
            runs=table("runs", [_of_summary(source, run_id, asked, own)]),
            set_aside=set_aside(path, others),
        )
    document = object_of(
        slim_document(parts["export"], path, "a profile export", {_REQUESTS: _call})
    )
    experiments = document.get("experiments")
    experiments = experiments if isinstance(experiments, list) else []
    tables: list[Tables] = []
    for index, experiment in enumerate(experiments):
        name = run_id if not tables else f"{run_id}#{len(tables) + 1}"
        # A summary is of one level of load.
        of_it = own if len(experiments) == 1 else {}
        found_tables, aside = _experiment(source, name, experiment, asked, dict(of_it), document)
        others += [(line, f"experiment {index}, {kind}", why) for line, kind, why in aside]
        if found_tables is not None:
            tables.append(found_tables)
    if not tables:
        why = others[0][2].rpartition(", found ")[2] if others else "no experiment"
        raise DumpError(path, "requests of a profile export", why, "export the run again")
    return Tables.concat([*tables, Tables(set_aside=set_aside(path, others))])


_PARTS = ("export", "summary", "csv")
_REQUESTS: Place = ("experiments", "requests")
FORMAT = Format("genai_perf", "runs", find, read, DEFINITIONS)


def _summary(parts: Mapping[str, Path], source: Source, aside: Aside) -> dict[str, Any]:
    for kind in ("summary", "csv"):
        path = parts.get(kind)
        if path is None:
            continue
        try:
            if kind == "csv":
                return metrics_of_csv(read_text(path))
            return object_of(json_value(read_bytes(path)))
        except DumpError as error:  # it names the file, what was expected and the way out itself
            if path == source.main:
                raise
            aside.append((None, "summary", f"{error.where}: {error.reason}"))
        except ValueError as error:
            name = relative(path, source.root)
            if path == source.main:
                way_out = "copy the file again"
                raise DumpError(name, "a summary of GenAI-Perf", str(error), way_out) from None
            aside.append((None, "summary", f"expected one object in {name}, found {error}"))
    return {}


def _call(record: Any) -> bytes | str:
    """The request that a record tells, as it is held, or why it tells none."""
    try:
        return held(call_of(record))
    except ValueError as error:
        return sys.intern(str(error))


def _experiment(
    source: Source,
    run_id: str,
    experiment: Any,
    asked: Settings,
    own: Mapping[str, Any],
    document: Mapping[str, Any],
) -> tuple[Tables | None, Aside]:
    aside: Aside = []
    records = object_of(experiment).get("requests")
    if not isinstance(records, list):
        return None, [(None, "requests", "expected a list of requests, found another value")]
    for index, one in enumerate(records):
        if isinstance(one, str):
            aside.append((None, f"request {index}", one))
    first_start = min((start_of(one) for one in records if isinstance(one, bytes)), default=None)
    if first_start is None:
        return None, aside or [(None, "requests", "expected requests, found an empty list")]
    epoch = first_start >= _EPOCH_NS
    zero = 0 if epoch else first_start
    requests = Requests(run_id)
    kinds: set[str | None] = set()
    streaming = False
    for index, one in enumerate(records):
        if isinstance(one, str):
            continue
        call = released(one)
        streaming |= call.streamed
        if call.status == "ok":
            kinds.add(call.counted_by)
        times = np.frombuffer(call.times, dtype=np.int64) - zero
        first = int(times[0]) if times.size and call.streamed else None
        requests.add(
            times[1:] - times[:-1] if times.size > 1 else None,
            first,
            request_id=str(index),
            phase="profiling",
            status=call.status,
            error_kind=call.error_kind,
            start_ns=call.start - zero,
            first_token_ns=first,
            end_ns=int(times[-1]) if times.size else None,
            isl=call.isl,
            osl=call.osl,
            osl_requested=call.osl_requested,
            cached_tokens=call.cached,
            flags=[],
        )
    load = object_of(object_of(experiment).get("experiment"))
    level, mode = number(load.get("value")), load.get("mode")
    isl, osl = requests.median("isl") or asked.isl, requests.median("osl") or asked.osl
    cached = requests.values("cached_tokens").drop_null()
    row = _row(source, run_id, asked, own) | requests.counts()
    row |= {
        "schema_version": text(document.get("version")),
        "level": "records",
        "clock": "epoch" if epoch else "relative",
        "concurrency": whole(level) if mode == "concurrency" else asked.concurrency,
        "request_rate": level if mode == "request_rate" else asked.request_rate,
        "streaming": streaming,
        "workload": workload(isl, osl),
        "cache_reuse": pc.max(cached).as_py() > 0 if len(cached) else None,
        "tokens_counted_by": next(iter(kinds)) if len(kinds) == 1 else None,
        "notes": _notes(kinds),
    }
    row["workload_from"] = "lengths" if row["workload"] else None
    return (
        Tables(runs=table("runs", [row]), requests=requests.requests(), gaps=requests.gaps()),
        aside,
    )


def _notes(kinds: set[str | None]) -> list[str]:
    notes = []
    if None in kinds:
        notes.append(
            "the dump holds no token counts of some replies: token throughput and TPOT are unknown"
        )
    if "nominal" in kinds:
        notes.append(
            "output tokens are the length that every request had to have, not a count of the reply"
        )
    return notes


def _row(source: Source, run_id: str, asked: Settings, own: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "format": "genai_perf",
        "client": "GenAI-Perf",
        "path": relative(source.main, source.root),
        "sha256": sha256(source.main),
        "model": asked.model,
        "isl_requested": asked.isl,
        "osl_requested": asked.osl,
        "complete": True,
        "native": json.dumps(own) if own else None,
    }


def _of_summary(
    source: Source, run_id: str, asked: Settings, own: Mapping[str, Any]
) -> dict[str, Any]:
    found = workload(asked.isl, asked.osl)
    return _row(source, run_id, asked, own) | {
        "level": "summary",
        "clock": "none",
        "n_ok": own.get("n_ok"),
        "concurrency": asked.concurrency,
        "request_rate": asked.request_rate,
        "streaming": asked.streaming,
        "workload": found,
        "workload_from": "lengths" if found else None,
        "notes": [SUMMARY_ONLY],
    }
