"""The requests of a guidellm benchmark: three lists by how they ended.

All times are epoch seconds as floats, which step by some 240 ns; differences are taken before they
become ns. The end of a request is its last token: the end that guidellm means is that of the
response, after the usage that follows the last token, and is kept beside it.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from servebook.read.errorkind import error_kind
from servebook.read.records import Aside, Requests
from servebook.read.values import LONGEST_S, number, object_of, token_count, whole

__all__ = ["GROUPS", "WANTED", "add_requests", "entries", "ttft_inside"]

GROUPS = ("successful", "errored", "incomplete")
_STATUS = {"successful": "ok", "errored": "failed", "incomplete": "cancelled"}
_EPOCH_S = (1e9, 9.2e9)  # 2001 to 2261, the last whose ns fit into 64 bits
#: Our name: the names in 0.4 and later, then those of 0.3.
_TIMES = {
    "scheduled": ("targeted_start", "targeted_start_time"),
    "start": ("request_start", "start_time"),
    "first": ("first_token_iteration", "first_iteration", "first_token_time"),
    "last": ("last_token_iteration", "last_iteration", "last_token_time"),
    "end": ("request_end", "end_time"),
}


#: A request as it is held until all are read, of some 100 bytes; the kind of its error follows.
#: ``_NUMBERS`` and the tail, -1 where there is none; status; what ``_inside`` says.
_HELD = struct.Struct("<8qbb")
_STATUSES = ("ok", "failed", "cancelled")


def _held(group: str, entry: Any) -> bytes | str:
    """A request as ``_HELD``, or why it is none: nine tenths of it are prompt and reply."""
    try:
        row, tail = _row(group, entry)
    except ValueError as bad:
        return sys.intern(str(bad))
    whole_numbers = (-1 if row[name] is None else row[name] for name in _NUMBERS)
    status = _STATUSES.index(row["status"])
    kind = (row["error_kind"] or "").encode()
    return _HELD.pack(*whole_numbers, tail, status, _inside(entry)) + kind


def _rows(held: bytes) -> tuple[dict[str, Any], int]:
    """(columns of ``requests``, ns from its end to that of the response) of what was held."""
    *numbers, tail, status, _ = _HELD.unpack_from(held)
    row: dict[str, Any] = {
        name: None if value < 0 else value for name, value in zip(_NUMBERS, numbers, strict=True)
    }
    kind = held[_HELD.size :].decode() or None
    return row | {"status": _STATUSES[status], "error_kind": kind, "flags": []}, tail


_NUMBERS = (
    "start_ns",
    "scheduled_ns",
    "first_token_ns",
    "end_ns",
    "isl",
    "osl",
    "cached_tokens",
)

#: What is kept of the elements of which lists in a report; see ``json_inside``.
WANTED: Mapping[tuple[str, ...], Callable[[Any], Any]] = {
    ("benchmarks", "requests", group): partial(_held, group) for group in GROUPS
}


def entries(benchmark: Mapping[str, Any]) -> Iterator[tuple[str, int, Any]]:
    """(group, position in it, what is kept) of every request that the benchmark lists."""
    requests = object_of(benchmark.get("requests"))
    for group in GROUPS:
        found = requests.get(group)
        if isinstance(found, list):
            for index, entry in enumerate(found):
                yield group, index, entry


def add_requests(
    benchmark: Mapping[str, Any],
    out: Requests,
    aside: Aside,
    where: str,
    *,
    timed: bool,
    asked: int | None,
    window: tuple[int, int] | None,
) -> list[int]:
    """Adds one request per entry; returns, per profiling request, the ns from its end to that of
    the response.

    ``timed``: target times are taken. ``asked`` is the output length that each request was told
    to reach. Requests outside ``window`` (epoch ns) are warm-up.
    """
    tails: list[int] = []
    for group, index, held in entries(benchmark):
        if isinstance(held, str):
            aside.append((None, f"{where}{group} request {index}", held))
            continue
        row, tail = _rows(held)
        row |= {"request_id": f"{group}-{index}", "phase": "profiling"}
        if not timed:
            row["scheduled_ns"] = None
        if window and row["start_ns"] is not None:
            last = (row["end_ns"] or row["start_ns"]) + tail
            if last < window[0] or row["start_ns"] > window[1]:
                row["phase"] = "warmup"
        if asked and row["status"] == "ok" and (row["osl"] or asked) < asked:
            row["flags"] = ["short_output"]
        out.add(**row)
        if row["phase"] == "profiling":
            tails.append(tail)
    return tails


def ttft_inside(benchmark: Mapping[str, Any], *, old: bool) -> bool:
    """Whether the client's TPOT holds the TTFT, told by a request's own figures.

    0.3 left it out, later versions take it in; the version alone decides where there is no request.
    """
    for group, _, held in entries(benchmark):
        if group == GROUPS[0] and isinstance(held, bytes):
            told: int = _HELD.unpack_from(held)[-1]
            if told >= 0:
                return bool(told)
    return not old


def _inside(entry: Mapping[str, Any]) -> int:
    """Whether a request's TPOT holds its TTFT; -1 where its figures do not tell."""
    names = ("time_per_output_token_ms", "inter_token_latency_ms", "time_to_first_token_ms")
    tpot, itl, ttft = (number(entry.get(name)) for name in names)
    osl = whole(entry.get("output_tokens"))
    if tpot is None or itl is None or ttft is None or osl is None or osl < 2:
        return -1
    decode = itl * (osl - 1)
    return int(abs(tpot * osl - decode - ttft) <= abs(tpot * osl - decode))


