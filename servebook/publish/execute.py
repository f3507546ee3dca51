"""Run one notebook for a page, or say which cell of it failed and why.

papermill runs it in this process. Around it stand the checks that papermill leaves out: a
parameter that the notebook does not have is an error, not a log line; only plain values under
names of the parameters cell are passed (papermill pastes names into code); ``exit()`` in a cell,
a dead kernel and a cell that never ran are failures; so is anything on stderr, because a warning
in a notebook is either wrong code or a doubt that belongs into the page's text.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import logging
import math
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from jupyter_core.utils import ensure_event_loop
from nbformat import NotebookNode

from servebook.errors import BuildError
from servebook.publish.kernel import end, kernel_class
from servebook.publish.scratch import scratch
from servebook.publish.without import without

if TYPE_CHECKING:
    from servebook.publish.forks import Zygote
    from servebook.publish.kernel import Running

__all__ = ["Run", "Scalar", "defaults", "quiet", "run"]

Scalar = str | int | float | bool

START_TIMEOUT_S = 120
EXITED = "it ended the kernel (exit), so the cells after it did not run"
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
        return EXITED
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


class _Exited(Exception):  # noqa: N818 - no error: the way out of a run
    """A cell asked its kernel to end."""


class Run:
    """One notebook's run, which another thread may stop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._process: Running | None = None
        self._stopped = False
        self._nb: NotebookNode | None = None

    def stop(self) -> None:
        """End it at once, started or not; it then fails."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                end(self._process)

    def _launched(self, process: Running) -> None:
        with self._lock:
            self._process = process
            if self._stopped:
                end(process)

    def __call__(
        self,
        parameters: Mapping[str, Scalar],
        folder: Path,
        *,
        zygote: Zygote | None = None,
        progress: Mapping[str, Any] | None = None,
        ran: Callable[[NotebookNode], None] | None = None,
    ) -> NotebookNode:
        """The executed notebook; every code cell of it ran, none with an error or a warning.

        ``folder`` (absolute, short) takes sockets and files of the kernel, which is forked from
        ``zygote`` where there is one. ``progress`` holds options of the tqdm bar; None shows no
        bar. ``ran`` is called with each cell that ran. Cells run in the notebook's own folder.

        Raises:
            BuildError: naming notebook, cell and cause.

        """
        path = self.path
        try:
            nb = nbformat.read(path, as_version=4)
        except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
            raise _fail(path, f"it is not a notebook: {error}") from None
        _checked(parameters, defaults(nb, path), path)
        if self._stopped:
            raise _fail(path, "it was stopped")
        return self._executed(parameters, folder, zygote, progress, ran)

    def _executed(
        self,
        parameters: Mapping[str, Scalar],
        folder: Path,
        zygote: Zygote | None,
        progress: Mapping[str, Any] | None,
        ran: Callable[[NotebookNode], None] | None,
    ) -> NotebookNode:
        import papermill
        from nbclient.exceptions import DeadKernelError
        from papermill.exceptions import PapermillExecutionError

        path = self.path
        try:
            with _event_loop(), self._ending():
                # Neither an output path (papermill would write the notebook before and after each
                # cell) nor a working folder (it would change that of this process, so of all).
                papermill.execute_notebook(
                    path,
                    None,
                    parameters=dict(parameters),
                    kernel_name="python3",
                    language="python",
                    progress_bar=dict(progress) if progress else False,
                    start_timeout=START_TIMEOUT_S,
                    shutdown_kernel="immediate",
                    coalesce_streams=True,  # where one message ends is a matter of timing
                    kernel_manager_class=kernel_class(folder, path.parent, zygote, self._launched),
                    on_notebook_start=self._started,
                    on_cell_executed=functools.partial(_after, ran),
                )
        except PapermillExecutionError as error:
            _require_complete(self._cells(), path)
            raise _fail(path, f"{error.ename}: {error.evalue}") from None
        except _Exited as ended:
            places = [i for i, cell in enumerate(self._cells()) if cell is ended.args[0]]
            raise _fail(path, EXITED, places[0], ended.args[0].source) from None
        except (DeadKernelError, RuntimeError, OSError):
            cause = "the kernel died in it (killed, out of memory, or a crash in native code)"
            raise _fail(path, cause, *_first_unanswered(self._cells())) from None
        _require_complete(self._cells(), path)
        assert self._nb is not None
        return self._nb

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """End the kernel on leaving, before the loop waits for what still talks to it."""
        try:
            yield
        finally:
            if self._process is not None:
                end(self._process)

    def _started(self, notebook: NotebookNode) -> None:
        self._nb = notebook

    def _cells(self) -> list[NotebookNode]:
        """The cells of the file, without those that papermill adds, so that numbers match it."""
        cells = self._nb.cells if self._nb is not None else []
        return [cell for cell in cells if not ADDED & set(cell.metadata.get("tags", []))]


@contextmanager
def _event_loop() -> Iterator[None]:
    """The loop that jupyter_client makes for each thread, closed when the notebook is done."""
    loop = ensure_event_loop()
    try:
        yield
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        asyncio.set_event_loop(None)


def _after(
    ran: Callable[[NotebookNode], None] | None,
    cell: NotebookNode,
    execute_reply: dict[str, Any],
    **_: object,
) -> None:
    """``exit()`` and ``quit()`` are no errors to IPython: the kernel answers, and then ends."""
    payload = execute_reply["content"].get("payload") or []
    if any(part.get("source") == "ask_exit" for part in payload):
        raise _Exited(cell)
    if ran is not None:
        ran(cell)


def run(
    path: Path, parameters: Mapping[str, Scalar], *, progress: Mapping[str, Any] | None = None
) -> NotebookNode:
    """One notebook by itself, in a kernel that is started for it; see ``Run``."""
    with scratch() as folder, quiet():
        return Run(path)(parameters, folder, progress=progress)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep off the terminal what papermill and jupyter_client say; for all threads at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with without("pyarrow"):  # which would be for notebooks in Hadoop
            import papermill  # noqa: F401 - warns of its own dependencies

        logging.getLogger("papermill").setLevel(logging.CRITICAL)
        logging.getLogger("papermill.translators").setLevel(logging.CRITICAL)
        yield
