"""The per-request lists of a vLLM result: one slot per prompt, failed ones included.

Lists hold seconds where the summary holds milliseconds. A failed slot has 0.0, an empty list and
an error text; a broken stream keeps its first token and the gaps until it broke.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from servebook.read.bench_results import last_token_ns, lists_of, outcome, slots
from servebook.read.records import Aside, Ints, Requests
from servebook.read.values import LONGEST_S, gap_list_ns, number, time_ns, token_count

__all__ = ["add_requests"]

_MORE = ("input_lens", "errors", "start_times", "latencies")


def add_requests(
    result: Mapping[str, Any],
    out: Requests,
    aside: Aside,
    line: int,
    began_ns: int | None = None,
) -> str:
    """Adds one request per slot; returns the clock, "epoch", "relative" or "none".

    With ``start_times`` times are ns since the run's first start, or epoch ns where the file tells
    the time at which it began; without, ns since the request's own start. The end is the first
    token plus the gaps, or the latency where there are no gaps; it is unknown where the dump has
    neither. Raises ValueError where the lists do not belong together.
    """
    lists = lists_of(result, _MORE)
    starts = _starts(lists.get("start_times"))
    if starts is not None and began_ns is not None:
        starts = [None if start is None else start + began_ns for start in starts]
    for index, slot in enumerate(slots(lists)):
        try:
            row, gap_ns = _slot(slot, 0 if starts is None else starts[index])
        except ValueError as bad:
            aside.append((line, f"request {index}", str(bad)))
            continue
        out.add(gap_ns, row["first_token_ns"], request_id=str(index), phase="profiling", **row)
    return "none" if starts is None else "relative" if began_ns is None else "epoch"


def _starts(values: list[Any] | None) -> list[int | None] | None:
    """Starts in ns since the first; None where the list holds no usable time."""
    if values is None:
        return None
    # Clocks do not stand at 0.0; the client writes that where it took no time.
    seconds = [s if (s := number(v)) is not None and 0 < s < 1e12 else None for v in values]
    known = [v for v in seconds if v is not None]
    if not known:
        return None
    usual = float(np.median(known))
    seconds = [v if v is not None and abs(v - usual) < LONGEST_S else None for v in seconds]
    first = min((v for v in seconds if v is not None), default=usual)
    return [None if v is None else round((v - first) * 1e9) for v in seconds]


def _slot(slot: Mapping[str, Any], start: int | None) -> tuple[dict[str, Any], Ints | None]:
    osl = token_count(slot.get("output_lens"), "output_lens")
    ttft = time_ns(slot.get("ttfts"), "ttfts")
    latency = time_ns(slot.get("latencies"), "latencies")
    gap_ns = gap_list_ns(slot.get("itls"), "itls")
    error = slot.get("errors")
    error = error if isinstance(error, str) else ""
    status, kind = outcome(error, osl, ttft)
    if start is None and status == "ok":
        raise ValueError("expected seconds above zero in 'start_times', found another value")
    # A reply in one chunk has its latency and no gaps.
    spent = latency if gap_ns is None and latency else last_token_ns(slot, ttft, gap_ns)
    row: dict[str, Any] = {
        "status": status,
        "error_kind": kind,
        "start_ns": start,
        "first_token_ns": None if start is None or not ttft else start + ttft,
        "end_ns": None if start is None or spent is None else start + spent,
        "isl": token_count(slot.get("input_lens"), "input_lens"),
        "osl": osl if status == "ok" else None,
        "flags": [],
    }
    return row, gap_ns
