"""A large reply of the Prometheus API, series by series: its pairs of time and value in columns.

As lists of Python a pair takes some 250 bytes, in columns 16 where all values are whole numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servebook.errors import DumpError
from servebook.read.json_inside import objects_inside

__all__ = ["LARGE_BYTES", "Pairs", "large_reply", "on_grid"]

#: A file above this is read series by series.
LARGE_BYTES = 16 << 20
_WITHIN = 1 << 60  # what is beyond is no time of any year


class Pairs:
    """(ms, printed value) of one series."""

    def __init__(self, times: Sequence[int], values: Sequence[str]) -> None:
        within = array("q", (min(max(at, -_WITHIN), _WITHIN) for at in times))
        self.ms: npt.NDArray[np.int64] = np.frombuffer(within, np.int64)
        whole = all(map(_is_whole, values))
        numbers = array("q", map(int, values)) if whole else None
        self._values: npt.NDArray[np.int64] | pa.Array = (
            np.frombuffer(numbers, np.int64)
            if numbers is not None
            # Half of a pair of surrogates is no text, and no number either.
            else pa.array([one.encode("utf-8", "replace").decode() for one in values], pa.string())
        )

    def __len__(self) -> int:
        return len(self.ms)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        values = self._values
        texts = values.to_pylist() if isinstance(values, pa.Array) else map(str, values.tolist())
        return zip(self.ms.tolist(), texts, strict=True)


def _is_whole(text: str) -> bool:
    """Whether ``str(int(text))`` is the same, and fits."""
    return len(text) < 19 and text.isdigit() and text.isascii() and (text[0] != "0" or text == "0")


def large_reply(where: str, path: Path, pairs_of: Callable[[Any], list[tuple[int, str]]]) -> Any:
    """The one reply in a file, its lists of pairs as ``Pairs``.

    ``pairs_of`` gives those of a series. Raises DumpError for what is not one JSON value.
    """

    def packed(entry: Any) -> Any:
        if not isinstance(entry, dict) or not isinstance(entry.get("values"), list):
            return entry
        pairs = pairs_of(entry)
        entry["values"] = Pairs([at for at, _ in pairs], [value for _, value in pairs])
        return entry

    places = {("data", "result"): packed, ("result",): packed}
    found = list(objects_inside(path, places))
    if len(found) != 1 or found[0][2] is not None:
        reason = next((reason for *_, reason in found if reason), f"{len(found)} values")
        raise DumpError(
            where, "one reply of the Prometheus API", reason, "save the query's reply again"
        )
    return found[0][1]


def on_grid(series: Sequence[Pairs]) -> bool:
    """True where all times of all series lie on one grid of their smallest spacing."""
    times = [own.ms for own in series if len(own)]
    step = min((int(np.diff(own).min()) for own in times if len(own) > 1), default=0)
    if step <= 0:
        return False
    first = min(int(own.min()) for own in times)
    return not any(((own - first) % step).any() for own in times)
