"""The notebooks of the repository keep the rules, and each rule can be broken."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servebook.publish.notebook_rules import check, main, problems

Notebook = dict[str, Any]

GOOD: Notebook = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": ""}},
    "cells": [
        {
            "id": "question",
            "cell_type": "markdown",
            "metadata": {},
            "source": ["# Prefill\n", "\n", "How fast is it?"],
        },
        {
            "id": "parameters",
            "cell_type": "code",
            "metadata": {"tags": ["parameters"]},
            "execution_count": None,
            "outputs": [],
            "source": 'campaign = "../data/loopback"\nlimit = -3',
        },
        {
            "id": "throughput",
            "cell_type": "code",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": ["from servebook.publish.chapters import prefill\n", "prefill.throughput(1)"],
        },
    ],
}


def test_notebooks_keep_the_rules(project_root: Path) -> None:
    found = [
        text for path in sorted(project_root.glob("notebooks/*.ipynb")) for text in check(path)
    ]
    assert not found


def test_a_good_notebook_has_no_problem() -> None:
    assert problems(GOOD) == []


def _cell(number: int, **change: Any) -> Callable[[Notebook], None]:
    return lambda notebook: notebook["cells"][number - 1].update(change)


def _without_id(notebook: Notebook) -> None:
    del notebook["cells"][2]["id"]


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (_cell(3, outputs=[{"output_type": "stream"}]), "cell 3: holds outputs"),
        (_cell(3, execution_count=7), "cell 3: holds an execution count"),
        (_without_id, "cell 3: a readable id is expected (a-z, 0-9, -), found None"),
        (_cell(3, id="question"), "cell 3: the id 'question' is there twice"),
        (_cell(3, id="3F9a"), "cell 3: a readable id is expected (a-z, 0-9, -), found '3F9a'"),
        (_cell(2, metadata={}), "one cell tagged parameters is expected, found 0"),
        (
            _cell(3, metadata={"tags": ["parameters"]}),
            "one cell tagged parameters is expected, found 2",
        ),
        (_cell(2, source="n = 1 + 1"), "cell 2: parameters are plain literals, found: n = 1 + 1"),
        (_cell(3, source="for i in x: i"), "cell 3: holds a For; it belongs into servebook/"),
        (_cell(3, source="def f(): 1"), "cell 3: holds a FunctionDef; it belongs into servebook/"),
        (_cell(3, source="%pip install it"), "cell 3: not plain Python: invalid syntax"),
        (_cell(3, metadata={"papermill": {}}), "cell 3: metadata.papermill is left from a run"),
        (_cell(3, metadata={"execution": {}}), "cell 3: metadata.execution is left from a run"),
        (
            _cell(3, metadata={"tags": ["injected-parameters"]}),
            "cell 3: a cell that papermill put there",
        ),
        (
            lambda notebook: notebook["metadata"].update(papermill={}),
            "metadata.papermill is left from a run",
        ),
        (
            lambda notebook: notebook["metadata"].update(widgets={}),
            "metadata.widgets is left from a run",
        ),
        (
            lambda notebook: notebook["metadata"]["kernelspec"].update(name="julia"),
            "the kernel is not python3",
        ),
        (
            _cell(1, source="# Prefill"),
            "the first cell is not a heading (# ...) with the question that the notebook answers",
        ),
        (
            lambda notebook: notebook.update(nbformat_minor=4),
            "nbformat 4.5 or later is expected (cell ids)",
        ),
    ],
)
def test_each_rule_can_be_broken(spoil: Callable[[Notebook], None], expected: str) -> None:
    notebook = copy.deepcopy(GOOD)
    spoil(notebook)
    assert expected in problems(notebook)


@pytest.mark.parametrize("content", ["[]", "{", '{"cells": 3}', "\xff"])
def test_what_is_not_a_notebook_is_said_to_be_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "it.ipynb"
    path.write_bytes(content.encode("latin-1"))
    (found,) = check(path)
    assert "it.ipynb: not a notebook: " in found


def test_the_command_names_file_and_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "good.ipynb").write_text(json.dumps(GOOD))
    assert main([str(tmp_path)]) == 0
    bad = copy.deepcopy(GOOD)
    bad["cells"][2]["execution_count"] = 1
    (tmp_path / "bad.ipynb").write_text(json.dumps(bad))
    assert main([str(tmp_path)]) == 1
    assert (
        capsys.readouterr().err == f"{tmp_path / 'bad.ipynb'}: cell 3: holds an execution count\n"
    )
