"""Gates: whether each condition of a campaign keeps the bounds that its manifest states.

A gate passes only on evidence. A value that is not there, a percentile of fewer values than its
floor (``percentiles``), a baseline without the condition: all are "not measured", which fails.
Repeats of a condition are judged one by one; the worst of them is what counts. Against a baseline
the geometric means over runs are compared, with Welch's interval where both sides have repeats.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from servebook.errors import ManifestError
from servebook.measure.metrics import METRICS, VALUES
from servebook.measure.percentiles import below_floor, floor
from servebook.measure.ratio import Ratio, ratio
from servebook.read.manifest import Manifest, ManifestGate
from servebook.read.manifest_gates import slo_parts
from servebook.read.manifest_pattern import nearest

__all__ = ["EXTRA", "GATED", "Bound", "Result", "bounds", "evaluate"]

#: Metrics of gates that are none of ``METRICS``: label, unit, which values are better.
EXTRA: dict[str, tuple[str, str, str]] = {
    "goodput_fraction": ("Requests within all limits", "fraction", "higher"),
    "goodput_req_s": ("Goodput", "requests/s", "higher"),
    "error_fraction": ("Failed, cancelled and lost requests", "fraction", "lower"),
    "output_per_gpu_tok_s": ("Output throughput per GPU", "tokens/s", "higher"),
    "link_usual_util_fraction": ("Usual use of a link", "fraction", "lower"),
    "link_peak_util_fraction": ("Peak use of a link", "fraction", "lower"),
}
#: All metrics that a gate can be about.
GATED: tuple[str, ...] = (*(m.name for m in VALUES), *EXTRA)

CONDITION = ("configuration", "client", "workload", "isl", "osl", "reuse", "concurrency", "rate")
PASS, FAIL, NOT_MEASURED = "pass", "fail", "not measured"
_STATISTIC = re.compile(r"(ttft|tpot|itl|e2e|ttft_from_scheduled)_p(\d+)_ms")


@dataclass(frozen=True)
class Bound:
    """One gate as it is applied; ``everywhere`` is a limit that selects no condition."""

    gate: ManifestGate
    everywhere: bool = False

    @property
    def metric(self) -> str:
        """The name of its metric."""
        return self.gate.metric

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.gate.name or self.gate.metric


@dataclass(frozen=True)
class Result:
    """What became of a gate at one condition. ``value`` is NaN where nothing was measured."""

    gate: str
    metric: str
    condition: str
    status: str
    value: float
    unit: str
    bound: str
    n_runs: int
    n: int | None  # requests or gaps behind the value, in the run with the fewest; None for links
    reason: str


def unit_of(metric: str) -> str:
    """The unit of a gated metric."""
    return EXTRA[metric][1] if metric in EXTRA else METRICS[metric].unit


def better(metric: str) -> str:
    """Which values of a gated metric are better: "lower", "higher" or "" where neither is."""
    return EXTRA[metric][2] if metric in EXTRA else METRICS[metric].better


def bounds(manifest: Manifest) -> list[Bound]:
    """The gates of a manifest: its limits on statistics, then its gates.

    Raises ManifestError for an unknown metric, for one without a direction that is held against a
    baseline, and where there is nothing to check.
    """
    found = [
        Bound(_from_limit(name, limit), everywhere=True)
        for name, limit in manifest.slos.items()
        if slo_parts(name)[1]
    ]
    for index, gate in enumerate(manifest.gates):
        place = f"at `gates[{index}].metric`"
        if gate.metric not in GATED:
            raise ManifestError(
                manifest.path,
                f"a metric of a gate {place}",
                f"`{gate.metric}`",
                nearest(gate.metric, GATED) + " (docs/manifest.md lists all)",
                line=gate.line,
            )
        if gate.against is not None and not better(gate.metric):
            raise ManifestError(
                manifest.path,
                f"a metric of which less or more is better {place}",
                f"`{gate.metric}`",
                "give it `at_most` or `at_least` instead of `against`",
                line=gate.line,
            )
        found.append(Bound(gate))
    if not found:
        raise ManifestError(
            manifest.path,
            "gates to check",
            "limits of single requests alone" if manifest.slos else "none",
            "add `gates:`, or limits on a statistic such as `slos: {ttft_p99_ms: 2000}` "
            "(docs/manifest.md)",
        )
    return found


def _from_limit(name: str, limit: float) -> ManifestGate:
    none = dict.fromkeys(
        ("at_least", "against", "tolerance", "noise", "configuration", "workload", "concurrency")
    )
    return ManifestGate(
        line=0, metric=name, name=f"slos: {name}", at_most=limit, client=None, **none
    )


def evaluate(
    found: Sequence[Bound], runs: pd.DataFrame, baselines: dict[str, pd.DataFrame | str]
) -> list[Result]:
    """One result per gate, condition and bound, in the order of the gates, then of the conditions.

    ``runs`` has one row per run: the columns of ``run_metrics``, those of ``CONDITION``, the
    metrics of ``EXTRA`` (NaN where unknown) and ``why_<metric>`` with a reason where there is one;
    ``baselines`` holds the same of each baseline by its path, or why it cannot be read.
    """
    results: list[Result] = []
    for bound in found:
        chosen = _chosen(bound.gate, runs)
        groups = [(key, part) for key, part in chosen.groupby("condition", sort=False)]
        applied = [(key, part) for key, part in groups if not _undefined(bound.metric, part)]
        if not applied:
            results.append(_nothing(bound, bool(groups)))
        for key, part in applied:
            if bound.gate.at_most is not None or bound.gate.at_least is not None:
                results.append(_absolute(bound, str(key), part))
            if bound.gate.against is not None:
                results.append(_relative(bound, str(key), part, baselines[bound.gate.against]))
        if bound.gate.against is not None:
            results += _gone(bound, {str(k) for k, _ in groups}, baselines[bound.gate.against])
    return results


def _chosen(gate: ManifestGate, runs: pd.DataFrame) -> pd.DataFrame:
    for name in ("configuration", "workload", "concurrency", "client"):
        wanted = getattr(gate, name)
        if wanted is not None:
            runs = runs[runs[name].eq(wanted).fillna(False).astype(bool)]
    return runs


def _undefined(metric: str, part: pd.DataFrame) -> bool:
    """Whether the metric has no meaning: every answer of these runs is one token by its length."""
    if not metric.startswith(("itl_", "tpot_")):
        return False
    return bool((part["level"].eq("records") & (part["osl_mean"] <= 1)).all())


def _nothing(bound: Bound, some: bool) -> Result:
    why = (
        "every answer of the runs that it selects is one token, so the metric is not defined"
        if some
        else "no run matches what it selects"
    )
    return _result(bound, "all that it selects", NOT_MEASURED, np.nan, 0, None, why)


def _evidence(metric: str, part: pd.DataFrame) -> tuple[int | None, str]:
    """How many values the weakest run rests on, and why the metric is not measured, if so."""
    missing = part[part[metric].isna()]
    if len(missing):
        run = missing.iloc[0]
        told = str(run.get(f"why_{metric}") or "")
        if not told and run["level"] != "records":
            told = "a summary without records: nothing to recompute"
        which = "" if len(missing) == len(part) == 1 else f" in {len(missing)} of {len(part)} runs"
        return None, (told or "the dump does not tell it") + which
    found = _STATISTIC.fullmatch(metric)
    counted = "n_requests" if metric in EXTRA else "n_ok"
    if metric.startswith(("ttft_", "tpot_", "itl_", "e2e_")):
        family = metric.partition("_")[0]
        counted = "n_gaps" if family == "itl" else f"n_{family}"
    least = part[counted].min()
    n = None if pd.isna(least) or metric.startswith("link_") else int(least)
    if found:
        digits = found[2]
        q = float(digits[:2] + ("." + digits[2:] if len(digits) > 2 else ""))
        if below_floor(q, float("nan") if n is None else n):
            return n, f"p{q:g} needs {floor(q):,} values, found {n or 0:,}"
    return n, ""


def _absolute(bound: Bound, condition: str, part: pd.DataFrame) -> Result:
    gate, metric = bound.gate, bound.metric
    n, why = _evidence(metric, part)
    if why:
        return _result(bound, condition, NOT_MEASURED, np.nan, len(part), n, why)
    low, high = float(part[metric].min()), float(part[metric].max())
    reason = ""
    value = high if gate.at_least is None else low
    if gate.at_most is not None and high > gate.at_most:
        value, reason = high, f"above {gate.at_most:g}"
    elif gate.at_least is not None and low < gate.at_least:
        value, reason = low, f"below {gate.at_least:g}"
    if len(part) > 1:
        worst = f"worst of {len(part)} runs ({low:.4g} to {high:.4g})"
        reason = f"{reason}; {worst}" if reason else worst
    failed = value > (gate.at_most if gate.at_most is not None else np.inf) or value < (
        gate.at_least if gate.at_least is not None else -np.inf
    )
    return _result(bound, condition, FAIL if failed else PASS, value, len(part), n, reason)


def _relative(
    bound: Bound, condition: str, part: pd.DataFrame, baseline: pd.DataFrame | str
) -> Result:
    gate, metric = bound.gate, bound.metric

    def not_measured(why: str) -> Result:
        return _result(bound, condition, NOT_MEASURED, np.nan, len(part), None, why, relative=True)

    if isinstance(baseline, str):
        return not_measured(f"the baseline cannot be read: {baseline}")
    other = baseline[baseline["condition"] == condition]
    if other.empty:
        return not_measured("the baseline has no run of this condition")
    n, why = _evidence(metric, part)
    if why:
        return not_measured(why)
    _, why = _evidence(metric, other)
    if why:
        return not_measured(f"in the baseline: {why}")
    own, theirs = part[metric].to_numpy(np.float64), other[metric].to_numpy(np.float64)
    tolerance = gate.tolerance or 0.0
    if (own <= 0).any() or (theirs <= 0).any():
        return _from_zero(bound, condition, own, theirs, n)
    found = ratio(own, theirs)
    worse = found.value - 1 if better(metric) == "lower" else 1 - found.value
    told = f"{'worse' if worse > 0 else 'better'} by {abs(worse):.2%} than the baseline"
    status, noise = _noise(found, worse, tolerance, gate.noise == "passes")
    return _result(
        bound, condition, status, found.value, len(part), n, f"{told}; {noise}", relative=True
    )


def _noise(found: Ratio, worse: float, tolerance: float, lenient: bool) -> tuple[str, str]:
    """The status of a change, and what the repeats say of it."""
    if not found.known:
        return (PASS if worse <= tolerance else FAIL), f"noise unknown ({found.why})"
    interval = f"95 % interval of the ratio {found.low:.4g} to {found.high:.4g} ({found.n})"
    if worse <= tolerance:
        return PASS, interval
    if found.beyond_noise:
        return FAIL, f"beyond noise: {interval}"
    text = f"not told from noise: {interval}; more repeats decide"
    return (PASS if lenient else FAIL), text


def _from_zero(
    bound: Bound, condition: str, own: np.ndarray, theirs: np.ndarray, n: int | None
) -> Result:
    """A ratio needs values above 0: of two means, one 0, only better, equal or worse is told."""
    mine, before = float(own.mean()), float(theirs.mean())
    worse = mine > before if better(bound.metric) == "lower" else mine < before
    text = f"{mine:.4g} against {before:.4g} in the baseline; with a 0 there is no ratio"
    status = FAIL if worse else PASS
    return _result(bound, condition, status, np.nan, len(own), n, text, relative=True)


def _gone(bound: Bound, here: set[str], baseline: pd.DataFrame | str) -> list[Result]:
    """Conditions that only the baseline has: what is gone cannot pass."""
    if isinstance(baseline, str):
        return []
    chosen = _chosen(bound.gate, baseline)
    return [
        _result(
            bound, str(key), NOT_MEASURED, np.nan, 0, None,
            "the baseline has this condition, this campaign has not", relative=True,
        )
        for key, part in chosen.groupby("condition", sort=False)
        if key not in here and not _undefined(bound.metric, part)
    ]  # fmt: skip


def _result(
    bound: Bound,
    condition: str,
    status: str,
    value: float,
    n_runs: int,
    n: int | None,
    reason: str,
    *,
    relative: bool = False,
) -> Result:
    gate = bound.gate
    words = []
    if relative:
        words.append(f"at most {gate.tolerance or 0:.3g} worse than {gate.against}")
    else:
        words += [f"at most {gate.at_most:g}"] if gate.at_most is not None else []
        words += [f"at least {gate.at_least:g}"] if gate.at_least is not None else []
        words += [f"against {gate.against}"] if not words else []
    unit = "times the baseline" if relative else unit_of(bound.metric)
    return Result(
        bound.name, bound.metric, condition, status, value, unit, ", ".join(words), n_runs, n,
        reason,
    )  # fmt: skip
