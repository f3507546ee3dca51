"""Which modules of chapters a notebook imports, without importing or running anything."""

from __future__ import annotations

import ast
import json
from functools import lru_cache
from pathlib import Path

__all__ = ["chapters_of"]

_PACKAGE = "servebook.publish.chapters"


@lru_cache(maxsize=256)
def chapters_of(notebook: Path) -> frozenset[str]:
    """The names of the modules below ``servebook.publish.chapters``; none where it cannot be told.

    Asked while a build runs, so that what the file holds later does not count.
    """
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        code = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        lines = ast.parse("\n".join(code)).body
    except (OSError, ValueError, KeyError, TypeError, SyntaxError):
        return frozenset()
    found = set()
    for line in lines:
        if isinstance(line, ast.ImportFrom) and line.module == _PACKAGE:
            found |= {name.name for name in line.names}
        elif isinstance(line, ast.ImportFrom) and line.module:
            found.add(_below(line.module))
        elif isinstance(line, ast.Import):
            found |= {_below(name.name) for name in line.names}
    return frozenset(found - {""})


def _below(module: str) -> str:
    return module.removeprefix(f"{_PACKAGE}.") if module.startswith(f"{_PACKAGE}.") else ""
