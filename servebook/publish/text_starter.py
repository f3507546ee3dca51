"""A first file for another language: the English catalogue, and the notebooks' prose to translate.

``python -m servebook.publish.text_starter > report/text/de.yaml`` in the project's folder. The
texts come with their comments, in their order; below them stand the Markdown cells of the
notebooks, which have their English in the notebooks themselves.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from servebook.publish.places import home
from servebook.publish.text import DEFAULT, PROSE

__all__ = ["main", "prose", "starter"]


def prose(notebooks: Path) -> dict[str, dict[str, str]]:
    """The Markdown of each notebook in a folder by its cell's id."""
    return {
        path.stem: {
            cell["id"]: "".join(cell["source"])
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
            if cell["cell_type"] == "markdown"
        }
        for path in sorted(notebooks.glob("*.ipynb"))
    }


def starter(base: Path) -> str:
    """The text of the file, from the project's folder ``base``."""
    english = (base / "report" / "text" / f"{DEFAULT}.yaml").read_text(encoding="utf-8")
    cells = yaml.safe_dump(
        {PROSE: prose(base / "notebooks")}, sort_keys=False, allow_unicode=True, width=98
    )
    return f"{english.rstrip()}\n\n# The notebooks' prose, by notebook and id of the cell.\n{cells}"


def main() -> None:
    """Print the file."""
    sys.stdout.write(starter(home()))


if __name__ == "__main__":
    main()
