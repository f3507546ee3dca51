"""The per-request lists of a SGLang result: one slot per request, failed ones included.

Lists hold seconds where the summary holds milliseconds. A failed slot has an output length of 0
and an error text. The native backend divides the gap before a chunk by the chunk's tokens and
writes it once per token: equal entries in a row are one chunk, and become one gap again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from servebook.read.errorkind import error_kind
from servebook.read.records import Ints, Requests
from servebook.read.values import gap_list_ns, time_ns, token_count, whole

__all__ = ["LISTS", "add_slots"]

#: Lists of which at least one makes a result detailed.
LISTS = ("ttfts", "itls", "output_lens")
_OPTIONAL = ("input_lens", "errors")


def add_slots(
    result: Mapping[str, Any],
    out: Requests,
    aside: list[tuple[int | None, str, str]],
    line: int,
    *,
    per_token: bool,
    asked: int | None,
) -> bool:
    """Adds one request per slot, whose times count from its own start; whether it was streamed.

    ``per_token``: the gaps are the native backend's. ``asked`` is the output length that every
    request was told to reach. Raises ValueError where the lists do not belong together.
    """
    lists = {n: v for n in (*LISTS, *_OPTIONAL) if isinstance(v := result.get(n), list)}
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} with {n}" for name, n in lengths.items())
        raise ValueError(f"per-request lists of different lengths ({told})")
    streamed = _streamed(lists)
    for index in range(next(iter(lengths.values()))):
        slot = {name: values[index] for name, values in lists.items()}
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
    if error:
        kind = error_kind(None, error)
        status, kind = "failed", "stream_broken" if ttft and kind == "other" else kind
    elif osl == 0:
        status, kind = "failed", "stream_error"
    else:
        status, kind = "ok", ""
    spent = None
    if ttft and ("itls" in slot or osl == 1):
        spent = ttft + (0 if gap_ns is None else int(gap_ns.sum()))
    row: dict[str, Any] = {
        "status": status,
        "error_kind": kind or None,
        "start_ns": 0,
        "first_token_ns": ttft if streamed else None,
        "end_ns": spent,
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
