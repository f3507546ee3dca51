"""What the leaf switch's ports carried while the reconstructed runs went on.

The waveforms follow the articles' descriptions, not a network model: prefill is a plateau, decode
a floor with thin spikes, mixed load swings with the share of time that the engine model spends on
prefill. Their levels are the printed link utilisations; levels that were not printed are scaled
from those that were. Ports differ by the printed rail skew, directions by a fifth of a per cent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from servebook.explain.reconstruct.condition import GOLDEN, even

__all__ = ["Counters", "Levels", "Watched", "counters", "utilisation"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

IDLE = 2e-4  # share of a link that keep-alives and telemetry take
_RIPPLE = 4e-3  # of a plateau, peak to peak
_SPIKE_EVERY = 11  # polls between two thin spikes of a decode run
_INSIDE = 0.05  # of a run's time at each end in which a client ramps up or drains
_DIRECTIONS = 2e-3  # by which one direction of a rail carries more than the other


@dataclass(frozen=True)
class Levels:
    """Link utilisation of one run as fractions: usual, peak, floor; the sides of a swing."""

    usual: float
    peak: float
    floor: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Watched:
    """A run beside the counters: its time, its levels, and when the engine prefilled."""

    start_s: float
    end_s: float
    workload: str
    levels: Levels
    prefill_s: Floats = field(default_factory=lambda: np.empty((0, 2)))  # begin and end of steps


@dataclass(frozen=True)
class Counters:
    """Octet counters of a leaf: ``polled_ns`` (n), and per port and direction n readings."""

    polled_ns: Ints
    octets: Mapping[tuple[str, str], Ints]  # (interface, "rx" or "tx" as the leaf sees it)


def utilisation(edges_s: Floats, runs: Sequence[Watched]) -> Floats:
    """Mean utilisation of a link in each interval between two polls."""
    level = np.full(len(edges_s) - 1, IDLE)
    begin, end = edges_s[:-1], edges_s[1:]
    for run in runs:
        inside = np.clip(np.minimum(end, run.end_s) - np.maximum(begin, run.start_s), 0, None)
        share = inside / (end - begin)
        touched = np.flatnonzero(share)
        trim = _INSIDE * (run.end_s - run.start_s)
        middle = (begin[touched] >= run.start_s + trim) & (end[touched] <= run.end_s - trim)
        shape = _SHAPES[run.workload](run, begin[touched], end[touched], middle)
        level[touched] += (shape - IDLE) * share[touched]
    return level


def _plateau(run: Watched, begin: Floats, _end: Floats, middle: npt.NDArray[np.bool_]) -> Floats:
    wave: Floats = run.levels.usual * (1 + _RIPPLE * (even(len(begin)) - 0.5))
    peak = np.flatnonzero(middle)
    wave[peak[len(peak) // 2] if len(peak) else 0] = run.levels.peak
    return wave


def _spikes(run: Watched, begin: Floats, _end: Floats, middle: npt.NDArray[np.bool_]) -> Floats:
    floor = run.levels.floor or run.levels.usual * (1 - _RIPPLE / 2)
    wave = floor * (1 + _RIPPLE * even(len(begin)))
    spikes = np.arange(_SPIKE_EVERY // 2, len(begin), _SPIKE_EVERY)
    wave[spikes] = floor + (run.levels.peak - floor) * (0.4 + 0.4 * even(len(spikes)))
    tallest = spikes[middle[spikes]]
    if len(tallest):
        wave[tallest[len(tallest) // 2]] = run.levels.peak
    lowest = np.setdiff1d(np.flatnonzero(middle), spikes)
    if len(lowest):
        wave[lowest[len(lowest) // 3]] = floor
    return wave


def _swing(run: Watched, begin: Floats, end: Floats, middle: npt.NDArray[np.bool_]) -> Floats:
    """Rank the intervals by their share of prefill and give them levels between the sides."""
    low, high = run.levels.low or 0.0, run.levels.high or run.levels.peak
    starts, stops = run.prefill_s[:, 0], run.prefill_s[:, 1]

    def before(at: Floats) -> Floats:
        done = np.concatenate([[0.0], np.cumsum(stops - starts)])
        index = np.searchsorted(starts, at)
        over = np.clip(stops[np.maximum(index - 1, 0)] - at, 0, None) if len(stops) else 0.0
        return done[index] - np.where(index > 0, over, 0.0)

    share = before(end) - before(begin) + 1e-9 * even(len(begin))
    ordered = np.sort(share[middle]) if middle.any() else np.sort(share)
    rank = np.searchsorted(ordered, share, "right") / len(ordered)
    # the usual level is the median of what stands out of idle: a tenth of the peak and above
    below = 0.1 + max(0.1 * run.levels.peak - low, 0.0) / (run.levels.usual - low) * 0.46
    knots = [0.0, 0.1, (1 + below) / 2, 0.95, 1.0]
    return np.interp(rank, knots, [0.9 * low, low, run.levels.usual, high, run.levels.peak])


_SHAPES = {"prefill": _plateau, "decode": _spikes, "mixed": _swing}


def counters(
    edges_s: Floats,
    level: Floats,
    *,
    start_ns: int,
    rails: int,
    speed_bps: float,
    skew: float,
    reset: tuple[str, int] | None = None,
) -> Counters:
    """Readings of a leaf with two servers of ``rails`` uplinks each, one rail to its like.

    What server 1 sends on a rail is what server 2 receives on it: the leaf adds and drops nothing.
    ``skew`` is the highest over the lowest rail; ``reset`` clears one interface before a poll.
    """
    spread = 2 * (skew - 1) / (skew + 1)
    order = np.argsort(even(rails), kind="stable").argsort(kind="stable")
    factors = 1 + spread * (order / max(rails - 1, 1) - 0.5)
    polled = start_ns + np.rint(edges_s * 1e9).astype(np.int64)
    seconds = np.diff(polled) / 1e9
    octets: dict[tuple[str, str], Ints] = {}
    for rail in range(rails):
        lean = _DIRECTIONS * (1 if rail % 2 else -1) / 2
        flows = [
            np.rint(level * factors[rail] * (1 + sign * lean) * speed_bps / 8 * seconds)
            for sign in (1, -1)
        ]
        for server, ways in ((1, ("rx", "tx")), (2, ("tx", "rx"))):
            name = f"Ethernet{server}/{rail + 1}"
            for way, flow in zip(ways, flows, strict=True):
                first = round(4e14 * ((server * rails + rail + (way == "tx") / 2) * GOLDEN % 1))
                readings = first + np.concatenate([[0], np.cumsum(flow.astype(np.int64))])
                if reset and reset[0] == name:
                    readings[reset[1] :] -= readings[reset[1] - 1]
                octets[name, way] = readings
    return Counters(polled, octets)
