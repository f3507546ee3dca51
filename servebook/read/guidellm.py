"""Reader of guidellm reports.

- Written by guidellm (``benchmarks.json`` or ``.yaml``): one report, one benchmark per strategy.
  Versions seen: real reports of 0.3 (no schema number), 0.8.0.dev18 and 0.8.1 (schema 2); schema 1
  (0.4 to 0.6) from its source.
- Specified by guidellm's source and its guide to metrics.
- It cannot tell: the gaps between tokens (a request keeps its first and last token and a count),
  so that there is no ITL of ours; whether tokens were counted by the server; what the server is.
  Of a report that keeps a sample of its requests only the summary counts. Its CSV is rounded and
  has no request: it is refused where it stands alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from servebook.errors import DumpError
from servebook.read.codecs import SUFFIXES
from servebook.read.documents import cut_down
from servebook.read.files import read_text, sha256
from servebook.read.guidellm_requests import WANTED, add_requests, entries, ttft_inside
from servebook.read.guidellm_settings import Settings, settings
from servebook.read.guidellm_summary import DEFINITIONS, mean_of, native
from servebook.read.json_inside import objects_inside
from servebook.read.records import SUMMARY_ONLY, Aside, Requests, set_aside, workload
from servebook.read.source import File, Format, Source, relative
from servebook.read.values import number, object_of, text, whole
from servebook.tables import Tables, table

__all__ = ["FORMAT", "find", "read"]

#: The one that holds most first: of two with one name the other is a copy of it.
_KINDS = ("json", "yaml", "csv")
_JSON = re.compile(rb'"guidellm_version"|"generative_benchmark"')
_YAML = re.compile(rb"guidellm|generative_benchmark|inter_token_latency_ms|warmup_number")
_CSV = re.compile(rb"\A(?:Run Info,|Type,Run Id,Id,Name,Start Time)")
_WAY_OUT = "copy the file again from where guidellm wrote it"


def find(files: Sequence[File]) -> list[Source]:
    """The reports among ``files``; a YAML or CSV of the same name beside one belongs to it."""
    kinds = {file.path: kind for file in files if (kind := _kind(file.head))}
    found: list[Source] = []
    taken: set[Path] = set()
    for kind in _KINDS:
        for file in files:
            if kinds.get(file.path) != kind or file.path in taken:
                continue
            twins = {
                path
                for path, other in kinds.items()
                if _KINDS.index(other) > _KINDS.index(kind) and _bare(path) == _bare(file.path)
            }
            taken |= twins
            members = tuple(sorted({file.path, *twins - {t for s in found for t in s.files}}))
            found.append(Source("guidellm", file.root, file.path, members, {"kind": kind}))
    return found


def _bare(path: Path) -> Path:
    name = path.name
    for suffix in (*SUFFIXES, ".json", ".yaml", ".yml", ".csv"):
        name = name.removesuffix(suffix)
    return path.with_name(name)


def _kind(head: bytes) -> str | None:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"{":
        return "json" if b'"benchmarks"' in head and _JSON.search(head) else None
    if _CSV.match(start) and b"Token" in head:
        return "csv"
    known = re.search(rb"^benchmarks:", head, re.MULTILINE) and _YAML.search(head)
    return "yaml" if known else None


def read(source: Source) -> Tables:
    """The tables of all benchmarks in one report; raises DumpError where it holds none."""
    path = relative(source.main, source.root)
    kind = source.options.get("kind", "json")
    if kind == "csv":
        raise DumpError(
            path,
            "guidellm's benchmarks.json or .yaml",
            "its CSV, which holds rounded summaries in local time and no request",
            "run guidellm with `--output kind=json` and copy that file too",
        )
    report = _yaml(path, read_text(source.main)) if kind == "yaml" else _json(path, source)
    benchmarks = report.get("benchmarks")
    if not isinstance(benchmarks, list) or not benchmarks:
        found = "no benchmark in it"
        raise DumpError(path, "a guidellm report", found, "see why the run ended without one")
    base = str(source.options.get("run_id", source.main.stem))
    digest = sha256(source.main)
    parts: list[Tables] = []
    rest: list[Tables] = []
    aside: Aside = []
    for index, benchmark in enumerate(benchmarks):
        if wrong := _wrong(benchmark):
            aside.append((None, f"benchmark {index}", f"expected a benchmark, found {wrong}"))
            continue
        run_id = base if not parts else f"{base}#{len(parts) + 1}"
        part = _one(report, benchmark, index, run_id, path, digest)
        if part.requests.num_rows or part.runs["native"][0].is_valid:
            parts.append(part)
            continue
        reason = "expected a benchmark, found one without usable requests and without figures"
        aside.append((None, f"benchmark {index}", reason))
        rest.append(Tables(set_aside=part.set_aside))
    if not parts:
        raise DumpError(path, "a guidellm benchmark", aside[0][2].partition("found ")[2], _WAY_OUT)
    return Tables.concat([*parts, *rest, Tables(set_aside=set_aside(path, aside))])


FORMAT = Format("guidellm", "runs", find, read, DEFINITIONS)


def _json(path: str, source: Source) -> Mapping[str, Any]:
    values = objects_inside(source.main, WANTED, unique=True)
    line, value, reason = next(values, (1, None, "nothing"))
    if reason or not isinstance(value, dict):
        found = reason or "another JSON value"
        raise DumpError(path, "a guidellm report (one JSON object)", found, _WAY_OUT, line=line)
    return value


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML, by libyaml where it is there: ten times faster. A key twice is an error."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(found) < len(node.value):
            raise yaml.constructor.ConstructorError(None, None, "a key twice", node.start_mark)
        return found


def _yaml(path: str, content: str) -> Mapping[str, Any]:
    line, found = None, "another YAML value"
    try:
        value = yaml.load(content, Loader=_Loader)
        if isinstance(value, dict):
            for place, keep in WANTED.items():
                cut_down(value, place, keep)
            return value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = None if mark is None else mark.line + 1
        found = "no valid YAML" if error.problem != "a key twice" else "a key twice"
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        found = "no valid YAML"
    raise DumpError(path, "a guidellm report (one YAML mapping)", found, _WAY_OUT, line=line)


def _wrong(benchmark: Any) -> str | None:
    if not isinstance(benchmark, dict):
        return "another value"
    kind = benchmark.get("type_", "generative_benchmark")
    if kind != "generative_benchmark":
        return "one of another kind, without generated tokens"
    if not isinstance(benchmark.get("metrics"), dict):
        return "an object without metrics"
    return None


def _one(
    report: Mapping[str, Any],
    benchmark: Mapping[str, Any],
    index: int,
    run_id: str,
    path: str,
    digest: str,
) -> Tables:
    metadata = object_of(report.get("metadata"))
    old = not metadata
    asked = settings(report, benchmark)
    made = _made(benchmark)
    own = native(benchmark, made, old=old, inside=ttft_inside(benchmark, old=old))
    window = _window(benchmark)
    listed = sum(1 for _ in entries(benchmark))
    total = whole(made.get("total"))
    row: dict[str, Any] = {
        "run_id": run_id,
        "format": "guidellm",
        "client": "guidellm",
        "client_version": text(metadata.get("guidellm_version")),
        "schema_version": None if old else str(whole(metadata.get("version")) or "") or None,
        "path": path,
        "sha256": digest,
        "model": asked.model,
        "isl_requested": asked.isl,
        "osl_requested": asked.osl,
        "concurrency": asked.concurrency,
        "request_rate": asked.request_rate,
        "streaming": asked.streaming,
        "clock": "epoch",
        "complete": True,
    }
    requests = Requests(run_id)
    aside: Aside = []
    where = f"benchmark {index}: "
    sampled = asked.sample is not None and total is not None and listed < total
    if sampled:
        reason = f"one of a sample of {listed:,} of {total or 0:,}: no rate follows from it"
        aside += [(None, f"{where}{g} request {i}", reason) for g, i, _ in entries(benchmark)]
    elif listed:
        found = _records(benchmark, requests, aside, where, asked, window, own)
    if len(requests):
        row |= found | {"n_lost": None if total is None else max(0, total - listed)}
    else:
        row |= _summary(benchmark, made, total, window, sampled and listed > 0)
    row["workload_from"] = "lengths" if row["workload"] else None
    row["native"] = json.dumps(own) if own else None
    return Tables(
        runs=table("runs", [row]),
        requests=requests.requests(),
        gaps=requests.gaps(),
        set_aside=set_aside(path, aside),
    )


def _records(
    benchmark: Mapping[str, Any],
    requests: Requests,
    aside: Aside,
    where: str,
    asked: Settings,
    window: tuple[int, int] | None,
    own: dict[str, Any],
) -> dict[str, Any]:
    """Fills ``requests``, and puts into ``own`` what the client's definitions need."""
    cut = window if asked.trimmed else None
    tails = add_requests(
        benchmark, requests, aside, where, timed=asked.timed, asked=asked.osl, window=cut
    )
    counts = requests.counts()
    if own:
        own["_tail_ns"] = tails
        own["_trimmed"] = asked.trimmed
        if window and (zero := counts["start_ns"]) is not None:
            own["_window_s"] = [(edge - zero) / 1e9 for edge in window]
    notes = ["no gaps between tokens are in the dump: a request keeps its first and last token"]
    return {
        **counts,
        "level": "records",
        "workload": workload(requests.median("isl"), requests.median("osl")),
        "notes": notes,
    }


