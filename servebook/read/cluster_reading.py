"""Sources read on a Dask cluster, each by one worker that finds its files where they are here.

A worker does what this machine would do: it hashes the files, reads them, and writes the entry of
the cache, into this machine's own cache where it sees that folder, too (shared storage), else into
its own, from which the files of the entry come here as they are. The key that it finds by itself
must be the one that was found here: so both read the same bytes by the same code.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from servebook.errors import ServebookError
from servebook.read.archives import unpacked_here
from servebook.read.cache import Cache, default_folder
from servebook.read.cluster import Call, outcomes
from servebook.read.cluster_worker import NotHereError
from servebook.read.parts import files_of, read_into
from servebook.read.remote import Origin, fetched, origin
from servebook.read.source import Source, relative

__all__ = ["fill", "here_only"]


def here_only(source: Source) -> bool:
    """Whether no other machine can have the files: they were unpacked from an archive here."""
    return unpacked_here(source.root)


def fill(
    jobs: Sequence[tuple[str, Source]], cache: Cache, done: Any = lambda: None
) -> dict[str, Exception]:
    """Have the cluster read each (key, source) into ``cache``; the errors of those it cannot read.

    ``done`` is called after each. Raises ServebookError where the cluster, or what its workers
    see, is not as it must be.
    """
    assert cache.folder is not None
    failed: dict[str, Exception] = {}
    with _mark(cache.folder) as mark:
        where = (str(cache.folder.resolve()), mark)
        calls = [
            Call(
                f"{__name__}:read_there",
                (source, origin(files_of(source)), key, *where),
                f"{__name__}:keep_here",
                (key, where[0]),
            )
            for key, source in jobs
        ]
        for index, outcome in outcomes(calls):
            if isinstance(outcome, Exception):
                failed[jobs[index][0]] = outcome
            done()
    return failed


@contextmanager
def _mark(folder: Path) -> Iterator[str]:
    """The name of a file in the cache, by which a worker knows that it sees the same folder."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".shared-", dir=folder)
    except OSError as error:
        raise ServebookError(
            f"{folder}: results of a cluster are put there, and it cannot be written "
            f"({error.strerror}); make room, or set SERVEBOOK_CACHE to another folder"
        ) from None
    os.close(handle)
    try:
        yield Path(name).name
    finally:
        Path(name).unlink(missing_ok=True)


def read_there(
    source: Source, remote: tuple[Path, Origin] | None, key: str, folder: str, mark: str
) -> dict[str, bytes] | None:
    """On a worker: read one source; the files of its entry, or None where it lies in ``folder``.

    Files that came from a URL are fetched by this worker, if its mirror lacks them. Raises
    NotHereError for what this worker does not see as the caller does, and what the reader raises.
    """
    if remote is not None:
        source = _moved(source, remote[0], fetched(remote[1]))
    for path in files_of(source):
        if not path.is_file():
            raise NotHereError(
                f"expected the file {relative(path, source.root)} at {path} on every worker, found "
                f"none on {_name()}; put dumps and cache on storage that all machines mount at the "
                "same path, or give the URL of the campaign"
            )
    shared = (Path(folder) / mark).is_file()
    with tempfile.TemporaryDirectory(prefix="servebook-", ignore_cleanup_errors=True) as own:
        for place in (Path(folder) if shared else default_folder(), Path(own)):
            cache = Cache(place)
            if not cache.holds(key):
                found = read_into(source, cache)
                if found != key:
                    raise NotHereError(
                        f"expected {relative(source.main, source.root)} as on the machine that "
                        f"asked, found other content at {source.main} on {_name()}; wait until "
                        "all machines see the same files"
                    )
            if shared and place != Path(own) and cache.holds(key):
                return None
            if (files := cache.files(key)) is not None:
                return files
    raise NotHereError(f"found no room for results on {_name()}; make room there")


def _moved(source: Source, before: Path, after: Path) -> Source:
    """The same source in another mirror; its root is that of the mirror, or the folder above."""

    def moved(value: Any) -> Any:
        inside = isinstance(value, Path) and value.is_relative_to(before)
        return after / value.relative_to(before) if inside else value

    return replace(
        source,
        root=after if source.root == before else after.parent,
        main=moved(source.main),
        files=tuple(map(moved, source.files)),
        options={name: moved(value) for name, value in source.options.items()},
    )


def _name() -> str:
    try:
        import distributed

        return f"the worker {distributed.get_worker().address}"
    except (ImportError, ValueError):  # not in a task
        return "this machine"


def keep_here(files: dict[str, bytes] | None, key: str, folder: str) -> None:
    """Beside the caller: put what a worker sent into the cache, unless it has done so itself."""
    if files is not None:
        Cache(Path(folder)).take(key, files)
