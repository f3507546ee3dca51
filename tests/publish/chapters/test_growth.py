"""A page does not grow with its dumps: the same campaign with a hundred times the requests."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from small import campaign

from servebook.publish.about import About
from servebook.publish.bundle import script
from servebook.publish.chapters import confidence, decode, mixed, overview, prefill, setup, trust
from servebook.publish.collect import chapter, collect
from servebook.publish.display import KINDS, SPEC_MIME, payload
from servebook.publish.draw import page_svg
from servebook.publish.output import Figure, Output
from servebook.publish.pack import deflated, pack
from servebook.publish.page import render
from servebook.publish.spec import specification
from servebook.read.campaign import Campaign
from servebook.tables import Tables

CHAPTERS = (overview, setup, trust, prefill, decode, mixed, confidence)
TIMES = 100


def base() -> Campaign:
    """Eight runs of 120 requests with gaps that differ: enough for p99 before and after."""
    chance = np.random.default_rng(6)
    runs: dict[str, dict[str, Any]] = {}
    for name in "ab":
        for concurrency in (2, 4):
            gaps = np.round(chance.lognormal(1.6, 0.1, 6) * (1 + 0.1 * concurrency), 3)
            gaps[4] *= 6
            for workload in ("mixed", "decode"):
                runs[f"{name}{concurrency}{workload}"] = {
                    "configuration": name,
                    "concurrency": concurrency,
                    "workload": workload,
                    "gaps_ms": gaps.tolist(),
                    "n": 120,
                }
    return campaign(runs)


def _later(column: Any, shift: np.ndarray[Any, Any]) -> Any:
    return pa.compute.add(column, pa.array(shift))


def grown(small: Campaign) -> Campaign:
    """Every run goes on for a hundred times as long, with the same requests again and again."""
    runs = small.tables.runs
    span = dict(zip(runs["run_id"].to_pylist(), runs["end_ns"].to_pylist(), strict=True))

    def again(table: pa.Table) -> pa.Table:
        length = np.array([span[run] for run in table["run_id"].to_pylist()])
        parts = []
        for k in range(TIMES):
            part = table
            for at, name in enumerate(part.schema.names):
                if name == "request_id":
                    new = pa.compute.binary_join_element_wise(part[name], f"{k:03d}", "-")
                elif name.endswith("_ns") and name != "gap_ns":
                    new = _later(part[name], k * length)
                else:
                    continue
                part = part.set_column(at, part.schema.field(at), new.cast(part[name].type))
            parts.append(part)
        return pa.concat_tables(parts)

    def many(name: str) -> list[Any]:
        return [None if v is None else v * TIMES for v in runs[name].to_pylist()]

    for name in ("end_ns", "n_requests", "n_ok", "n_gaps"):
        at = runs.schema.get_field_index(name)
        field = runs.schema.field(at)
        runs = runs.set_column(at, field, pa.array(many(name), field.type))
    tables = Tables(runs=runs, requests=again(small.tables.requests), gaps=again(small.tables.gaps))
    return dataclasses.replace(small, tables=tables)


def outputs(book: Campaign) -> dict[str, Output]:
    """What each chapter function puts into the page."""
    out = {}
    for chapter_ in CHAPTERS:
        for name in chapter_.__all__:
            function = getattr(chapter_, name)
            made = function(book) if callable(function) else None
            if isinstance(made, Output):
                out[f"{chapter_.__name__}.{name}"] = made
    return out


def cell(made: Output) -> NotebookNode:
    kind, fields = payload(made)
    data: dict[str, Any] = {KINDS[kind]: fields}
    if isinstance(made, Figure) and made.chart is not None:
        data[SPEC_MIME] = specification(made.chart, made.alt)
    node: NotebookNode = new_code_cell("x", outputs=[new_output("display_data", data=data)])
    return node


def page(made: dict[str, Output]) -> tuple[str, dict[str, int]]:
    """The page that these make, and the bytes of each figure in it, its packed chart included."""
    cells = [new_markdown_cell("# All"), *map(cell, made.values())]
    content = collect([chapter(new_notebook(cells=cells), Path("all.ipynb"), "c")])
    for figure in content.figures:
        if figure.spec is not None:
            figure.svg = page_svg(figure.spec, f"{figure.id}-")
    facts = About("x", "X", "measured", "", (), (), {"servebook": "1"}, "c")
    template = Path(__file__).parents[3] / "report" / "template"
    text = render(content, facts, script(), template)
    sizes = {}
    for figure in content.figures:
        shown = text.partition(f'id="figure-{figure.id}">')[2].partition("</figure>")[0]
        chart = deflated(json.dumps(pack(figure.spec, {}))) if figure.spec else ""
        sizes[figure.id] = len(shown) + len(chart)
    return text, sizes


@pytest.mark.slow
def test_a_hundred_times_the_requests_leave_the_page_as_large() -> None:
    small = base()
    large = grown(small)
    assert large.tables.gaps.num_rows == TIMES * small.tables.gaps.num_rows
    (short, before), (long, after) = (page(outputs(book)) for book in (small, large))
    assert len(before) > 20
    assert min(before.values()) > 100
    grew = {k: (before[k], after[k]) for k in before if after[k] > 1.15 * before[k] + 400}
    # It draws windows of a run, of which a long one has more: up to a fixed number.
    steady = grew.pop("confidence-steady-window", (0, 0))
    assert steady[1] < 40_000
    assert grew == {}
    assert len(long.encode()) / len(short.encode()) == pytest.approx(1, abs=0.02)
