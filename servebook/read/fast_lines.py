"""Record lines decoded in batches, their long list of gaps apart from the rest.

Nine tenths of a token-level record are the numbers of ``inter_chunk_latency``. Where a line has the
form that AIPerf writes, this list is cut out, many lists are turned into numbers at once, and only
the rest goes through the JSON parser. A line with anything unusual (an escape, a space, a number of
another form, the name of the list a second time) is decoded as a whole, and so is every line that
is no record: what comes out is the same, and so are the words about what cannot be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from servebook.read.fast_numbers import ns_of_ms

__all__ = ["Decoded", "decoded"]

_NAME = b"inter_chunk_latency"
_BEFORE = b'"inter_chunk_latency":{"value":['
_STAND_IN = "@gaps@"
_STAND_IN_JSON = b'"@gaps@"'
_BATCH_BYTES = 1 << 17  # what is worked on stays in the processor's cache
_MOST_BYTES = 1_000_000  # of one list; see ``ns_of_ms``

Ints = npt.NDArray[np.int64]
#: Line number, line, and where it could be decoded apart: the record and its gaps in ns.
Decoded = tuple[int, bytes, Mapping[str, Any] | None, Ints | None]


def decoded(lines: Iterable[tuple[int, bytes]]) -> Iterator[Decoded]:
    """Each numbered line in order; with record and gaps where it has the usual form."""
    batch: list[tuple[int, bytes, dict[str, Any] | None, bytes]] = []
    size = 0
    for at, line in lines:
        record, text = _apart(line)
        batch.append((at, line, record, text))
        size += len(text)
        if size >= _BATCH_BYTES or len(batch) >= 1024:
            yield from _with_gaps(batch)
            batch, size = [], 0
    yield from _with_gaps(batch)


def _with_gaps(batch: list[tuple[int, bytes, dict[str, Any] | None, bytes]]) -> Iterator[Decoded]:
    texts = [text for _, _, record, text in batch if record is not None]
    at_once = ns_of_ms(texts) if texts else []
    found: list[Ints | None] = list(at_once or [])
    if at_once is None:  # one of them is unusual: find out which
        for text in texts:
            alone = ns_of_ms([text])
            found.append(None if alone is None else alone[0])
    left = iter(found)
    for at, line, record, _ in batch:
        gaps = next(left) if record is not None else None
        yield at, line, None if gaps is None else record, gaps


def _apart(line: bytes) -> tuple[dict[str, Any] | None, bytes]:
    """The record without its gaps, and their text; None where the line has another form."""
    start = line.find(_BEFORE)
    if start < 0:
        return None, b""
    start += len(_BEFORE)
    end = line.find(b"]", start)
    if not start < end <= start + _MOST_BYTES:
        return None, b""
    rest = b"".join((line[: start - 1], _STAND_IN_JSON, line[end + 1 :]))
    # Without a backslash, no name is spelled in another way, and no string holds a quote.
    if b"\\" in rest or rest.count(_NAME) != 1 or rest.count(_STAND_IN_JSON) != 1:
        return None, b""
    try:
        record = orjson.loads(rest)
        metric = record["metrics"]["inter_chunk_latency"]
        if metric["value"] != _STAND_IN or metric["unit"] != "ms":
            return None, b""
    except (ValueError, KeyError, TypeError, IndexError):
        return None, b""
    return record, line[start:end]
