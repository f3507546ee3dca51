"""Some seconds of a run as blocks: lanes that do the same at the same time, on a fine grid.

However long the run, a window holds a bounded number of blocks: it is halved until they fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.stall_digest import SURROUNDINGS_NS, StallDigest

__all__ = ["GRID", "MOST_LANES", "OVER", "Window", "window"]

#: Steps over the window, half a pixel each: times are drawn on this grid, stalls never narrower.
GRID = 1280
#: With more requests in flight lanes are too thin to read; they are then cut off.
MOST_LANES = 32
_LEAST_NS = 2e6
#: What lies over decode, and is a part of it.
OVER = ("stall", "link", "unexplained")


@dataclass(frozen=True)
class Window:
    """A window of one run.

    ``blocks``: kind, a, b (lanes), t0, t1 (grid steps since ``begin_ns``), decode before stalls.
    ``around`` is the ``busiest_step`` in its middle, None where the run has none.
    """

    run_id: str
    begin_ns: float
    end_ns: float
    n_lanes: int
    blocks: pd.DataFrame
    around: dict[str, Any] | None

    @property
    def step_ns(self) -> float:
        """How long a step of the grid is."""
        return (self.end_ns - self.begin_ns) / GRID

    @property
    def kinds(self) -> set[str]:
        """The kinds that occur."""
        return set(self.blocks["kind"])

    @property
    def time_ms(self) -> dict[str, float]:
        """The time of all lanes by kind, as drawn."""
        b = self.blocks
        each = (b["t1"] - b["t0"]) * (b["b"] - b["a"]) * self.step_ns / 1e6
        return {str(kind): float(ms) for kind, ms in each.groupby(b["kind"]).sum().items()}


def window(one: StallDigest, most_blocks: int) -> Window:
    """The window of a run around its busiest step, else around its middle.

    It begins with two seconds and is halved until it holds at most ``most_blocks``.
    """
    middle, every = one.middle_ns, one.segments
    half = SURROUNDINGS_NS / 2
    while True:
        begin = max(0.0, middle - half)
        found = every.assign(
            t0_ns=every["t0_ns"].clip(lower=begin),
            t1_ns=every["t1_ns"].clip(upper=begin + 2 * half),
        )
        found = found[found["t1_ns"] > found["t0_ns"]]
        n_lanes = min(int(found["lane"].max()) + 1 if len(found) else 1, MOST_LANES)
        blocks = _merged(found[found["lane"] < n_lanes], begin, 2 * half / GRID)
        if len(blocks) <= most_blocks or half < _LEAST_NS / 2:
            return Window(
                one.run_id,
                begin,
                begin + 2 * half,
                n_lanes,
                blocks.head(most_blocks),
                one.around,
            )
        half /= 2


def _merged(found: pd.DataFrame, zero: float, grid: float) -> pd.DataFrame:
    """Segments on the grid; neighbouring lanes with the same segment are one block."""
    over = found["kind"].isin(OVER)
    a = np.rint((found["t0_ns"] - zero) / grid).astype(int)
    b = np.rint((found["t1_ns"] - zero) / grid).astype(int)
    b = b.where(~over, np.maximum(b, a + 1))
    rows = found.assign(a=a, b=b, over=over)[b > a]
    rows = rows.sort_values(["over", "a", "b", "kind", "lane"], kind="stable")
    same = (rows[["a", "b", "kind"]] == rows[["a", "b", "kind"]].shift()).all(axis=1)
    block = (~(same & (rows["lane"] == rows["lane"].shift() + 1))).cumsum()
    first = rows.groupby(block)
    return pd.DataFrame(
        {
            "kind": first["kind"].first(),
            "a": first["lane"].first(),
            "b": first["lane"].last() + 1,
            "t0": first["a"].first(),
            "t1": first["b"].first(),
        }
    ).reset_index(drop=True)
