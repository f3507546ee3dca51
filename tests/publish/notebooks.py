"""Small notebooks, written by the tests that run them."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

__all__ = ["write"]


def write(path: Path, *cells: str) -> Path:
    """A notebook with a heading, a parameters cell ``campaign`` and these code cells."""
    tagged = new_code_cell('campaign = "x"', metadata={"tags": ["parameters"]})
    body = [new_markdown_cell(f"# {path.stem}"), tagged, *map(new_code_cell, cells)]
    nbformat.write(new_notebook(cells=body), path)
    return path
