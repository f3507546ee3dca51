"""The engine's steps, recovered from the times of the tokens that the client saw.

Decode steps are those of ``servebook.measure.clock``: a step ended when the earliest of its tokens
came, and never less than most of a decode step before the next one, whatever the client's delays.
Prefills come from first tokens (``servebook.measure.prefills``). A prompt that has a step of its
own makes a row without decoded tokens; one that shares its step (chunked prefill) is counted in
the step that brought its first token, wherever its other parts ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from servebook.measure.clock import Placed, Sequence
from servebook.measure.each_run import each_run
from servebook.measure.prefills import Prefills, find_prefills, prefill_style
from servebook.measure.prompt_parts import prompt_parts
from servebook.measure.replicas import MOST_CLOCKS, follows, on_few_clocks
from servebook.measure.tokens import RunTokens, run_tokens
from servebook.tables import Tables, of_run

__all__ = [
    "STEP_COLUMNS",
    "Timeline",
    "latest_ends",
    "recover",
    "recovered",
    "step_rows",
    "steps",
    "timelines",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: A step ends at least this share of a usual decode step before the next one.
_LEAST_STEP = 0.85
#: From this many steps on a batch size has a usual step length of its own.
_LEAST_STEPS = 20

STEP_COLUMNS = (
    "run_id",
    "engine",
    "step",
    "end_ns",
    "duration_ns",
    "n_decoded",
    "n_first_tokens",
    "prefill_tokens",
    "prefill_requests",
)


@dataclass(frozen=True)
class Timeline:
    """One run on its engine's clock. Times in ns since ``tokens.zero_ns``.

    Per step, engine by engine: ``engine``, ``ends``, ``decoded`` (tokens), ``joined`` (some
    request decoded in this step and the one before), ``decode`` (the usual length of such a step).
    ``step_of_gap``: the step that ends each gap of ``tokens``; ``step_of_request``: the first
    decode step of each request, -1 without one. ``style``: "separate", "shared" or "".
    ``late``: how long after its step's end each gap's token came.
    """

    tokens: RunTokens
    engine: Ints
    ends: Floats
    decoded: Ints
    joined: Bools
    decode: Floats
    step_of_gap: Ints
    step_of_request: Ints
    style: str
    prefills: Prefills
    late: Floats

    @property
    def length(self) -> Floats:
        """From the end of the step before to the step's end, NaN after an idle time."""
        ends = self.ends
        return np.asarray(np.where(self.joined, np.diff(ends, prepend=np.nan), np.nan))


def timelines(tables: Tables) -> Iterator[Timeline]:
    """The timeline of each run whose tokens have times and are (mostly) one a chunk."""
    lost = dict(
        zip(
            tables.runs["run_id"].to_pylist(),
            pc.or_(
                pc.fill_null(pc.greater(tables.runs["n_lost"], 0), False),
                pc.fill_null(pc.equal(tables.runs["complete"], False), False),
            ).to_pylist(),
            strict=True,
        )
    )
    for _, found in recovered(run_tokens(tables), lost):
        if found is not None:
            yield found
        del found


def recovered(
    runs: Iterable[RunTokens], lost: Mapping[str, bool]
) -> Iterator[tuple[RunTokens, Timeline | None]]:
    """Each run with what ``recover`` makes of it; ``lost`` is by run."""
    jobs = ((run, lost[run.run_id]) for run in runs)
    for (run, _), found in each_run(recover, jobs):
        # From a cluster the tokens come back as a copy.
        yield run, found if found is None or found.tokens is run else replace(found, tokens=run)
        del run, found  # before those of the next run are made


