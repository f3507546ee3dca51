"""One request of Perf Analyzer's profile export, without its texts."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from servebook.read.documents import json_value
from servebook.read.genai_perf_chunks import reply_of
from servebook.read.values import LONGEST_NS, MAX_TOKENS, object_of, whole

__all__ = ["Call", "call_of", "held", "released", "start_of"]


@dataclass(frozen=True, slots=True)
class Call:
    """A request: its start and the times of its responses with content, ns of the client's clock.

    ``counted_by`` is "server" (its usage), "nominal" (every reply had to have this length) or
    None where the dump has no count. ``streamed`` is False where the request asked for one whole
    reply: its time is then no first token's.
    """

    start: int
    times: array[int]  # 64 bits each
    status: str
    error_kind: str | None
    isl: int | None
    osl: int | None
    osl_requested: int | None
    cached: int | None
    counted_by: str | None
    streamed: bool


def call_of(record: Any) -> Call:
    """The request that ``record`` tells; raises ValueError, in words, for what tells none."""
    if not isinstance(record, dict):
        raise ValueError("expected a JSON object, found another value")
    start = _time(record.get("timestamp"), "timestamp")
    stamps = record.get("response_timestamps")
    if not isinstance(stamps, list):
        raise ValueError("expected a list in 'response_timestamps', found another value")
    times = [_time(stamp, "response_timestamps") for stamp in stamps]
    outputs = record.get("response_outputs")
    if outputs is not None and (not isinstance(outputs, list) or len(outputs) != len(times)):
        raise ValueError("expected an output for each response, found another number")
    reply = reply_of(times, outputs)
    found = [start, *reply.times]
    steps = [later - earlier for earlier, later in pairwise(found)]
    if any(step < 0 for step in steps):
        raise ValueError("expected times in order, found one before another (a corrected clock)")
    if found[-1] - start >= LONGEST_NS:
        raise ValueError("expected times of one request, found years between them")
    sent = _payload(object_of(record.get("request_inputs")))
    most, least = _length(sent, "max_tokens", "max_completion_tokens"), _length(sent, "min_tokens")
    ok = bool(reply.times) and not reply.error
    osl, counted_by = reply.osl, "server" if reply.osl else None
    if not osl and most is not None and most == least:
        osl, counted_by = most, "nominal"
    return Call(
        start=start,
        times=array("q", reply.times),
        status="ok" if ok else "failed",
        error_kind=None if ok else "stream_error",
        isl=reply.isl if reply.isl is not None else _ids(sent),
        osl=(osl or None) if ok else None,
        osl_requested=most,
        cached=reply.cached,
        counted_by=counted_by,
        # An OpenAI body says so; Triton's tensors do not.
        streamed=len(reply.times) > 1 or "model" not in sent or sent.get("stream") is True,
    )


#: A call as it is held until all are read; its times follow. Start, ISL, OSL, OSL asked for, cached
#: tokens, of which -1 is none; whether it is ok, who counted, whether it was streamed.
_HELD = struct.Struct("<5qbbb5x")
_COUNTED_BY = (None, "server", "nominal")


def held(call: Call) -> bytes:
    """The call in a fraction of the memory."""
    known = (-1 if n is None else n for n in (call.isl, call.osl, call.osl_requested, call.cached))
    counted_by = _COUNTED_BY.index(call.counted_by)
    told = (call.status == "ok", counted_by, call.streamed)
    return _HELD.pack(call.start, *known, *told) + call.times.tobytes()


def start_of(data: bytes) -> int:
    """When a call that is held was sent."""
    start: int = _HELD.unpack_from(data)[0]
    return start


def released(data: bytes) -> Call:
    """The call that is held."""
    start, *numbers, ok, counted_by, streamed = _HELD.unpack_from(data)
    isl, osl, osl_requested, cached = (None if n < 0 else n for n in numbers)
    return Call(
        start=start,
        times=array("q", data[_HELD.size :]),
        status="ok" if ok else "failed",
        error_kind=None if ok else "stream_error",
        isl=isl,
        osl=osl,
        osl_requested=osl_requested,
        cached=cached,
        counted_by=_COUNTED_BY[counted_by],
        streamed=bool(streamed),
    )


def _time(value: Any, name: str) -> int:
    found = value if type(value) is int else None
    if found is None or not 0 <= found < 2**62:
        raise ValueError(f"expected whole ns in '{name}', found another value")
    return found


def _payload(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was sent: the body of an OpenAI request, a JSON text, or Triton's tensors."""
    body = inputs.get("payload", inputs)
    if isinstance(body, str):
        try:
            body = json_value(body.encode("utf-8", "replace"))
        except ValueError:
            return {}
    if isinstance(body, list):  # some versions write a list of one
        body = body[0] if body else None
    return object_of(body)


def _length(sent: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = sent.get(name)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        found = whole(value)
        if found and found < MAX_TOKENS:
            return found
    return None


def _ids(sent: Mapping[str, Any]) -> int | None:
    """The prompt's length where it was sent as token ids."""
    ids = sent.get("input_ids")
    return len(ids) or None if isinstance(ids, list) else None
