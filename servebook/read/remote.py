"""Dumps at a URL, mirrored into the cache folder, so that all that reads files works as ever.

fsspec lists and fetches. Of each file is kept what the server said of it (ETag, time, checksum,
size): one that has not changed is not fetched again, and one of which nothing is said always is.
Files that are gone there go here. A web server has no listing but its index pages, which are read;
without them one file or archive is one URL. ``file://`` is the folder itself. Nothing that may be a
key is written down or shown (``urls.shown``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from servebook.errors import DumpError, ServebookError
from servebook.read.remote_listing import FOLDER, Remote, TooMuchError, listing, remote_path
from servebook.read.sums import cache_folder, write_whole
from servebook.read.urls import is_url, last_name, opened, shown

__all__ = ["FOLDER", "LIMIT", "Origin", "fetched", "local", "mirror", "origin"]

#: Names the most GiB that one URL may bring; a folder too high up should not fill a disk.
LIMIT = "SERVEBOOK_REMOTE_GIB"
_USUAL_GIB = 100.0
MAX_FILES = 100_000
_AT_ONCE = 8
#: Which folder mirrors which URL, for this process and those that it starts; never on disk,
#: because a URL may hold a key.
_VARIABLE = "SERVEBOOK_ORIGINS"

_temporary: list[tempfile.TemporaryDirectory[str]] = []


@dataclass(frozen=True)
class Origin:
    """Where a mirrored folder came from, as much as another machine needs to mirror it, too."""

    url: str
    single: bool
    files: tuple[Remote, ...]


@dataclass(frozen=True)
class _Mirror:
    """The place of one URL's files: ``top`` holds a folder or file of the URL's own name."""

    url: str
    folder: Path

    @property
    def top(self) -> Path:
        return self.folder / "tree"

    @property
    def path(self) -> Path:
        return self.top / last_name(self.url)

    def kept(self) -> dict[str, list[Any]]:
        """By name: what the server said of a file, and what the system says of its copy."""
        try:
            found = json.loads((self.folder / "index.json").read_bytes())["files"]
            return {str(name): list(said) for name, said in found.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def keep(self, files: Mapping[str, list[Any]]) -> None:
        index = {"url": shown(self.url), "files": dict(sorted(files.items()))}
        write_whole(self.folder / "index.json", json.dumps(index).encode())


def local(place: Path | str) -> Path:
    """The path of what was named: a path itself, a ``file://`` URL's, or a URL's mirror.

    Raises DumpError where there is nothing, ServebookError where it cannot be fetched.
    """
    if isinstance(place, Path) or not is_url(place):
        return Path(place)
    if place.startswith(("file://", "local://")):
        return Path(opened(place)[1])
    return mirror(place)


def mirror(url: str) -> Path:
    """Fetch what has changed at a URL, and the path of its copy: a folder, or one file.

    Raises as ``local`` does.
    """
    system, base = opened(url)
    with _told(url):
        single, files = listing(system, base, url)
    if not files:
        raise DumpError(
            shown(url),
            "a file, or a folder with files below it",
            "nothing there",
            "check the URL; of a web server name a file, or a folder for which it has an index",
        )
    place = _Mirror(url, _folder(url))
    if single:
        files = [Remote(place.path.name, files[0].size, files[0].mark)]
    _fetch(place, system, base, single, files)
    with contextlib.suppress(OSError):
        os.utime(place.folder)  # `servebook cache --prune` takes what nobody asks for any more
    _remove_others(place, single, {file.name for file in files})
    known = json.loads(os.environ.get(_VARIABLE, "{}"))
    known[str(place.path.parent if single else place.path)] = [url, single]
    os.environ[_VARIABLE] = json.dumps(known)
    return place.path


def origin(paths: Sequence[Path]) -> tuple[Path, Origin] | None:
    """The root of the mirror that holds all ``paths``, and where they came from; else None."""
    for place, (url, single) in json.loads(os.environ.get(_VARIABLE, "{}")).items():
        root = Path(place)
        if all(path.is_relative_to(root) for path in paths):
            kept = _Mirror(url, root.parent if single else root.parent.parent).kept()
            names = [path.relative_to(root).as_posix() for path in paths]
            if all(name in kept for name in names):
                files = tuple(Remote(name, *kept[name][:2]) for name in names)
                return root, Origin(url, single, files)
    return None


def fetched(source: Origin) -> Path:
    """On another machine: the root of a mirror that holds these files; others may be missing."""
    system, base = opened(source.url)
    place = _Mirror(source.url, _folder(source.url))
    _fetch(place, system, base, source.single, source.files)
    return place.top if source.single else place.path


def _folder(url: str) -> Path:
    """Of one URL, whatever keys it carries."""
    name = hashlib.sha256(shown(url).rstrip("/").encode()).hexdigest()[:40]
    cache = cache_folder()
    if cache is None:
        _temporary.append(tempfile.TemporaryDirectory(prefix="servebook-"))
        cache = Path(_temporary[-1].name)
    return (cache / FOLDER / name).resolve()


def _fetch(place: _Mirror, system: Any, base: str, single: bool, files: Iterable[Remote]) -> None:
    from servebook.read.remote_progress import Counted

    kept = place.kept()
    top = place.top if single else place.path

    def there(file: Remote) -> bool:
        said = kept.get(file.name)
        with contextlib.suppress(OSError):
            return bool(file.mark) and said == [file.size, file.mark, *_stamp(top / file.name)]
        return False

    lacking = [file for file in files if not there(file)]
    if not lacking:
        return
    _room(place, files)
    top.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        _told(place.url),
        _bar(sum(file.size or 0 for file in lacking)) as bar,
        ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="fetch") as pool,
    ):
        counted = Counted(bar, _most_bytes())

        def one(file: Remote) -> None:
            remote = base if single else remote_path(place.url, base, file.name)
            kept[file.name] = [file.size, file.mark, *_one(system, remote, file, top, counted)]

        for file in lacking:  # what is said of a copy holds for no other one
            kept.pop(file.name, None)
        try:
            list(pool.map(one, lacking))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            place.keep(kept)


def _bar(n_bytes: int) -> Any:
    return tqdm(
        total=n_bytes,
        desc="fetching",
        unit="B",
        unit_scale=True,
        leave=False,
        disable=None,  # silent where the output is no terminal
        delay=1,
    )


def _one(system: Any, remote: str, file: Remote, top: Path, counted: Any) -> tuple[int, int]:
    """Fetch one file, which is there whole or not at all; what the system says of it."""
    target = top / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".new-", dir=target.parent)
    os.close(handle)
    work = Path(name)
    try:
        system.get_file(remote, name, callback=counted.branched(remote, name))
        size = work.stat().st_size
        if file.size is not None and size != file.size:
            raise _CutError(f"{size:,} of {file.size:,} bytes of {file.name}")
        work.replace(target)
        return _stamp(target)
    finally:
        work.unlink(missing_ok=True)


class _CutError(Exception):
    """A file that came only in part."""


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _most_bytes() -> float:
    text = os.environ.get(LIMIT, "").strip()
    try:
        return (float(text) if text else _USUAL_GIB) * (1 << 30)
    except ValueError:
        raise ServebookError(f"{LIMIT}: expected a number of GiB, found {text!r}") from None


def _room(place: _Mirror, files: Iterable[Remote]) -> None:
    files = list(files)
    total = sum(file.size or 0 for file in files)
    if len(files) > MAX_FILES:
        raise ServebookError(
            f"{shown(place.url)}: expected at most {MAX_FILES:,} files, found {len(files):,}; name "
            "a folder further down"
        )
    if total > (most := _most_bytes()):
        raise ServebookError(
            f"{shown(place.url)}: expected at most {most / (1 << 30):,.4g} GiB, found "
            f"{total / (1 << 30):,.4g}; name a folder further down, or set {LIMIT} higher"
        )
    place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    free = shutil.disk_usage(place.folder).free
    if total > free:
        raise ServebookError(
            f"{shown(place.url)}: holds {total / (1 << 30):,.4g} GiB, and {free / (1 << 30):,.4g} "
            "are free in the cache folder; make room, or set SERVEBOOK_CACHE to a larger disk"
        )


def _remove_others(place: _Mirror, single: bool, names: set[str]) -> None:
    """Take away what is no longer at the URL."""
    kept = place.kept()
    top = place.top if single else place.path
    for folder, _, found in os.walk(top, topdown=False):
        for name in found:
            path = Path(folder) / name
            if path.relative_to(top).as_posix() not in names and not name.startswith(".new-"):
                path.unlink(missing_ok=True)
        if Path(folder) != top:
            with contextlib.suppress(OSError):  # not empty
                Path(folder).rmdir()
    if set(kept) - names:
        place.keep({name: said for name, said in kept.items() if name in names})


@contextlib.contextmanager
def _told(url: str) -> Iterator[None]:
    """Errors of file systems of all kinds as one sentence; their own texts may hold keys."""
    way_out = "check the URL, the network and your access (the protocol's own settings), try again"
    try:
        yield
    except (ServebookError, KeyboardInterrupt):
        raise
    except FileNotFoundError:
        raise DumpError(shown(url), "a file or folder", "nothing there", way_out) from None
    except _CutError as error:
        raise DumpError(shown(url), "whole files", str(error), "try again") from None
    except TooMuchError:
        raise ServebookError(
            f"{shown(url)}: brings more than {_most_bytes() / (1 << 30):,.4g} GiB; name a folder "
            f"further down, or set {LIMIT} to what it may be"
        ) from None
    except Exception as error:
        status = getattr(error, "status", None)
        name = type(error).__name__ + (f" {status}" if isinstance(status, int) else "")
        raise DumpError(shown(url), "files that can be fetched", name, way_out) from None