def _row(group: str, entry: Any) -> tuple[dict[str, Any], int]:
    if not isinstance(entry, dict):
        raise ValueError("expected an object, found another value")
    info = object_of(entry.get("info"))
    times = _times(entry, object_of(info.get("timings")) or object_of(entry.get("scheduler_info")))
    start, end = times["start"], times["end"]
    osl = _tokens(entry, "output_tokens", "output_metrics")
    status, kind = _STATUS[group], None
    if status == "ok" and start is None:
        raise ValueError("expected the time of its start, found none")
    if status == "ok" and not osl:
        status, kind = "failed", "stream_error"
    elif status == "failed":
        text = info.get("error") or entry.get("error") or ""
        kind = error_kind(None, text if isinstance(text, str) else "")
    elif status == "cancelled":
        kind = "cancelled"
    last = times["last"] if times["last"] is not None else end
    zero = None if start is None else round(start * 1e9)
    row: dict[str, Any] = {
        "status": status,
        "error_kind": kind,
        "start_ns": zero,
        "scheduled_ns": _after(zero, start, times["scheduled"]),
        "first_token_ns": _after(zero, start, times["first"]),
        "end_ns": _after(zero, start, last),
        "isl": _tokens(entry, "prompt_tokens", "input_metrics"),
        # A request that was cut off carries the length asked for, or what came until then.
        "osl": osl if status == "ok" else None,
        "cached_tokens": whole(object_of(entry.get("input_metrics")).get("cached_tokens")),
    }
    tail = 0 if end is None or last is None else max(0, round((end - last) * 1e9))
    return row, tail


def _times(entry: Mapping[str, Any], inside: Mapping[str, Any]) -> dict[str, float | None]:
    times: dict[str, float | None] = {}
    for name, keys in _TIMES.items():
        value = next(
            (v for place in (inside, entry) for k in keys if (v := place.get(k)) is not None), None
        )
        seconds = number(value)
        if value is not None and (seconds is None or not _EPOCH_S[0] <= seconds < _EPOCH_S[1]):
            raise ValueError(f"expected epoch seconds for its {name} time, found another value")
        times[name] = seconds
    known = [times[name] for name in ("start", "first", "last", "end")]
    order = [t for t in known if t is not None]
    if order != sorted(order):
        raise ValueError("expected start, first token, last token and end in this order")
    if order and order[-1] - order[0] > LONGEST_S:
        raise ValueError("expected a request of less than three years")
    return times


def _after(zero: int | None, start: float | None, time: float | None) -> int | None:
    if zero is None or start is None or time is None:
        return None
    return zero + round((time - start) * 1e9)


def _tokens(entry: Mapping[str, Any], name: str, metrics: str) -> int | None:
    value = entry.get(name)
    if value is None:
        value = object_of(entry.get(metrics)).get("total_tokens")
    return token_count(value, name)
