"""The per-request lists of a SGLang result: one slot per request, failed ones included.

Lists hold seconds where the summary holds milliseconds. A failed slot has an output length of 0
and an error text. The native backend divides the gap before a chunk by the chunk's tokens and
writes it once per token: equal entries in a row are one chunk, and become one gap again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from servebook.gap_table import Lengths
from servebook.read.bench_columns import Slots, add_group, flags_of, floats_of, groups, optional
from servebook.read.bench_results import last_token_ns, lists_of, outcome
from servebook.read.json_columns import Column, Floats, sizes_of
from servebook.read.records import Aside, Ints, Requests
from servebook.read.values import MAX_WHOLE, gap_list_ns, time_ns, token_count

__all__ = ["MORE", "add_slots"]

#: Lists that are read besides those that every detailed result has.
MORE = ("input_lens", "errors")


def add_slots(
    result: Mapping[str, Any],
    out: Requests,
    aside: Aside,
    line: int,
    *,
    per_token: bool,
    asked: int | None,
) -> tuple[bool, bool]:
    """Adds one request per slot, whose times count from its own start.

    Returns whether replies were streamed, and whether some chunk holds several tokens.
    ``per_token``: the gaps are the native backend's. ``asked`` is the output length that every
    request was told to reach. Raises ValueError where the lists do not belong together.
    """
    lists = lists_of(result, MORE)
    n = len(next(iter(lists.values())))
    slots = Slots(lists, n)
    streamed = _streamed(lists)
    bundled = False

    def left(index: int) -> None:
        """Looks at one slot by itself."""
        nonlocal bundled
        slot = slots.values(index, group)
        try:
            row, gap_ns = _slot(slot, streamed)
        except ValueError as bad:
            aside.append((line, f"request {index}", str(bad)))
            return
        told = None
        if per_token and gap_ns is not None:
            seconds, counts = np.asarray(slot["itls"], np.float64), np.array([len(gap_ns)])
            gap_ns, _, told = _chunks(gap_ns, seconds, counts)
            bundled |= bool((told > 1).any())
        if asked and row["status"] == "ok" and (row["osl"] or asked) < asked:
            row["flags"] = ["short_output"]
        row |= {"request_id": str(index), "phase": "profiling"}
        out.add(gap_ns, row["first_token_ns"], told, **row)

    for group in groups(lists.get("itls"), n):
        part = slice(group.start, group.start + len(group))
        ttft_ns, osl = slots.ttft_ns[part], slots.osl[part]
        known = ttft_ns > 0
        last = known & (("itls" in lists) | (osl == 1))
        first = known & streamed
        ok = slots.kind[part] < 0
        # A length of 0 is none of an ok request: it is a failed one.
        short = ok & (osl > 0) & (osl < asked) if asked else np.zeros(len(group), bool)
        columns = {
            **slots.rows(group),
            "start_ns": pa.array(np.zeros(len(group), np.int64)),
            "first_token_ns": optional(ttft_ns, first),
            "end_ns": optional(ttft_ns + group.sums_ns, last),
            "flags": flags_of(short),
        }
        usable = slots.usable[part] & group.usable & slots.told[part]
        chunks, told = group, None
        if per_token and group.seconds is not None:
            gap_ns, counts, told = _chunks(group.gap_ns, group.seconds, group.counts)
            chunks = replace(group, gap_ns=gap_ns, counts=counts)
            bundled |= bool((told[np.repeat(usable, counts)] > 1).any())
        add_group(out, chunks, columns, np.where(first, ttft_ns, -1), usable, left, told)
    return streamed, bundled


def _streamed(lists: Mapping[str, Column | list[Any]]) -> bool:
    """False where replies of several tokens came in one piece each: then nothing was streamed."""
    itls = lists.get("itls")
    if itls is None:
        return True
    osl, _ = floats_of(lists.get("output_lens"), len(itls))
    several = (osl > 1) & (osl <= MAX_WHOLE) & (osl == np.floor(osl))
    return not several.any() or bool(sizes_of(itls)[several].any())


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


def _chunks(gap_ns: Lengths, seconds: Floats, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """(gaps between chunks, how many of each list, tokens of each) from gaps written per token."""
    if not len(seconds):
        return gap_ns.astype(np.int64), counts, np.zeros(0, np.int64)
    ends = np.cumsum(counts)
    begins = np.r_[True, seconds[1:] != seconds[:-1]]
    begins[(ends - counts)[counts > 0]] = True
    starts = np.flatnonzero(begins)
    merged = np.diff(np.r_[0, np.searchsorted(starts, ends)])
    tokens = np.diff(np.r_[starts, len(seconds)])
    return np.add.reduceat(gap_ns, starts, dtype=np.int64), merged, tokens
