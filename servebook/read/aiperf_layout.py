"""Which files of a tree are AIPerf runs, and which file plays which part in a run.

Parts are told by content, not by name: ``--profile-export-prefix`` renames every file, and one
run leaves up to three copies of its summary (``phases/<phase>/``), beside aggregates over runs
that look like summaries. Names only pair the parts that lie in one folder.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from servebook.read.codecs import SUFFIXES
from servebook.read.source import File, Source

__all__ = ["find", "part", "stem"]

_RECORD = re.compile(rb'"metadata"\s*:\s*\{[^{}]*"(?:request_start_ns|timestamp_ns|x_request_id)"')
_RAW = re.compile(rb'"(?:start_perf_ns|responses)"\s*:')
_METRIC = re.compile(
    rb'"(?:request_latency|request_throughput|request_count|error_request_count'
    rb'|time_to_first_token|ttft|benchmark_duration)"\s*:\s*\{[^{}]*"unit"'
)
#: Objects that hold metrics like a summary's but are not one run's summary.
_NOT_SUMMARY = re.compile(rb'"(?:aggregation_type|timeslices|metrics_phase|sweep_parameters)"\s*:')
_POOL = re.compile(rb'"per_run"\s*:\s*\[|^\s*\{[^{]*"combined"\s*:\s*\{')
_GENAI_PERF = re.compile(rb'"(?:perf_analyzer|formatted_model_name|genai_perf)"\s*:')
_PHASES = re.compile(rb'^\s*\{\s*"(?:phases|schema_version)".*"phase_kind"', re.DOTALL)
_INPUTS = re.compile(rb'\s*\{\s*"data"\s*:\s*\[\s*\{\s*"(?:session_id|payloads)"\s*:')
_COPIES = {"phases", "aggregate", "sweep_aggregate"}
_SUFFIXES = (*SUFFIXES, ".jsonl", ".json")
_SHARED = ("phases", "config", "inputs")  # one a folder, whatever its name
_ROLES = ("_raw", "_aiperf")


def stem(name: str) -> str:
    """Name without its part's suffixes: what the files of one run have in common."""
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    for role in _ROLES:
        name = name.removesuffix(role)
    return name


def part(file: File) -> str | None:
    """The part that a file plays: records, raw, summary, phases, config, inputs, or None."""
    told = _content(file.head)
    # Damage can hide the content; the default name still tells.
    named = told is None and _unpacked(file.path.name) == "profile_export.jsonl"
    return "records" if named else told


def _unpacked(name: str) -> str:
    return next((name.removesuffix(end) for end in SUFFIXES if name.endswith(end)), name)


def _content(head: bytes) -> str | None:
    first = next((line for line in _lines(head) if _RECORD.search(line)), None)
    if first is not None and (b'"metrics"' in first or b'"error"' in first or _RAW.search(first)):
        return "raw" if _RAW.search(first) else "records"
    if _PHASES.search(head):
        return "phases"
    if _INPUTS.match(head):
        return "inputs"
    if b'"cfg"' in head and b'"benchmark_id"' in head[:256]:
        return "config"
    if _NOT_SUMMARY.search(head[:1024]) or _POOL.search(head) or _GENAI_PERF.search(head):
        return None
    if _METRIC.search(head):
        return "summary"
    # All requests failed: hardly a metric is left, but the configuration is there.
    whole = b'"aiperf_version"' in head[:1024] and b'"input_config"' in head
    return "summary" if whole and b'"endpoint_url"' not in head else None


def _lines(head: bytes) -> Iterator[bytes]:
    yield from head.splitlines()[:20]


def find(files: Sequence[File]) -> list[Source]:
    """The AIPerf runs among ``files``: one source per records file, raw file or lone summary."""
    folders: dict[Path, dict[str, list[File]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        name = part(file)
        copied = _COPIES.intersection(file.path.relative_to(file.root).parent.parts)
        if name in ("records", "raw") or (name and not copied):
            folders[file.path.parent][name].append(file)
    return [source for parts in folders.values() for source in _runs(parts)]


def _runs(parts: dict[str, list[File]]) -> Iterator[Source]:
    records, raws, summaries = parts["records"], parts["raw"], parts["summary"]
    keys = {stem(f.path.name) for f in (*records, *raws, *summaries)}
    alone = len(records) <= 1 and len(raws) <= 1 and len(summaries) <= 1
    for key in sorted(keys) if not alone else sorted(keys)[:1]:
        chosen: dict[str, Path] = {}
        for name in ("records", "raw", "summary"):
            for file in parts[name]:
                if alone or stem(file.path.name) == key:
                    chosen.setdefault(name, file.path)
        if alone or len(keys) == 1:
            chosen |= {name: parts[name][0].path for name in _SHARED if parts[name]}
        root = next(f.root for f in (*records, *raws, *summaries))
        main = next(chosen[n] for n in ("records", "raw", "summary") if n in chosen)
        yield Source("aiperf", root, main, tuple(sorted(chosen.values())), dict(chosen))
