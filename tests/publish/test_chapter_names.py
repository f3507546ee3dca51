"""Which modules of chapters a notebook imports, in every spelling, told from its file alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servebook.publish.chapter_names import chapters_of


def notebook(path: Path, *cells: tuple[str, str]) -> Path:
    made = [{"cell_type": kind, "source": source.splitlines(True)} for kind, source in cells]
    path.write_text(json.dumps({"cells": made}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("from servebook.publish.chapters import fabric, trust as t", {"fabric", "trust"}),
        (
            "from servebook.publish.chapters import (\n    fabric,\n    mixed,\n)",
            {"fabric", "mixed"},
        ),
        ("from servebook.publish.chapters.fabric_time import over_time", {"fabric_time"}),
        ("import servebook.publish.chapters.gaps as g, numpy", {"gaps"}),
        ("from servebook.read.campaign import load\nimport servebook.publish.charts.gaps", set()),
        ("x = 'from servebook.publish.chapters import fabric'", set()),
        ("this is no Python", set()),
    ],
)
def test_every_spelling_of_an_import_is_seen(tmp_path: Path, code: str, names: set[str]) -> None:
    prose = "import servebook.publish.chapters.trust"
    assert chapters_of(notebook(tmp_path / "a.ipynb", ("markdown", prose), ("code", code))) == names


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"cells": [{"cell_type": "code"}]}'])
def test_what_is_no_notebook_imports_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(text, encoding="utf-8")
    assert chapters_of(path) == frozenset()
    assert chapters_of(tmp_path / "none.ipynb") == frozenset()
