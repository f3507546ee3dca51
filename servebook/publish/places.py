"""Where a build finds its parts: the project's folder and the campaigns to build.

Imports nothing else, because a build in which nothing changed ends after these questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from servebook.errors import BuildError

__all__ = ["campaign_folders", "home", "spelled"]


def home() -> Path:
    """The project's folder: where ``notebooks/`` and ``report/template/`` are.

    Raises:
        BuildError: neither the current folder nor the one of the package is one.

    """
    for folder in (Path.cwd(), Path(__file__).resolve().parents[2]):
        if (folder / "notebooks").is_dir() and (folder / "report" / "template").is_dir():
            return folder
    raise BuildError("no notebooks/ and report/template/ here; run it in the project's folder")


def campaign_folders(given: Sequence[Path], root: Path) -> list[Path]:
    """The campaigns' folders, absolute; none given: all below ``data/`` of the project ``root``.

    Raises:
        BuildError: there is none, one holds no manifest, or two would write the same page.

    """
    found = list(given) or sorted(path.parent for path in (root / "data").glob("*/campaign.yaml"))
    if not found:
        raise BuildError(
            f"no campaign below {root / 'data'}; name a folder that holds a campaign.yaml, or "
            "write one with: servebook init FOLDER"
        )
    for path in found:
        if not (path / "campaign.yaml").is_file():
            raise BuildError(
                f"{path} holds no campaign.yaml; write a first one with: servebook init {path}"
            )
    names = [path.resolve().name for path in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BuildError(f"two campaigns would write the same page: {', '.join(twice)}")
    return [path.resolve() for path in found]


def spelled(path: Path, base: Path) -> str:
    """The path as a page may show it: relative to ``base`` when it lies in it, else its name."""
    try:
        return path.resolve().relative_to(base.resolve()).as_posix()
    except ValueError:
        return path.resolve().name
