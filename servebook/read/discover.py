"""Finds the dumps of a file or tree and reads them all into canonical tables.

Every file ends in one of three places: it belongs to a dump, it is a known companion of dumps,
or it is refused with a reason. Dumps that cannot be used are refused too; no error stops the
reading of the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from servebook.errors import DumpError
from servebook.read import source as source_module
from servebook.read.aiperf_layout import stem
from servebook.read.changing import while_it_stays
from servebook.read.cluster import ClusterFaultError, scheduler
from servebook.read.codecs import SUFFIXES
from servebook.read.files import hidden, sha256, unreadable, walk
from servebook.read.leftovers import UNKNOWN, is_companion, left_alone
from servebook.read.parts import Part, format_of
from servebook.read.reading import opened
from servebook.read.registry import FORMATS
from servebook.read.source import File, Source, reading_fault, relative
from servebook.tables import Tables, table

__all__ = ["Discovery", "discover", "read_source", "read_tree", "reader"]


@dataclass(frozen=True)
class Discovery:
    """The dumps of a tree, the files beside them, and what was refused and why.

    ``packed`` are the files in archives that no reader knows, by their relative path.
    """

    root: Path
    sources: tuple[Source, ...]
    companions: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    packed: Mapping[str, File] = field(default_factory=dict)


def discover(path: Path) -> Discovery:
    """All dumps at or below ``path``; raises DumpError where ``path`` does not exist.

    Run sources get ``options["run_id"]``. A dump whose main file equals another's is refused as
    its copy; the first path in sort order counts.
    """
    found = walk(path)
    refused = list(found.refused)
    companions = list(found.skipped)
    top = path.resolve()
    single = len(found.files) == 1 and found.files[0].path == top
    root = top.parent if single else top
    open_files: list[File] = []
    for file in found.files:
        if hidden(file.relative) and not single:
            companions.append(file.relative)
        elif not file.head:
            reason = "an empty file" if file.size <= 4 else "nothing in it that can be unpacked"
            refused.append((file.relative, f"{reason}; copy it again from where it was written"))
        else:
            open_files.append(file)
    sources: list[Source] = []
    kinds: dict[str, str] = {}
    for form in FORMATS:
        claimed = form.find(open_files)
        kinds[form.name] = form.kind
        sources += claimed
        taken = {member for source in claimed for member in (source.main, *source.files)}
        open_files = [file for file in open_files if file.path not in taken]
    prefixes: dict[Path, set[str]] = defaultdict(set)
    for source in sources:
        if source.format == "aiperf":  # one option renames all files of a run
            prefixes[source.main.parent].add(stem(source.main.name))
    runs = [source.main for source in sources if kinds[source.format] == "runs"]
    run_folders = {folder for main in runs for folder in main.parents}
    for file in open_files:
        beside = any(
            file.path.name.startswith((f"{prefix}.", f"{prefix}_"))
            for prefix in prefixes.get(file.path.parent, ())
        )
        if alone := left_alone(file, run_folders):
            refused.append((file.relative, alone))
        elif (beside or is_companion(file)) and not single:
            companions.append(file.relative)
        else:
            refused.append((file.relative, UNKNOWN))
    sources.sort(key=lambda source: relative(source.main, source.root))
    sources, copies = _without_copies(sources, kinds)
    refused += copies
    if not sources and not refused:
        refused.append((".", f"no dump below it; {UNKNOWN.partition('; ')[2]}"))
    named = _with_owners(_with_run_ids(sources, kinds, single))
    left = {file.relative: file for file in open_files if file.root != root}
    return Discovery(root, tuple(named), tuple(sorted(companions)), tuple(sorted(refused)), left)


def read_source(source: Source, read: Callable[[Source], Part] | None = None) -> Tables:
    """The tables of one source; a dump that cannot be used becomes a ``refused`` row.

    ``read`` reads it otherwise than here, see ``reader``.
    """
    try:
        if read is None:
            return while_it_stays(source, lambda: format_of(source).read(source))
        return read(source).tables
    except DumpError as error:
        line = "" if error.line is None else f"line {error.line}: "
        reason = line + error.reason
    except ClusterFaultError as error:
        reason = str(error)
    except OSError as error:
        reason = unreadable("", error).reason
    except source_module.FAULTS as error:
        reason = reading_fault(error)
    name = relative(source.main, source.root)
    return Tables(refused=table("refused", [{"path": name, "reason": reason}]))


def reader(found: Discovery) -> AbstractContextManager[Callable[[Source], Part] | None]:
    """What ``read_source`` reads with: None here, the cluster where the user names one."""
    return opened(found.sources) if scheduler() else nullcontext()


def read_tree(path: Path, progress: Callable[[int, int], None] | None = None) -> Tables:
    """The tables of all dumps at or below ``path``, runs and samples in path order.

    ``progress`` is called with (sources read, sources). Raises DumpError where ``path`` does
    not exist.
    """
    found = discover(path)
    parts = [_refusals(found)]
    with reader(found) as read:
        for done, source in enumerate(found.sources, start=1):
            parts.append(read_source(source, read))
            if progress is not None:
                progress(done, len(found.sources))
    return Tables.concat(parts)


def _refusals(found: Discovery) -> Tables:
    return Tables(
        refused=table("refused", [{"path": p, "reason": reason} for p, reason in found.refused])
    )


def _without_copies(
    sources: list[Source], kinds: dict[str, str]
) -> tuple[list[Source], list[tuple[str, str]]]:
    sizes = Counter(source.main.stat().st_size for source in sources)
    first: dict[str, str] = {}
    kept: list[Source] = []
    copies: list[tuple[str, str]] = []
    for source in sources:
        if kinds[source.format] == "runs" and sizes[source.main.stat().st_size] > 1:
            name = relative(source.main, source.root)
            original = first.setdefault(sha256(source.main), name)
            if original != name:
                copies.append((name, f"a copy of {original}, which is read already"))
                continue
        kept.append(source)
    return kept, copies


def _with_run_ids(sources: list[Source], kinds: dict[str, str], single: bool) -> Iterator[Source]:
    runs = [source for source in sources if kinds[source.format] == "runs"]
    per_folder = Counter(source.main.parent for source in runs)
    used: dict[str, int] = defaultdict(int)
    for source in sources:
        if kinds[source.format] != "runs":
            yield source
            continue
        folder, root = source.main.parent, source.root
        own_name = per_folder[folder] > 1 or single or (folder == root and len(runs) > 1)
        run_id = relative(_bare(source.main) if own_name else folder, root)
        if run_id == ".":
            run_id = relative(root, root.parent) if root != root.parent else "run"
        used[run_id] += 1
        if used[run_id] > 1:
            run_id = relative(source.main, root)
        yield replace(source, options={**source.options, "run_id": run_id})


def _with_owners(sources: Iterable[Source]) -> list[Source]:
    """The engine metrics that AIPerf wrote beside a run belong to it."""
    sources = list(sources)
    runs: dict[Path, list[Source]] = defaultdict(list)
    for source in sources:
        if source.format == "aiperf":
            runs[source.main.parent].append(source)
    out = []
    for source in sources:
        beside = runs.get(source.main.parent, []) if source.format == "aiperf-server" else []
        if len(beside) == 1:
            run_id = beside[0].options["run_id"]
            source = replace(source, options={**source.options, "run_id": run_id})
        out.append(source)
    return out


def _bare(path: Path) -> Path:
    name = path.name
    for suffix in (*SUFFIXES, ".jsonl", ".json", ".yaml", ".yml"):
        name = name.removesuffix(suffix)
    return path.with_name(name or path.name)
