"""A difference in words: the summary of the terminal, JSON, and the sentences of the page."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from servebook.publish import words
from servebook.publish.diff_compare import BEYOND, UNTOLD, Difference
from servebook.publish.diff_sides import Side

__all__ = [
    "as_json",
    "findings_words",
    "largest",
    "ratio_words",
    "results_words",
    "settings_words",
    "shared",
    "standing",
    "summary",
]

_MOST_DRAWN = 16
_SAME = 1e-4  # of a logarithm: values of claims are rounded to six digits


def summary(a: Side, b: Side, found: Difference) -> str:
    """What changed, in the terminal."""
    lines = [f"A: {a.name} ({a.provenance})", f"B: {b.name} ({b.provenance})"]
    lines += [f"  {remark}" for remark in found.remarks]
    lines += ["", settings_words(a, b, found)]
    lines += [
        f"  {r['configuration']}: {r['setting']}: {_said(r['a'])} -> {_said(r['b'])}"
        for r in found.settings.to_dict("records")
    ]
    lines += ["", results_words(found)]
    shown = found.results[found.results["noise"] == BEYOND]
    if shown.empty:
        shown = largest(found.results)
    lines += [
        f"  {r['condition']}: {r['metric']} {words.number(r['a'])} -> {words.number(r['b'])} "
        f"{r['unit']} ({ratio_words(r)}; {r['noise']})"
        for r in shown.to_dict("records")
    ]
    lines += ["", findings_words(found)]
    for r in found.findings.to_dict("records"):
        if r["change"] == "says something else":
            lines += [f"  {r['id']}", f"    A: {r['a']}", f"    B: {r['b']}"]
    if len(found.one_sided):
        lines += ["", "On one side only:"]
        lines += [f"  {r['side']}: {r['what']} {r['which']}" for r in found.one_sided.to_dict(
            "records")]  # fmt: skip
    return "\n".join(lines)


def as_json(a: Side, b: Side, found: Difference) -> dict[str, Any]:
    """The same for programmes; what is not known is null."""

    def rows(frame: pd.DataFrame) -> Any:
        return json.loads(frame.to_json(orient="records", double_precision=12))

    return {
        "a": {"name": a.name, "title": a.title, "provenance": a.provenance},
        "b": {"name": b.name, "title": b.title, "provenance": b.provenance},
        "settings": rows(found.settings),
        "results": rows(found.results),
        "findings": rows(found.findings),
        "one_sided": rows(found.one_sided),
        "remarks": list(found.remarks),
    }


def _said(value: Any) -> str:
    return "not stated" if value is None or value != value else str(value)


def ratio_words(row: Any) -> str:
    """The ratio of a row of ``Difference.results``, with its interval where there is one."""
    if math.isnan(row["ratio"]):
        return "no ratio"
    if math.isnan(row["low"]):
        return f"B / A {row['ratio']:.3g}"
    return f"B / A {row['ratio']:.3g}, {row['low']:.3g} to {row['high']:.3g}"


def largest(results: pd.DataFrame, most: int = _MOST_DRAWN) -> pd.DataFrame:
    """The largest changes, in the order of the results."""
    known = results.dropna(subset=["ratio"])
    size = np.log(known["ratio"]).abs()
    size = size[size > _SAME]
    order = size.sort_values(ascending=False, kind="stable").index[:most]
    return pd.DataFrame(known.loc[sorted(order)])


def settings_words(a: Side, b: Side, found: Difference) -> str:
    """How many settings differ."""
    if a.settings.empty or b.settings.empty:
        return "Settings: not stated on one side or both, so it is not known what differs."
    if not shared(a, b):
        return "Settings: both sides have no configuration in common."
    if found.settings.empty:
        return "Settings: none differs among the configurations that both sides have."
    where = found.settings["configuration"].nunique()
    return (
        f"Settings: {words.count(len(found.settings), 'value')} in "
        f"{words.count(where, 'configuration')} differ."
        if len(found.settings) > 1
        else "Settings: 1 value differs."
    )


def results_words(found: Difference) -> str:
    """How many values changed beyond noise, and of how many that cannot be told."""
    if found.results.empty:
        return "Results: no condition that both sides ran, so nothing can be compared."
    count = Counter(found.results["noise"])
    n = found.results["condition"].nunique()
    text = (
        f"Results: of {words.count(len(found.results), 'value')} at "
        f"{words.count(n, 'condition')} that both sides ran, {count[BEYOND]} changed beyond noise"
    )
    if count[UNTOLD]:
        text += f"; of {count[UNTOLD]} it cannot be told, because a side has no scatter to tell by"
    return text + "."


def findings_words(found: Difference) -> str:
    """How many statements say something else."""
    count = Counter(found.findings["change"])
    return (
        f"Findings: {count['says something else']} say something else, {count['other numbers']} "
        f"have other numbers, {count['the same']} are the same; {count['only in A']} only in A, "
        f"{count['only in B']} only in B."
    )


def standing(side: Side) -> str:
    """A side's provenance in words."""
    return side.provenance if side.provenance != "not stated" else "provenance not stated"


def shared(a: Side, b: Side) -> set[str]:
    """The configurations that both sides have settings of."""
    return set(map(str, a.settings.columns[1:])) & set(map(str, b.settings.columns[1:]))
