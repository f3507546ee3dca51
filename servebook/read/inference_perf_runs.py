"""The runs of one inference-perf dump: a row per stage, from its records or its reports alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from servebook.errors import DumpError
from servebook.read.inference_perf_records import Call, call_of
from servebook.read.inference_perf_stages import Numbered, count_of, divided
from servebook.read.inference_perf_summary import Settings, Stage, native, recomputed
from servebook.read.json_array import elements
from servebook.read.records import SUMMARY_ONLY, Aside, Requests, set_aside, workload
from servebook.read.values import number, object_of, whole
from servebook.tables import Tables, table

__all__ = ["Dump", "runs_of_records", "runs_of_reports"]

_OPENING = re.compile(r'\{\s*"start_time"\s*:')


@dataclass(frozen=True)
class Dump:
    """What lies beside the records: settings, the stages' reports and that of the whole."""

    run_id: str
    path: str
    sha256: str
    asked: Settings
    stages: Mapping[int, Mapping[str, Any]]
    whole: Mapping[str, Any]
    engine: Mapping[int, Mapping[str, Any]]
    began: Mapping[int, str]  # when the client began with a stage, UTC

    def id_of(self, stage: int, n: int) -> str:
        """The run's id, with the stage where the dump has several."""
        return f"{self.run_id}/stage_{stage}" if n > 1 else self.run_id


def runs_of_reports(dump: Dump) -> Tables:
    """Summary rows: one per stage, or one of the whole where no stage has a report."""
    reports = dump.stages or {0: dump.whole}
    rows = []
    for stage, report in reports.items():
        own = native(report)
        row = _row(dump, report, stage if dump.stages else None, own)
        done = object_of(report.get("successes"))
        isl = _mean(done, "prompt_tokens", "prompt_len")
        osl = _mean(done, "output_tokens", "output_len")
        row |= {
            "run_id": dump.id_of(stage, len(reports)),
            "level": "summary",
            "clock": "none",
            "n_requests": count_of(report),
            "n_ok": own.get("n_ok"),
            "n_failed": own.get("n_failed"),
            "workload": workload(isl, osl),
            "notes": [SUMMARY_ONLY, *_engine(dump.engine.get(stage, {}))],
        }
        if not dump.stages:
            row["notes"].append("the report is of the whole run, its stages taken together")
        row["workload_from"] = "lengths" if row["workload"] else None
        rows.append(row)
    return Tables(runs=table("runs", rows))


def runs_of_records(dump: Dump, path: Path) -> Tables:
    """One run per stage from the per-request report; raises DumpError where it holds no request."""
    calls: list[Numbered] = []
    first: int | None
    aside: Aside = []
    for index, (line, value, wrong) in enumerate(elements(path, _OPENING)):
        try:
            if wrong is not None:
                raise ValueError(f"expected one request, found {wrong}")
            calls.append((index, call_of(value, dump.asked.server_counts is True)))
        except ValueError as error:
            aside.append((line, "request", str(error)))
    if not calls:
        first, _, why = aside[0] if aside else (None, "", "an empty list")
        found = why.rpartition(", found ")[2]
        way_out = "copy the file again"
        raise DumpError(dump.path, "requests of inference-perf", found, way_out, line=first)
    wanted = [stage.requests for stage in dump.asked.stages]
    parts, why_not = divided(calls, dump.stages, wanted)
    if parts is None:
        parts = {-1: sorted(calls, key=lambda call: call[1].start_s)}
    zero = min(call.start_s for _, call in calls)
    tables = [
        _run(dump, stage, calls_of, len(parts), why_not, len(aside), zero)
        for stage, calls_of in parts.items()
        if calls_of
    ]
    rows = set_aside(dump.path, aside)
    return Tables.concat([*tables, Tables(set_aside=rows)])


def _run(
    dump: Dump,
    stage: int,
    numbered: Sequence[Numbered],
    n: int,
    why_not: str | None,
    n_aside: int,
    dump_zero: float,
) -> Tables:
    report = dump.stages.get(stage) or (dump.whole if n == 1 else {})
    own = native(report)
    calls = [call for _, call in numbered]
    requests = Requests(dump.id_of(stage, n))
    zero = min(call.start_s for call in calls)
    for index, call in numbered:
        _add(requests, index, call, zero, dump.asked)
    if own:
        own["_recomputed"] = recomputed(calls)
        own["_tokens_in_chunks"] = sum(
            max(0, call.n_times - 1 - call.n_gaps) for call in calls if call.status == "ok"
        )
    row = _row(dump, report, stage if stage >= 0 else None, own) | requests.counts()
    row |= {
        "run_id": requests.run_id,
        "level": "records",
        "clock": "relative",
        "n_lost": _lost(report, len(calls), n_aside, n),
        "streaming": any(call.streamed for call in calls) or dump.asked.streaming,
        "workload": workload(requests.median("isl"), requests.median("osl")),
        "complete": bool(report),
        "notes": _notes(dump, stage, calls, report, why_not),
    }
    if zero > dump_zero:
        row["notes"].append(
            f"its first request was sent {zero - dump_zero:.3f} s after the first of the dump"
        )
    row["workload_from"] = "lengths" if row["workload"] else None
    cached = requests.values("cached_tokens").drop_null()
    row["cache_reuse"] = pc.max(cached).as_py() > 0 if len(cached) else None
    return Tables(runs=table("runs", [row]), requests=requests.requests(), gaps=requests.gaps())


