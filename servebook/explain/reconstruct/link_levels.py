"""Levels of the wire for each run, from the printed link utilisations.

A level without a printed condition belongs to the workload's run with the highest concurrency of
that configuration (a plateau: to all its runs); floors belong to their own concurrency. What was
not printed for a run is scaled from what was: decode runs by the straight line through the printed
floors over output rate, mixed runs without levels by the ratio of the prefill plateaus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from csv import DictReader
from pathlib import Path

from servebook.errors import DumpError
from servebook.explain.reconstruct.plan import PUBLISHED, Planned
from servebook.explain.reconstruct.wire import Levels

__all__ = ["levels"]

_STATS = {
    "usual": "usual",
    "usual (plateau)": "usual",
    "peak": "peak",
    "floor": "floor",
    "low side of the oscillation": "low",
    "high side of the oscillation": "high",
}
#: Shapes of the article that printed them, relative to the usual level, where another prints none.
_PEAK = {"prefill": 7.5 / 6.3, "decode": 2.4 / 1.75}
_SWING = {"usual": 2.5 / 6.3, "peak": 6.2 / 6.3, "low": 0.5 / 6.3, "high": 6.0 / 6.3}
_DECODE_LINE = (0.655, 5.23e-4)  # floor in % = a + b x tokens/s, fitted to 1.00, 1.25 and 1.75 %
_PLATEAU_MARGIN = 0.002  # by which a decode run's usual level stands above its floor


def levels(
    campaign: Path, plan: Sequence[Planned], configurations: Sequence[str]
) -> dict[str, Levels]:
    """Levels of each run of the configurations, by run; fractions of the link's speed."""
    printed = _printed(campaign)
    chosen: dict[str, Levels] = {}
    for configuration in configurations:
        own = [p for p in plan if p.condition.configuration == configuration]
        for workload, build in (("prefill", _prefill), ("decode", _decode), ("mixed", _mixed)):
            runs = [p for p in own if p.condition.workload == workload]
            try:
                chosen |= build(runs, configuration, printed) if runs else {}
            except KeyError as error:
                lacking = f"{configuration}, {workload} ({error})"
                raise DumpError(
                    campaign / PUBLISHED,
                    "the printed link utilisation of every watched configuration",
                    f"none of {lacking}",
                    "add its row, or take the configuration out of 'watched'",
                ) from None
    return chosen


Printed = Mapping[tuple[str, str, str], Mapping[str, float]]


def _printed(campaign: Path) -> dict[tuple[str, str, str], dict[str, float]]:
    """Fractions by (configuration, workload, concurrency or ""), then by kind of level."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    with (campaign / PUBLISHED).open(newline="", encoding="utf-8") as file:
        for line, row in enumerate(DictReader(file), start=2):
            if row["metric"] == "link_utilisation" and row.get("kind") == "measured":
                key = (
                    row.get("configuration") or "",
                    row.get("workload") or "",
                    row.get("concurrency") or "",
                )
                kind = _STATS.get(row["stat"])
                name = kind or (row["stat"] if "port" in row["stat"] else None)
                if name:
                    found.setdefault(key, {})[name] = _fraction(row["value"], campaign, line)
    return found


def _fraction(text: str, campaign: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 100:
        raise DumpError(
            campaign / PUBLISHED,
            "a link utilisation above 0 and up to 100 %",
            ascii(text)[:40],
            "correct the row",
            line=line,
        )
    return value / 100


def _prefill(runs: Sequence[Planned], configuration: str, printed: Printed) -> dict[str, Levels]:
    own = printed[configuration, "prefill", ""]
    ports = _ports(own)
    usual = sum(ports) / len(ports) if ports else own["usual"]
    peak = own.get("peak", usual * (1 + (_PEAK["prefill"] - 1) / 2))
    peak *= _mean_of_highest(configuration, printed)
    fullest = max(runs, key=lambda p: p.condition.targets.get("input_throughput", 0.0))
    return {
        p.condition.run: Levels(usual, peak if p is fullest else (usual + peak) / 2) for p in runs
    }


def _decode(runs: Sequence[Planned], configuration: str, printed: Printed) -> dict[str, Levels]:
    own = printed[configuration, "decode", ""]
    top = max(runs, key=lambda p: p.condition.concurrency)
    share = own.get("peak", own["usual"] * _PEAK["decode"]) / own["usual"]
    share *= _mean_of_highest(configuration, printed)
    found = {}
    for p in runs:
        floor = printed.get((configuration, "decode", str(p.condition.concurrency)), {}).get(
            "floor"
        )
        if floor is None:
            floor = own["usual"] * _line(p) / _line(top) * (1 - _PLATEAU_MARGIN)
        usual = floor * (1 + _PLATEAU_MARGIN)
        peak = own["usual"] * share if p is top else usual * share
        found[p.condition.run] = Levels(usual, peak, floor=floor)
    return found


def _mixed(runs: Sequence[Planned], configuration: str, printed: Printed) -> dict[str, Levels]:
    own = printed.get((configuration, "mixed", ""))
    if own is None:
        plateau = printed[configuration, "prefill", ""]["usual"]
        own = {kind: ratio * plateau for kind, ratio in _SWING.items()}
    peak = own["peak"] * _mean_of_highest(configuration, printed)
    level = Levels(own["usual"], peak, low=own["low"], high=own["high"])
    return {p.condition.run: level for p in runs}


def _ports(own: Mapping[str, float]) -> list[float]:
    return [value for kind, value in own.items() if "port" in kind]


def _mean_of_highest(configuration: str, printed: Printed) -> float:
    """A printed peak is the highest port's: the mean port's share of it, by the printed skew."""
    ports = _ports(printed[configuration, "prefill", ""])
    return sum(ports) / len(ports) / max(ports) if ports else 1.0


def _line(planned: Planned) -> float:
    offset, slope = _DECODE_LINE
    return offset + slope * planned.condition.targets.get("output_throughput", 0.0)
