"""Stalled gaps: those in which the engine did something other than decode.

The engine's steps are recovered first (``servebook.measure.steps``); a gap is then the steps
between two of them, whenever the client saw the tokens. It is a stall

- by ``prefill``, exactly if a prompt with a step of its own was prefilled between the two;
- by ``link``, if the engine's step took several decode steps' time while a counter says that a
  link was congested or paused;
- ``unexplained``, if the step took so much longer than all ordinary steps of its run that the
  engine must have paused. Slow steps below that are ordinary: no cause is made up for them.

A gap after a request's own first token is stalled only by prompts that came after its own. Where
prompts share steps with decodes (chunked prefill) decode goes on: such gaps are counted as slow
(above the baseline's p95 while a request waited for its first token), never as stalls.

Where chunks hold the tokens of several steps, these cannot be recovered (``UNSTEPPED``): a gap is a
stall by ``prefill`` if another request's first token came inside it, unless first tokens come out
with other requests' chunks, which is chunked prefill. What this cannot see: prefills of a run
without a common clock, prompts that another client sent to the same engine, and replicas of one
step clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from servebook.gap_table import GapTable
from servebook.measure.baseline import Baseline, Baselines, prompt_waits
from servebook.measure.shared_steps import slow_steps, waited
from servebook.measure.steps import Timeline, latest_ends, recovered
from servebook.measure.tokens import RunTokens, run_tokens
from servebook.tables import Tables

__all__ = [
    "CAUSES",
    "CONGESTED",
    "GAP_COLUMNS",
    "UNSTEPPED",
    "ClassifiedRun",
    "classify",
    "gap_stalls",
    "stalls_of_run",
]

CAUSES = ("none", "prefill", "link", "unexplained")
#: A link this busy in an interval counts as congested.
CONGESTED = 0.9
#: A step this many decode steps too long may be the work of a link.
_SLOW = 2.0
#: An unexplained stall is this many decode steps too long, and so many times the spread (p99 - p50)
#: of the run's ordinary steps.
_LONG, _BEYOND = 4.0, 20.0
#: Fewer ordinary steps have no p99 to go by.
_LEAST_STEPS = 100
#: Times below this (in 1970) count from the run's own start and meet no counter.
_EPOCH_NS = 10**15
#: Why some runs have no steps.
UNSTEPPED = (
    "A chunk holds the tokens of several steps there, and the dump does not say when each but the "
    "last one left the engine."
)
#: A first token this share of a decode step from another request's chunk came out with it; so many
#: must do so, as a share of what chance allows where prompts share steps.
_WITH, _SHARED = 0.15, 0.5
#: Share of a typical gap within which a first token counts as the gap's own (chunks of tokens).
_EDGE = 0.1

GAP_COLUMNS = (
    "run_id",
    "request_id",
    "index",
    "end_ns",
    "gap_ns",
    "step_end_ns",
    "is_stall",
    "cause",
    "prefill_tokens",
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ClassifiedRun:
    """One run's gaps, in the order of ``tokens``: what each is. ``line`` is None without steps.

    ``cause`` numbers ``CAUSES``; ``prefill_tokens`` is NaN where unknown; ``n_prefills`` counts
    prefill steps in the gap; ``slow`` and ``long`` are by ``base`` (None: too few gaps).
    """

    tokens: RunTokens
    line: Timeline | None
    style: str
    base: Baseline | None
    n_prefills: Ints
    prefill_tokens: Floats
    cause: npt.NDArray[np.int8]
    slow: Bools
    long: Bools

    @property
    def stall(self) -> Bools:
        """Whether each gap is a stall."""
        return self.cause > 0


def classify(tables: Tables, links: pd.DataFrame | None = None) -> Iterator[ClassifiedRun]:
    """Each run whose gaps have a common clock, decode-only runs first. ``links``: see
    ``gap_stalls``.

    One run at a time: who keeps none of them needs memory for the largest one.
    """
    lost = {
        run: (n or 0) > 0 or complete is False
        for run, n, complete in zip(
            tables.runs["run_id"].to_pylist(),
            tables.runs["n_lost"].to_pylist(),
            tables.runs["complete"].to_pylist(),
            strict=True,
        )
    }
    base = Baselines(tables)
    timed = (run for run in run_tokens(tables, base.in_order()) if run.timed)
    for run, line in recovered(timed, lost):
        yield _classified(run, line, base, links)
        del run, line  # before the next one is made


def _classified(
    run: RunTokens, line: Timeline | None, base: Baselines, links: pd.DataFrame | None
) -> ClassifiedRun:
    count, tokens = _by_step(line) if line else _by_time(run)
    own = base.of(run, count == 0)
    style = line.style if line else _style_by_time(run)
    cause = np.zeros(len(run.gap), dtype=np.int8)
    slow = long = np.zeros(len(run.gap), dtype=bool)
    if line:
        cause = _paused(line, links)
    if style != "shared":
        cause[count > 0] = CAUSES.index("prefill")
    if own:
        long = run.gap > own.p99_ns
    if style == "shared":
        carried = slow_steps(line) if line else None
        if line and carried is not None:
            slow = carried[line.step_of_gap] & (line.step_of_gap >= 0)
        elif own:
            slow = (run.gap > own.p95_ns) & prompt_waits(run, 0.5 * own.median_ns)
    return ClassifiedRun(run, line, style, own, count, tokens, cause, slow & (cause == 0), long)


def gap_stalls(
    tables: Tables,
    links: pd.DataFrame | None = None,
    *,
    classified: Iterable[ClassifiedRun] | None = None,
) -> pd.DataFrame:
    """One row per gap of the table ``gaps``, in its order, of requests of any phase and status.

    Columns: run_id, request_id, index (0 = first gap), end_ns, gap_ns, step_end_ns (when the
    engine's step ended, as recovered), is_stall, cause (none, prefill, link, unexplained),
    prefill_tokens (prompt tokens, cached ones left out, of the prompts whose prefill ended in the
    gap; 0 without one, null where a length is unknown); is_slow (in a step shared with a prompt),
    is_long (above the baseline's p99), prefill_style. Null where the run has no common clock.

    ``links``: intervals of counters (``servebook.measure.intervals``) on the same clock: t0_ns,
    t1_ns, util_fraction, and paused (bool) where the counters tell. A link is congested above
    ``CONGESTED``. None or empty: no stall is put down to a link. ``classified``: what
    ``classify`` found in the same tables, where it is at hand.
    """
    found = classify(tables, links) if classified is None else classified
    return _rows(tables.gaps, 0, found)


def stalls_of_run(
    gaps: GapTable, run_id: str, one: ClassifiedRun | None, most: int = 1 << 20
) -> Iterator[pd.DataFrame]:
    """The rows of ``gap_stalls`` of one run, as ``classify`` found it (None: it did not).

    In pieces of ``most`` gaps, or of one request that has more.
    """
    begin = 0
    for part in gaps.parts:
        if part.run_id == run_id:
            ends = np.cumsum(part.count)
            edges = np.searchsorted(ends, np.arange(most, ends[-1], most), side="left")
            for some in np.split(np.arange(len(part.count)), edges):
                if len(some):
                    piece = GapTable([part.slice(int(some[0]), len(some))])
                    yield _rows(piece, begin, [] if one is None else [one])
                    begin += piece.num_rows
        else:
            begin += part.n


def _rows(
    gaps: pa.Table | GapTable, begin: int, classified: Iterable[ClassifiedRun]
) -> pd.DataFrame:
    """``gap_stalls`` of a piece of the table ``gaps`` whose first row there is ``begin``."""
    n = gaps.num_rows
    step_end = np.zeros(n, dtype=np.int64)
    tokens = np.full(n, np.nan)
    cause = np.full(n, -1, dtype=np.int8)
    slow, long = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    stepped = np.zeros(n, dtype=bool)
    style = np.full(n, "", dtype=object)
    for one in classified:
        rows = one.tokens.gap_row - begin
        here = (rows >= 0) & (rows < n)
        rows = rows[here]
        cause[rows], tokens[rows] = one.cause[here], one.prefill_tokens[here]
        slow[rows], long[rows], style[rows] = one.slow[here], one.long[here], one.style
        if one.line:
            known = one.line.step_of_gap[here] >= 0
            ends = np.rint(one.line.ends).astype(np.int64) + one.tokens.zero_ns
            stepped[rows] = known
            step_end[rows[known]] = ends[one.line.step_of_gap[here][known]]
    unknown = cause < 0
    names = np.array([*CAUSES, None], dtype=object)

    def flag(values: Bools) -> Any:
        return pd.arrays.BooleanArray(values, unknown)

    def whole(values: npt.NDArray[Any], missing: Bools) -> Any:
        return pd.arrays.IntegerArray(np.where(missing, 0, values).astype(np.int64), missing)

    kinds = {pa.int64(): pd.Int64Dtype()}.get
    return pd.DataFrame(
        {
            "run_id": gaps["run_id"].to_pandas().astype(object),
            "request_id": gaps["request_id"].to_pandas().astype(object),
            "index": gaps["index"].to_pandas(),
            "end_ns": gaps["end_ns"].to_pandas(types_mapper=kinds),
            "gap_ns": gaps["gap_ns"].to_pandas(types_mapper=kinds),
            "step_end_ns": whole(step_end, ~stepped),
            "is_stall": flag(cause > 0),
            "cause": names[cause],
            "prefill_tokens": whole(np.nan_to_num(tokens), np.isnan(tokens) | unknown),
            "is_slow": flag(slow),
            "is_long": flag(long),
            "prefill_style": style,
        }
    )


def _by_step(line: Timeline) -> tuple[Ints, Floats]:
    """Prefill steps between the two emissions of each gap, and the prompt tokens in them."""
    run, found, n = line.tokens, line.prefills, len(line.ends)
    isl = found.prompt_tokens(run.isl)
    unknown = np.isnan(isl)
    _, begin = np.unique(found.batch, return_index=True)
    ahead = [
        np.bincount(found.step[begin], minlength=n),
        np.bincount(found.step, np.where(unknown, 0.0, isl), minlength=n),
        np.bincount(found.step, unknown, minlength=n),
    ]
    # After a request's own prefill only those of later batches come into its first gap.
    new = np.zeros(len(found.batch), dtype=bool)
    new[begin] = True
    own = [
        _later(found.step, found.batch, value)
        for value in (new.astype(float), np.where(unknown, 0.0, isl), unknown.astype(float))
    ]
    shared = line.style == "shared"
    step, first = line.step_of_gap, run.index == 0
    if run.leading.any():
        first = first | np.roll(run.leading, 1)
    before = np.where(first, line.step_of_request[run.request], np.roll(step, 1))
    place = np.full(len(run.first), -1, dtype=np.int64)
    known = found.request >= 0
    place[found.request[known]] = np.flatnonzero(known)
    out = []
    for total, after in zip(ahead, own, strict=True):
        if shared:  # a first token in a step belongs to the gaps that end with the step
            total = np.append(total[1:], 0)
        sums = np.cumsum(total)
        value = sums[np.maximum(step, 0)] - sums[np.maximum(before, 0)]
        if not shared:
            at = place[run.request]
            value = value + np.where(first & (at >= 0), after[at], 0)
        value[(step < 0) | run.leading] = 0
        out.append(value)
    count, tokens, missing = out
    return count.astype(np.int64), np.where(missing > 0, np.nan, tokens)


def _later(step: Ints, batch: Ints, value: Floats) -> Floats:
    """For each prefill the sum of ``value`` over later batches ahead of the same step."""
    if not len(step):
        return np.empty(0)
    sums = np.cumsum(value)
    last_of_step = np.searchsorted(step, step, side="right") - 1
    last_of_batch = np.searchsorted(batch, batch, side="right") - 1
    return np.asarray(sums[last_of_step] - sums[last_of_batch])


def _by_time(run: RunTokens) -> tuple[Ints, Floats]:
    """The same from first tokens inside each gap, where chunks hold several tokens."""
    seen = np.flatnonzero(~np.isnan(run.first))
    seen = seen[np.argsort(run.first[seen], kind="stable")]
    first, isl = run.first[seen], run.isl[seen]
    # A first gap starts at the request's own first token, which is no witness.
    after = np.searchsorted(first, run.gap_end - run.gap + _EDGE * run.scale, side="right")
    upto = np.maximum(np.searchsorted(first, run.gap_end, side="right"), after)
    sums = np.concatenate([[0.0], np.cumsum(isl)])
    return upto - after, sums[upto] - sums[after]


def _style_by_time(run: RunTokens) -> str:
    """Whether first tokens come out with other requests' chunks ("shared"), or apart from them.

    A running request has a chunk in one of so many steps as its chunks hold tokens. Out of a step
    of their own first tokens come a prefill after one chunk and a decode step before the next.
    """
    n_gaps = np.diff(run.bounds)
    begun = np.flatnonzero((n_gaps > 0) & ~np.isnan(run.first))
    osl = run.osl[begun]
    stride = np.nanmedian((osl - 1) / n_gaps[begun]) if (~np.isnan(osl)).any() else 1.0
    stride = max(float(stride), 1.0)
    last = run.gap_end[run.bounds[1:][begun] - 1]
    firsts, lasts = np.sort(run.first[begun]), np.sort(last)
    order = np.argsort(run.gap_end, kind="stable")
    chunk, owner = run.gap_end[order], run.request[order]
    near, chance, beside = 0, 0.0, 0
    for i, first in zip(begun, run.first[begun], strict=True):
        running = int(firsts.searchsorted(first) - lasts.searchsorted(first, side="right"))
        if not running:
            continue
        slack = _WITH * run.scale / stride
        low, high = np.searchsorted(chunk, (first - slack, first + slack))
        near += bool((owner[low:high] != i).any())
        chance += 1 - (1 - 1 / stride) ** running
        beside += 1
    if not beside:
        return ""
    return "shared" if near > _SHARED * chance else "separate"


def _paused(line: Timeline, links: pd.DataFrame | None) -> npt.NDArray[np.int8]:
    """Gaps in which the engine took far too long without a prompt, and what may explain it."""
    # Each step took its usual time at least: what a burst of late tokens leaves is no pause.
    ends = latest_ends(line.ends, line.engine, line.decode)
    excess = np.where(line.joined, np.diff(ends, prepend=np.nan), np.nan) - line.decode
    plain = line.joined.copy()
    if line.style == "shared":  # a prompt may be at work in any step while a request waits
        plain &= ~waited(line)
    else:
        plain[line.prefills.step] = False
    # Only a next step of the same requests tells a pause of the engine from a late delivery.
    plain &= np.append(line.joined[1:], False)
    cause = np.zeros(len(line.ends), dtype=np.int8)
    if plain.sum() >= _LEAST_STEPS:
        spread = np.percentile(excess[plain], 99) - np.median(excess[plain])
        limit = np.maximum(_LONG * line.decode, _BEYOND * spread)
        cause[plain & (excess > limit)] = CAUSES.index("unexplained")
    busy = _busy(line, links)
    cause[plain & busy & (excess > _SLOW * line.decode)] = CAUSES.index("link")
    out = cause[np.maximum(line.step_of_gap, 0)]
    out[(line.step_of_gap < 0) | (line.tokens.index == 0)] = 0
    return out


def _busy(line: Timeline, links: pd.DataFrame | None) -> Bools:
    """Whether a link was congested or paused during each step."""
    busy = np.zeros(len(line.ends), dtype=bool)
    if links is None or links.empty or line.tokens.zero_ns < _EPOCH_NS:
        return busy
    hot = links["util_fraction"].to_numpy(dtype=np.float64) > CONGESTED
    if "paused" in links:
        hot |= links["paused"].fillna(False).to_numpy(dtype=bool)
    zero = line.tokens.zero_ns
    begin = np.sort((links["t0_ns"].to_numpy(dtype=np.int64)[hot] - zero).astype(np.float64))
    end = np.sort((links["t1_ns"].to_numpy(dtype=np.int64)[hot] - zero).astype(np.float64))
    start = line.ends - np.nan_to_num(line.length)
    # Intervals begun before the step's end and not ended before its start.
    return np.searchsorted(begin, line.ends, side="left") > np.searchsorted(end, start, "right")
