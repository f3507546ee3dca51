"""`servebook diff A B`: one offline page, a summary in the terminal, or JSON.

The page is that of a campaign: the same template, policy and last look before it is written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from servebook import __version__
from servebook.errors import BuildError
from servebook.publish import theme, words
from servebook.publish.about import About
from servebook.publish.charts.forest import forest
from servebook.publish.check import write
from servebook.publish.checks import problems
from servebook.publish.collect import chapter, collect
from servebook.publish.diff_compare import BEYOND, Difference, difference
from servebook.publish.diff_match import matched
from servebook.publish.diff_sides import Side, read_side
from servebook.publish.diff_words import (
    as_json,
    findings_words,
    largest,
    ratio_words,
    results_words,
    settings_words,
    shared,
    standing,
    summary,
)
from servebook.publish.display import payload
from servebook.publish.draw import javascript_bundle, page_svg
from servebook.publish.names import KINDS, SPEC_MIME
from servebook.publish.output import Figure, Section, Statement
from servebook.publish.page import render
from servebook.publish.places import home
from servebook.publish.spec import specification

__all__ = ["outputs", "page", "run"]


def run(a: Path, b: Path, output: Path | None, *, as_json_text: bool) -> str:
    """Compare, write the page, and return what to print.

    Raises DumpError and ManifestError for a side that cannot be read, BuildError for a page that
    is not fit to publish.
    """
    base = home()
    first, second = (read_side(path, base / "notebooks", base) for path in (a, b))
    second, matches = matched(first, second)
    sides = [first, second]
    found = difference(first, second, matches)
    target = output or Path("report") / f"diff-{sides[0].name}-{sides[1].name}.html"
    text = page(sides[0], sides[1], found, base / "report" / "template")
    secrets = [str(Path.cwd()), str(Path.home()), str(a.resolve()), str(b.resolve())]
    if wrong := problems(text, [s for s in secrets if len(s) > 1]):
        raise BuildError(f"the page is not fit to publish: {'; '.join(wrong[:5])}")
    write(target, text.encode())
    if as_json_text:
        return json.dumps(as_json(sides[0], sides[1], found), indent=2, ensure_ascii=False)
    return f"{summary(sides[0], sides[1], found)}\n\n{target}"


def _chart(results: pd.DataFrame) -> Any:
    rows = results.reset_index(drop=True)
    look = {BEYOND: ("#D55E00", "#A34800")}
    styles = [look.get(noise, ("#0072B2", "#005D91")) for noise in rows["noise"]]
    return forest(
        pd.DataFrame(
            {
                "row": [str(i) for i in range(len(rows))],
                "label": rows["condition"] + " · " + rows["metric"],
                "ratio": rows["ratio"],
                "low": rows["low"],
                "high": rows["high"],
                "noise_low": np.nan,
                "noise_high": np.nan,
                "text": [_short(r) for r in rows.to_dict("records")],
                "colour": [s[0] for s in styles],
                "ink": [s[1] for s in styles],
            }
        ),
        "value in B / value in A (log)",
    )


def _short(row: Any) -> str:
    return f"{words.factor(row['ratio'])}, {row['noise']}"


def outputs(a: Side, b: Side, found: Difference) -> list[Figure | Statement | Section]:
    """Statements and figures of the page, in order."""
    results = found.results
    changed = results[results["noise"] == BEYOND]
    drawn = largest(changed if len(changed) else results)
    other = found.findings["change"] == "says something else"
    marks = (_mark(a, b, found),)
    told = [
        Statement(
            id="diff-results-words",
            sentence=_sentence(results_words(found)),
            value=float(len(changed)) if len(results) else None,
            caption="values changed beyond noise",
            n=len(results),
            n_of="values",
            interval="95 % intervals where both sides have repeats",
            figure="diff-results",
            verdict=True,
            rank=1,
            marks=marks,
            would_change="More repeats on both sides, where noise cannot be told.",
        ),
        Statement(
            id="diff-findings-words",
            sentence=_sentence(findings_words(found)),
            value=float(other.sum()),
            caption="findings that say something else",
            n=len(found.findings),
            n_of="findings",
            interval="words compared, numbers aside",
            figure="diff-findings",
            verdict=True,
            rank=2,
            marks=marks,
        ),
        Statement(
            id="diff-settings-words",
            sentence=_sentence(settings_words(a, b, found)),
            value=float(len(found.settings)) if shared(a, b) else None,
            caption="settings that differ",
            interval="as the two manifests state them",
            figure="diff-settings",
            verdict=True,
            rank=3,
            marks=marks,
        ),
    ]
    return [
        *told,
        Section(
            "diff-sides",
            (
                (
                    f"A is {a.title} ({a.name}, {standing(a)}). B is {b.title} ({b.name}, "
                    f"{standing(b)}). Ratios are B over A."
                ),
                *found.remarks,
            ),
        ),
        _results_figure(results, drawn, bool(len(changed))),
        _findings_figure(found),
        _settings_figure(a, b, found),
        _one_sided_figure(found),
    ]


def _sentence(text: str) -> str:
    """A line of the summary without the word that heads it."""
    return words.capital(text.partition(": ")[2])


def _mark(a: Side, b: Side, found: Difference) -> str:
    if not shared(a, b):
        return "UNKNOWN"
    n = found.settings["setting"].nunique()
    return "SINGLE VARIABLE" if n == 1 else f"{n} SETTINGS" if n else "NO STATED SETTING DIFFERS"


def _table(results: pd.DataFrame) -> pd.DataFrame:
    return results.rename(
        columns={
            "a": "A",
            "b": "B",
            "ratio": "B / A",
            "n_a": "runs in A",
            "n_b": "runs in B",
            "low": "interval from",
            "high": "interval to",
            "better": "better is",
        }
    )


def _results_figure(results: pd.DataFrame, drawn: pd.DataFrame, beyond: bool) -> Figure:
    title = "What changed in the results"
    if drawn.empty and len(results):
        return Figure(
            id="diff-results",
            title="No value of a condition that both sides ran differs",
            table=_table(results),
            source="the tables of both sides",
        )
    if drawn.empty:
        return Figure(
            id="diff-results",
            title=title,
            missing="Both sides have no condition in common (configuration, load, "
            "lengths, concurrency, client), so no value can be compared.",
        )
    which = "beyond noise" if beyond else "largest; none is known to be beyond noise"
    title = f"The {words.count(len(drawn), 'change')} drawn are {which}"
    labels = [f"{r['condition']} {r['metric']}: {ratio_words(r)}" for r in drawn.to_dict("records")]
    return Figure(
        id="diff-results",
        title=title,
        subtitle="Value in B over value in A, geometric means over runs; the bar is a 95 % "
        "interval, an open dot has none.",
        chart=_chart(drawn),
        table=_table(results),
        alt=f"{title}. {'. '.join(labels)}.",
        source="the tables of both sides",
        notes=(
            (
                "Percentiles of fewer values than their floor are left out. A side with one run "
                "shows no scatter: then no change can be told from noise."
            ),
        ),
    )


def _findings_figure(found: Difference) -> Figure:
    frame = found.findings
    changed = frame[frame["change"] == "says something else"]
    if frame.empty:
        return Figure(
            id="diff-findings", title="Findings", missing="Neither side states a finding."
        )
    title = (
        f"{words.count(len(changed), 'finding')} say something else"
        if len(changed) != 1
        else "1 finding says something else"
    )
    return Figure(
        id="diff-findings",
        title=words.capital(title),
        table=frame.rename(
            columns={"id": "finding", "a": "A", "b": "B", "verdict": "at the top of a page"}
        ),
        source="the statements of both sides",
        open_table=True,
    )


def _settings_figure(a: Side, b: Side, found: Difference) -> Figure:
    if found.settings.empty:
        return Figure(
            id="diff-settings",
            title="Settings",
            missing=_sentence(settings_words(a, b, found)),
        )
    return Figure(
        id="diff-settings",
        title=_sentence(settings_words(a, b, found)).removesuffix("."),
        table=found.settings.rename(columns={"a": "A", "b": "B"}),
        source="the manifests of both sides",
        open_table=True,
    )


def _one_sided_figure(found: Difference) -> Figure:
    if found.one_sided.empty:
        return Figure(
            id="diff-one-sided",
            title="On one side only",
            missing="Nothing: both sides have the same configurations and conditions, or lack the "
            "tables that tell them.",
        )
    n = len(found.one_sided)
    return Figure(
        id="diff-one-sided",
        title=f"{n} configurations or conditions are on one side only",
        table=found.one_sided,
        source="the tables of both sides",
    )


def _cell(output: Figure | Statement | Section) -> NotebookNode:
    kind, fields = payload(output)
    data: dict[str, Any] = {KINDS[kind]: fields}
    if isinstance(output, Figure) and output.chart is not None:
        data[SPEC_MIME] = specification(output.chart, output.alt)
    cell: NotebookNode = new_code_cell(
        "# made by servebook diff", outputs=[new_output("display_data", data=data)]
    )
    return cell


def page(a: Side, b: Side, found: Difference, template: Path) -> str:
    """The whole page as one HTML text."""
    theme.enable()
    cells = [new_markdown_cell("# What changed"), *map(_cell, outputs(a, b, found))]
    book = chapter(new_notebook(cells=cells), Path("diff.ipynb"), "")
    content = collect([book])
    for figure in content.figures:
        if figure.spec is not None:
            figure.svg = page_svg(figure.spec, f"{figure.id}-")
    both = {a.provenance, b.provenance}
    provenance = (
        "reconstructed" if "reconstructed" in both
        else "measured" if both == {"measured"} else "not stated"
    )  # fmt: skip
    facts = About(
        name=f"diff-{a.name}-{b.name}",
        title=f"{b.title} (B) against {a.title} (A)",
        provenance=provenance,
        note=f"A is {standing(a)}, B is {standing(b)}.",
        inputs=tuple(
            {**one, "path": f"{letter}: {one['path']}"}
            for letter, side in (("A", a), ("B", b))
            for one in side.inputs
        ),
        findings=found.remarks,
        versions={"servebook": __version__},
        command=f"servebook diff {a.name} {b.name}",
    )
    return render(content, facts, javascript_bundle(), template)
