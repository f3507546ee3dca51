"""What a notebook of this repository looks like: thin, runnable alone, and nothing run in it yet.

Own code: nbstripout and papermill's inspection cover a part each, and neither keeps papermill's
traces out or notebooks thin. ``python -m servebook.publish.notebook_rules notebooks`` prints what
is wrong and exits with 1.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["check", "main", "problems"]

_SLUG = re.compile(r"[a-z][a-z0-9-]{1,62}")
_PAPERMILL_TAGS = {"injected-parameters", "papermill-error-cell-tag"}
_NOT_THIN = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.For,
    ast.AsyncFor,
    ast.While,
)


def problems(notebook: Any) -> list[str]:
    """Say what keeps a parsed notebook from being one of ours: an empty list if nothing does.

    Rules: unique readable cell ids; no outputs, execution counts, widget state or traces of
    papermill; the kernel python3; a first cell with a heading and the question; one cell tagged
    ``parameters`` that assigns plain literals; code without functions, classes and loops.
    """
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        return ["not a notebook: a JSON object with a list of cells is expected"]
    return [*_whole(notebook), *_ids(notebook["cells"]), *_cells(notebook["cells"])]


def _whole(notebook: dict[str, Any]) -> Iterator[str]:
    metadata = notebook.get("metadata", {})
    if notebook.get("nbformat") != 4 or notebook.get("nbformat_minor", 0) < 5:
        yield "nbformat 4.5 or later is expected (cell ids)"
    if metadata.get("kernelspec", {}).get("name") != "python3":
        yield "the kernel is not python3"
    for key in ("papermill", "widgets"):
        if key in metadata:
            yield f"metadata.{key} is left from a run"
    cells = notebook["cells"]
    opening = _source(cells[0]) if cells and cells[0].get("cell_type") == "markdown" else ""
    if not opening.startswith("# ") or "?" not in opening:
        yield "the first cell is not a heading (# ...) with the question that the notebook answers"
    tagged = [cell for cell in cells if "parameters" in _tags(cell)]
    if len(tagged) != 1:
        yield f"one cell tagged parameters is expected, found {len(tagged)}"


def _ids(cells: Sequence[dict[str, Any]]) -> Iterator[str]:
    seen: set[str] = set()
    for number, cell in enumerate(cells, start=1):
        name = cell.get("id")
        if not isinstance(name, str) or not _SLUG.fullmatch(name):
            yield f"cell {number}: a readable id is expected (a-z, 0-9, -), found {name!r}"
        elif name in seen:
            yield f"cell {number}: the id {name!r} is there twice"
        else:
            seen.add(name)


def _cells(cells: Sequence[dict[str, Any]]) -> Iterator[str]:
    for number, cell in enumerate(cells, start=1):
        metadata = cell.get("metadata", {})
        for key in ("papermill", "execution"):
            if key in metadata:
                yield f"cell {number}: metadata.{key} is left from a run"
        if _PAPERMILL_TAGS & _tags(cell):
            yield f"cell {number}: a cell that papermill put there"
        if cell.get("cell_type") == "code":
            if cell.get("outputs"):
                yield f"cell {number}: holds outputs"
            if cell.get("execution_count") is not None:
                yield f"cell {number}: holds an execution count"
            yield from (f"cell {number}: {text}" for text in _code(cell))


def _code(cell: dict[str, Any]) -> Iterator[str]:
    try:
        tree = ast.parse(_source(cell))
    except SyntaxError as error:
        yield f"not plain Python: {error.msg}"
        return
    thick = next((node for node in ast.walk(tree) if isinstance(node, _NOT_THIN)), None)
    if thick is not None:
        yield f"holds a {type(thick).__name__}; it belongs into servebook/"
    if "parameters" in _tags(cell):
        for node in tree.body:
            if not (isinstance(node, ast.Assign) and _is_literal(node.value)):
                yield f"parameters are plain literals, found: {ast.unparse(node)}"


def _is_literal(node: ast.expr) -> bool:
    try:
        return isinstance(ast.literal_eval(node), str | int | float)
    except ValueError:
        return False


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


def _tags(cell: dict[str, Any]) -> set[str]:
    return set(cell.get("metadata", {}).get("tags", ()))


def check(path: Path) -> list[str]:
    """The problems of one file, each with the file's name before it."""
    try:
        found = problems(json.loads(path.read_text(encoding="utf-8")))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        found = [f"not a notebook: {error}"]
    return [f"{path}: {text}" for text in found]


def main(argv: Sequence[str] | None = None) -> int:
    """Check notebooks, and those in folders; returns 1 if one breaks a rule."""
    given = [Path(text) for text in (sys.argv[1:] if argv is None else argv)]
    paths = [
        p for path in given for p in (sorted(path.glob("*.ipynb")) if path.is_dir() else [path])
    ]
    found = [text for path in paths for text in check(path)]
    for text in found:
        print(text, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
