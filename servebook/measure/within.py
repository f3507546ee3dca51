"""How the gaps and the output of a run swung within it: block bootstraps over its token times.

Of a run with more gaps than ``servebook.measure.run_gaps`` takes together no more than a piece is
in memory; whether its chunks are one token each is then told by how many each request has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.compute as pc

from servebook.measure.bootstrap import Within, within_pieces, within_run
from servebook.measure.gap_values import GapValues, n_gaps_of_requests, values_by_run
from servebook.measure.run_gaps import MOST
from servebook.measure.runs import TOKEN_GAP_TOLERANCE
from servebook.measure.tokens import RunTokens, run_tokens
from servebook.tables import Tables

__all__ = ["SLICES", "within_gaps"]

#: The output rate is taken in so many slices of a run.
SLICES = 240

Floats = npt.NDArray[np.float64]


def within_gaps(
    tables: Tables, requests: pd.DataFrame, lasts_s: Mapping[str, float], most: int = MOST
) -> dict[str, dict[str, Within]]:
    """By run and metric (itl_mean_ms, output_throughput_tok_s): the mean and its interval.

    ``requests`` is ``request_metrics`` of these tables; ``lasts_s`` has the runs that are wanted,
    and how long a mean request of each takes. A run whose gaps have no times, or none that counts,
    is left out; so is the output where chunks are not one token each.
    """
    whole = values_by_run(tables)
    long = [run for run in lasts_s if len(whole.get(run, ())) > most]
    phase = pc.fill_null(pc.equal(tables.requests["phase"], "profiling"), False).to_numpy()
    out = {}
    for one in run_tokens(tables, [run for run in lasts_s if run not in long], most):
        if one.timed:
            counted = one.ok & phase[one.request_row]
            out[one.run_id] = dict(_at_once(one, counted, lasts_s[one.run_id]))
        del one
    if long:
        ok = requests["status"].to_numpy() == "ok"
        clock = dict(
            zip(tables.runs["run_id"].to_pylist(), tables.runs["clock"].to_pylist(), strict=True)
        )
        values = values_by_run(tables, requests, ok & requests["run_id"].isin(long).to_numpy())
        counts = n_gaps_of_requests(tables, requests)
        for run in long:
            timed = whole[run].n_timed() == len(whole[run]) and clock[run] != "none"
            if timed and run in values:
                own = ok & (requests["run_id"] == run).to_numpy()
                found = _in_pieces(values[run], requests[own], counts[own], lasts_s[run])
                out[run] = dict(found)
    return out


def _at_once(
    run: RunTokens, counted: npt.NDArray[np.bool_], lasts_s: float
) -> Iterator[tuple[str, Within]]:
    good = counted[run.request]
    if not good.any():
        return
    when = run.gap_end[good] / 1e9
    yield "itl_mean_ms", within_run(run.gap[good] / 1e6, when - when.min(), lasts_s)
    # Chunks of several tokens say nothing of when each came.
    if run.exact[counted].all():
        first = run.first[counted]
        came = np.concatenate([first[~np.isnan(first)], run.gap_end[good]]) / 1e9
        count, edges = np.histogram(came, bins=SLICES)
        yield "output_throughput_tok_s", _rate(count, edges, lasts_s)


def _in_pieces(
    gaps: GapValues, requests: pd.DataFrame, n_gaps: npt.NDArray[np.int64], lasts_s: float
) -> Iterator[tuple[str, Within]]:
    # The first gap starts at the first token.
    others = requests.loc[n_gaps == 0, "first_token_ns"].dropna().to_numpy(dtype=np.int64)
    begun = np.concatenate([gaps.starts(), others])
    zero = int(begun.min()) if len(begun) else 0

    def pieces() -> Iterator[tuple[Floats, Floats]]:
        for end_ns, gap_ns in gaps.timed_pieces():
            if len(end_ns):
                yield gap_ns / 1e6, (end_ns - zero) / 1e9

    yield "itl_mean_ms", within_pieces(pieces, lasts_s)
    osl = requests["osl"].to_numpy()
    with np.errstate(invalid="ignore"):
        exact = (np.abs(n_gaps - (osl - 1)) <= TOKEN_GAP_TOLERANCE * osl) | (n_gaps == osl)
    if len(begun) and exact.all():
        first = (begun - zero) / 1e9
        ends = [(when.min(), when.max()) for _, when in pieces()]
        lows, highs = zip((first.min(), first.max()), *ends, strict=True)
        span = float(min(lows)), float(max(highs))
        count, edges = np.histogram(first, bins=SLICES, range=span)
        for _, when in pieces():
            count = count + np.histogram(when, bins=SLICES, range=span)[0]
        yield "output_throughput_tok_s", _rate(count, edges, lasts_s)


def _rate(count: npt.NDArray[np.int64], edges: Floats, lasts_s: float) -> Within:
    return within_run(count / (edges[1] - edges[0]), edges[:-1] - edges[0], lasts_s)
