"""The per-request lists of a vLLM result: one slot per prompt, failed ones included.

Lists hold seconds where the summary holds milliseconds. A failed slot has 0.0, an empty list and
an error text; a broken stream keeps its first token and the gaps until it broke.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from servebook.read.errorkind import error_kind
from servebook.read.records import Requests
from servebook.read.values import LONGEST_S, gap_list_ns, number, time_ns, token_count

__all__ = ["LISTS", "add_requests"]

#: Lists of which at least one makes a result detailed (latencies alone stand in summaries too).
LISTS = ("ttfts", "itls", "output_lens")
_OPTIONAL = ("input_lens", "errors", "start_times", "latencies")


def add_requests(
    result: Mapping[str, Any],
    out: Requests,
    aside: list[tuple[int | None, str, str]],
    line: int,
    began_ns: int | None = None,
) -> str:
    """Adds one request per slot; returns the clock, "epoch", "relative" or "none".

    With ``start_times`` times are ns since the run's first start, or epoch ns where the file tells
    the time at which it began; without, ns since the request's own start. The end is the first
    token plus the gaps, or the latency where there are no gaps; it is unknown where the dump has
    neither. Raises ValueError where the lists do not belong together.
    """
    lists = {n: v for n in (*LISTS, *_OPTIONAL) if isinstance(v := result.get(n), list)}
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} with {n}" for name, n in lengths.items())
        raise ValueError(f"per-request lists of different lengths ({told})")
    starts = _starts(lists.get("start_times"))
    if starts is not None and began_ns is not None:
        starts = [None if start is None else start + began_ns for start in starts]
    for index in range(next(iter(lengths.values()))):
        slot = {name: values[index] for name, values in lists.items()}
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


def _slot(
    slot: Mapping[str, Any], start: int | None
) -> tuple[dict[str, Any], npt.NDArray[np.int64] | None]:
    osl = token_count(slot.get("output_lens"), "output_lens")
    ttft = time_ns(slot.get("ttfts"), "ttfts")
    latency = time_ns(slot.get("latencies"), "latencies")
    gap_ns = gap_list_ns(slot.get("itls"), "itls")
    error = slot.get("errors")
    error = error if isinstance(error, str) else ""
    if error:
        kind = error_kind(None, error)
        status, kind = "failed", "stream_broken" if ttft and kind == "other" else kind
    elif osl == 0:
        status, kind = "failed", "stream_error"
    else:
        status, kind = "ok", ""
    if start is None and status == "ok":
        raise ValueError("expected seconds above zero in 'start_times', found another value")
    spent: int | None = None
    if gap_ns is None and latency:
        spent = latency  # a reply in one chunk has its latency and no gaps
    elif ttft and ("itls" in slot or osl == 1):
        spent = ttft + _total(gap_ns)
    row: dict[str, Any] = {
        "status": status,
        "error_kind": kind or None,
        "start_ns": start,
        "first_token_ns": None if start is None or not ttft else start + ttft,
        "end_ns": None if start is None or spent is None else start + spent,
        "isl": token_count(slot.get("input_lens"), "input_lens"),
        "osl": osl if status == "ok" else None,
        "flags": [],
    }
    return row, gap_ns


def _total(gap_ns: npt.NDArray[np.int64] | None) -> int:
    return 0 if gap_ns is None else int(gap_ns.sum())
