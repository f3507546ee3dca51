"""Reads the sources of a tree through the cache, and keeps account of every input file.

Here, with several processes where that pays (``ahead``), or on the cluster that the user names
(``cluster``): both leave tables in the cache, where they are found in the order of the sources.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tqdm import tqdm

from servebook.errors import DumpError
from servebook.read import source as source_module
from servebook.read.ahead import at_once
from servebook.read.cache import Cache, default_folder
from servebook.read.cluster import ClusterFaultError, scheduler
from servebook.read.cluster_ranges import seen_by_all
from servebook.read.cluster_reading import fill, here_only
from servebook.read.parts import Part, files_of, inputs_of, key_of, read_part
from servebook.read.source import Source, reading_fault, relative

__all__ = ["Part", "opened", "read_sources"]

#: A dump of less is read before a process is there to do it, and so are all of them of less.
_LEAST_BYTES = 1 << 20
_WORTH_BYTES = 16 << 20
#: On a cluster: fewer dumps than this many leave workers idle, unless large ones are cut.
_MANY, _RANGED_BYTES = 8, 256 << 20

Read = Callable[[Source], Part]


def read_sources(sources: Sequence[Source], refused: list[tuple[str, str]]) -> list[Part]:
    """The parts in the order of ``sources``; one that cannot be used goes to ``refused``.

    Several big dumps that the cache does not hold are read at once, where there is a cache.
    Raises ServebookError where a cluster was asked for and cannot do it.
    """
    parts = []
    with opened(sources) as read:
        # ``disable=None``: silent where the output is no terminal.
        for source in _bar(sources):
            try:
                parts.append(read(source))
            except DumpError as error:
                line = "" if error.line is None else f"line {error.line}: "
                refused.append((relative(source.main, source.root), line + error.reason))
            except ClusterFaultError as error:
                refused.append((relative(source.main, source.root), str(error)))
            except source_module.FAULTS as error:
                refused.append((relative(source.main, source.root), reading_fault(error)))
    return parts


@contextlib.contextmanager
def opened(sources: Sequence[Source]) -> Iterator[Read]:
    """A function that reads one of ``sources``, most of which have been read when it is there.

    It raises DumpError, ClusterFaultError, and whatever a reader raises by a fault of its own.
    """
    cache = Cache(default_folder())
    if not scheduler():
        _ahead(sources, cache)
        yield partial(read_part, cache=cache)
        return
    with contextlib.ExitStack() as stack:
        if cache.folder is None:
            own = stack.enter_context(tempfile.TemporaryDirectory(prefix="servebook-"))
            cache = Cache(Path(own))
        failed = _on_cluster(sources, cache)

        def read(source: Source) -> Part:
            if error := failed.get(id(source)):
                raise error
            return read_part(source, cache)

        yield read


def _bar(sources: Sequence[Source]) -> Iterator[Source]:
    if not sys.stderr.isatty():  # tqdm takes 8 ms to show nothing
        yield from sources
        return
    yield from tqdm(sources, desc="reading", unit="dump", disable=None, leave=False, delay=1)


def _on_cluster(sources: Sequence[Source], cache: Cache) -> dict[int, Exception]:
    """Have the cluster read what the cache lacks; the errors by the id of their source."""
    lacking: dict[str, Source] = {}
    for source in sources:
        if not here_only(source):
            with contextlib.suppress(DumpError):  # told when it is read
                if not cache.holds(key := key_of(source, inputs_of(source))):
                    lacking[key] = source
    if len(lacking) < _MANY:  # a few large files are read in ranges, as one is on one machine
        for key in [key for key, source in lacking.items() if _in_ranges(source)]:
            del lacking[key]
    if not lacking:
        return {}
    with tqdm(
        total=len(lacking), desc="cluster", unit="dump", disable=None, leave=False, delay=1
    ) as bar:
        failed = fill(list(lacking.items()), cache, bar.update)
    return {id(lacking[key]): error for key, error in failed.items()}


def _in_ranges(source: Source) -> bool:
    """Whether its reader cuts it into ranges that workers can read where it lies."""
    large = source.main.stat().st_size >= _RANGED_BYTES
    return large and source.format == "aiperf" and seen_by_all(source.main)


def _ahead(sources: Sequence[Source], cache: Cache) -> None:
    """Fill the cache with the dumps that it lacks, where that is worth processes of its own."""
    if cache.folder is None:
        return
    large: list[tuple[int, Source]] = []
    for source in sources:
        with contextlib.suppress(OSError):
            size = sum(path.stat().st_size for path in files_of(source))
            if size >= _LEAST_BYTES:
                large.append((size, source))
    if len(large) < 2:  # one alone is hashed while it is read
        return
    lacking: list[tuple[int, Source]] = []
    for size, source in large:
        with contextlib.suppress(DumpError):
            if not cache.holds(key_of(source, inputs_of(source))):
                lacking.append((size, source))
    if sum(size for size, _ in lacking) >= _WORTH_BYTES:
        lacking.sort(key=lambda one: -one[0])  # the longest first, so that all end together
        at_once([partial(read_part, one, cache) for _, one in lacking])
