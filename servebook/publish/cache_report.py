"""What the cache holds, by kind and by whether a build could still use it; and taking it away.

Only what Servebook keeps is counted and removed: a foreign file in the folder stays where it is.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servebook.publish.fresh import FOLDER as PAGES
from servebook.publish.fresh import program
from servebook.publish.kept import drawing_version
from servebook.publish.words import bytes_size
from servebook.read.cache import reader_version
from servebook.read.remote_listing import FOLDER as REMOTE
from servebook.read.sums import FOLDER as SUMS
from servebook.read.sums import cache_folder

__all__ = ["remove", "render", "report"]

_TABLES = "tables"
_MEANING = {
    _TABLES: "dumps that were read",
    "notebooks": "notebooks that ran",
    "abouts": "campaigns that were read for their pages",
    "drawings": "drawings of charts",
    PAGES: "pages that were built",
    SUMS: "checksums of files",
    REMOTE: "mirrors of URLs",
}
_KEY = re.compile(r"[0-9a-f]{64}")
_SHARD = re.compile(r"[0-9a-f]{2}")
_MIRROR = re.compile(r"[0-9a-f]{40}")
_OLD_S = 30 * 86_400  # a checksum or a mirror that nobody asked for in so long


@dataclass(frozen=True)
class _Entry:
    path: Path
    kind: str
    n_bytes: int
    stale: bool


def _entries(folder: Path) -> Iterator[_Entry]:
    for shard in _below(folder):
        if _SHARD.fullmatch(shard.name):
            for path in _below(shard):
                if _KEY.fullmatch(path.name) or path.name.startswith((".new-", ".old-")):
                    yield _Entry(path, _TABLES, _size(path), _of_another_reader(path))
    for kind, version in (
        ("notebooks", program()),
        ("abouts", program()),
        ("drawings", drawing_version()),
    ):
        for made_by in _below(folder / kind):
            for path in _below(made_by):
                yield _Entry(path, kind, _size(path), made_by.name != version[:16])
    for path in _below(folder / PAGES):
        yield _Entry(path, PAGES, _size(path), stale=False)
    oldest = time.time() - _OLD_S
    for shard in _below(folder / SUMS):
        for path in _below(shard):
            with contextlib.suppress(OSError):
                yield _Entry(path, SUMS, _size(path), path.stat().st_mtime < oldest)
    for path in _below(folder / REMOTE):
        if _MIRROR.fullmatch(path.name):
            with contextlib.suppress(OSError):
                yield _Entry(path, REMOTE, _size(path), path.stat().st_mtime < oldest)


def _below(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # not there, or no folder
        return []


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    n_bytes = 0
    for file in files:
        with contextlib.suppress(OSError):  # removed by another process meanwhile
            n_bytes += file.stat().st_size
    return n_bytes


def _of_another_reader(entry: Path) -> bool:
    try:
        index = json.loads((entry / "entry.json").read_bytes())
        return bool(index.get("reader") != reader_version())
    except (OSError, ValueError, AttributeError):
        return True


def report() -> dict[str, Any]:
    """What the cache holds: ``folder``, and by kind: entries, bytes, stale, stale_bytes."""
    folder = cache_folder()
    found: dict[str, Any] = {"folder": None if folder is None else str(folder), "removed": None}
    kinds = {kind: {"entries": 0, "bytes": 0, "stale": 0, "stale_bytes": 0} for kind in _MEANING}
    for entry in () if folder is None else _entries(folder):
        row = kinds[entry.kind]
        row["entries"] += 1
        row["bytes"] += entry.n_bytes
        row["stale"] += entry.stale
        row["stale_bytes"] += entry.n_bytes if entry.stale else 0
    return {**found, "kinds": kinds}


def remove(*, stale_only: bool) -> dict[str, Any]:
    """Take away what was kept (or only what no build can use again), and report what is left.

    A build at work beside this finds an entry whole or not at all, and makes it again.
    """
    folder = cache_folder()
    n_entries = n_bytes = n_kept = 0
    for entry in () if folder is None else list(_entries(folder)):
        if stale_only and not entry.stale:
            continue
        aside = entry.path.with_name(f".old-{entry.path.name}")
        try:
            entry.path.replace(aside)
            if aside.is_dir():
                shutil.rmtree(aside, ignore_errors=True)
            else:
                aside.unlink()
            n_entries += 1
            n_bytes += entry.n_bytes
        except FileNotFoundError:  # another process was first
            pass
        except OSError:
            n_kept += 1
        for empty in (entry.path.parent, entry.path.parent.parent):
            if empty != folder:
                with contextlib.suppress(OSError):  # something else is in it
                    empty.rmdir()
    return {**report(), "removed": {"entries": n_entries, "bytes": n_bytes, "kept": n_kept}}


def render(found: dict[str, Any]) -> str:
    """The report as text."""
    if found["folder"] is None:
        return "no cache: the variable SERVEBOOK_CACHE is empty, or there is no home folder"
    lines = [found["folder"]]
    for kind, row in found["kinds"].items():
        if row["entries"]:
            stale = ""
            if row["stale"]:
                size = bytes_size(row["stale_bytes"])
                stale = f"; {row['stale']:,} ({size}) that no build will use again"
            words = f"{row['entries']:,} {_MEANING[kind]}, {bytes_size(row['bytes'])}{stale}"
            lines.append(f"  {words}")
    if len(lines) == 1:
        lines.append("  empty")
    if found["removed"] is not None:
        removed = found["removed"]
        lines.append(f"removed {removed['entries']:,} entries, {bytes_size(removed['bytes'])}")
        if removed["kept"]:
            lines.append(f"{removed['kept']:,} could not be removed: may the folder be written to?")
    elif any(row["stale"] for row in found["kinds"].values()):
        lines.append("`servebook cache --prune` removes what no build will use again")
    return "\n".join(lines)
