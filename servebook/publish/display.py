"""How a chapter's output displays: a MIME bundle in a build, widgets and HTML in JupyterLab.

In a build (environment variable ``SERVEBOOK_BUILD=1``) the bundle carries data only: the output
itself as JSON, a figure's table as Parquet and its chart as a Vega-Lite specification. The driver
draws the static SVG from that, in one process for all notebooks, because starting the renderer
costs more than a second each time.
"""

from __future__ import annotations

import base64
import dataclasses
import os
from typing import Any

from servebook.publish.fixed import BUILD_VARIABLE
from servebook.publish.names import KINDS, PARQUET_MIME, SPEC_MIME
from servebook.publish.output import Figure, Output, Section, Statement
from servebook.publish.parquet import parquet
from servebook.publish.spec import specification
from servebook.publish.tabular import plain, round_float, table

__all__ = ["building", "mimebundle", "payload"]

#: A statement's value is rounded for display later; after six digits 33330.501 would go down.
VALUE_DIGITS = 12


def building() -> bool:
    """Whether this process runs a notebook for a page."""
    return os.environ.get(BUILD_VARIABLE) == "1"


def payload(output: Output) -> tuple[str, dict[str, Any]]:
    """The kind of an output and all of it but the chart, as JSON values.

    Raises:
        TypeError: the output is none of Figure, Statement, Section.
        ValueError: it lacks what the page must show (an id, an alternative text, a table).

    """
    if not isinstance(output, Figure | Statement | Section):
        raise TypeError(f"a chapter returns a Figure, a Statement or a Section, not {output!r}")
    if not output.id:
        raise ValueError(f"a {type(output).__name__} needs an id")
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(output):
        if field.name in ("chart", "table"):
            continue
        value = getattr(output, field.name)
        fields[field.name] = [plain(v) for v in value] if isinstance(value, tuple) else plain(value)
        if isinstance(value, float):  # the page rounds it once more, as the sentence beside it did
            fields[field.name] = round_float(value, VALUE_DIGITS)
    if isinstance(output, Figure):
        _complete(output)
        fields["table"] = None if output.table is None else table(output.table)
        fields["drawn"] = output.chart is not None
        return "figure", fields
    return ("statement" if isinstance(output, Statement) else "section"), fields


def _complete(figure: Figure) -> None:
    if figure.chart is None and figure.table is None and not figure.missing:
        raise ValueError(f"figure {figure.id!r} has no chart, no table and does not say why")
    if figure.chart is not None and not figure.alt:
        raise ValueError(f"figure {figure.id!r} has a chart but no alternative text (alt)")
    if figure.chart is not None and figure.table is None:
        raise ValueError(f"figure {figure.id!r} has a chart but not the table of what it draws")


def _text(output: Output) -> str:
    if isinstance(output, Figure):
        return f"{output.title}\n{output.missing or output.alt or output.subtitle}".strip()
    if isinstance(output, Statement):
        return output.sentence
    if isinstance(output, Section):
        return "\n\n".join([*output.paragraphs, *([output.code] if output.code else [])])
    return repr(output)


def mimebundle(output: Output) -> dict[str, Any]:
    """The MIME bundle of one output, for the build or for JupyterLab."""
    kind, fields = payload(output)
    if not building():
        from servebook.publish.lab import lab_bundle

        return {**lab_bundle(output), "text/plain": _text(output)}
    bundle: dict[str, Any] = {KINDS[kind]: fields, "text/plain": _text(output)}
    if isinstance(output, Figure) and output.chart is not None:
        bundle[SPEC_MIME] = specification(output.chart, output.alt, validate=False)
    if fields.get("table") is not None:
        bundle[PARQUET_MIME] = base64.b64encode(parquet(fields["table"])).decode()
    return bundle
