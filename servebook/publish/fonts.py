"""Which fonts the drawing worker finds: those of the system but for the one that drawings are in.

vl-convert brings Liberation Sans along and holds it in memory. Where the system has the same
typeface as files it takes those, and opens and maps such a file anew for every letter that it
measures or paints: half of the time of drawing. Without them a drawing is also the same whatever
release of the typeface a system has. All other fonts stay, for letters that this one lacks.

It finds fonts by fontconfig's settings, on Linux alone. So it is given settings of our own, which
name the folders of the system's. Own code: fontconfig has a rule to reject files, but vl-convert's
reader of the settings knows folders only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

__all__ = ["settings"]

VARIABLE = "FONTCONFIG_FILE"
#: How the files of Liberation Sans are named wherever it is packaged; its narrow sister is another.
BROUGHT = "LiberationSans-"
SYSTEM = Path("/etc/fonts/fonts.conf")
USUAL = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts")


def settings(folder: Path, system: Path = SYSTEM) -> Mapping[str, str]:
    """Environment variables for the worker; what they name is written into the new ``folder``.

    ``system`` are fontconfig's own settings. There are no variables where fonts are found in
    another way, or where the folder cannot be made: then drawing takes longer.
    """
    if not sys.platform.startswith("linux"):
        return {}
    with contextlib.suppress(OSError):
        links = folder / "beside"
        links.mkdir(parents=True)
        folders = [part for root in _roots(system) for part in _without(root, links)]
        lines = (f"<dir>{escape(str(part))}</dir>" for part in [*folders, links])
        written = folder / "fonts.conf"
        text = f'<?xml version="1.0"?>\n<fontconfig>{"".join(lines)}</fontconfig>\n'
        written.write_text(text, encoding="utf-8", errors="surrogateescape")
        return {VARIABLE: str(written)}
    return {}


def _roots(system: Path) -> list[Path]:
    """The folders that fontconfig's settings name, or those that are usual."""
    named = [*_named(Path(os.environ.get(VARIABLE) or system))]
    for part in sorted((system.parent / "conf.d").glob("*.conf")):
        named += _named(part)
    paths = [Path(name).expanduser() for name in named or USUAL]
    return [path for path in dict.fromkeys(paths) if path.is_dir()]


def _named(file: Path) -> Iterator[str]:
    try:
        root = ElementTree.parse(file).getroot()
    except (OSError, ElementTree.ParseError):
        return
    for one in root.iter("dir"):
        place = (one.text or "").strip()
        if one.get("prefix") == "xdg":
            place = str(Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / place)
        if place:
            yield place


def _without(folder: Path, links: Path) -> Iterable[Path]:
    """Folders that hold the fonts below ``folder`` but those; ``links`` takes what lies beside."""
    if not any(_brought(names) for _, _, names in os.walk(folder)):
        return [folder]
    found: list[Path] = []
    for path in folder.iterdir():  # in the order in which vl-convert's reader would find them
        if path.is_dir():
            found += _without(path, links)
        elif not _brought([path.name]):
            (links / f"{len(list(links.iterdir()))}-{path.name}").symlink_to(path)
    return found


def _brought(names: Iterable[str]) -> bool:
    return any(name.startswith(BROUGHT) for name in names)
