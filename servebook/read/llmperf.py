"""Reader of llmperf results.

- Written by ray-project llmperf (``token_benchmark_ray.py``; file version 2023-08-31):
  ``<model>_<in>_<out>_individual_responses.json`` and ``_summary.json``, also as published in its
  leaderboard.
- Specified by its source alone.
- It cannot tell: when a request started, gaps between tokens, the server's token counts (it counts
  the replies with a tokenizer of its own, the same for all models), its own duration except by its
  rates. Its TTFT is ours. Its "inter-token latency" is the time from the request's start to the
  last chunk over the output tokens, TTFT inside: no ITL, but a TPOT by another definition. A whole
  reply with fewer tokens than it asked for is an error to some versions (code -100).
"""

from __future__ import annotations

import json
import re
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from servebook.errors import DumpError
from servebook.read.documents import json_value, read_bytes
from servebook.read.errorkind import error_kind
from servebook.read.files import sha256
from servebook.read.json_array import elements
from servebook.read.llmperf_summary import DEFINITIONS, ITL, Settings, native, recomputed, settings
from servebook.read.records import NO_STARTS, SUMMARY_ONLY, Aside, Requests, set_aside, workload
from servebook.read.source import File, Format, Source, relative
from servebook.read.values import number, object_of, time_ns, token_count, whole
from servebook.tables import Tables, table

__all__ = ["FORMAT", "find", "read"]

_RECORDS = re.compile(rb"\s*\[\s*\{")
_KEYS = (b'"ttft_s"', b'"end_to_end_latency_s"', b'"number_output_tokens"')
_SUMMARY = (b'"results_', b'"num_concurrent_requests"')
_OPENING = re.compile(r'\{\s*"(?:error_code|inter_token_latency_s|ttft_s)"\s*:')
_ROLE = re.compile(r"_(?:individual_responses|summary)\.json.*")
_TOO_SHORT = -100


def find(files: Sequence[File]) -> list[Source]:
    """The runs among ``files``: records and summary of one folder and name, or either alone."""
    parts: dict[tuple[Path, str], dict[str, File]] = defaultdict(dict)
    for file in files:
        kind = _kind(file.head)
        if kind is not None:
            parts[file.path.parent, _ROLE.sub("", file.path.name)].setdefault(kind, file)
    out = []
    for found in parts.values():
        main = found.get("records", found.get("summary"))
        if main is not None:
            options: dict[str, object] = {kind: file.path for kind, file in found.items()}
            paths = tuple(sorted(file.path for file in found.values()))
            out.append(Source("llmperf", main.root, main.path, paths, options))
    return out


def _kind(head: bytes) -> str | None:
    if _RECORDS.match(head) and all(key in head for key in _KEYS):
        return "records"
    is_summary = head.lstrip()[:1] == b"{" and all(key in head for key in _SUMMARY)
    return "summary" if is_summary else None


def read(source: Source) -> Tables:
    """The tables of one run; raises DumpError where nothing of it can be used."""
    path = relative(source.main, source.root)
    others: Aside = []
    summary = _summary(source, others)
    asked, own = settings(summary), native(summary)
    requests = Requests(str(source.options.get("run_id", source.main.stem)))
    aside: Aside = []
    theirs = array("d")
    n_short = 0
    records = cast("Path | None", source.options.get("records"))
    for index, (line, value, wrong) in enumerate(elements(records, _OPENING) if records else ()):
        try:
            if wrong is not None:
                raise ValueError(f"expected one request, found {wrong}")
            row = _row(value)
        except ValueError as error:
            aside.append((line, "request", str(error)))
            continue
        requests.add(request_id=str(index), phase="profiling", **row)
        n_short += value.get("error_code") == _TOO_SHORT
        itl = number(value.get(ITL))
        if itl is not None and row["status"] == "ok":
            theirs.append(itl)
    if not len(requests) and not own:
        first, _, why = aside[0] if aside else (None, "", "none that can be used")
        found = why.rpartition(", found ")[2]
        raise DumpError(path, "llmperf requests", found, "copy the file again", line=first)
    if len(requests) and own:
        own["_recomputed"] = recomputed(theirs)
    run = _run(source, requests, asked, own, summary)
    if n_short:
        run["notes"].append(
            f"{n_short:,} of {len(requests):,} requests are whole replies that the client counts "
            "as errors, because they have fewer tokens than it asked for"
        )
    if len(requests):
        started = whole(summary.get("results_num_requests_started"))
        lost = None if started is None else max(0, started - len(requests) - len(aside))
        run["n_lost"] = lost
    return Tables(
        runs=table("runs", [run]),
        requests=requests.requests(),
        set_aside=set_aside(path, [*aside, *others]),
    )


FORMAT = Format("llmperf", "runs", find, read, DEFINITIONS)


def _summary(source: Source, aside: Aside) -> Mapping[str, Any]:
    path = cast("Path | None", source.options.get("summary"))
    if path is None:
        return {}
    name = relative(path, source.root)
    try:
        return object_of(json_value(read_bytes(path)))
    except ValueError as error:
        if path == source.main:
            way_out = "copy the file again"
            raise DumpError(name, "a summary of llmperf", str(error), way_out) from None
        aside.append((None, "summary", f"expected one object in {name}, found {error}"))
        return {}


def _row(record: Any) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise ValueError("expected a JSON object, found another value")
    first, end = (time_ns(record.get(name), name) for name in ("ttft_s", "end_to_end_latency_s"))
    isl, osl = (
        token_count(record.get(name), name)
        for name in ("number_input_tokens", "number_output_tokens")
    )
    row: dict[str, Any] = {"start_ns": 0, "first_token_ns": first, "end_ns": end, "isl": isl}
    row["flags"] = []
    code = record.get("error_code")
    if code is not None:
        message = str(record.get("error_msg") or "")
        kind = "other" if code == _TOO_SHORT else error_kind(whole(code), message)
        return row | {"status": "failed", "error_kind": kind}
    if first is not None and end is not None and first > end:
        raise ValueError("expected ttft_s within end_to_end_latency_s, found a longer one")
    if not osl:
        return row | {"status": "failed", "error_kind": "stream_error"}
    return row | {"status": "ok", "osl": osl}


def _run(
    source: Source,
    requests: Requests,
    asked: Settings,
    own: Mapping[str, Any],
    summary: Mapping[str, Any],
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "run_id": requests.run_id,
        "format": "llmperf",
        "client": "llmperf",
        "schema_version": asked.version,
        "path": relative(source.main, source.root),
        "sha256": sha256(source.main),
        "model": asked.model,
        "concurrency": asked.concurrency,
        "isl_requested": asked.isl,
        "osl_requested": asked.osl,
        "clock": "none",
        "complete": bool(summary),
        "tokens_counted_by": "client",
        "native": json.dumps(own) if own else None,
        "notes": [],
    }
    if len(requests):
        row |= requests.counts() | {"level": "records", "start_ns": None, "end_ns": None}
        row["streaming"] = requests.values("first_token_ns").null_count < len(requests) or None
        row["workload"] = workload(requests.median("isl"), requests.median("osl"))
        row["notes"].append(NO_STARTS)
        if not summary:
            row["notes"].append("no summary beside the records, so the run has no duration")
    else:
        row |= {"level": "summary", "n_ok": own.get("n_ok"), "n_failed": own.get("n_failed")}
        row["n_requests"] = whole(summary.get("results_num_requests_started"))
        row["workload"] = workload(asked.isl, asked.osl)
        row["notes"].append(SUMMARY_ONLY)
    row["workload_from"] = "lengths" if row["workload"] else None
    return row