def recover(run: RunTokens, lost: bool = False) -> Timeline | None:
    """The timeline of one run; None where its chunks have no times or hold several steps' tokens.

    ``lost`` says that the client sent requests of which it kept no record. Chunks of several tokens
    may be one step each (speculative decoding): that is believed where all of them then follow one
    clock.
    """
    begun = np.flatnonzero(np.diff(run.bounds) > 0)
    if not run.timed:
        return None
    counted = bool(run.exact[begun].mean() >= 0.5)
    order = begun[np.lexsort((run.start[begun], run.first[begun]))]
    # A leading empty chunk ends with the first token, before the first decode step.
    rows = [
        slice(begin + int(run.leading[begin]), end)
        for begin, end in zip(
            run.bounds[order].tolist(), run.bounds[order + 1].tolist(), strict=True
        )
    ]
    sequences = [
        Sequence(float(run.first[i]), run.gap_end[own], bool(run.exact[i]) or not counted)
        for i, own in zip(order, rows, strict=True)
    ]
    placed = on_few_clocks(sequences, run.scale, most=MOST_CLOCKS if counted else 1)
    if not counted and not follows(sequences, placed, run.scale):
        return None
    step_of_gap, step_of_request, engine = _flat(run, order, rows, placed)
    ends, decoded = _ends(run, step_of_gap, len(engine))
    joined = _joined(run, step_of_gap, len(engine))
    has = step_of_request >= 0
    first = np.zeros(len(engine), dtype=bool)
    first[step_of_request[has]] = True
    late = np.where(step_of_gap >= 0, run.gap_end - ends[step_of_gap], np.nan)
    style = prefill_style(
        run.first[has],
        step_of_request[has],
        ends,
        joined,
        run.scale,
        late[decoded[step_of_gap] > 1],
    )
    shared = style == "shared"
    plain = joined & (shared | ~first)
    parts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if style == "separate":
        parts = prompt_parts(run, step_of_request, engine, ends, decoded, joined)
        plain[parts[0]] = False
    _, least = _usual(ends, decoded, plain, run.scale, shared)
    ends = latest_ends(ends, engine, least)
    usual, _ = _usual(ends, decoded, plain, run.scale, shared)
    if shared:
        seen = np.flatnonzero(has)
        seen = seen[np.lexsort((run.first[seen], step_of_request[seen]))]
        at = step_of_request[seen]
        prefills = Prefills(seen, at, at, run.first[seen], at)
    else:
        prefills = find_prefills(run, step_of_request, engine, ends, joined, usual, lost, parts)
    late = np.where(step_of_gap >= 0, run.gap_end - ends[step_of_gap], np.nan)
    return Timeline(
        run,
        engine,
        ends,
        decoded,
        joined,
        usual,
        step_of_gap,
        step_of_request,
        style,
        prefills,
        late,
    )


def _flat(
    run: RunTokens, order: Ints, rows: list[slice], placed: Placed
) -> tuple[Ints, Ints, Ints]:
    """Steps numbered through all clocks: per gap, first per request, and the clock per step."""
    n_clocks = int(placed.clock.max(initial=-1)) + 1
    length = np.zeros(n_clocks, dtype=np.int64)
    for clock, own in zip(placed.clock, placed.steps, strict=True):
        if len(own):
            length[clock] = max(length[clock], own[-1] + 1)
    base = np.concatenate([[0], np.cumsum(length)])
    step_of_gap = np.full(len(run.gap), -1, dtype=np.int64)
    step_of_request = np.full(len(run.first), -1, dtype=np.int64)
    for i, own_rows, clock, own in zip(order, rows, placed.clock, placed.steps, strict=True):
        if len(own):
            step_of_gap[own_rows] = base[clock] + own
            step_of_request[i] = base[clock] + own[0]
    return step_of_gap, step_of_request, np.repeat(np.arange(n_clocks), length)


def _ends(run: RunTokens, step_of_gap: Ints, n: int) -> tuple[Floats, Ints]:
    """When the earliest token of each step came, and how many came; a step without any: the next
    one's.
    """
    known = step_of_gap >= 0
    ends = np.full(n, np.inf)
    np.minimum.at(ends, step_of_gap[known], run.gap_end[known])
    ends = np.minimum.accumulate(ends[::-1])[::-1] if np.isinf(ends).any() else ends
    return ends, np.bincount(step_of_gap[known], minlength=n)


