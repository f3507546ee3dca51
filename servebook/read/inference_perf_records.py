"""One request of inference-perf's per-request report, of any version, without its texts.

Times are seconds of a monotonic clock. A token of a chunk has the chunk's time, so that equal
times are one chunk; gaps are taken between chunks.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.read.errorkind import error_kind
from servebook.read.values import LONGEST_S, gaps, number, object_of, token_count, whole

__all__ = ["Call", "call_of"]

_HTTP = re.compile(r"HTTP Error (\d{3})")


#: Seconds, of which NaN is none; numbers, of which -1 is none; status, streamed, length of the
#: kind of error. That kind and the gaps follow.
_HELD = struct.Struct("<4d5qb?B")
_SECONDS, _NUMBER = struct.Struct("<d"), struct.Struct("<q")
_STATUS, _STREAMED, _KIND = 72, 73, 74
_STATUSES = ("ok", "failed", "cancelled")


def _seconds(at: int) -> property:
    return property(lambda call: _SECONDS.unpack_from(call, 8 * at)[0])


def _seconds_or_none(at: int) -> property:
    def found(call: bytes) -> float | None:
        value: float = _SECONDS.unpack_from(call, 8 * at)[0]
        return None if math.isnan(value) else value

    return property(found)


def _number_or_none(at: int) -> property:
    def found(call: bytes) -> int | None:
        value: int = _NUMBER.unpack_from(call, 8 * at)[0]
        return None if value < 0 else value

    return property(found)


class Call(bytes):
    """A request as the dump has it, in some 100 bytes: all are held until their stages are known.

    Seconds are of the client's clock; None where it does not say.
    """

    __slots__ = ()

    start_s = _seconds(0)
    close_s = _seconds(1)  # the reply was read to its end
    first_s = _seconds_or_none(2)
    last_s = _seconds_or_none(3)
    n_times = _number_or_none(4)  # tokens that have a time
    isl = _number_or_none(5)
    osl = _number_or_none(6)
    usage_osl = _number_or_none(7)
    cached = _number_or_none(8)

    @property
    def status(self) -> str:
        """Whether it is ok, failed or cancelled."""
        return _STATUSES[self[_STATUS]]

    @property
    def streamed(self) -> bool:
        """Whether its tokens have times."""
        return bool(self[_STREAMED])

    @property
    def error_kind(self) -> str | None:
        """Why it failed."""
        return self[_HELD.size : _HELD.size + self[_KIND]].decode() or None

    @property
    def n_gaps(self) -> int:
        """How many gaps between chunks it has."""
        return (len(self) - _HELD.size - self[_KIND]) // 8

    @property
    def gap_ns(self) -> npt.NDArray[np.int64] | None:
        """The gaps between its chunks."""
        if not self.n_gaps:
            return None
        return np.frombuffer(self, np.int64, offset=_HELD.size + self[_KIND])


def call_of(record: Any, server_counts: bool) -> Call:
    """The request that ``record`` tells; raises ValueError, in words, for what tells none.

    With ``server_counts`` the server's token count is used where it is there.
    """
    if not isinstance(record, dict):
        raise ValueError("expected a JSON object, found another value")
    start, close = number(record.get("start_time")), number(record.get("end_time"))
    if start is None or close is None or not 0 <= close - start < LONGEST_S:
        raise ValueError("expected start_time and end_time in order, found other values")
    info = object_of(record.get("info"))
    # To 0.2 the counts and times stood in `info` itself.
    reply = object_of(info.get("response_metrics")) or info
    computed = object_of(record.get("computed_metrics"))
    usage = object_of(reply.get("server_usage"))
    times = _times(reply.get("output_token_times"), "output_token_times", start, close)
    chunks = _times(reply.get("chunk_times"), "chunk_times", start, close)
    usage_osl = token_count(
        usage.get("completion_tokens", usage.get("output_tokens")), "server_usage"
    )
    osl = token_count(reply.get("output_tokens", computed.get("output_tokens")), "output_tokens")
    if server_counts and usage_osl is not None:
        osl = usage_osl
    status, kind = _outcome(record.get("error"), osl)
    first: float | None
    if times.size:
        first, last, gap_ns = float(times[0]), float(times[-1]), _between(times)
    elif chunks.size and osl != 0:
        first, last, gap_ns = float(chunks[0]), None, None
    else:
        first, last, gap_ns = _of_computed(computed, start)
    shown = status == "ok"
    numbers = (
        int(times.size),
        _isl(info, computed),
        osl if shown else None,
        usage_osl if shown else None,
        whole(object_of(usage.get("prompt_tokens_details")).get("cached_tokens")),
    )
    told = (kind or "").encode()
    seconds = (math.nan if time is None else time for time in (start, close, first, last))
    return Call(
        _HELD.pack(
            *seconds,
            *(-1 if one is None else one for one in numbers),
            _STATUSES.index(status),
            bool(times.size or chunks.size),
            len(told),
        )
        + told
        + (b"" if gap_ns is None else gap_ns.tobytes())
    )


def _outcome(error: Any, osl: int | None) -> tuple[str, str | None]:
    if error is None:
        return ("failed", "stream_error") if osl == 0 else ("ok", None)
    told = object_of(error)
    text = f"{told.get('error_type', '')} {told.get('error_msg', '')}"
    http = _HTTP.search(text)
    kind = error_kind(int(http[1]) if http else None, text)
    return ("cancelled" if kind == "cancelled" else "failed"), kind


def _times(value: Any, name: str, start: float, close: float) -> npt.NDArray[np.float64]:
    if value is None or value == []:
        return np.empty(0)
    wrong = f"expected times between start_time and end_time in '{name}', found others"
    if not isinstance(value, list):
        raise ValueError(wrong)
    try:
        found = np.asarray(value)
    except (ValueError, OverflowError):
        raise ValueError(wrong) from None
    if found.ndim != 1 or found.dtype.kind not in "iuf":
        raise ValueError(wrong)
    found = found.astype(np.float64)
    # A last chunk may be stamped just after the reply's own end.
    inside = np.isfinite(found).all() and start <= found.min() and found.max() <= close + 1.0
    if not inside or (np.diff(found) < 0).any():
        raise ValueError(wrong)
    return found


def _between(times: npt.NDArray[np.float64]) -> npt.NDArray[np.int64] | None:
    steps = np.diff(times)
    steps = steps[steps > 0]
    return np.rint(steps * 1e9).astype(np.int64) if steps.size else None


def _of_computed(
    computed: Mapping[str, Any], start: float
) -> tuple[float | None, float | None, npt.NDArray[np.int64] | None]:
    """First and last token and gaps from the client's own per-request values."""
    ttft = number(computed.get("time_to_first_token"))
    if ttft is None or not 0 < ttft < LONGEST_S:
        return None, None, None
    values = computed.get("inter_token_latencies")
    if not isinstance(values, list) or not values:
        return start + ttft, None, None
    try:
        found = gaps(values, 1e9)
    except ValueError as error:
        raise ValueError(f"expected seconds in 'inter_token_latencies', found {error}") from None
    found = found[found > 0]
    return start + ttft, start + ttft + float(found.sum()) / 1e9, found if found.size else None


def _isl(info: Mapping[str, Any], computed: Mapping[str, Any]) -> int | None:
    asked = object_of(object_of(info.get("request_metrics")).get("text")).get("input_tokens")
    for value in (asked, info.get("input_tokens"), computed.get("input_tokens")):
        if value is not None:
            return token_count(value, "input_tokens")
    return None
