"""The files beside the page: claims as JSON, tables as CSV and Parquet, charts as SVG and PNG."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from servebook.measure.glossary import GLOSSARY
from servebook.publish.about import About
from servebook.publish.collect import Content, FigureData

__all__ = ["claims", "csv_text", "write_chart", "write_claims", "write_tables"]

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet read a text as a formula


def _field(value: Any) -> Any:
    """A field of CSV: a text that a spreadsheet would run as a formula starts with an apostrophe.

    Names in dumps are anybody's. Numbers stay as they are, also as text.
    """
    if value is None:
        return ""
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def csv_text(table: dict[str, Any]) -> str:
    """The table as CSV with a header line; what is absent is an empty field, no text a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_field(name) for name in table["columns"]])
    writer.writerows([[_field(value) for value in row] for row in table["rows"]])
    return out.getvalue()


def write_tables(figure: FigureData, folder: Path) -> None:
    """Write ``<id>.csv`` and ``<id>.parquet`` where the figure has a table."""
    if (table := figure.fields["table"]) is not None:
        (folder / f"{figure.id}.csv").write_text(csv_text(table), encoding="utf-8")
        (folder / f"{figure.id}.parquet").write_bytes(figure.parquet)


def write_chart(figure: FigureData, svg: str, png: bytes, folder: Path) -> None:
    """Write ``<id>.svg`` and ``<id>.png``."""
    (folder / f"{figure.id}.svg").write_text(svg, encoding="utf-8")
    (folder / f"{figure.id}.png").write_bytes(png)


def _figure_claim(figure: FigureData) -> dict[str, Any]:
    kept = ("id", "title", "subtitle", "alt", "source", "runs", "notes", "missing")
    return {
        **{key: figure.fields[key] for key in kept},
        "chapter": figure.chapter,
        "table": f"tables/{figure.id}.csv" if figure.fields["table"] is not None else None,
        "chart": f"charts/{figure.id}.svg" if figure.spec is not None else None,
    }


def claims(content: Content, about: About) -> dict[str, Any]:
    """Everything that the page states, for programmes; it holds no time of the build.

    ``glossary`` defines each metric and statistic, as the page's tables and tooltips do.
    """
    return {
        "servebook": about.versions["servebook"],
        "campaign": {
            "name": about.name,
            "title": about.title,
            "provenance": about.provenance,
            "provenance_note": about.note,
        },
        "configurations": list(about.configurations),
        "verdicts": [statement["id"] for statement in content.verdicts],
        "statements": content.statements,
        "figures": [_figure_claim(figure) for figure in content.figures],
        "glossary": [
            {
                "name": name,
                "label": entry.label,
                "unit": entry.unit,
                "definition": entry.definition,
                "source": entry.source,
            }
            for name, entry in GLOSSARY.items()
        ],
        "findings": list(about.findings),
        "known_issues": list(about.issues),
        "masked": about.masked,
        "inputs": list(about.inputs),
        "versions": about.versions,
        "command": about.command,
    }


def write_claims(content: Content, about: About, folder: Path) -> None:
    """Write ``claims.json``."""
    text = json.dumps(claims(content, about), indent=1, ensure_ascii=False, allow_nan=False)
    (folder / "claims.json").write_text(text + "\n", encoding="utf-8")
