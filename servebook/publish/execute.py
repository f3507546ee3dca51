"""Run one notebook for a page, or say which cell of it failed and why.

papermill runs it in this process. Around it stand the checks that papermill leaves out: a
parameter that the notebook does not have is an error, not a log line; only plain values under
names of the parameters cell are passed (papermill pastes names into code); ``exit()`` in a cell,
a dead kernel and a cell that never ran are failures; so is anything on stderr, because a warning
in a notebook is either wrong code or a doubt that belongs into the page's text.
"""

from __future__ import annotations

import ast
import logging
import math
import re
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from servebook.errors import BuildError
from servebook.publish.kernel import kernel_class

__all__ = ["Scalar", "defaults", "run"]

Scalar = str | int | float | bool

START_TIMEOUT_S = 120
ADDED = {"injected-parameters", "papermill-error-cell-tag"}
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def _fail(notebook: Path, cause: str, index: int | None = None, source: str = "") -> BuildError:
    place = f"notebook {notebook.name}"
    if index is not None:
        lines = [line for line in source.strip().splitlines() if line.strip()]
        place += f", cell {index + 1}" + (f" ({lines[0].strip()[:80]})" if lines else "")
    return BuildError(f"{place}: {cause}")


def defaults(nb: NotebookNode, path: Path) -> dict[str, Scalar]:
    """The names and values of the notebook's parameters cell.

    Raises:
        BuildError: no cell (or more than one) is tagged ``parameters``, or it holds anything but
            names set to plain values.

    """
    tagged = [
        (i, cell)
        for i, cell in enumerate(nb.cells)
        if "parameters" in cell.get("metadata", {}).get("tags", [])
    ]
    if len(tagged) != 1:
        found = "none" if not tagged else f"{len(tagged)}"
        raise _fail(path, f"expected one cell with the tag 'parameters', found {found}")
    index, cell = tagged[0]
    values: dict[str, Scalar] = {}
    try:
        body = ast.parse(cell.source).body
        for line in body:
            if not isinstance(line, ast.Assign) or not isinstance(line.targets[0], ast.Name):
                raise ValueError(ast.unparse(line))
            value = ast.literal_eval(line.value)
            if not isinstance(value, Scalar):
                raise ValueError(ast.unparse(line))
            values[line.targets[0].id] = value
    except (SyntaxError, ValueError) as error:
        raise _fail(
            path,
            f"a parameters cell may only set names to plain values; found: {error}",
            index,
            cell.source,
        ) from None
    return values


def _checked(parameters: Mapping[str, Scalar], known: Mapping[str, Scalar], path: Path) -> None:
    for name, value in parameters.items():
        if name not in known:
            raise _fail(
                path, f"it has no parameter {name!r}; its parameters cell has {sorted(known)}"
            )
        if not isinstance(value, Scalar) or (isinstance(value, float) and not math.isfinite(value)):
            raise _fail(path, f"parameter {name!r} must be a plain value, not {value!r}")


def _cause(output: NotebookNode) -> str:
    value = ANSI.sub("", output.evalue).strip()
    if output.ename in ("SystemExit", "ZMQExitAutocall"):
        return "it ended the kernel (exit), so the cells after it did not run"
    own = ("DumpError", "ManifestError", "BuildError", "ServebookError")
    return value if output.ename in own and value else f"{output.ename}: {value or 'no message'}"


def _require_complete(cells: list[NotebookNode], path: Path) -> None:
    for index, cell in enumerate(cells):
        if cell.cell_type != "code":
            continue
        for output in cell.outputs:
            if output.output_type == "error":
                raise _fail(path, _cause(output), index, cell.source)
            if output.output_type == "stream" and output.name == "stderr":
                text = ANSI.sub("", output.text).strip()
                raise _fail(path, f"it wrote to stderr: {text}", index, cell.source)
    unanswered, source = _first_unanswered(cells)
    if unanswered is not None:
        raise _fail(path, "the cell did not run", unanswered, source)


def _first_unanswered(cells: list[NotebookNode]) -> tuple[int | None, str]:
    """The first code cell for which the kernel never reported an end."""
    for index, cell in enumerate(cells):
        ran = cell.get("execution_count") is not None
        ended = "shell.execute_reply" in cell.metadata.get("execution", {})
        if cell.cell_type == "code" and cell.source.strip() and not (ran and ended):
            return index, cell.source
    return None, ""


def run(
    path: Path, parameters: Mapping[str, Scalar], *, progress: Mapping[str, Any] | None = None
) -> NotebookNode:
    """The executed notebook; every code cell of it ran, none with an error or a warning.

    ``progress`` holds options of the tqdm bar; None shows no bar. Cells run in the notebook's
    own folder.

    Raises:
        BuildError: naming notebook, cell and cause.

    """
    try:
        nb = _read(path)
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        raise _fail(path, f"it is not a notebook: {error}") from None
    _checked(parameters, defaults(nb, path), path)
    with tempfile.TemporaryDirectory(prefix="sb-") as folder:
        saved = Path(folder) / "out.ipynb"
        return _executed(path, saved, parameters, progress)


def _executed(
    path: Path, saved: Path, parameters: Mapping[str, Scalar], progress: Mapping[str, Any] | None
) -> NotebookNode:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import papermill
        from nbclient.exceptions import DeadKernelError
        from papermill.exceptions import PapermillExecutionError

        logging.getLogger("papermill").setLevel(logging.CRITICAL)
        logging.getLogger("papermill.translators").setLevel(logging.CRITICAL)
        try:
            nb: NotebookNode = papermill.execute_notebook(
                path,
                saved,
                parameters=dict(parameters),
                kernel_name="python3",
                language="python",
                progress_bar=dict(progress) if progress else False,
                start_timeout=START_TIMEOUT_S,
                cwd=path.parent,
                kernel_manager_class=kernel_class(saved.parent),
            )
        except PapermillExecutionError as error:
            _require_complete(_own_cells(_read(saved)), path)
            raise _fail(path, f"{error.ename}: {error.evalue}") from None
        except (DeadKernelError, RuntimeError):
            cells = _own_cells(_read(saved)) if saved.exists() else []
            cause = "the kernel died in it (killed, out of memory, or a crash in native code)"
            raise _fail(path, cause, *_first_unanswered(cells)) from None
    _require_complete(_own_cells(nb), path)
    return nb


def _read(path: Path) -> NotebookNode:
    nb: NotebookNode = nbformat.read(path, as_version=4)
    return nb


def _own_cells(nb: NotebookNode) -> list[NotebookNode]:
    """The cells of the file, without those that papermill adds, so that numbers match it."""
    return [cell for cell in nb.cells if not ADDED & set(cell.metadata.get("tags", []))]