def _summary(
    benchmark: Mapping[str, Any],
    made: Mapping[str, Any],
    total: int | None,
    window: tuple[int, int] | None,
    sampled: bool,
) -> dict[str, Any]:
    isl, osl = (mean_of(benchmark, f"{side}_token_count") for side in ("prompt", "output"))
    note = SUMMARY_ONLY
    if total == 0:
        note = "no request was made"
    elif sampled:
        note = "the dump keeps a sample of the requests: only the client's summary counts"
    return {
        "level": "summary",
        "n_requests": total,
        "n_ok": whole(made.get("successful")),
        "n_failed": whole(made.get("errored")),
        "n_cancelled": whole(made.get("incomplete")),
        "start_ns": window[0] if window else None,
        "end_ns": window[1] if window else None,
        "workload": workload(
            None if isl is None else whole(round(isl)), None if osl is None else whole(round(osl))
        ),
        "notes": [note],
    }


def _made(benchmark: Mapping[str, Any]) -> Mapping[str, Any]:
    """How many requests were made, by how they ended."""
    for place in (
        object_of(benchmark.get("scheduler_metrics")).get("requests_made"),
        object_of(benchmark.get("run_stats")).get("requests_made"),
        benchmark.get("request_totals"),
        object_of(benchmark.get("metrics")).get("request_totals"),
    ):
        if found := object_of(place):
            return found
    return {}


def _window(benchmark: Mapping[str, Any]) -> tuple[int, int] | None:
    """Start and end of the measured window in epoch ns."""
    start, end = (number(benchmark.get(name)) for name in ("start_time", "end_time"))
    if start is None or end is None or not 1e9 <= start <= end < 1e10:
        return None
    return round(start * 1e9), round(end * 1e9)
