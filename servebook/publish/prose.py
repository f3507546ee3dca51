"""An edit of a notebook's prose runs nothing: what its code gave stands as long as the code does.

A kernel sees code cells alone. So an executed notebook is kept under a digest of all but the prose,
and what is written around the code is put in anew from the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from servebook.publish.fresh import digest_of

__all__ = ["code_digest", "with_prose_of"]

_INJECTED = "injected-parameters"


def _read(path: Path) -> dict[str, Any] | None:
    """The notebook as JSON, each source one text; None where it is not of the usual form."""
    try:
        notebook = json.loads(path.read_bytes())
        cells = [{**cell, "source": "".join(cell["source"])} for cell in notebook["cells"]]
        if any(cell["cell_type"] not in ("code", "markdown", "raw") for cell in cells):
            return None
        if any(_INJECTED in _tags(cell) for cell in cells):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return {**notebook, "cells": cells}


def _tags(cell: dict[str, Any]) -> list[str]:
    return list(cell.get("metadata", {}).get("tags", ()))


def _code(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def code_digest(path: Path, whole: str) -> str:
    """A digest of what of the notebook runs; of one of another form ``whole``, that of the file."""
    notebook = _read(path)
    return whole if notebook is None else digest_of({**notebook, "cells": _code(notebook)})


def with_prose_of(path: Path, executed: dict[str, Any]) -> dict[str, Any] | None:
    """The ``executed`` notebook (JSON) with the prose that the file has now; None: it must run.

    >>> with_prose_of(Path("none.ipynb"), {"cells": []})
    """
    notebook = _read(path)
    try:
        ran = [cell for cell in _code(executed) if _INJECTED not in _tags(cell)]
    except (KeyError, TypeError, AttributeError):
        return None
    if notebook is None or [_said(cell) for cell in ran] != [
        _said(cell) for cell in _code(notebook)
    ]:
        return None
    cells = iter(ran)
    joined = [next(cells) if one["cell_type"] == "code" else one for one in notebook["cells"]]
    return {**executed, "cells": joined}


def _said(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])