def _joined(run: RunTokens, step_of_gap: Ints, n: int) -> Bools:
    """Whether some request decoded in the step and in the one before it."""
    joined = np.zeros(n, dtype=bool)
    same = (run.request[1:] == run.request[:-1]) & (step_of_gap[:-1] >= 0)
    begin, end = step_of_gap[:-1][same], step_of_gap[1:][same]
    # A request that skipped steps was running all the while.
    change = np.zeros(n + 1, dtype=np.int64)
    np.add.at(change, begin + 1, 1)
    np.add.at(change, end + 1, -1)
    joined[:] = np.cumsum(change)[:n] > 0
    return joined


def _usual(
    ends: Floats, decoded: Ints, plain: Bools, scale: float, shared: bool
) -> tuple[Floats, Floats]:
    """The usual length of a decode step, by the number of requests that decode in it, and the
    least.

    Where prompts share steps the lower quartile stands for steps without one. Batch sizes with
    few steps take what lies between their neighbours, and the least of all.
    """
    length = np.diff(ends, prepend=np.nan)
    q, low = (25, 10) if shared else (50, 50)
    if not plain.any():
        return np.full(len(ends), scale), np.zeros(len(ends))
    counts = np.bincount(decoded[plain], minlength=int(decoded.max(initial=0)) + 1)
    sizes = np.flatnonzero(counts >= _LEAST_STEPS)
    by_size = [np.percentile(length[plain & (decoded == size)], [q, low]) for size in sizes]
    tenth = float(np.percentile(length[plain], 10))
    if len(sizes):
        value, least = np.array(by_size).T
        usual = np.interp(decoded, sizes, value)
        known = np.isin(decoded, sizes)
        bound = np.where(known, np.interp(decoded, sizes, least), np.minimum(usual, tenth))
    else:
        usual = np.full(len(ends), float(np.percentile(length[plain], q)))
        bound = np.full(len(ends), tenth)
    return np.maximum(usual, 0.01 * scale), _LEAST_STEP * np.maximum(bound, 0.0)


def latest_ends(ends: Floats, engine: Ints, least: Floats) -> Floats:
    """Ends no later than the steps after them allow, each of which took its ``least`` time.

    Tokens that came in a burst had left the engine one step after the other.
    """
    sums = np.cumsum(least)
    out = ends.copy()
    for one in range(int(engine.max(initial=-1)) + 1):
        own = engine == one
        level = ends[own] - sums[own]
        out[own] = np.minimum.accumulate(level[::-1])[::-1] + sums[own]
    return out


def steps(tables: Tables, run_id: str | None = None) -> pd.DataFrame:
    """The steps of every run (or of ``run_id``) in time order; one row per engine step.

    Columns: run_id, engine (0, 1, ...: replicas with clocks of their own), step (0, 1, ... within
    the run), end_ns (int64, on the run's clock), duration_ns (Int64; null where the engine was
    idle before), n_decoded, n_first_tokens, prefill_tokens (prompt tokens, cached ones left out,
    of the requests that got their first token in the step; Int64, null where unknown),
    prefill_requests (tuple of request_ids).
    """
    if run_id is not None:
        tables = of_run(tables, run_id)
    parts = [step_rows(one, tables.requests["request_id"]) for one in timelines(tables)]
    if not parts:
        return pd.DataFrame(columns=list(STEP_COLUMNS))
    return pd.concat(parts, ignore_index=True)


