"""Readings by series as plain arrays: a frame per counter takes longer to make than to measure.

Own code: pandas groups rows into frames; of some hundred counters with thousands of readings each,
building those takes most of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Series", "categories", "series_of"]

Ints = npt.NDArray[np.int64]

_PORT = ("interface", "scope", "direction", "kind")


class Series(NamedTuple):
    """The readings of one counter in time order; of several at one instant the file's first."""

    times: Ints  # ns
    counts: npt.NDArray[np.uint64]
    bits: npt.NDArray[Any]
    grid: npt.NDArray[np.bool_]  # whether the time is a query's
    value: npt.NDArray[np.float64]


def categories(names: pa.ChunkedArray) -> pd.Categorical:
    """The names as categories, which are sorted; null stays null."""
    coded = pc.dictionary_encode(names.combine_chunks())
    places = pc.sort_indices(coded.dictionary)
    ranks = np.argsort(places.to_numpy())
    codes = coded.indices.fill_null(-1).to_numpy()
    known = pd.CategoricalDtype(coded.dictionary.take(places).to_pylist())
    return pd.Categorical.from_codes(np.append(ranks, -1)[codes], dtype=known)


def series_of(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], Series]]:
    """Each series of the rows under (interface, scope, direction, kind), sorted by them.

    Those four are columns of ``categories``; ts_kind, ts_ns, count, bits and value are looked at.
    """
    columns = {name: rows[name].to_numpy() for name in ("ts_ns", "count", "bits", "value")}
    columns["grid"] = (rows["ts_kind"] == "grid").to_numpy()
    for key, every in _groups(rows):
        places, times = every, columns["ts_ns"][every]
        if not (times[1:] > times[:-1]).all():
            places = places[np.argsort(times, kind="stable")]
            times = columns["ts_ns"][places]
            places = places[np.append(True, times[1:] != times[:-1])]
            times = columns["ts_ns"][places]
        own = (columns[name][places] for name in ("count", "bits", "grid", "value"))
        yield key, Series(times, *own)


def _groups(rows: pd.DataFrame) -> Iterator[tuple[tuple[str, ...], Ints]]:
    """The places of the rows of each series, in the order of the rows."""
    number = np.zeros(len(rows), dtype=np.int64)
    named = np.ones(len(rows), dtype=bool)
    for name in _PORT:
        codes = rows[name].cat.codes.to_numpy()
        number = number * len(rows[name].cat.categories) + codes
        named &= codes >= 0
    order = np.flatnonzero(named)
    if not len(order):
        return
    order = order[np.argsort(number[order], kind="stable")]
    bounds = np.flatnonzero(np.diff(number[order])) + 1
    for places in np.split(order, bounds):
        yield tuple(str(rows[name].iloc[places[0]]) for name in _PORT), places
