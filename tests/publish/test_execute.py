from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from servebook.errors import BuildError
from servebook.publish.execute import defaults, run

NOTEBOOKS = Path(__file__).resolve().parents[1] / "fixtures" / "notebooks"


def failure(name: str, **parameters: Any) -> str:
    with pytest.raises(BuildError) as caught:
        run(NOTEBOOKS / f"{name}.ipynb", parameters or {"campaign": "somewhere"})
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("failing", "notebook failing.ipynb, cell 4 (y = x / 0): ZeroDivisionError: division"),
        ("exit", "notebook exit.ipynb, cell 3 (raise SystemExit(0)): it ended the kernel (exit)"),
        ("exit-call", "notebook exit-call.ipynb, cell 3 (exit()): it ended the kernel (exit)"),
        ("dead", "notebook dead.ipynb, cell 3 (import os): the kernel died in it"),
        ("warning", "notebook warning.ipynb, cell 3 (import warnings): it wrote to stderr: "),
        (
            "refused",
            "notebook refused.ipynb, cell 3 (from servebook.errors import DumpError): a.jsonl:3: ",
        ),
    ],
)
def test_a_failure_names_notebook_cell_and_cause(name: str, message: str) -> None:
    assert failure(name).startswith(message)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("untagged", {"campaign": "x"}, "expected one cell with the tag 'parameters', found none"),
        ("computed", {"n": 1}, "a parameters cell may only set names to plain values"),
        ("failing", {"nope": 1}, "it has no parameter 'nope'; its parameters cell has"),
        ("failing", {"campaign = 1; import os": 1}, "it has no parameter"),
        ("failing", {"campaign": ["a"]}, "parameter 'campaign' must be a plain value"),
        ("failing", {"levels": float("nan")}, "parameter 'levels' must be a plain value"),
        ("absent", {"campaign": "x"}, "it is not a notebook"),
    ],
)
def test_nothing_runs_with_wrong_parameters(
    name: str, parameters: dict[str, Any], message: str
) -> None:
    assert message in failure(name, **parameters)


def test_defaults_are_the_plain_values_of_the_cell() -> None:
    path = NOTEBOOKS / "failing.ipynb"
    nb = nbformat.read(path, as_version=4)
    assert defaults(nb, path) == {"campaign": "../data/toy", "levels": 3}


def test_a_broken_file_is_no_notebook(tmp_path: Path) -> None:
    path = tmp_path / "torn.ipynb"
    path.write_text('{"cells": [')
    with pytest.raises(BuildError, match=r"torn\.ipynb: it is not a notebook"):
        run(path, {})
