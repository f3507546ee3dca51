"""What each request of a run did over time, side by side: queue, prefill, decode, stalls.

Requests take lanes as a client in a closed loop has them in flight: each the lowest lane that is
free when it starts. Where the engine's steps are known, prefills and stalls stand on its clock.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from servebook.measure.stalled_gaps import CAUSES, ClassifiedRun
from servebook.measure.steps import Timeline, step_rows
from servebook.tables import Tables

__all__ = ["LANE_COLUMNS", "busiest_step", "lanes"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LANE_COLUMNS = ("lane", "request", "kind", "t0_ns", "t1_ns")


def busiest_step(one: ClassifiedRun) -> dict[str, Any] | None:
    """Find the prefill that stalled the most gaps (then the most prompt tokens, then the first).

    Keys: step, end_ns (when the decode step after it ended, since the run's zero), lost_ns (beyond
    the usual decode step), n_stalled (gaps that it is in), n_prompts, tokens (NaN where unknown).
    None without steps or without a gap stalled by a prefill.
    """
    line = one.line
    if line is None:
        return None
    hit = (one.cause == CAUSES.index("prefill")) & (line.step_of_gap >= 0)
    if not hit.any():
        return None
    n = len(line.ends)
    stalled = np.bincount(line.step_of_gap[hit], minlength=n)
    isl = line.prefills.prompt_tokens(line.tokens.isl)
    prompts = np.bincount(line.prefills.step, minlength=n)
    tokens = np.bincount(line.prefills.step, isl, minlength=n)
    stalled[(prompts == 0) | ~line.joined] = 0
    if not stalled.any():
        return None
    order = np.lexsort((np.arange(n), -np.nan_to_num(tokens), -stalled))
    best = int(order[0])
    return {
        "step": best,
        "end_ns": float(line.ends[best]),
        "lost_ns": float(line.length[best] - line.decode[best]),
        "n_stalled": int(stalled[best]),
        "n_prompts": int(prompts[best]),
        "tokens": float(tokens[best]),
    }


def lanes(tables: Tables, one: ClassifiedRun, t0_ns: float, t1_ns: float) -> pd.DataFrame:
    """The segments of one run between two times (since the run's zero), cut off at both.

    Columns: lane (0, 1, ...), request (its number in the run), kind, t0_ns, t1_ns. Kinds: queue
    (sent, its prompt not yet at work), prefill, wait (sent, no first token yet: where the two
    cannot be told apart), decode (first token to last), and over decode the gaps that are stalls:
    stall (by prefill), link, unexplained. Sorted by lane and time, decode before its stalls.
    """
    run, line = one.tokens, one.line
    begin, end = run.start, _ended(one)
    known = ~np.isnan(begin) & ~np.isnan(end)
    lane = _assigned(np.flatnonzero(known), begin, end, t1_ns)
    gaps = _stalled_between(one, t0_ns, t1_ns)
    # A run may have a million requests, and the time between holds a few dozen of them.
    seen = known & (begin < t1_ns) & (np.fmax(end, run.first) > t0_ns)
    seen[run.request[gaps]] = True
    ids = tables.requests["request_id"].take(run.request_row)
    prefill: dict[str, tuple[float, float]] = {}
    if line and line.style == "separate":
        prefill = _prefills(tables, one, set(ids.filter(pa.array(seen)).to_pylist()), t0_ns, t1_ns)
        seen |= pc.is_in(ids, pa.array(sorted(prefill), pa.string())).to_numpy()
    decode_from = run.first.copy()
    parts: list[tuple[int, str, float, float]] = []
    some = np.flatnonzero(seen)
    for i, name in zip(some.tolist(), ids.take(pa.array(some)).to_pylist(), strict=True):
        if not known[i]:
            continue
        work = prefill.get(name)
        if work is not None:
            at = max(float(begin[i]), work[0])
            decode_from[i] = work[1]
            parts += [(i, "queue", begin[i], at), (i, "prefill", at, work[1])]
        else:
            until = end[i] if np.isnan(run.first[i]) else run.first[i]
            parts.append((i, "wait", begin[i], until))
        if not np.isnan(run.first[i]):
            parts.append((i, "decode", decode_from[i], end[i]))
    kinds = ("", "stall", "link", "unexplained")
    start, stop = _between(one, decode_from)
    for gap in gaps.tolist():
        own = int(run.request[gap])
        parts.append((own, kinds[one.cause[gap]], float(start[gap]), float(stop[gap])))
    frame = pd.DataFrame(parts, columns=["request", "kind", "t0_ns", "t1_ns"])
    frame = frame.assign(
        lane=lane[frame["request"].to_numpy(dtype=np.int64)],
        t0_ns=frame["t0_ns"].clip(lower=t0_ns),
        t1_ns=frame["t1_ns"].clip(upper=t1_ns),
    )
    frame = frame[(frame["t1_ns"] > frame["t0_ns"]) & (frame["lane"] >= 0)]
    # Decode lies below its stalls.
    over = frame["kind"].isin(kinds[1:])
    frame = frame.assign(_over=over).sort_values(
        ["_over", "lane", "t0_ns", "kind"], kind="stable", ignore_index=True
    )
    return frame[list(LANE_COLUMNS)]


def _ended(one: ClassifiedRun) -> Floats:
    """When each request ended: its record says so, else its last token."""
    run = one.tokens
    last = run.first.copy()
    has = np.diff(run.bounds) > 0
    last[has] = run.gap_end[run.bounds[1:][has] - 1]
    return np.asarray(np.where(np.isnan(run.end), last, run.end))


def _assigned(known: Ints, begin: Floats, end: Floats, until: float) -> Ints:
    """The lane of each request that began before ``until``; -1 of others."""
    out = np.full(len(begin), -1, dtype=np.int64)
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for i in known[np.lexsort((known, begin[known]))]:
        if begin[i] >= until:
            break
        while busy and busy[0][0] <= begin[i]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (float(end[i]), lane))
        out[i] = lane
    return out


def _prefills(
    tables: Tables, one: ClassifiedRun, names: set[str], t0_ns: float, t1_ns: float
) -> dict[str, tuple[float, float]]:
    """When the prompts of these requests were at work, and those at work between the two times."""
    assert one.line is not None
    rows = step_rows(one.line, tables.requests["request_id"])
    rows = rows[(rows["n_decoded"] == 0) & rows["duration_ns"].notna()]
    end = rows["end_ns"].to_numpy() - one.tokens.zero_ns
    begin = end - rows["duration_ns"].to_numpy(dtype=np.float64)
    between = (begin < t1_ns) & (end > t0_ns)
    out = {}
    for own, first, last, there in zip(
        rows["prefill_requests"], begin.tolist(), end.tolist(), between.tolist(), strict=True
    ):
        for name in own:
            if there or name in names:
                out[str(name)] = (first, float(last))
    return out


def _stalled_between(one: ClassifiedRun, t0_ns: float, t1_ns: float) -> Ints:
    """The gaps that are stalls and may lie between two times."""
    # What a prefill took is cut off the first gap's start, so this one is never too late.
    start, stop = _between(one, np.full(len(one.tokens.first), np.nan))
    # No start is known of a first gap without one.
    return np.flatnonzero(one.stall & (stop > t0_ns) & ~(start >= t1_ns))


def _between(one: ClassifiedRun, decode_from: Floats) -> tuple[Floats, Floats]:
    """Begin and end of each gap: on the engine's clock where its steps are known."""
    run, line = one.tokens, one.line
    begin, end = run.gap_end - run.gap, run.gap_end
    if isinstance(line, Timeline):
        step = line.step_of_gap
        placed = step >= 0
        end = np.where(placed, line.ends[np.maximum(step, 0)], end)
        before = np.roll(step, 1)
        inside = placed & (run.index > 0) & (before >= 0)
        begin = np.where(inside, line.ends[np.maximum(before, 0)], begin)
    first = run.index == 0
    begin = np.where(first, np.fmax(begin, decode_from[run.request]), begin)
    return np.asarray(begin), np.asarray(end)
