"""Reader of AIPerf runs (0.2 to 0.13).

- Written by NVIDIA AIPerf: ``profile_export.jsonl`` (one record a request, the default since
  0.2), ``profile_export_aiperf.json`` (summary), ``profile_export_raw.jsonl`` (every stream
  message, ``--export-level raw``), ``phase_manifest.json`` (from 0.12), ``run_config.json``,
  ``inputs.json`` (prompts).
- Specified in AIPerf's documentation of its profile exports; fields measured on real dumps
  are listed in ``docs/formats.md``.
- It cannot tell: GPUs, engine, parallelism; requests that were in flight when a run was cut at
  its deadline have no record (gaps in the session numbers prove some of them); which ``ok``
  request was cut by the server where the client counted its tokens.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from servebook.errors import DumpError
from servebook.read import aiperf_layout
from servebook.read.aiperf_raw import fill_lost_chunks, parse_raw
from servebook.read.aiperf_records import Parsed
from servebook.read.aiperf_split import read_lines
from servebook.read.aiperf_summary import Settings, native, settings
from servebook.read.files import lines, loads, read_text, sha256
from servebook.read.prompt_prefix import bodies_of_inputs, bodies_of_raw, large_inputs, shared
from servebook.read.records import SUMMARY_ONLY, Requests, set_aside, workload
from servebook.read.source import Format, Source, relative
from servebook.read.sums import begin
from servebook.read.values import number, text
from servebook.tables import Tables, table

__all__ = ["FORMAT", "read"]

#: A file of so many bytes is hashed while it is read.
_LARGE_BYTES = 32 << 20
_LEAF = re.compile(r"(?:^|_)concurrency_(\d+)(?=$|__)")


def read(source: Source) -> Tables:
    """The tables of one AIPerf run; raises DumpError where nothing of it can be used."""
    parts = {name: cast("Path", path) for name, path in source.options.items() if name in _PARTS}
    aside: list[pa.Table] = []
    with contextlib.suppress(OSError):
        if source.main.stat().st_size >= _LARGE_BYTES:
            begin(source.main)
    summary = _json(parts.get("summary"), source, aside)
    config = _json(parts.get("config"), source, aside)
    manifest = _json(parts.get("phases"), source, aside)
    asked = _settings(summary, config)
    requests = Requests(str(source.options.get("run_id", source.main.parent.name)))
    found = _records(parts, source, requests, asked, aside)
    if not len(requests) and not summary:
        _refuse(source, found)
    run = _run(source, requests, summary, asked, manifest, found)
    run |= _prompts(parts, source, found, aside)
    return Tables(
        runs=table("runs", [run]),
        requests=requests.requests(),
        gaps=requests.gaps(),
        set_aside=pa.concat_tables([*aside, set_aside("", [])]),
    )


#: A larger ``inputs.json`` is read session by session.
LARGE_INPUTS_BYTES = 16 << 20
_PARTS = ("records", "raw", "summary", "phases", "config", "inputs")
FORMAT = Format("aiperf", "runs", aiperf_layout.find, read)


def _settings(summary: Mapping[str, Any], config: Mapping[str, Any]) -> Settings:
    if isinstance(summary.get("input_config"), dict):
        info = summary.get("run_info")
        return settings(summary["input_config"], info if isinstance(info, dict) else None)
    if isinstance(config.get("cfg"), dict):
        variation = config.get("variation")
        values = variation.get("values") if isinstance(variation, dict) else None
        return settings(config["cfg"], {"variation_values": values})
    return Settings()


def _records(
    parts: Mapping[str, Path],
    source: Source,
    requests: Requests,
    asked: Settings,
    aside: list[pa.Table],
) -> Parsed:
    if "records" in parts:
        main = parts["records"]
        found = read_lines(main, requests, asked, with_sent=bool(parts.keys() & {"raw", "inputs"}))
        if "raw" in parts:
            fill_lost_chunks(lines(parts["raw"]), requests)
    elif "raw" in parts:
        main = parts["raw"]
        found = parse_raw(lines(main), requests, asked)
    else:
        return Parsed()
    aside.append(set_aside(relative(main, source.root), found.set_aside))
    return found


def _prompts(
    parts: Mapping[str, Path], source: Source, found: Parsed, aside: list[pa.Table]
) -> dict[str, int]:
    """Counts of shared prompt prefixes; what was sent (raw) counts before what was prepared."""
    counts = shared(bodies_of_raw(lines(parts["raw"]), found.sent)) if "raw" in parts else {}
    if not counts and found.sent:
        inputs = _json(parts.get("inputs"), source, aside, "prompts")
        counts = shared(bodies_of_inputs(inputs, found.sent))
    return counts


def _run(
    source: Source,
    requests: Requests,
    summary: Mapping[str, Any],
    asked: Settings,
    manifest: Mapping[str, Any],
    found: Parsed,
) -> dict[str, Any]:
    own = native(summary)
    row: dict[str, Any] = {
        "run_id": requests.run_id,
        "format": "aiperf",
        "client": "AIPerf",
        "client_version": text(summary.get("aiperf_version")),
        "schema_version": text(summary.get("schema_version")),
        "path": relative(source.main, source.root),
        "sha256": sha256(source.main),
        "model": asked.model,
        "concurrency": asked.concurrency,
        "request_rate": asked.request_rate,
        "isl_requested": asked.isl,
        "osl_requested": asked.osl,
        "streaming": asked.streaming,
        "tokens_counted_by": {True: "server", False: "client", None: None}[asked.server_counts],
        "complete": bool(summary)
        and summary.get("is_complete", True) is True
        and summary.get("was_cancelled") is not True,
        "native": json.dumps(own) if own else None,
    }
    notes: list[str] = []
    if len(requests):
        row |= requests.counts() | {"level": "records", "clock": "epoch"}
        row["cache_reuse"] = _cache_reuse(requests)
        row["n_lost"] = _lost(row, asked, found, notes, bool(summary))
        lengths = requests.median("isl"), requests.median("osl")
        first_tokens = requests.values("first_token_ns")
        if not row["streaming"] and first_tokens.null_count < len(requests):
            row["streaming"] = True
    else:
        row |= _summary_only(own, summary, manifest, notes) | {"level": "summary"}
        lengths = asked.isl, asked.osl
    row["workload"] = workload(*lengths)
    row["workload_from"] = "lengths" if row["workload"] else None
    if row["concurrency"] is None and row["request_rate"] is None:
        # The nearest folder that names one: trials may lie below it.
        below = source.main.relative_to(source.root).parent.parts
        names = (source.main.parent.name, *reversed(below))
        leaf = next((hit for name in names if (hit := _LEAF.search(name))), None)
        if leaf:
            row["concurrency"] = int(leaf[1])
            notes.append("the concurrency is taken from the name of the folder")
    row["notes"] = notes + _remarks(requests, found, summary, row)
    return row


def _lost(
    run: Mapping[str, Any], asked: Settings, found: Parsed, notes: list[str], ended: bool
) -> int | None:
    """Requests that were sent and have no record; None where the dump cannot tell.

    AIPerf numbers the sessions it starts from 0, so a number that is missing below the highest
    is a request without a record. Records set aside explain as many of them.
    """
    missing = max(0, found.last_session + 1 - found.n_sessions - len(found.set_aside))
    if missing:
        notes.append(
            f"at least {missing:,} requests were sent and have no record (their session numbers "
            "are missing); requests sent last can be missing without a trace"
        )
        return missing
    if ended and run["complete"] and asked.requests is not None and asked.deadline_s is None:
        return max(0, asked.requests - int(run["n_requests"]) - len(found.set_aside))
    return None


def _summary_only(
    own: Mapping[str, Any],
    summary: Mapping[str, Any],
    manifest: Mapping[str, Any],
    notes: list[str],
) -> dict[str, Any]:
    n_ok, n_failed = own.get("n_ok"), own.get("n_failed")
    out: dict[str, Any] = {"n_ok": n_ok, "n_failed": n_failed, "clock": "none"}
    if n_ok is not None and n_failed is not None:
        out["n_requests"] = n_ok + n_failed
    notes.append(SUMMARY_ONLY)
    first, last = (_whole_ns(summary.get(f"{name}_timestamp")) for name in _FIRST_AND_LAST)
    if first is not None and last is not None and first <= last:
        return out | {"start_ns": first, "end_ns": last, "clock": "epoch"}
    phases = manifest.get("phases")
    for phase in phases if isinstance(phases, list) else []:
        if isinstance(phase, dict) and phase.get("phase_kind") == "profiling":
            start, end = phase.get("start_ns"), phase.get("end_ns")
            if type(start) is int and type(end) is int and 10**18 <= start <= end < 2**63:
                out |= {"start_ns": start, "end_ns": end, "clock": "epoch"}
                notes.append("start and end are those of the phase, not of its requests")
                break
    return out


#: First start and last end of the measured requests, in epoch ns: seen in 0.8, not in 0.11.
_FIRST_AND_LAST = ("min_request", "max_response")


def _whole_ns(metric: Any) -> int | None:
    """An epoch time that the summary holds as a metric: a float, exact to 256 ns."""
    if not isinstance(metric, dict) or metric.get("unit") != "ns":
        return None
    value = number(metric.get("avg"))
    return int(value) if value is not None and 10**18 <= value < 2**63 else None


def _cache_reuse(requests: Requests) -> bool | None:
    most = pc.max(requests.values("cached_tokens")).as_py()
    return None if most is None else most > 0


def _remarks(
    requests: Requests, found: Parsed, summary: Mapping[str, Any], run: Mapping[str, Any]
) -> list[str]:
    notes = []
    if not summary:
        notes.append(
            "no summary beside the records: the client was killed, or the file was copied alone"
        )
    elif not run["complete"]:
        notes.append("the client says that the run was cancelled or is incomplete")
    if found.usage_tokens != found.counted_tokens:
        notes.append(
            f"the client counted {found.counted_tokens:,} output tokens where the server "
            f"counted {found.usage_tokens:,}"
        )
    if found.several_phases:
        notes.append("several measured phases in one run are taken together")
    if len(requests) and not run["n_requests"]:
        notes.append("all records are of the warm-up")
    return notes


def _json(
    path: Path | None, source: Source, aside: list[pa.Table], record: str = "summary"
) -> dict[str, Any]:
    """A JSON object beside the records; damage is set aside, unless it is all there is."""
    if path is None:
        return {}
    name = relative(path, source.root)
    try:
        large = record == "prompts" and path.stat().st_size > LARGE_INPUTS_BYTES
        value = large_inputs(path) if large else loads(read_text(path))
        if not isinstance(value, dict):
            raise ValueError("another JSON value")
    except DumpError as error:  # it names the file, what was expected and the way out itself
        if path == source.main:
            raise
        aside.append(set_aside(name, [(None, record, error.reason)]))
        return {}
    except ValueError as error:
        reason = f"expected one JSON object, found {error}; copy the file again"
        if path == source.main:
            raise DumpError(name, "one JSON object", str(error), "copy the file again") from None
        aside.append(set_aside(name, [(None, record, reason)]))
        return {}
    return value


def _refuse(source: Source, found: Parsed) -> None:
    name = relative(source.main, source.root)
    if not found.set_aside:
        raise DumpError(name, "AIPerf records", "none", "export the run again")
    line, _, reason = found.set_aside[0]
    count = len(found.set_aside)
    raise DumpError(
        name,
        "AIPerf records",
        f"{count:,} lines of which none can be used, the first: {reason}",
        "copy the file again",
        line=line,
    )
