"""Whether a page is up to date: a digest of all that it was made from, kept beside what came out.

What makes a page: the files of its campaign, the notebooks and what lies beside them, template and
fixed texts, the package's own source, the interpreter and the installed packages, and the options
of the build. The digest is kept in the cache and not in the page, which is the same wherever it is
built. Where there is no cache, every build is a whole one.

Own code: make and its like compare times of files, which a checkout and a copy change.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from servebook.publish.places import spelled
from servebook.read.sums import cache_folder, remembered_sha256, stamp, write_whole

__all__ = ["FOLDER", "Ingredients", "digest_of", "ingredients", "program", "record", "up_to_date"]

FOLDER = "pages"
_PACKAGE = Path(__file__).resolve().parents[1]
_URL = re.compile(rb"match:\s*[\"']?[A-Za-z0-9+.-]+://")
_PASSED_OVER = {"__pycache__", ".ipynb_checkpoints"}


@dataclass(frozen=True)
class Ingredients:
    """Digests of what makes a page, by what else hangs on each."""

    program: str  # the package's source, the interpreter, the installed packages
    campaign: str  # every file below its folder, and how the page spells the folder
    notebooks: dict[str, str]  # of each notebook, by its file name
    beside: str  # what else lies in the folder of the notebooks
    look: str  # the template
    texts: str  # the fixed texts

    def whole(self, language: str) -> str:
        """One digest of all of it."""
        return digest_of(self.program, self.campaign, self.notebooks, self.beside, self.look,
                         self.texts, language)  # fmt: skip

    def chapter(self, name: str, own: str, root: Path, language: str) -> str:
        """The digest of what an executed notebook hangs on, of which ``own`` is the notebook's.

        ``root`` is its parameter.
        """
        told = (self.texts, language)
        return digest_of(self.program, self.campaign, self.beside, told, name, own, str(root))

    def about(self, language: str) -> str:
        """The digest of what is told around the chapters."""
        return digest_of(self.campaign, self.texts, language)


def digest_of(*parts: object) -> str:
    """Hex digest of plain values."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def ingredients(root: Path, base: Path, notebooks: Path | None = None) -> Ingredients:
    """Of the campaign in ``root``, built in the project's folder ``base``."""
    lying = _files(notebooks or base / "notebooks")
    chapters = {name: text for name, text in lying.items() if name.endswith(".ipynb")}
    chapters = {name: text for name, text in chapters.items() if "/" not in name}
    rest = {name: text for name, text in lying.items() if name not in chapters}
    look, texts = (digest_of(_files(base / "report" / name)) for name in ("template", "text"))
    mirrors = [_files(place) for place in _mirrors(root)]
    campaign = digest_of(root.name, spelled(root, base), _files(root), *mirrors)
    return Ingredients(program(), campaign, chapters, digest_of(rest), look, texts)


def _mirrors(root: Path) -> list[Path]:
    """Where dumps lie that the manifest names by URLs, which are asked for what is new."""
    try:
        named = _URL.search((root / "campaign.yaml").read_bytes())
    except OSError:
        return []
    if named is None:
        return []
    from servebook.read.campaign_remote import mirrors_of

    return mirrors_of(root)


def program() -> str:
    """A digest of the package, the interpreter and the installed packages."""
    installed = sorted(
        name
        for place in sys.path
        if os.path.isdir(place or ".")  # noqa: PTH112 - "" is this folder
        for name in os.listdir(place or ".")  # noqa: PTH208
        if name.endswith((".dist-info", ".egg-info"))
    )
    return digest_of(_files(_PACKAGE), sys.version, sys.executable, installed)


def _files(folder: Path) -> dict[str, str]:
    """The sha256 of each file by its path below ``folder``; of what cannot be read, why."""
    found = {}
    for path in sorted(_walk(folder)):
        try:
            plain = stat.S_ISREG(path.stat().st_mode)
            found[_name(path, folder)] = remembered_sha256(path) if plain else "no file"
        except OSError as error:
            found[_name(path, folder)] = f"error {error.errno}"
    return found


def _name(path: Path, folder: Path) -> str:
    name = path.relative_to(folder).as_posix()
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _walk(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _PASSED_OVER]
        linked = [name for name in folders if (Path(place) / name).is_symlink()]
        yield from (Path(place) / name for name in (*names, *linked))


def _place(output: Path, name: str) -> Path | None:
    folder = cache_folder()
    key = hashlib.sha256(os.fsencode(str(output.resolve() / name))).hexdigest()
    return None if folder is None else folder / FOLDER / f"{key[:40]}.json"


def _written(output: Path, name: str) -> dict[str, str]:
    """What the system says of each file of a page."""
    paths = [output / f"{name}.html", *_walk(output / name)]
    return {_name(path, output): stamp(path.stat()) for path in sorted(paths)}


def up_to_date(root: Path, base: Path, output: Path, language: str) -> Path | None:
    """The page of ``root`` in ``output``, where it is what a build would write now; else None."""
    place = _place(output, root.name)
    try:
        kept = None if place is None else json.loads(place.read_bytes())
        if not isinstance(kept, dict) or kept.get("files") != _written(output, str(kept["name"])):
            return None
    except (OSError, ValueError, KeyError):
        return None
    same = kept.get("made_of") == ingredients(root, base).whole(language)
    return output / f"{kept['name']}.html" if same else None


def record(made_of: str, output: Path, campaign: str, page: str) -> None:
    """Remember what the page that was just published was made of.

    ``made_of`` is the digest from before the build: what changes while it runs counts as changed.
    ``campaign`` is the name of its folder; the manifest may give the ``page`` another one.
    """
    if (place := _place(output, campaign)) is not None:
        kept = {"made_of": made_of, "name": page, "files": _written(output, page)}
        write_whole(place, json.dumps(kept, sort_keys=True).encode())
