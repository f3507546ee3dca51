"""From executed notebooks to the content of a page: chapters, figures, statements.

Cell ids are renamed by position and everything that depends on the day or the machine (papermill
and timing metadata, the injected path) is taken away, so that the same content gives the same
bytes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from servebook.errors import BuildError
from servebook.publish.names import KINDS, PARQUET_MIME, SPEC_MIME
from servebook.publish.text import spoken

__all__ = ["MOST_VERDICTS", "Chapter", "Content", "FigureData", "chapter", "collect"]

MOST_VERDICTS = 7
HEADING = re.compile(r"^#\s+(.+?)\s*$", re.MULTILINE)
SLUG = re.compile(r"[^a-z0-9]+")


@dataclass
class FigureData:
    """One figure: its JSON fields, its specification where it has a chart, and its chapter.

    ``parquet`` is its table as a Parquet file.
    """

    fields: dict[str, Any]
    spec: dict[str, Any] | None
    chapter: str
    svg: str = ""
    parquet: bytes = b""

    @property
    def id(self) -> str:
        """The figure's slug."""
        return str(self.fields["id"])


@dataclass
class Chapter:
    """One notebook: its title and cells, clean of anything but content."""

    slug: str
    title: str
    cells: list[NotebookNode]
    figures: list[FigureData] = field(default_factory=list)
    statements: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Content:
    """All chapters in order, and what is collected from them."""

    chapters: list[Chapter]

    @property
    def figures(self) -> list[FigureData]:
        """All figures in page order."""
        return [figure for one in self.chapters for figure in one.figures]

    @property
    def statements(self) -> list[dict[str, Any]]:
        """All statements in page order."""
        return [statement for one in self.chapters for statement in one.statements]

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """The statements for the top of the page: by rank, then id; at most seven."""
        marked = [statement for statement in self.statements if statement["verdict"]]
        return sorted(marked, key=lambda s: (s["rank"], s["id"]))[:MOST_VERDICTS]


def _title(nb: NotebookNode, path: Path) -> str:
    for cell in nb.cells:
        if cell.cell_type == "markdown" and (match := HEADING.search(cell.source)):
            return match.group(1).replace("*", "").replace("`", "")
    raise BuildError(f"notebook {path.name}: it has no heading (a line '# Title'), so no chapter")


def _output_kind(output: NotebookNode) -> str | None:
    data = output.get("data", {})
    return next((kind for kind, mime in KINDS.items() if mime in data), None)


def _sources(nb: NotebookNode, spelled: str) -> list[NotebookNode]:
    """The cells with the injected one folded into the parameters cell, in readable spelling."""
    kept: list[NotebookNode] = []
    for cell in nb.cells:
        tags = cell.metadata.get("tags", [])
        if "injected-parameters" in tags:
            continue
        if "parameters" in tags:
            lines = cell.source.splitlines()
            cell.source = "\n".join(
                f'campaign = "{spelled}"' if re.match(r"campaign\s*=", line) else line
                for line in lines
            )
        kept.append(cell)
    return kept


def chapter(nb: NotebookNode, path: Path, spelled_campaign: str) -> Chapter:
    """One executed notebook as a chapter, its prose in the language that this process speaks.

    ``spelled_campaign`` is what stands in the shown code in place of the absolute path that the
    notebook was run with. Code cells that show nothing are joined to the next one.

    Raises:
        BuildError: the notebook has no title.

    """
    slug = SLUG.sub("-", path.stem.lower()).strip("-")
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = spoken().prose(path.stem, cell.get("id", ""), cell.source)
    built = Chapter(slug, _title(nb, path), [])
    pending: list[str] = []
    for cell in _sources(nb, spelled_campaign):
        if cell.cell_type == "markdown":
            if pending:
                built.cells.append(_code(pending))
                pending = []
            built.cells.append(NotebookNode(cell_type="markdown", source=cell.source))
        elif cell.cell_type == "code" and cell.source.strip():
            pending.append(cell.source.strip())
            if cell.outputs:
                built.cells.append(_code(pending, [_clean(one, built) for one in cell.outputs]))
                pending = []
    if pending:
        built.cells.append(_code(pending))
    for number, cell in enumerate(built.cells, 1):
        cell.id = f"{slug}-{number}"
        place = {"chapter": slug, "title": built.title, "first": number == 1}
        place["last"] = number == len(built.cells)
        cell.metadata = NotebookNode(servebook=NotebookNode(place))
    return built


def _code(sources: list[str], outputs: Sequence[NotebookNode] = ()) -> NotebookNode:
    """A code cell, of parts that nbformat has validated."""
    source = "\n\n".join(sources)
    return NotebookNode(
        cell_type="code", source=source, execution_count=None, outputs=list(outputs)
    )


def _clean(output: NotebookNode, into: Chapter) -> NotebookNode:
    kind = _output_kind(output)
    if output.output_type == "execute_result":
        output = NotebookNode(output_type="display_data", data=output.data, metadata=NotebookNode())
    elif output.output_type == "display_data":
        output.metadata = NotebookNode()
    if kind == "figure":
        fields = output.data[KINDS["figure"]]
        packed = base64.b64decode(output.data.pop(PARQUET_MIME, ""))
        spec = output.data.get(SPEC_MIME)
        into.figures.append(FigureData(fields, spec, into.slug, parquet=packed))
        # The page finds it by its id: nbconvert copies all that stands in its cells.
        output.data = NotebookNode({KINDS["figure"]: {"id": fields["id"]}})
    elif kind == "statement":
        into.statements.append({**output.data[KINDS["statement"]], "chapter": into.slug})
    return output


def collect(chapters: list[Chapter]) -> Content:
    """The page's content.

    Raises:
        BuildError: two outputs share an id, or a statement names a figure that is not there.

    """
    content = Content(chapters)
    seen: dict[str, str] = {}
    outputs = [(f.id, f.chapter) for f in content.figures]
    outputs += [(s["id"], s["chapter"]) for s in content.statements]
    for name, where in outputs:
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name):
            raise BuildError(f"chapter {where}: the id {name!r} is not a slug (a-z, 0-9, -)")
        if name in seen:
            raise BuildError(f"the id {name!r} is used twice, in {seen[name]} and in {where}")
        seen[name] = where
    known = {figure.id for figure in content.figures}
    for statement in content.statements:
        if statement["figure"] and statement["figure"] not in known:
            raise BuildError(
                f"chapter {statement['chapter']}: statement {statement['id']!r} names the figure "
                f"{statement['figure']!r}, which no notebook shows"
            )
    return content
