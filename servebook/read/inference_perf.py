"""Reader of inference-perf reports.

- Written by inference-perf of kubernetes-sigs: ``per_request_lifecycle_metrics.json`` (on demand),
  ``stage_<N>_`` and ``summary_lifecycle_metrics.json``, and ``config.yaml`` beside them. Tried on
  real reports of 0.7.0 and on published ones from before ``benchmark_time_seconds``.
- Specified by its source alone (``inference_perf/reportgen``); keys come and go between versions,
  so each one is optional here.
- It cannot tell: wall-clock times (records hold seconds of a monotonic clock); the stage of a
  record, which is told from the stages' own reports; its own version; how long a single request
  waited behind its schedule. NTPOT, a request's whole time over its tokens, is not taken over.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from servebook.errors import DumpError
from servebook.read.documents import json_value, read_bytes, yaml
from servebook.read.files import sha256
from servebook.read.inference_perf_runs import Dump, runs_of_records, runs_of_reports
from servebook.read.inference_perf_summary import DEFINITIONS, settings, utc
from servebook.read.records import set_aside
from servebook.read.source import File, Format, Source, relative
from servebook.read.values import object_of
from servebook.tables import Tables

__all__ = ["FORMAT", "find", "read"]

_RECORDS = re.compile(rb'\s*\[\s*\{\s*"(?:start_time|end_time|session_id|request)"\s*:')
_CALL = (b'"start_time"', b'"end_time"')
_REPORT = (
    re.compile(rb'(?m)(?:"load_summary"|^load_summary)\s*:'),
    re.compile(rb'(?m)(?:"successes"|^successes)\s*:'),
    re.compile(rb'(?m)(?:"failures"|^failures)\s*:'),
)
_ENGINE = re.compile(rb'"(?:queue_len|kv_cache_usage_percentage|num_preemptions_total)"\s*:')
_CONFIG = (
    re.compile(rb"(?m)^load:"),
    re.compile(rb"(?m)^(?:api|data):"),
    re.compile(rb"(?m)^server:"),
)
_SESSIONS = re.compile(rb'"(?:num_sessions|num_events)"\s*:')
_SESSION = re.compile(rb'"(?:session_duration_sec|duration_sec|sessions_per_second)"\s*:')
_PARTIAL = re.compile(rb"(?m)^  uid: ['\"]?inference-perf-")
#: Kinds that are no part of what is read.
_BESIDE = ("partial", "validation", "adapter", "session")
_OF_STAGE = re.compile(r"stage_(\d{1,6})\.")
_NAME = re.compile(
    r"(?P<prefix>.*?)(?:(?P<role>per_request|summary|stage_\d{1,6})_(?:lifecycle|prometheus)_metrics"
    r"|(?P<adapter>adapter_.+_lifecycle_metrics)|(?:summary_|stage_\d+_|per_)session_lifecycle_metrics"
    r"|config|validation|inference-perf\.partial\..*)\.(?:json|ya?ml)(?:\.[a-z0-9]{1,5})?"
)


def find(files: Sequence[File]) -> list[Source]:
    """The runs among ``files``: the reports of one folder that share a name's prefix."""
    dumps: dict[tuple[Path, str], dict[str, File]] = defaultdict(dict)
    for file in files:
        name = _NAME.fullmatch(file.path.name)
        kind = _kind(file.head)
        if kind is None and name and name["role"] and _REPORT[0].search(file.head):
            kind = "report"  # cut before its last part: its refusal then says so
        if kind == "report" and name and name["adapter"]:
            kind = "adapter"  # the same requests once more, by LoRA adapter
        if kind is None:
            continue
        prefix = name["prefix"] if name else file.path.name
        role = (name["role"] if name else None) or kind
        if kind == "records":
            role = "records"
        elif kind == "engine":
            role = f"engine_{role}"
        elif kind in _BESIDE:
            role = f"{kind}:{file.path.name}"  # one per stage
        dumps[file.path.parent, prefix].setdefault(role, file)
    return [_source(parts) for parts in dumps.values() if any(map(_is_main, parts))]