def step_rows(line: Timeline, request_id: pa.ChunkedArray) -> pd.DataFrame:
    """``steps`` of one timeline; ``request_id`` is that column of the table ``requests``."""
    run, n = line.tokens, len(line.ends)
    batch = _batch_rows(line, request_id)
    shared = batch["beside"].to_numpy() & (line.style == "shared")
    decode = pd.DataFrame(
        {
            "engine": line.engine,
            "place": np.arange(n),
            "prefill": False,
            "end": line.ends,
            "n_decoded": line.decoded,
            "n_first_tokens": 0,
            "prefill_tokens": 0.0,
            "joined": line.joined,
            "begun": np.nan,
        }
    )
    ones = np.full(n, None, dtype=object)
    ones[:] = [()] * n
    # Its first token came out of the step before the request's own first decode step.
    beside = batch[shared]
    at = beside["place"].to_numpy() - 1
    for name in ("n_first_tokens", "prefill_tokens"):
        column = decode[name].to_numpy(copy=True)
        column[at] = beside[name]
        decode[name] = column
    ones[at] = beside["prefill_requests"]
    decode["prefill_requests"] = ones
    frame = pd.concat([batch[~shared].drop(columns="beside"), decode]) if len(batch) else decode
    order = ["engine", "place", "prefill", "end"]
    frame = frame.sort_values(order, ascending=[True, True, False, True], kind="stable")
    frame["end"] = frame.groupby("engine")["end"].cummax()
    same = frame["engine"].eq(frame["engine"].shift())
    before = frame["end"].shift().where(same)
    # A prefill on an idle engine began when its request came.
    prefill = frame["prefill"]
    began = np.where(prefill, np.fmax(before, frame["begun"]), before)
    follows = frame["joined"] | (prefill.shift(fill_value=False) & same)
    frame["duration"] = np.where(prefill | follows, frame["end"] - began, np.nan)
    frame = frame.sort_values(["end", *order[:3]], ascending=[True, True, True, False])
    return pd.DataFrame(
        {
            "run_id": run.run_id,
            "engine": frame["engine"].to_numpy(),
            "step": np.arange(len(frame)),
            "end_ns": np.rint(frame["end"].to_numpy()).astype(np.int64) + run.zero_ns,
            "duration_ns": _whole(frame["duration"]),
            "n_decoded": frame["n_decoded"].to_numpy(),
            "n_first_tokens": frame["n_first_tokens"].to_numpy(),
            "prefill_tokens": _whole(frame["prefill_tokens"]),
            "prefill_requests": frame["prefill_requests"].to_numpy(),
        }
    )


def _batch_rows(line: Timeline, request_id: pa.ChunkedArray) -> pd.DataFrame:
    """One row per prefill step; ``beside``: others were decoding."""
    run, found = line.tokens, line.prefills
    _, begin = np.unique(found.batch, return_index=True)
    at = found.step[begin]
    seen = ~np.isnan(found.end)
    parts = np.split(np.arange(len(found.batch)), begin[1:]) if len(begin) else []
    isl, start = found.prompt_tokens(run.isl), np.append(run.start, np.nan)
    came = np.where(seen, found.end, np.inf)
    latest = line.ends[at] - _LEAST_STEP * line.decode[at]
    reduce = np.add.reduceat if len(begin) else lambda values, _: values
    least = np.minimum.reduceat if len(begin) else lambda values, _: values
    ids = request_id.take(run.request_row).to_pylist()
    requests = np.full(len(begin), None, dtype=object)
    requests[:] = [tuple(str(ids[i]) for i in found.request[p] if i >= 0) for p in parts]
    begun = least(np.where(found.request >= 0, start[found.request], np.inf), begin)
    return pd.DataFrame(
        {
            "engine": line.engine[at],
            "place": at,
            "prefill": True,
            "end": np.minimum(least(came, begin), latest),
            "n_decoded": np.zeros(len(begin), dtype=np.int64),
            "n_first_tokens": reduce(seen.astype(np.int64), begin),
            "prefill_tokens": reduce(isl, begin),
            "joined": line.joined[at],
            "begun": np.where(np.isfinite(begun), begun, np.nan),
            "prefill_requests": requests,
            "beside": line.joined[at],
        }
    )


def _whole(values: pd.Series[float]) -> pd.arrays.IntegerArray:
    missing = values.isna().to_numpy()
    return pd.arrays.IntegerArray(np.rint(values.fillna(0).to_numpy()).astype(np.int64), missing)
