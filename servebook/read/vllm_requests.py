"""The per-request lists of a vLLM result: one slot per prompt, failed ones included.

Lists hold seconds where the summary holds milliseconds. A failed slot has 0.0, an empty list and
an error text; a broken stream keeps its first token and the gaps until it broke.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from servebook.read.bench_columns import (
    Flags,
    Slots,
    add_group,
    flags_of,
    floats_of,
    groups,
    optional,
)
from servebook.read.bench_results import last_token_ns, lists_of, outcome
from servebook.read.json_columns import Column
from servebook.read.records import Aside, Ints, Requests
from servebook.read.values import LONGEST_S, gap_list_ns, time_ns, token_count

__all__ = ["MORE", "add_requests"]

#: Lists that are read besides those that every detailed result has.
MORE = ("input_lens", "errors", "start_times", "latencies")


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
    lists = lists_of(result, MORE)
    n = len(next(iter(lists.values())))
    slots = Slots(lists, n)
    starts, timed = _starts(lists.get("start_times"), n)
    clock = starts is not None
    start_ns = np.zeros(n, np.int64) if starts is None else starts + (began_ns or 0)

    def left(index: int) -> None:
        """Looks at one slot by itself."""
        slot = slots.values(index, group)
        try:
            row, gap_ns = _slot(slot, int(start_ns[index]) if timed[index] else None)
        except ValueError as bad:
            aside.append((line, f"request {index}", str(bad)))
            return
        out.add(gap_ns, row["first_token_ns"], request_id=str(index), phase="profiling", **row)

    for group in groups(lists.get("itls"), n):
        part = slice(group.start, group.start + len(group))
        start, known, ttft_ns = start_ns[part], timed[part], slots.ttft_ns[part]
        latency_ns, has_gaps = slots.latency_ns[part], group.counts > 0
        last = (ttft_ns > 0) & (("itls" in lists) | (slots.osl[part] == 1))
        # A reply in one chunk has its latency and no gaps.
        whole_ns = np.where(~has_gaps & (latency_ns > 0), latency_ns, 0)
        spent_ns = np.where(whole_ns, whole_ns, np.where(last, ttft_ns + group.sums_ns, 0))
        first = known & (ttft_ns > 0)
        columns = {
            **slots.rows(group),
            "start_ns": optional(start, known),
            "first_token_ns": optional(start + ttft_ns, first),
            "end_ns": optional(start + spent_ns, known & (spent_ns > 0)),
            "flags": flags_of(np.zeros(len(group), bool)),
        }
        usable = slots.usable[part] & group.usable & (known | (slots.kind[part] >= 0))
        add_group(out, group, columns, np.where(first, start + ttft_ns, -1), usable, left)
    return "none" if not clock else "relative" if began_ns is None else "epoch"


def _starts(values: Column | list[Any] | None, n: int) -> tuple[Ints | None, Flags]:
    """(starts in ns since the first, which are known); None where the list holds no usable time."""
    if values is None:
        return None, np.ones(n, bool)
    # Clocks do not stand at 0.0; the client writes that where it took no time.
    seconds, _ = floats_of(values, n)
    known = (seconds > 0) & (seconds < 1e12)
    if not known.any():
        return None, np.ones(n, bool)
    usual = float(np.median(seconds[known]))
    known &= np.abs(seconds - usual) < LONGEST_S
    first = seconds[known].min() if known.any() else usual
    return np.rint(np.where(known, seconds - first, 0) * 1e9).astype(np.int64), known


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
