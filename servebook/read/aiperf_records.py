"""AIPerf's record lines: each line becomes one request, or is set aside with a reason.

A request is ok when the client recorded no error and a token count for it. AIPerf calls a stream
that carries an error object a success; it has latencies but no token count, and is ``failed``
with the kind ``stream_error`` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.errors import DumpError
from servebook.read.aiperf_summary import UNIT_TO_NS, Settings
from servebook.read.errorkind import error_kind
from servebook.read.files import loads
from servebook.read.prompt_prefix import Sent
from servebook.read.records import Aside, Requests
from servebook.read.values import LONGEST_NS, MAX_TOKENS, gaps, number, text, whole

__all__ = ["BadRecordError", "Parsed", "count_of_usage", "object_of", "parse", "request"]

#: Between these bounds a number is an epoch time in ns (years 2001 to 2099).
_EPOCH_NS = range(10**18, 4_102_444_800 * 10**9)
_TTFT = ("time_to_first_token", "ttft")  # the second is the tag of 0.2
_MAX_SESSIONS = 10**8


class BadRecordError(ValueError):
    """A record that cannot be used; its text says why and quotes no content."""


@dataclass
class Parsed:
    """What the lines held besides requests."""

    set_aside: Aside = field(default_factory=list)
    n_sessions: int = 0  # that measured requests name
    last_session: int = -1  # the highest of their numbers; -1: none
    usage_tokens: int = 0  # the server's count of output tokens of ok requests, where it is told
    counted_tokens: int = 0  # AIPerf's count for the same requests
    several_phases: bool = False
    sent: Mapping[str, Sent] = field(default_factory=dict)  # by request id; names prompts elsewhere


def parse(
    lines: Iterable[tuple[int, bytes]],
    out: Requests,
    settings: Settings,
    convert: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> Parsed:
    """Adds one request to ``out`` per usable line; ``convert`` makes records of raw lines.

    Blank lines are no records. Lines that are not one JSON object with what a request needs,
    and second records of one request, are set aside. ``aiperf_piece`` gives the same of records,
    and faster.
    """
    found = Parsed()
    seen: dict[str, int] = {}
    phases: set[str] = set()
    sessions: set[int] = set()
    sent: dict[str, Sent] = {}
    found.sent = sent
    for at, line in _until_damage(lines, found):
        if not line.strip():
            continue
        try:
            record = object_of(line)
            if convert is not None:
                record = convert(record)
            row, gap_ns = request(record, settings)
        except BadRecordError as bad:
            found.set_aside.append((at, "request", str(bad)))
            continue
        if row["request_id"] is None:
            row["request_id"] = f"line {at}"
        first = seen.setdefault(row["request_id"], at)
        if first != at:
            reason = f"a second record of the request of line {first}"
            found.set_aside.append((at, "request", reason))
            continue
        metadata = record["metadata"]
        if row["phase"] == "profiling":
            phases.add(str(metadata.get("phase_index")))
            session = whole(metadata.get("session_num"))
            if session is not None and session < _MAX_SESSIONS:
                sessions.add(session)
            usage = count_of_usage(record)
            if row["status"] == "ok" and usage is not None:
                found.usage_tokens += usage
                found.counted_tokens += row["osl"]
        sent[row["request_id"]] = Sent(
            row["start_ns"],
            row["phase"] == "profiling",
            str(metadata.get("conversation_id")),
            whole(metadata.get("turn_index")) or 0,
        )
        out.add(gap_ns, row["first_token_ns"], **row)
    found.n_sessions, found.last_session = len(sessions), max(sessions, default=-1)
    found.several_phases = len(phases) > 1
    return found


def count_of_usage(record: Mapping[str, Any]) -> int | None:
    """The output tokens that the server counted; None where it did not."""
    usage = _metric(record.get("metrics") or {}, "usage_completion_tokens")
    return None if usage is None else round(usage)


def _until_damage(lines: Iterable[tuple[int, bytes]], found: Parsed) -> Iterator[tuple[int, bytes]]:
    """The lines; a stream that ends in damage ends here, and the damage is set aside."""
    try:
        yield from lines
    except DumpError as damage:
        found.set_aside.append((damage.line, "rest of the file", damage.reason))


def object_of(line: bytes) -> Mapping[str, Any]:
    """The record of a line; raises BadRecordError."""
    try:
        record = loads(line)
    except ValueError as error:
        torn = "" if line.rstrip().endswith(b"}") else "; the line is torn"
        raise BadRecordError(f"expected one JSON object a line, found {error}{torn}") from None
    if not isinstance(record, dict):
        raise BadRecordError(f"expected a JSON object, found {_kind(record)}")
    return record


def request(
    record: Mapping[str, Any], settings: Settings
) -> tuple[dict[str, Any], npt.NDArray[np.int64] | None]:
    """Columns of ``requests`` and the gaps in ns of one record; raises BadRecordError.

    Times: start is epoch ns; first token and end are start plus AIPerf's latencies, whose end is
    the last content chunk. ``request_end_ns`` may be later (usage chunk, end of stream) and is
    used only where there is no latency.
    """
    metadata = record.get("metadata")
    if not isinstance(metadata, dict):
        raise BadRecordError("expected an object 'metadata', found none")
    start = metadata.get("request_start_ns", metadata.get("timestamp_ns"))
    if type(start) is not int or start not in _EPOCH_NS:
        raise BadRecordError("expected 'request_start_ns' in epoch ns, found none")
    metrics = record.get("metrics")
    if metrics is None:
        metrics = {}
    if not isinstance(metrics, dict):
        raise BadRecordError(f"expected an object 'metrics', found {_kind(metrics)}")
    error = record.get("error")
    ttft = next((v for name in _TTFT if (v := _ns(metrics, name)) is not None), None)
    latency = _ns(metrics, "request_latency")
    end = _time(metadata, "request_end_ns")
    isl = _count(metrics, "input_sequence_length")
    osl = _count(metrics, "output_sequence_length")
    if latency is not None:
        end = start + latency
    if end is not None and end < start:
        raise BadRecordError("expected an end after the start, found one before it")
    if ttft is not None and latency is not None and ttft > latency:
        raise BadRecordError("expected the first token before the end, found it after")
    gap_ns = _gaps(metrics.get("inter_chunk_latency"))
    status, kind = _status(metadata, error, osl)
    row: dict[str, Any] = {
        "request_id": text(metadata.get("x_request_id")),
        "phase": _phase(metadata),
        "status": status,
        "error_kind": kind,
        "scheduled_ns": _time(metadata, "credit_issued_ns"),
        "start_ns": start,
        "first_token_ns": None if ttft is None else start + ttft,
        "end_ns": end,
        "isl": isl,
        "osl": osl,
        "cached_tokens": _count(metrics, "usage_prompt_cache_read_tokens"),
        "osl_requested": _requested(metrics, osl),
        "flags": [],
    }
    produced = _count(metrics, "usage_completion_tokens") or osl
    wanted = row["osl_requested"]
    if status == "ok" and settings.ignore_eos and wanted and produced and produced < wanted:
        row["flags"] = ["short_output"]
    return row, gap_ns


def _status(metadata: Mapping[str, Any], error: Any, osl: int | None) -> tuple[str, str | None]:
    error = error if isinstance(error, dict) else {} if error is None else {"type": str(error)}
    if metadata.get("was_cancelled") is True or error.get("code") == 499:
        return "cancelled", "cancelled"
    if error:
        code = error.get("code")
        text = f"{error.get('type')} {error.get('message')}"
        return "failed", error_kind(code if isinstance(code, int) else None, text)
    return ("ok", None) if osl is not None else ("failed", "stream_error")


def _phase(metadata: Mapping[str, Any]) -> str:
    phase = metadata.get("phase_kind") or metadata.get("benchmark_phase")
    return "warmup" if (phase or metadata.get("credit_phase")) == "warmup" else "profiling"


def _requested(metrics: Mapping[str, Any], osl: int | None) -> int | None:
    """The output length asked for, from AIPerf's own mismatch in percent of it."""
    percent = _metric(metrics, "osl_mismatch_diff_pct")
    tokens = _count(metrics, "usage_completion_tokens")
    if percent is None or percent <= -100:
        return None
    # The mismatch refers to AIPerf's count; where that is the server's, both are the same.
    tokens = osl if osl is not None else tokens
    return None if tokens is None else round(tokens / (1 + percent / 100))


