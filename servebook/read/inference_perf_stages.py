"""Tells the stages of an inference-perf run apart, which its records do not name.

Stages follow one another and each drains before the next begins. Where the stages' own reports
count as many requests as there are records, the counts divide them; where records are missing, the
longest pauses do. Either way the division is believed only if every request's latency lies inside
the range that the report of its stage states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servebook.read.inference_perf_records import Call
from servebook.read.values import number, object_of, whole

__all__ = ["Numbered", "count_of", "divided"]

Numbered = tuple[int, Call]
_TOLERANCE_S = 1e-5


def count_of(report: Mapping[str, Any]) -> int | None:
    """The requests of a stage, failed ones included, by its report."""
    count = whole(object_of(report.get("load_summary")).get("count"))
    if count is None:
        done = whole(object_of(report.get("successes")).get("count"))
        failed = whole(object_of(report.get("failures")).get("count"))
        count = None if done is None or failed is None else done + failed
    return count


def divided(
    calls: Sequence[Numbered], reports: Mapping[int, Mapping[str, Any]], asked: Sequence[int | None]
) -> tuple[dict[int, list[Numbered]] | None, str | None]:
    """The requests of each stage by the stage's number, or None and why they cannot be told.

    ``reports`` are the stages' own; ``asked`` the number of requests of each stage by the
    configuration, used where there are no reports. One stage needs no division.
    """
    order = sorted(calls, key=lambda call: call[1].start_s)  # equal ones stay in file order
    if len(reports) == 1 or (not reports and len(asked) <= 1):
        return {next(iter(reports), 0): list(order)}, None
    if reports:
        stages = sorted(reports)
        counts = [count_of(reports[stage]) for stage in stages]
    else:
        stages, counts = list(range(len(asked))), list(asked)
    for cuts in (_by_count(order, counts), _by_pause(order, len(stages))):
        if cuts is None:
            continue
        parts = {
            stage: order[start:end]
            for stage, start, end in zip(stages, [0, *cuts], [*cuts, len(order)], strict=True)
        }
        if all(_fits(parts[stage], reports.get(stage)) for stage in stages):
            return parts, None
    told = "the reports of the stages" if reports else "the configuration"
    return None, (
        f"the records do not name their stage, and {told} do not match them: all "
        f"{len(stages)} stages are taken together"
    )


def _by_count(order: Sequence[Numbered], counts: Sequence[int | None]) -> list[int] | None:
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or sum(known) != len(order):
        return None
    ends = [sum(known[: i + 1]) for i in range(len(known))]
    return ends[:-1]


def _by_pause(order: Sequence[Numbered], n: int) -> list[int] | None:
    """Positions after the n - 1 longest times without any request in flight."""
    pauses = []
    busy = float("-inf")
    for position, (_, call) in enumerate(order):
        if position and call.start_s > busy:
            pauses.append((call.start_s - busy, position))
        busy = max(busy, call.close_s)
    if len(pauses) < n - 1:
        return None
    return sorted(position for _, position in sorted(pauses, reverse=True)[: n - 1])


def _fits(calls: Sequence[Numbered], report: Mapping[str, Any] | None) -> bool:
    """Whether the requests can be those of the report: no more of them, none slower or faster."""
    if report is None:
        return True
    count = count_of(report)
    if count is not None and len(calls) > count:
        return False
    latency = object_of(object_of(report.get("successes")).get("latency"))
    stated = object_of(latency.get("request_latency"))
    low, high = number(stated.get("min")), number(stated.get("max"))
    took: list[float] = [call.close_s - call.start_s for _, call in calls if call.status == "ok"]
    if low is None or high is None or not took:
        return True
    return low - _TOLERANCE_S <= min(took) and max(took) <= high + _TOLERANCE_S
