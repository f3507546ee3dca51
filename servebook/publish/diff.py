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
from servebook.publish.bundle import script
from servebook.publish.charts.forest import forest
from servebook.publish.check import write
from servebook.publish.checks import problems
from servebook.publish.collect import chapter, collect
from servebook.publish.diff_compare import BEYOND, OTHER, Difference, difference
from servebook.publish.diff_match import labels_of, matched
from servebook.publish.diff_sides import Side, place_of, read_side
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
from servebook.publish.draw import page_svg
from servebook.publish.names import KINDS, SPEC_MIME
from servebook.publish.output import Figure, Section, Statement
from servebook.publish.page import render
from servebook.publish.places import home
from servebook.publish.spec import specification
from servebook.publish.text import DEFAULT, as_written, load, say, speaking

__all__ = ["outputs", "page", "run"]


def run(
    a: Path, b: Path, output: Path | None, *, as_json_text: bool, language: str = DEFAULT
) -> str:
    """Compare, write the page, and return what to print, in a language of ``report/text/``.

    The statements of a claims.json stay in the language that they were built in.

    Raises DumpError and ManifestError for a side that cannot be read, BuildError for a page that
    is not fit to publish, or a language without a sound file.
    """
    base = home()
    with speaking(load(base / "report" / "text", language)):
        return _compared(a, b, output, base, as_json_text, language)


def _compared(
    a: Path, b: Path, output: Path | None, base: Path, as_json_text: bool, language: str
) -> str:
    for path in (a, b):
        place_of(path)  # nothing is read for minutes where the other one is not there
    first, second = (read_side(path, base / "notebooks", base) for path in (a, b))
    as_written(_labels(first, second))
    second, matches = matched(first, second)
    sides = [first, second]
    found = difference(first, second, matches)
    target = output or Path("report") / f"diff-{sides[0].name}-{sides[1].name}.html"
    text = page(sides[0], sides[1], found, base / "report" / "template", language)
    secrets = [str(Path.cwd()), str(Path.home()), str(a.resolve()), str(b.resolve())]
    if wrong := problems(text, [s for s in secrets if len(s) > 1]):
        raise BuildError(f"the page is not fit to publish: {'; '.join(wrong[:5])}")
    write(target, text.encode())
    if as_json_text:
        return json.dumps(as_json(sides[0], sides[1], found), indent=2, ensure_ascii=False)
    return f"{summary(sides[0], sides[1], found)}\n\n{target}"


def _labels(*sides: Side) -> list[str]:
    """The labels of the sides' configurations, which are told as they are written."""
    return sorted({label for side in sides for label in (*labels_of(side), *side.renamed)})