def _gaps(metric: Any) -> npt.NDArray[np.int64] | None:
    if metric is None:
        return None
    value = metric.get("value") if isinstance(metric, dict) else None
    factor = UNIT_TO_NS.get(str(metric.get("unit"))) if isinstance(metric, dict) else None
    if value is None or value == []:
        return None
    if not isinstance(value, list) or factor is None:
        raise BadRecordError(
            "expected 'inter_chunk_latency' as a list with a unit of time, found none"
        )
    try:
        return gaps(value, factor)
    except ValueError as error:
        raise BadRecordError(
            f"expected gaps of zero or more in 'inter_chunk_latency', found {error}"
        ) from None


def _metric(metrics: Mapping[str, Any], name: str) -> float | None:
    metric = metrics.get(name)
    value = metric.get("value") if isinstance(metric, dict) else None
    if value is None:
        return None
    found = number(value)
    if found is None:
        raise BadRecordError(f"expected a number in '{name}', found {_kind(value)}")
    return found


def _ns(metrics: Mapping[str, Any], name: str) -> int | None:
    value = _metric(metrics, name)
    if value is None:
        return None
    factor = UNIT_TO_NS.get(str(metrics[name].get("unit")))
    if factor is None:
        raise BadRecordError(f"expected a unit of time beside '{name}', found none")
    if not 0 <= value * factor < LONGEST_NS:
        raise BadRecordError(f"expected a latency of zero or more in '{name}', found another")
    return round(value * factor)


def _count(metrics: Mapping[str, Any], name: str) -> int | None:
    value = _metric(metrics, name)
    if value is None:
        return None
    if not 0 <= value < MAX_TOKENS:
        raise BadRecordError(f"expected a token count in '{name}', found another number")
    return round(value)


def _time(metadata: Mapping[str, Any], name: str) -> int | None:
    value = metadata.get(name)
    if value is None:
        return None
    if type(value) is not int or value not in _EPOCH_NS:
        raise BadRecordError(f"expected epoch ns in '{name}', found {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else kinds.get(type(value), "a number out of range")