def _add(requests: Requests, index: int, call: Call, zero: float, asked: Settings) -> None:
    def ns(seconds: float | None) -> int | None:
        return None if seconds is None else round((seconds - zero) * 1e9)

    first = ns(call.first_s)
    # From the gaps, so that the last gap ends where the request does, to the ns.
    gap_ns = call.gap_ns
    spent = 0 if gap_ns is None else int(gap_ns.sum())
    ended = ns(call.close_s) if first is None or call.last_s is None else first + spent
    short = (
        asked.ignore_eos
        and asked.osl is not None
        and call.usage_osl is not None
        and call.usage_osl < asked.osl
        and asked.fixed_osl
    )
    requests.add(
        gap_ns,
        first,
        request_id=str(index),
        phase="profiling",
        status=call.status,
        error_kind=call.error_kind,
        start_ns=ns(call.start_s),
        first_token_ns=first,
        end_ns=ended,
        isl=call.isl,
        osl=call.osl,
        osl_requested=asked.osl if asked.fixed_osl else None,
        cached_tokens=call.cached,
        flags=["short_output"] if short else [],
    )


def _row(
    dump: Dump, report: Mapping[str, Any], stage: int | None, own: Mapping[str, Any]
) -> dict[str, Any]:
    """The columns that come from settings and report, whatever the level."""
    load, asked = object_of(report.get("load_summary")), dump.asked
    planned = Stage()
    if stage is not None and stage < len(asked.stages):
        planned = asked.stages[stage]
    elif len(asked.stages) == 1:
        planned = asked.stages[0]
    concurrency = whole(load.get("concurrency")) or planned.concurrency
    rate = number(load.get("requested_rate"))
    return {
        "format": "inference_perf",
        "client": "inference-perf",
        "path": dump.path,
        "sha256": dump.sha256,
        "model": asked.model,
        "concurrency": concurrency,
        # Of a stage of fixed concurrency the rate only repeats its number of requests.
        "request_rate": None if concurrency else rate if rate is not None else planned.rate,
        "isl_requested": asked.isl,
        "osl_requested": asked.osl,
        "streaming": asked.streaming,
        "complete": True,
        "tokens_counted_by": {True: "server", False: "client", None: None}[asked.server_counts],
        "native": json.dumps(own) if own else None,
    }


def _mean(done: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        mean = number(object_of(done.get(name)).get("mean"))
        if mean is not None:
            return whole(round(mean))
    return None


def _lost(report: Mapping[str, Any], n_calls: int, n_aside: int, n: int) -> int | None:
    """Requests that the report counts and the records lack; unknown where some were set aside."""
    count = count_of(report)
    if count is None or (n_aside and n > 1):
        return None
    return max(0, count - n_calls - n_aside)


def _notes(
    dump: Dump,
    stage: int,
    calls: Sequence[Call],
    report: Mapping[str, Any],
    why_not: str | None,
) -> list[str]:
    notes = [why_not] if why_not else []
    if not report:
        notes.append(
            "no report beside the records: the client was killed, or they were copied alone"
        )
    load = object_of(report.get("load_summary"))
    asked, achieved = number(load.get("requested_rate")), number(load.get("achieved_rate"))
    if asked and achieved is not None and not load.get("concurrency") and achieved < 0.95 * asked:
        delay = number(object_of(load.get("schedule_delay")).get("mean"))
        behind = "" if delay is None else f", on average {delay:.3g} s behind its schedule"
        notes.append(
            f"the client sent {achieved:.4g} requests/s where {asked:.4g} were asked for{behind}"
        )
    ours = theirs = 0
    for call in calls:
        osl, usage_osl = call.osl, call.usage_osl
        if osl is not None and usage_osl is not None:
            ours, theirs = ours + osl, theirs + usage_osl
    if ours != theirs:
        notes.append(
            f"the client counted {ours:,} output tokens where the server counted {theirs:,}"
        )
    return notes + _began(dump, stage) + _engine(dump.engine.get(stage, {}))


def _began(dump: Dump, stage: int) -> list[str]:
    if stage not in dump.began:
        return []
    note = (
        f"the client began with this stage at {dump.began[stage]}, which is before its first "
        "request (1 s in 0.7.0); the records have no time of day"
    )
    return [note]


def _engine(report: Mapping[str, Any]) -> list[str]:
    """What the engine's own counters say of the stage, where the client asked Prometheus."""
    done = object_of(report.get("successes"))
    said = [
        words.format(n=value)
        for key, words in (
            ("num_requests_running", "{n:.4g} running"),
            ("queue_len", "{n:.4g} waiting"),
        )
        if (value := number(object_of(done.get(key)).get("mean"))) is not None
    ]
    hits = number(object_of(done.get("prefix_cache_hit_percent")).get("mean"))
    if hits is not None:
        said.append(f"{hits:.4g} % of prefix-cache queries hit")
    if not said:
        return []
    return [f"the engine's own counters in that time, averages by Prometheus: {', '.join(said)}"]
