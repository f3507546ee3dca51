"""The per-request lists of a SGLang result: one slot per request, failed ones included.

Lists hold seconds where the summary holds milliseconds. A failed slot has an output length of 0
and an error text. The native backend divides the gap before a chunk by the chunk's tokens and
writes it once per token: equal entries in a row are one chunk, and become one gap again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from servebook.read.bench_results import last_token_ns, lists_of, outcome, slots
from servebook.read.records import Aside, Ints, Requests
from servebook.read.values import gap_list_ns, time_ns, token_count, whole

__all__ = ["add_slots"]

_MORE = ("input_lens", "errors")


def add_slots(
    result: Mapping[str, Any],
    out: Requests,
    aside: Aside,
    line: int,
    *,
    per_token: bool,
    asked: int | None,
) -> bool:
    """Adds one request per slot, whose times count from its own start; whether it was streamed.

    ``per_token``: the gaps are the native backend's. ``asked`` is the output length that every
    request was told to reach. Raises ValueError where the lists do not belong together.
    """
    lists = lists_of(result, _MORE)
    streamed = _streamed(lists)
    for index, slot in enumerate(slots(lists)):
        try:
            row, gap_ns = _slot(slot, streamed)
        except ValueError as bad:
            aside.append((line, f"request {index}", str(bad)))
            continue
        tokens = None
        if per_token and gap_ns is not None:
            gap_ns, tokens = _chunks(gap_ns, slot["itls"])
        if asked and row["status"] == "ok" and (row["osl"] or asked) < asked:
            row["flags"] = ["short_output"]
        row |= {"request_id": str(index), "phase": "profiling"}
        out.add(gap_ns, row["first_token_ns"], tokens, **row)
    return streamed


def _streamed(lists: Mapping[str, list[Any]]) -> bool:
    """False where replies of several tokens came in one piece each: then nothing was streamed."""
    several = [i for i, n in enumerate(lists.get("output_lens", [])) if (whole(n) or 0) > 1]
    itls = lists.get("itls")
    return itls is None or not several or any(itls[i] for i in several)


def _slot(slot: Mapping[str, Any], streamed: bool) -> tuple[dict[str, Any], Ints | None]:
    osl = token_count(slot.get("output_lens"), "output_lens")
    ttft = time_ns(slot.get("ttfts"), "ttfts")
    gap_ns = gap_list_ns(slot.get("itls"), "itls")
    error = slot.get("errors")
    if error is not None and not isinstance(error, str):
        raise ValueError("expected a text in 'errors', found another value")
    status, kind = outcome(error or "", osl, ttft)
    row: dict[str, Any] = {
        "status": status,
        "error_kind": kind,
        "start_ns": 0,
        "first_token_ns": ttft if streamed else None,
        "end_ns": last_token_ns(slot, ttft, gap_ns),
        "isl": token_count(slot.get("input_lens"), "input_lens"),
        "osl": osl if status == "ok" else None,
        "flags": [],
    }
    return row, gap_ns


def _chunks(gap_ns: Ints, seconds: list[Any]) -> tuple[Ints, Ints]:
    """Gaps between chunks, and each chunk's tokens, from gaps that are written once per token."""
    values = np.asarray(seconds, dtype=np.float64)
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    return np.add.reduceat(gap_ns, starts), np.diff(np.r_[starts, len(values)])