def _kind(head: bytes) -> str | None:
    if _RECORDS.match(head) and all(key in head for key in _CALL):
        return "records"
    if all(key.search(head) for key in _REPORT):
        return "engine" if _ENGINE.search(head) else "report"
    if all(key.search(head) for key in _CONFIG) and b"base_url" in head:
        return "config"
    if _PARTIAL.search(head[:512]):
        return "partial"
    if _SESSIONS.search(head) and _SESSION.search(head):
        return "session"
    return "validation" if b'_lifecycle_metrics.json"' in head and b'"severity"' in head else None


def _is_main(role: str) -> bool:
    return role in ("records", "summary", "report") or role.startswith("stage_")


def _stage(role: str) -> int:
    return int(role.removeprefix("stage_"))


def _source(parts: Mapping[str, File]) -> Source:
    stages = sorted((role for role in parts if role.startswith("stage_")), key=_stage)
    roles = [role for role in ("records", "summary", "report", *stages) if role in parts]
    main = parts[roles[0]]
    options: dict[str, object] = {f"part:{role}": file.path for role, file in parts.items()}
    files = tuple(sorted(file.path for file in parts.values()))
    return Source("inference_perf", main.root, main.path, files, options)


def read(source: Source) -> Tables:
    """The tables of one dump, a run per stage; raises DumpError where nothing of it is left."""
    name = relative(source.main, source.root)
    parts = {
        key.removeprefix("part:"): cast("Path", path)
        for key, path in source.options.items()
        if key.startswith("part:")
    } or {"report": source.main}
    aside: list[pa.Table] = []
    told = {
        role: object_of(_document(parts[role], source, aside))
        for role in sorted(parts)
        if role != "records" and not role.startswith((*_BESIDE, "engine_summary"))
    }
    began = {
        int(stage[1]): object_of(object_of(partial.get("run")).get("time")).get("start")
        for role in sorted(parts)
        if role.startswith("partial:")
        and (stage := _OF_STAGE.search(role))
        and (partial := object_of(_document(parts[role], source, aside)))
    }
    stages = {_stage(role): told[role] for role in told if role.startswith("stage_") and told[role]}
    dump = Dump(
        run_id=str(source.options.get("run_id", source.main.stem)),
        path=name,
        sha256=sha256(source.main),
        asked=settings(told.get("config", {})),
        stages=dict(sorted(stages.items())),
        whole=told.get("summary") or told.get("report") or {},
        began={stage: at for stage, start in began.items() if (at := utc(start))},
        engine={
            _stage(role.removeprefix("engine_")): told[role]
            for role in told
            if role.startswith("engine_stage_")
        },
    )
    if "records" in parts:
        found = runs_of_records(dump, parts["records"])
    elif dump.stages or dump.whole:
        found = runs_of_reports(dump)
    else:
        why = aside[0]["reason"][0].as_py() if aside else "none"
        raise DumpError(name, "a report of inference-perf", why, "copy the file again")
    return Tables.concat([found, *(Tables(set_aside=rows) for rows in aside)])


def _document(path: Path, source: Source, aside: list[pa.Table]) -> Any:
    """The object in a JSON or YAML report; damage is set aside, unless it is all there is."""
    try:
        data = read_bytes(path)
        value = json_value(data) if data.lstrip()[:1] in b"{[" else next(iter(yaml(data)), None)
        if not isinstance(value, dict):
            raise ValueError("another value")
    except ValueError as error:
        name = relative(path, source.root)
        if path == source.main:
            way_out = "copy the file again"
            raise DumpError(name, "a report of inference-perf", str(error), way_out) from None
        reason = f"expected one object, found {error}; copy the file again"
        aside.append(set_aside(name, [(None, "report", reason)]))
        return None
    return value


FORMAT = Format("inference_perf", "runs", find, read, DEFINITIONS)
