"""A difference in words: the summary of the terminal, JSON, and the sentences of the page."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from servebook.publish import words
from servebook.publish.diff_compare import (
    BEYOND,
    NUMBERS,
    ONLY_A,
    ONLY_B,
    OTHER,
    SAME,
    UNTOLD,
    Difference,
)
from servebook.publish.diff_sides import Side
from servebook.publish.text import say

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
    lines = [f"{c}: {s.name} ({words.told(s.provenance)})" for c, s in (("A", a), ("B", b))]
    lines += [f"  {remark}" for remark in found.remarks]
    lines += ["", say("diff.words.settings", text=settings_words(a, b, found))]
    lines += [
        f"  {r['configuration']}: {words.told(r['setting'])}: {_said(r['a'])} -> {_said(r['b'])}"
        for r in found.settings.to_dict("records")
    ]
    lines += ["", say("diff.words.results", text=results_words(found))]
    shown = found.results[found.results["noise"] == BEYOND]
    if shown.empty:
        shown = largest(found.results)
    lines += [
        f"  {r['condition']}: {words.told(r['metric'])} {words.number(r['a'])} -> "
        f"{words.number(r['b'])} {words.unit(r['unit'])} ({ratio_words(r)}; "
        f"{words.told(r['noise'])})"
        for r in shown.to_dict("records")
    ]
    lines += ["", say("diff.words.findings", text=findings_words(found))]
    for r in found.findings.to_dict("records"):
        if r["change"] == OTHER:
            lines += [f"  {r['id']}", f"    A: {r['a']}", f"    B: {r['b']}"]
    if len(found.one_sided):
        lines += ["", say("diff.words.one_sided")]
        lines += [
            f"  {r['side']}: {words.told(r['what'])} {r['which']}"
            for r in found.one_sided.to_dict("records")
        ]
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
    return say("diff.words.not_stated") if value is None or value != value else str(value)


def ratio_words(row: Any) -> str:
    """The ratio of a row of ``Difference.results``, with its interval where there is one."""
    if math.isnan(row["ratio"]):
        return say("diff.words.no_ratio")
    if math.isnan(row["low"]):
        return say("diff.words.ratio", ratio=row["ratio"])
    return say("diff.words.interval", ratio=row["ratio"], low=row["low"], high=row["high"])


def largest(results: pd.DataFrame, most: int = _MOST_DRAWN) -> pd.DataFrame:
    """The largest changes, in the order of the results."""
    known = results.dropna(subset=["ratio"])
    size = np.log(known["ratio"]).abs()
    size = size[size > _SAME]
    order = size.sort_values(ascending=False, kind="stable").index[:most]
    return pd.DataFrame(known.loc[sorted(order)])


def settings_words(a: Side, b: Side, found: Difference) -> str:
    """How many settings differ: a sentence that begins small."""
    if a.settings.empty or b.settings.empty:
        return say("diff.words.settings_unknown")
    if not shared(a, b):
        return say("diff.words.settings_not_shared")
    if found.settings.empty:
        return say("diff.words.settings_same")
    if len(found.settings) == 1:
        return say("diff.words.settings_one")
    where = found.settings["configuration"].nunique()
    return say(
        "diff.words.settings_differ",
        values=words.count(len(found.settings), "value"),
        configurations=words.count(where, "configuration"),
    )


def results_words(found: Difference) -> str:
    """How many values changed beyond noise, and of how many that cannot be told; begins small."""
    if found.results.empty:
        return say("diff.words.results_none")
    count = Counter(found.results["noise"])
    n = found.results["condition"].nunique()
    values = words.count(len(found.results), "value")
    conditions = words.count(n, "condition")
    beyond, untold = count[BEYOND], count[UNTOLD]
    if not untold:
        return say("diff.words.results_told", values=values, conditions=conditions, beyond=beyond)
    return say(
        "diff.words.results_untold",
        values=values,
        conditions=conditions,
        beyond=beyond,
        untold=untold,
    )


def findings_words(found: Difference) -> str:
    """How many statements say something else: a sentence that begins small."""
    count = Counter(found.findings["change"])
    return say(
        "diff.words.findings_count",
        other=count[OTHER],
        numbers=count[NUMBERS],
        same=count[SAME],
        only_a=count[ONLY_A],
        only_b=count[ONLY_B],
    )


def standing(side: Side) -> str:
    """A side's provenance in words."""
    stated = side.provenance if side.provenance != "not stated" else "provenance not stated"
    return words.told(stated)


def shared(a: Side, b: Side) -> set[str]:
    """The configurations that both sides have settings of."""
    return set(map(str, a.settings.columns[1:])) & set(map(str, b.settings.columns[1:]))
