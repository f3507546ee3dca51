"""What changed between two sides: settings, values per condition, statements.

Values are compared per condition and metric by the ratio of the geometric means over runs, with
Welch's interval where both sides have repeats (``servebook.measure.ratio``); with one run on a side
nothing can be told from noise, and that is what stands there. A statement "says something else"
when its words differ after all numbers are taken out, or when its ratio crosses 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from servebook.measure.metrics import METRICS, Metric
from servebook.measure.percentiles import below_floor
from servebook.measure.ratio import ratio
from servebook.publish import words
from servebook.publish.diff_match import setting_text
from servebook.publish.diff_sides import Side
from servebook.publish.text import say

__all__ = ["METRIC_NAMES", "Difference", "difference"]

#: What is compared, in the order of the tables, and which count a percentile of it rests on.
METRIC_NAMES: dict[str, str] = {
    "input_throughput_tok_s": "",
    "output_throughput_tok_s": "",
    "request_throughput_req_s": "",
    "ttft_p50_ms": "TTFT values",
    "ttft_p99_ms": "TTFT values",
    "tpot_mean_ms": "",
    "tpot_p99_ms": "TPOT values",
    "itl_p50_ms": "Gaps",
    "itl_p99_ms": "Gaps",
    "e2e_p50_ms": "Latency values",
    "running_batch": "",
}
_CONDITION = ["configuration", "workload", "lengths", "concurrency", "rate", "client"]
_NUMBER = re.compile(r"[-−+]?\d[\d,]*(?:\.\d+)?(?:\s*(?:µs|ms|min|s|h|kB|MB|GB|%)(?!\w))?")
#: What stands in the tables, in every language; the page asks the catalogue for what it shows.
BEYOND, WITHIN, UNTOLD = "beyond noise", "not beyond noise", "not testable"
OTHER, NUMBERS, SAME = "says something else", "other numbers", "the same"
ONLY_A, ONLY_B = "only in A", "only in B"


@dataclass(frozen=True)
class Difference:
    """Tables of what changed; each is sorted and may be empty."""

    settings: pd.DataFrame  # configuration, setting, a, b
    results: pd.DataFrame  # condition, metric, unit, a, b, ratio, low, high, n_a, n_b, noise, why
    findings: pd.DataFrame  # id, change, a, b, verdict
    one_sided: pd.DataFrame  # what, which, side
    remarks: tuple[str, ...]


def difference(first: Side, second: Side, matches: tuple[str, ...] = ()) -> Difference:
    """Compare two sides; ``diff_match`` has given their configurations the same labels."""
    a, b = (_runs(side) for side in (first, second))
    gone: list[dict[str, Any]] = []
    settings = _settings(first, second, gone)
    results = _results(a, b, gone)
    findings = _findings(first, second)
    remarks = tuple(
        say("diff.compare.of_a_side", side=letter, remark=remark)
        for letter, side in (("A", first), ("B", second))
        for remark in side.remarks
    )
    remarks += tuple(
        say("diff.compare.sentence", text=text)
        for text in (*matches, *_versions(first, second, a, b))
    )
    return Difference(
        settings,
        results,
        findings,
        pd.DataFrame(gone, columns=["what", "which", "side"]),
        remarks,
    )


def _versions(first: Side, second: Side, a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    """What two versions of Servebook may have told differently, in words."""
    told = []
    if first.version and second.version and first.version != second.version:
        told.append(say("diff.compare.versions", a=first.version, b=second.version))
    both = [name for name in first.definitions if name in second.definitions]
    other = [name for name in both if first.definitions[name] != second.definitions[name]]
    if other:
        told.append(say("diff.compare.definitions", names=say("words.comma").join(other)))
    if len(a) and len(b):
        for own, others, letters in ((a, b, "AB"), (b, a, "BA")):
            alone = [
                words.told(METRICS[name].label)
                for name in METRIC_NAMES
                if own[name].notna().any() and not others[name].notna().any()
            ]
            if alone:
                metrics = say("words.comma").join(alone)
                told.append(say("diff.compare.alone", side=letters[0], metrics=metrics))
    return told


def _settings(first: Side, second: Side, gone: list[dict[str, Any]]) -> pd.DataFrame:
    sides = [
        side.settings.set_index("Setting") if "Setting" in side.settings else pd.DataFrame()
        for side in (first, second)
    ]
    rows = []
    labels = [list(map(str, side.columns)) for side in sides]
    for own, other, letter in ((0, 1, "A"), (1, 0, "B")):
        if len(sides[0]) and len(sides[1]):
            gone += [
                {"what": "configuration", "which": label, "side": letter}
                for label in labels[own]
                if label not in labels[other]
            ]
    for label in (one for one in labels[0] if one in labels[1]):
        for setting in dict.fromkeys([*sides[0].index, *sides[1].index]):
            values = [_cell(side, setting, label) for side in sides]
            if values[0] != values[1]:
                rows.append(
                    {"configuration": label, "setting": setting, "a": values[0], "b": values[1]}
                )
    return pd.DataFrame(rows, columns=["configuration", "setting", "a", "b"])


def _cell(side: pd.DataFrame, setting: str, label: str) -> str | None:
    return setting_text(side.loc[setting, label]) if setting in side.index else None


def _runs(side: Side) -> pd.DataFrame:
    """One row per run with the columns of a condition and the values under the metrics' names."""
    if side.runs.empty or side.metrics.empty:
        return pd.DataFrame(columns=[*_CONDITION, *METRIC_NAMES])
    table = side.runs.merge(side.metrics, left_on="run", right_on="Run", how="inner")

    def column(name: str) -> pd.Series[Any]:
        return table[name] if name in table else pd.Series(np.nan, index=table.index)

    out = pd.DataFrame(
        {
            "configuration": column("configuration").astype(str),
            "workload": column("workload").astype(str),
            "concurrency": pd.to_numeric(column("requests in flight"), errors="coerce"),
            "rate": pd.to_numeric(column("requests/s asked"), errors="coerce"),
            "client": column("client").astype(str),
        }
    )
    sizes = [
        pd.to_numeric(column(name), errors="coerce")
        for name in ("input tokens (mean)", "output tokens (mean)")
    ]
    # Drawn lengths differ a little from run to run: two digits tell loads apart.
    out["lengths"] = [words.lengths_short(_two(i), _two(o)) for i, o in zip(*sizes, strict=True)]
    for name in METRIC_NAMES:
        out[name] = pd.to_numeric(column(_labelled(METRICS[name])), errors="coerce")
    for count in sorted({count for count in METRIC_NAMES.values() if count}):
        out[count] = pd.to_numeric(column(count), errors="coerce")
    return out


