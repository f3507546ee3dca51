"""One glossary: metrics and the statistics that are made of them, each with its definition.

``GLOSSARY`` holds ``METRICS`` and below them what intervals, tests and windows are called on the
page. Tables, notes and the JSON take definitions from here, so that one word means one thing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from servebook.measure.limits import (
    BUNCHED_SHARE,
    CONFIDENCE,
    HELD,
    LATE_SHARE,
    LEAST_BLOCKS,
    LEAST_FOR_INTERVAL,
    LEAST_WAVES,
    MARGIN,
    PLATEAU_SHARE,
    POWER,
    SHIFT,
)
from servebook.measure.metrics import METRICS, Metric

__all__ = ["GLOSSARY", "STATISTICS", "entry", "meaning"]

_RUNS = "values of whole runs"
_RECORDS = "recomputed from the client's per-request records"
_CURVE = "one value per condition"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:g} %"


_STATISTICS: Mapping[str, tuple[str, str, str, str]] = {
    "ratio": (
        "Ratio",
        "ratio",
        "geometric mean over the runs of one side / that of the other, at one condition",
        _RUNS,
    ),
    "ratio_interval": (
        "Interval of a ratio",
        "ratio",
        (
            f"{_percent(CONFIDENCE)} interval of the ratio: Welch's t on the logarithms of the "
            "runs' values, with fewer degrees of freedom than Satterthwaite's where the sides "
            "differ in their number of runs; none where a side has one run"
        ),
        _RUNS,
    ),
    "detectable": (
        "Detectable difference",
        "fraction",
        (
            f"the smallest true difference that so many runs find in {_percent(POWER)} of all "
            "campaigns, if they scatter as they did (noncentral t)"
        ),
        _RUNS,
    ),
    "no_effect": (
        "No effect larger than",
        "fraction",
        (
            "the smallest margin within which two one-sided tests at 5 % call both sides the same; "
            f"equivalence is stated against {_percent(MARGIN)}"
        ),
        _RUNS,
    ),
    "scatter": (
        "Scatter",
        "fraction",
        (
            "standard deviation of the logarithms over runs of one condition, about the "
            "coefficient of variation; its interval is from the chi-square distribution"
        ),
        _RUNS,
    ),
    "within_run": (
        "Within this run",
        "that of the value",
        (
            f"{_percent(CONFIDENCE)} percentile interval of a bootstrap of blocks of time, each at "
            f"least a mean request long, from {LEAST_BLOCKS} blocks on; never of a comparison"
        ),
        _RECORDS,
    ),
    "steady_window": (
        "Steady window",
        "s",
        (
            "from the first to the last moment at which the set concurrency is in flight; shifted "
            f"by {_percent(SHIFT)} of its length for its sensitivity"
        ),
        _RECORDS,
    ),
    "wave": (
        "Wave",
        "requests",
        f"as many requests as are in flight; fewer than {LEAST_WAVES:g} are flagged",
        _RECORDS,
    ),
    "held": (
        "Load held",
        "word",
        f"mean requests in flight are at least {_percent(HELD)} of the set concurrency",
        _RECORDS,
    ),
    "late": (
        "Sent late",
        "word",
        f"mean delay between due and sent exceeds {_percent(LATE_SHARE)} of the mean TTFT",
        _RECORDS,
    ),
    "bunched": (
        "Read in bunches",
        "word",
        f"more than {_percent(BUNCHED_SHARE)} of the gaps have length 0",
        _RECORDS,
    ),
    "knee_share": (
        "Knee by share of plateau",
        "requests in flight",
        f"lowest load with {_percent(PLATEAU_SHARE)} of the highest throughput",
        _CURVE,
    ),
    "knee_bend": (
        "Knee by curvature",
        "requests in flight",
        "load farthest above the chord from first throughput to the peak's, both axes logarithmic",
        _CURVE,
    ),
    "knee_little": (
        "Knee by Little's law (N*)",
        "requests in flight",
        "highest request rate x latency at the lowest load: where the two asymptotes cross",
        _CURVE,
    ),
    "matched": (
        "At equal running batch",
        "ratio",
        (
            "TPOT of one side at a batch that it measured / TPOT of the other, interpolated on the "
            "log scale between batches that the other measured; never beyond them"
        ),
        _CURVE,
    ),
    "network_slope": (
        "Slope of the network cost",
        "B/token",
        (
            "least-squares slope of the links' rate over tokens/s, one point per condition; t "
            f"interval of the regression from {LEAST_FOR_INTERVAL} conditions on"
        ),
        "counters beside runs",
    ),
    "network_floor": (
        "Floor of the network cost",
        "bit/s",
        "that line at no load: an extrapolation",
        "counters beside runs",
    ),
}

STATISTICS: Mapping[str, Metric] = {
    name: Metric(name, label, unit, "", definition, source)
    for name, (label, unit, definition, source) in _STATISTICS.items()
}

GLOSSARY: Mapping[str, Metric] = {**METRICS, **STATISTICS}

#: What tables call an entry by, other than its label.
_ALSO: Mapping[str, str] = {
    "input tokens/s": "input_throughput_tok_s",
    "output tokens/s": "output_throughput_tok_s",
    "total tokens/s": "total_throughput_tok_s",
    "requests/s": "request_throughput_req_s",
    "ok requests": "n_ok",
    "gaps": "n_gaps",
    "input tokens": "isl_mean",
    "output tokens": "osl_mean",
    "stalls": "n_stalls",
    "stalls inside requests": "inside_stall_fraction",
    "stalls (% of gaps)": "stall_fraction_of_gaps",
    "expected (% of gaps)": "expected_stall_frequency",
    "time in stalls": "stall_share_of_decode_time",
    "slow shared steps": "slow_fraction_of_gaps",
    "time lost in shared steps": "slow_share_of_decode_time",
    "stalled steps (% of steps)": "stall_fraction_of_steps",
    "after own first token": "first_stall_fraction",
    "p99 / median": "itl_p99_over_p50",
    "largest undetectable": "detectable",
    "waves": "wave",
}
_UNIT = re.compile(r"\s*\([^()]*\)$")
_BY_LABEL: dict[str, str] = {}
for _name, _entry in GLOSSARY.items():
    _BY_LABEL.setdefault(_entry.label.lower(), _name)


def entry(column: str) -> Metric | None:
    """The entry that a table's column shows, by its label, with or without its unit in brackets.

    None for columns that no entry defines: what identifies a row, or a figure's own.
    """
    full = " ".join(column.split()).lower()
    for name in (full, _UNIT.sub("", full)):
        known = _ALSO.get(name) or _BY_LABEL.get(name)
        if known is not None and known in GLOSSARY:
            return GLOSSARY[known]
    return None


def meaning(column: str) -> str:
    """The definition behind a table's column, for its tooltip; empty where none is known."""
    found = entry(column)
    return "" if found is None else f"{found.label}: {found.definition} ({found.source})"