def _chart(results: pd.DataFrame) -> Any:
    rows = results.reset_index(drop=True)
    look = {BEYOND: ("#D55E00", "#A34800")}
    styles = [look.get(noise, ("#0072B2", "#005D91")) for noise in rows["noise"]]
    return forest(
        pd.DataFrame(
            {
                "row": [str(i) for i in range(len(rows))],
                "label": rows["condition"] + " · " + rows["metric"].map(words.told),
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
        say("diff.page.axis"),
    )


def _short(row: Any) -> str:
    ratio, noise = words.factor(row["ratio"]), words.told(row["noise"])
    return say("diff.page.beside", ratio=ratio, noise=noise)


def outputs(a: Side, b: Side, found: Difference) -> list[Figure | Statement | Section]:
    """Statements and figures of the page, in order."""
    results = found.results
    changed = results[results["noise"] == BEYOND]
    drawn = largest(changed if len(changed) else results)
    other = found.findings["change"] == OTHER
    marks = (_mark(a, b, found),)
    told = [
        Statement(
            id="diff-results-words",
            sentence=words.capital(results_words(found)),
            value=float(len(changed)) if len(results) else None,
            caption=say("diff.page.results_caption"),
            n=len(results),
            n_of="values",
            interval=say("diff.page.results_interval"),
            figure="diff-results",
            verdict=True,
            rank=1,
            marks=marks,
            would_change=say("diff.page.results_change"),
        ),
        Statement(
            id="diff-findings-words",
            sentence=words.capital(findings_words(found)),
            value=float(other.sum()),
            caption=say("diff.page.findings_caption"),
            n=len(found.findings),
            n_of="findings",
            interval=say("diff.page.findings_interval"),
            figure="diff-findings",
            verdict=True,
            rank=2,
            marks=marks,
        ),
        Statement(
            id="diff-settings-words",
            sentence=words.capital(settings_words(a, b, found)),
            value=float(len(found.settings)) if shared(a, b) else None,
            caption=say("diff.page.settings_caption"),
            interval=say("diff.page.settings_interval"),
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
                say(
                    "diff.page.sides",
                    title_a=a.title,
                    name_a=a.name,
                    standing_a=standing(a),
                    title_b=b.title,
                    name_b=b.name,
                    standing_b=standing(b),
                ),
                *found.remarks,
            ),
        ),
        _results_figure(results, drawn, bool(len(changed))),
        _findings_figure(found),
        _settings_figure(a, b, found),
        _one_sided_figure(found),
    ]


def _mark(a: Side, b: Side, found: Difference) -> str:
    if not shared(a, b):
        return "UNKNOWN"
    n = found.settings["setting"].nunique()
    return "SINGLE VARIABLE" if n == 1 else f"{n} SETTINGS" if n else "NO STATED SETTING DIFFERS"


def _table(results: pd.DataFrame) -> pd.DataFrame:
    return results.assign(unit=results["unit"].map(words.unit)).rename(
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
    if drawn.empty and len(results):
        return Figure(
            id="diff-results",
            title=say("diff.page.results_same"),
            table=_table(results),
            source=say("diff.page.source_tables"),
        )
    if drawn.empty:
        return Figure(
            id="diff-results",
            title=say("diff.page.results"),
            missing=say("diff.page.results_missing"),
        )
    which = "diff.page.drawn_beyond" if beyond else "diff.page.drawn_largest"
    title = say(which, changes=words.count(len(drawn), "change"))
    labels = [
        say(
            "diff.page.alt_change",
            condition=r["condition"],
            metric=words.told(r["metric"]),
            ratio=ratio_words(r),
        )
        for r in drawn.to_dict("records")
    ]
    return Figure(
        id="diff-results",
        title=title,
        subtitle=say("diff.page.results_subtitle"),
        chart=_chart(drawn),
        table=_table(results),
        alt=say("diff.page.alt", title=title, changes=". ".join(labels)),
        source=say("diff.page.source_tables"),
        notes=(say("diff.page.results_note"),),
    )


def _findings_figure(found: Difference) -> Figure:
    frame = found.findings
    changed = frame[frame["change"] == OTHER]
    if frame.empty:
        return Figure(
            id="diff-findings",
            title=say("diff.page.findings"),
            missing=say("diff.page.findings_missing"),
        )
    one = len(changed) == 1
    title = say(
        "diff.page.findings_one" if one else "diff.page.findings_many",
        findings=words.count(len(changed), "finding"),
    )
    return Figure(
        id="diff-findings",
        title=words.capital(title),
        table=frame.rename(
            columns={"id": "finding", "a": "A", "b": "B", "verdict": "at the top of a page"}
        ),
        source=say("diff.page.source_statements"),
        open_table=True,
    )


def _settings_figure(a: Side, b: Side, found: Difference) -> Figure:
    if found.settings.empty:
        return Figure(
            id="diff-settings",
            title=say("diff.page.settings"),
            missing=words.capital(settings_words(a, b, found)),
        )
    return Figure(
        id="diff-settings",
        title=words.capital(settings_words(a, b, found)).removesuffix("."),
        table=found.settings.rename(columns={"a": "A", "b": "B"}),
        source=say("diff.page.source_manifests"),
        open_table=True,
    )


def _one_sided_figure(found: Difference) -> Figure:
    if found.one_sided.empty:
        return Figure(
            id="diff-one-sided",
            title=say("diff.page.one_sided"),
            missing=say("diff.page.one_sided_missing"),
        )
    return Figure(
        id="diff-one-sided",
        title=say("diff.page.one_sided_n", n=len(found.one_sided)),
        table=found.one_sided,
        source=say("diff.page.source_tables"),
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


def page(a: Side, b: Side, found: Difference, template: Path, language: str = DEFAULT) -> str:
    """The whole page as one HTML text; its caller speaks the ``language``."""
    theme.enable()
    heading = new_markdown_cell(f"# {say('diff.page.heading')}")
    cells = [heading, *map(_cell, outputs(a, b, found))]
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
        title=say("diff.page.title", a=a.title, b=b.title),
        provenance=provenance,
        note=say("diff.page.note", a=standing(a), b=standing(b)),
        inputs=tuple(
            {**one, "path": f"{letter}: {one['path']}"}
            for letter, side in (("A", a), ("B", b))
            for one in side.inputs
        ),
        findings=found.remarks,
        versions={"servebook": __version__},
        command=f"servebook diff {a.name} {b.name}",
        configurations=tuple({"label": label} for label in _labels(a, b)),
    )
    return render(content, facts, script(), template, language)
