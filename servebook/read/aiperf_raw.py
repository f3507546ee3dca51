"""AIPerf's raw export: every stream message with its time, one request a line.

Used for what the records lost (the chunks of a stream that broke), and instead of the records
where only the raw file is left. Times are those of a monotonic clock; a request's wall clock is
its start plus the difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from servebook.errors import DumpError
from servebook.read.aiperf_records import Parsed, parse
from servebook.read.aiperf_summary import Settings
from servebook.read.files import loads
from servebook.read.records import Requests
from servebook.read.values import LONGEST_NS

_REQUEST_ID = re.compile(rb'"x_request_id"\s*:\s*"([^"\\]+)"')

__all__ = ["as_record", "fill_lost_chunks", "parse_raw"]


def parse_raw(lines: Iterable[tuple[int, bytes]], out: Requests, settings: Settings) -> Parsed:
    """Like ``aiperf_records.parse`` for raw lines; tokens are the usage that the server sent."""
    return parse(lines, out, settings, convert=as_record)


def as_record(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The record that AIPerf would have written for a raw line, as far as the line tells."""
    record: dict[str, Any] = {"metadata": raw.get("metadata"), "metrics": {}}
    if raw.get("error"):
        record["error"] = raw["error"]
    start = raw.get("start_perf_ns")
    responses = raw.get("responses")
    if type(start) is not int or not isinstance(responses, list):
        return record
    times, usage, failed = _chunks(responses)
    metrics = record["metrics"]
    if times:
        metrics["time_to_first_token"] = {"value": times[0] - start, "unit": "ns"}
        metrics["request_latency"] = {"value": times[-1] - start, "unit": "ns"}
        metrics["inter_chunk_latency"] = {"value": np.diff(times).tolist(), "unit": "ns"}
    if not failed:
        for theirs, ours in (
            ("prompt_tokens", "input_sequence_length"),
            ("completion_tokens", "output_sequence_length"),
        ):
            if type(usage.get(theirs)) is int:
                metrics[ours] = {"value": usage[theirs], "unit": "tokens"}
    return record


def fill_lost_chunks(lines: Iterable[tuple[int, bytes]], out: Requests) -> None:
    """Gives requests without a first token their first token and gaps from the raw lines.

    A raw file that is damaged changes nothing: the records stand on their own.
    """
    failed = pc.and_(
        out.values("first_token_ns").is_null(), pc.not_equal(out.values("status"), "ok")
    )
    rows = np.flatnonzero(failed.to_numpy())
    names = out.values("request_id").take(pa.array(rows)).to_pylist()
    lost = dict(zip(names, rows.tolist(), strict=True))
    if not lost:
        return
    try:
        for _, line in lines:
            name = _REQUEST_ID.search(line[:4096])
            if name and (index := lost.pop(name[1].decode("utf-8", "replace"), None)) is not None:
                _fill(line, out, index)
    except DumpError:
        return


def _fill(line: bytes, out: Requests, index: int) -> None:
    try:
        raw = loads(line)
    except ValueError:
        return
    if not isinstance(raw, dict):
        return
    start, responses = raw.get("start_perf_ns"), raw.get("responses")
    if type(start) is not int or not isinstance(responses, list):
        return
    times, _, _ = _chunks(responses)
    if times and times[0] >= start and times[-1] - start < LONGEST_NS:
        out.late_chunks(index, times[0] - start, np.asarray(np.diff(times), dtype=np.int64))


def _chunks(responses: Iterable[Any]) -> tuple[list[int], dict[str, Any], bool]:
    """Times of the content chunks, the usage object, and whether an error came in the stream."""
    times: list[int] = []
    usage: dict[str, Any] = {}
    failed = False
    for response in responses:
        if not isinstance(response, dict):
            continue
        at = response.get("perf_ns")
        packets = response.get("packets")
        for packet in packets if isinstance(packets, list) else []:
            value = packet.get("value") if isinstance(packet, dict) else None
            if not isinstance(value, str) or not value.startswith("{"):
                continue
            try:
                message = loads(value)
            except ValueError:
                continue
            failed = failed or bool(message.get("error"))
            if isinstance(message.get("usage"), dict):
                usage = message["usage"]
            if type(at) is int and _has_content(message) and (not times or at >= times[-1]):
                times.append(at)
    return times, usage, failed


def _has_content(message: Mapping[str, Any]) -> bool:
    choices = message.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if not isinstance(choice, dict):
            continue
        delta = choice.get("delta") or choice.get("message") or choice
        if isinstance(delta, dict) and any(
            delta.get(key) for key in ("content", "reasoning_content", "reasoning", "text")
        ):
            return True
    return False
