"""Gates and limits of the manifest: what `servebook check` holds a campaign to.

A limit (`slos`) is named after a latency: ``ttft_ms`` is one for each request, ``ttft_p99_ms`` one
for a statistic of all. A gate is a bound on any metric, for the conditions that it selects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from servebook.read.manifest_kinds import REFERENCE, TEXT, At, choice, number, whole
from servebook.read.manifest_pattern import nearest
from servebook.read.manifest_record import key

__all__ = ["SLO_NAMES", "ManifestGate", "check_gates", "check_slos", "slo_parts"]

_FAMILIES = ("ttft", "tpot", "itl", "e2e")
_STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")

#: The names that a limit can have: of each request, then of a statistic over all.
SLO_NAMES: tuple[str, ...] = (
    *(f"{family}_ms" for family in _FAMILIES),
    *(f"{family}_{statistic}_ms" for family in _FAMILIES for statistic in _STATISTICS),
    "itl_p999_ms",
)

_SLO = re.compile(r"(ttft|tpot|itl|e2e)(?:_(\w+))?_ms")


@dataclass(frozen=True)
class ManifestGate:
    """A bound on a metric, for the conditions that it selects."""

    line: int = field(repr=False)
    metric: str = key(TEXT, "name of the metric (list below)", required=True)
    name: str | None = key(TEXT, "what the gate is called in reports (default: the metric)")
    at_most: float | None = key(number(), "highest value that passes, in the metric's unit")
    at_least: float | None = key(number(), "lowest value that passes, in the metric's unit")
    against: str | None = key(TEXT, "path from this folder to a baseline campaign")
    tolerance: float | None = key(
        number(0), "how much worse than the baseline still passes (0.05: 5 %)", "fraction"
    )
    noise: str | None = key(
        choice("fails", "passes"),
        "a loss beyond the tolerance that repeats do not tell from noise (default: fails)",
    )
    configuration: str | None = key(REFERENCE, "only this configuration")
    workload: str | None = key(
        choice("prefill", "decode", "mixed", "other"), "only runs of this load"
    )
    concurrency: int | None = key(whole(1), "only runs with so many requests in flight")
    client: str | None = key(TEXT, "only runs of this client, as `servebook inspect` names it")


def slo_parts(name: str) -> tuple[str, str]:
    """Family and statistic of a limit's name; the statistic is empty for one of each request.

    >>> slo_parts("ttft_p99_ms"), slo_parts("itl_ms")
    (('ttft', 'p99'), ('itl', ''))
    """
    found = _SLO.fullmatch(name)
    if found is None:
        raise ValueError(f"no name of a limit: {name}")
    return found[1], found[2] or ""


def check_slos(slos: Mapping[str, float], at: At, line: int | None) -> None:
    """Raise ManifestError for a limit that no latency has."""
    for name in slos:
        if name not in SLO_NAMES:
            raise at.error(
                line,
                "limits named like ttft_ms (of each request) or ttft_p99_ms (of all)",
                f"`{name}`",
                nearest(name, SLO_NAMES),
            )


def check_gates(gates: Iterable[ManifestGate], at: At) -> None:
    """Raise ManifestError for a gate that has no bound, or keys that do not go together."""
    for index, gate in enumerate(gates):
        here = at.item(index)
        if gate.at_most is None and gate.at_least is None and gate.against is None:
            raise here.error(
                gate.line,
                "a bound: `at_most`, `at_least` or `against`",
                "none",
                "say which values of the metric pass",
            )
        if gate.at_most is not None and gate.at_least is not None and gate.at_most < gate.at_least:
            raise here.error(
                gate.line,
                "`at_most` not below `at_least`",
                f"{gate.at_most:g} and {gate.at_least:g}",
                "no value could pass: correct one of them",
            )
        stray = [n for n in ("tolerance", "noise") if getattr(gate, n) is not None]
        if stray and gate.against is None:
            raise here.error(
                gate.line,
                f"`{stray[0]}` beside `against` only",
                "no `against`",
                "name the baseline campaign, or remove the key",
            )