def _two(value: float) -> float | None:
    return None if np.isnan(value) else float(f"{value:.2g}")


def _labelled(metric: Metric) -> str:
    return f"{metric.label} ({metric.unit})" if metric.unit not in ("", "count") else metric.label


def _results(a: pd.DataFrame, b: pd.DataFrame, gone: list[dict[str, Any]]) -> pd.DataFrame:
    columns = ["condition", "metric", "unit", "better", "a", "b", "ratio", "low", "high"]
    columns += ["n_a", "n_b", "noise", "why"]
    groups = [
        dict(list(side.groupby(_CONDITION, sort=True, dropna=False))) if len(side) else {}
        for side in (a, b)
    ]
    named = [{_name(key): part for key, part in side.items()} for side in groups]
    for own, other, letter in ((0, 1, "A"), (1, 0, "B")):
        gone += [
            {"what": "condition", "which": name, "side": letter}
            for name in named[own]
            if name not in named[other]
        ]
    rows = []
    for condition in (name for name in named[0] if name in named[1]):
        for metric, count in METRIC_NAMES.items():
            row = _row(metric, count, named[0][condition], named[1][condition])
            if row is not None:
                about = METRICS[metric]
                rows.append(
                    {"condition": condition, "metric": about.label, "unit": about.unit}
                    | {"better": about.better}
                    | row
                )
    return pd.DataFrame(rows, columns=columns)


