"""Figures that were printed elsewhere, as a campaign ships them in ``published.csv``.

One row per figure: what it is of (configuration, workload, lengths in tokens, concurrency, and for
a measured figure the run), which metric and statistic, and the value with the size of its last
printed digit. The values are only ever compared with; nothing is computed from them here.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from servebook.errors import DumpError

__all__ = ["KINDS", "PUBLISHED", "Printed", "read_published"]

PUBLISHED = "published.csv"
KINDS = ("measured", "derived", "model", "input")
_COLUMNS = (
    "id",
    "article",
    "section",
    "kind",
    "configuration",
    "workload",
    "isl",
    "osl",
    "concurrency",
    "run",
    "metric",
    "stat",
    "value",
    "unit",
    "printed_step",
    "note",
)
_WAY_OUT = "correct the row; docs/ledger.md tells the columns"


@dataclass(frozen=True)
class Printed:
    """One printed figure; None and "" mean that the print leaves it open.

    ``configuration`` is one name, two as "a/b" for a ratio, a precision, or "4 nodes". ``step`` is
    the size of the last printed digit in ``unit``, 0 for yes (1) and no (0) and exact counts.
    """

    line: int
    id: str
    article: str
    section: str
    kind: str
    configuration: str
    workload: str
    isl: int | None
    osl: int | None
    concurrency: int | None
    run: str
    metric: str
    stat: str
    value: float
    unit: str
    step: float
    note: str

    @property
    def sides(self) -> tuple[str, ...]:
        """The configurations that it names: two for a ratio."""
        return tuple(part for part in self.configuration.split("/") if part)


def read_published(campaign: Path) -> tuple[Printed, ...]:
    """The printed figures of a campaign folder, in file order.

    Raises DumpError with the line for a missing file, a missing column, a value that is not a
    number, an unknown kind and an id that stands twice.
    """
    path = campaign / PUBLISHED
    if not path.is_file():
        raise DumpError(
            path,
            "the printed figures that a ledger compares with",
            "no such file",
            "write one (docs/ledger.md), or use a campaign that ships one",
        )
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            lacking = [c for c in _COLUMNS if c not in (rows.fieldnames or ())]
            if lacking:
                raise DumpError(
                    path, "the columns of a ledger", f"no {lacking[0]}", _WAY_OUT, line=1
                )
            found = [_printed(path, rows.line_num, row) for row in rows]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DumpError(path, "a CSV file in UTF-8", str(error), "save it again") from error
    seen: dict[str, int] = {}
    for row in found:
        if row.id in seen:
            words = f"{row.id} again (first in line {seen[row.id]})"
            raise DumpError(path, "each id once", words, _WAY_OUT, line=row.line)
        seen[row.id] = row.line
    return tuple(found)


def _printed(path: Path, line: int, row: dict[str, str]) -> Printed:
    text = {name: (row[name] or "").strip() for name in _COLUMNS}

    def whole(name: str) -> int | None:
        if not text[name]:
            return None
        if not text[name].isdecimal():
            raise DumpError(
                path, f"a whole number as {name}", repr(text[name]), _WAY_OUT, line=line
            )
        return int(text[name])

    def number(name: str) -> float:
        try:
            value = float(text[name])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise DumpError(path, f"a number as {name}", repr(text[name]), _WAY_OUT, line=line)
        return value

    if not text["id"]:
        raise DumpError(path, "an id", "none", _WAY_OUT, line=line)
    if text["kind"] not in KINDS:
        raise DumpError(
            path, f"a kind: {', '.join(KINDS)}", repr(text["kind"]), _WAY_OUT, line=line
        )
    step = number("printed_step")
    if step < 0:
        raise DumpError(path, "a printed_step of at least 0", f"{step:g}", _WAY_OUT, line=line)
    names = ("id", "article", "section", "kind", "configuration", "workload")
    return Printed(
        line=line,
        **{name: text[name] for name in names},
        isl=whole("isl"),
        osl=whole("osl"),
        concurrency=whole("concurrency"),
        run=text["run"],
        metric=text["metric"],
        stat=text["stat"],
        value=number("value"),
        unit=text["unit"],
        step=step,
        note=text["note"],
    )
