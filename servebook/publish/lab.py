"""Outputs in JupyterLab: escaped HTML around an interactive chart, without a network.

The chart is Altair's own widget with its JavaScript bundled (``offline=True``); a box of widgets
puts heading, chart and folded table below one another in one output.
"""

from __future__ import annotations

from html import escape
from typing import Any, cast

from servebook.publish.output import Figure, Output, Section, Statement
from servebook.publish.tabular import ABSENT, table
from servebook.publish.text import column, say

__all__ = ["html_after", "html_before", "lab_bundle"]

ROWS = 200  # a notebook shows so many rows; files hold all


def _table_html(figure: Figure) -> str:
    if figure.table is None:
        return ""
    data = table(figure.table)
    head = "".join(f"<th>{escape(column(name))}</th>" for name in data["columns"])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in data["text"][:ROWS]
    )
    n = len(data["rows"])
    shown = say("lab.rows", rows=n) if n <= ROWS else say("lab.first_rows", shown=ROWS, rows=n)
    summary = say("lab.table", shown=shown, sign=ABSENT)
    unfolded = " open" if figure.open_table or figure.chart is None else ""
    return (
        f"<details{unfolded}><summary>{escape(summary)}</summary>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></details>"
    )


def html_before(output: Output) -> str:
    """What stands above the chart, or all of an output without one. All text is escaped."""
    if isinstance(output, Figure):
        parts = [f"<h4>{escape(output.title)}</h4>"]
        parts += [f"<p>{escape(text)}</p>" for text in (output.subtitle, output.missing) if text]
        return "".join(parts)
    if isinstance(output, Statement):
        line = f"<p><strong>{escape(output.sentence)}</strong></p>"
        details = [
            output.more,
            output.interval,
            output.would_change and say("lab.change", text=output.would_change),
        ]
        return line + "".join(f"<p>{escape(text)}</p>" for text in details if text)
    assert isinstance(output, Section)
    code = f"<pre><code>{escape(output.code)}</code></pre>" if output.code else ""
    return "".join(f"<p>{escape(text)}</p>" for text in output.paragraphs) + code


def html_after(output: Output) -> str:
    """What stands below the chart: the table, the source, the notes. All text is escaped."""
    if not isinstance(output, Figure):
        return ""
    lines = [text for text in (output.source, *output.notes) if text]
    return _table_html(output) + "".join(f"<p><small>{escape(text)}</small></p>" for text in lines)


def lab_bundle(output: Output) -> dict[str, Any]:
    """The bundle that JupyterLab shows: a widget where there is a chart, HTML alone elsewhere."""
    page = html_before(output) + html_after(output)
    if not isinstance(output, Figure) or output.chart is None:
        return {"text/html": page}
    import altair as alt
    from ipywidgets import HTML, VBox

    alt.JupyterChart.enable_offline(True)
    alt.data_transformers.enable("default", max_rows=None)
    box = VBox(
        [
            HTML(html_before(output)),
            alt.JupyterChart(cast(alt.Chart, output.chart)),
            HTML(html_after(output)),
        ]
    )
    bundle: dict[str, Any] = dict(box._repr_mimebundle_() or {})
    # A notebook that was saved and is reopened has no live widget: show the text then.
    return {**bundle, "text/html": page}