def _name(key: Any) -> str:
    configuration, workload, lengths, concurrency, rate, client = key
    parts = [configuration, workload, lengths]
    parts += [f"c{concurrency:g}"] if concurrency == concurrency else []
    parts += [say("diff.compare.rate", rate=rate)] if rate == rate else []
    return " · ".join([*parts, client])


def _row(metric: str, count: str, a: pd.DataFrame, b: pd.DataFrame) -> dict[str, Any] | None:
    sides = [side[metric].dropna().to_numpy(np.float64) for side in (a, b)]
    if not (len(sides[0]) and len(sides[1])):
        return None
    quantile = re.search(r"_p(\d\d)_ms", metric)
    if quantile and count:
        least = min(float(side[count].min()) for side in (a, b))
        if below_floor(float(quantile[1]), least):
            return None
    row: dict[str, Any] = {"n_a": len(sides[0]), "n_b": len(sides[1])}
    if any((side <= 0).any() for side in sides):
        row |= {"a": sides[0].mean(), "b": sides[1].mean(), "ratio": np.nan, "low": np.nan}
        return row | {"high": np.nan, "noise": UNTOLD, "why": "a value is 0: no ratio"}
    found = ratio(sides[1], sides[0])
    row |= {
        "a": float(np.exp(np.log(sides[0]).mean())),
        "b": float(np.exp(np.log(sides[1]).mean())),
    }
    row |= {"ratio": found.value, "low": found.low, "high": found.high, "why": found.why}
    row["noise"] = (BEYOND if found.beyond_noise else WITHIN) if found.known else UNTOLD
    return row


def _findings(first: Side, second: Side) -> pd.DataFrame:
    sides = [{one["id"]: one for one in side.statements} for side in (first, second)]
    rows = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        a, b = sides[0].get(name), sides[1].get(name)
        rows.append(
            {
                "id": name,
                "change": _change(a, b, second.renamed),
                "a": a["sentence"] if a else None,
                "b": b["sentence"] if b else None,
                "verdict": bool((a or b or {}).get("verdict") or (b or {}).get("verdict")),
            }
        )
    order = {OTHER: 0, ONLY_A: 1, ONLY_B: 1, NUMBERS: 2}
    out = pd.DataFrame(rows, columns=["id", "change", "a", "b", "verdict"])
    keys = [order.get(change, 3) for change in out["change"]]
    out = out.assign(_k=keys, _v=~out["verdict"].astype(bool))
    return out.sort_values(["_k", "_v"], kind="stable").drop(columns=["_k", "_v"]).reset_index(
        drop=True
    )  # fmt: skip


def _change(a: dict[str, Any] | None, b: dict[str, Any] | None, renamed: Mapping[str, str]) -> str:
    if a is None or b is None:
        return ONLY_B if a is None else ONLY_A
    said = _under(b["sentence"], renamed)
    if a["sentence"] == said:
        return SAME
    crossed = (
        a["unit"] == b["unit"] == "ratio"
        and a["value"] is not None
        and b["value"] is not None
        and (a["value"] - 1) * (b["value"] - 1) < 0
    )
    same_words = _NUMBER.sub("#", a["sentence"]) == _NUMBER.sub("#", said)
    return NUMBERS if same_words and not crossed else OTHER


def _under(sentence: str, renamed: Mapping[str, str]) -> str:
    """A sentence of the second side under the labels of the first, the longest label first."""
    if not renamed:
        return sentence
    labels = sorted(renamed, key=lambda label: (-len(label), label))
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, labels))})(?!\w)")
    return pattern.sub(lambda hit: renamed[hit[0]], sentence)
