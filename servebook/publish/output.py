"""What a notebook cell returns: a figure with its table, a table alone, or a statement.

In JupyterLab they display as an interactive chart, a table and text; in a build (environment
variable ``SERVEBOOK_BUILD``) they display as one MIME bundle that the page template renders and
that the driver collects claims and files from. Display itself lives in
``servebook/publish/display.py``; these are plain values, so that chapters can be tested
without a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import altair as alt
import pandas as pd

from servebook.publish import theme  # noqa: F401 - every figure has our look, whoever draws it

__all__ = ["Figure", "Output", "Section", "Statement"]


@dataclass(frozen=True)
class Output:
    """Base of everything that a chapter function returns; ``display.py`` knows how to show it."""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from servebook.publish.display import mimebundle

        return mimebundle(self)


@dataclass(frozen=True)
class Figure(Output):
    """A chart with the table that it draws.

    ``title`` states the finding in a sentence computed from the data; ``subtitle`` gives the
    condition and the caveat. ``chart`` is None where there is nothing to draw: then ``missing``
    says in words what the campaign lacks. ``table`` holds the drawn values, one displayed column
    per column, the unit in the column's name ("TTFT p99 (ms)"); it is shown below the chart and
    written as CSV and Parquet.
    """

    id: str  # stable slug, unique on the page: "prefill-throughput"
    title: str
    subtitle: str = ""
    chart: alt.TopLevelMixin | None = None
    table: pd.DataFrame | None = None
    alt: str = ""  # what a person who does not see the chart must know
    source: str = ""  # "measured: records of 12 runs", "manifest", "model: ..."
    runs: tuple[str, ...] = ()  # run_ids that it rests on
    notes: tuple[str, ...] = ()  # caveats, definitions that differ, what was thinned
    missing: str = ""
    open_table: bool = False  # show the table unfolded (figures that are tables)


@dataclass(frozen=True)
class Statement(Output):
    """One sentence with its number; those with ``verdict`` stand at the top of the page."""

    id: str  # stable slug: "prefill-peak"
    sentence: str
    metric: str = ""
    value: float | None = None
    unit: str = ""
    caption: str = ""  # what the number in large type is; without it its unit stands there
    n: int | None = None
    n_of: str = ""  # "requests", "gaps", "runs"
    low: float | None = None  # range or interval, and what it is
    high: float | None = None
    interval: str = ""  # "range over 3 repeats", "no interval: one run"
    runs: tuple[str, ...] = ()
    figure: str = ""  # id of the figure that shows it
    would_change: str = ""  # "What would change this: ..."
    verdict: bool = False
    rank: int = 100  # order among the verdict lines
    marks: tuple[str, ...] = field(default=())  # comparability marks, "reconstructed", ...
    more: str = ""  # what belongs to it but not into one sentence: said where its chapter says it


@dataclass(frozen=True)
class Section(Output):
    """Prose with computed numbers, as paragraphs of plain text (no HTML)."""

    id: str
    paragraphs: tuple[str, ...]
    code: str = ""  # commands to copy, shown as they are below the paragraphs
