"""``servebook init``: a first campaign.yaml from whatever dumps lie in a folder.

It writes down what the dumps tell, as comments, and marks with FILL IN what only a person can
know. The draft is a valid manifest as it stands, so that a page can be built before it is filled.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from servebook.errors import DumpError, ManifestError, ServebookError
from servebook.read.discover import discover
from servebook.read.draft_text import MARK, Group, counters, head, literal, ports, runs
from servebook.read.manifest import FILENAME, parse_manifest
from servebook.read.reading import read_sources
from servebook.read.registry import FORMATS
from servebook.read.source import relative

__all__ = ["draft"]

_CONCURRENCY = re.compile(
    r"(?:(?<=[_\-./])|^)((?:concurrency|conc|c)[_\-=]?)([0-9]+)(?![0-9A-Za-z])"
)


def draft(directory: Path, force: bool = False) -> str:
    """Write ``campaign.yaml`` for the dumps below ``directory``; returns what to do next.

    Raises DumpError for a folder without a usable dump and ManifestError where a manifest is
    there already and ``force`` is false.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise DumpError(
            directory, "a folder with dumps", "no such folder", "name the folder that holds them"
        )
    target = directory / FILENAME
    if target.exists() and not force:
        raise ManifestError(target, "no manifest yet", "one", "edit it, or replace it with --force")
    root = directory.resolve()
    found = discover(root)
    refused = list(found.refused)
    parts = read_sources(found.sources, refused)
    kinds = {form.name: form.kind for form in FORMATS}
    found_counters = [s for s in found.sources if kinds[s.format] == "counters"]
    groups = _groups(row for part in parts for row in part.tables.runs.to_pylist())
    if not groups:
        first = "; ".join(f"{path}: {reason}" for path, reason in sorted(refused)[:2])
        raise DumpError(
            directory,
            "at least one run of a benchmark client",
            f"none ({first})" if first else "none",
            "copy the clients' output folders below it; `servebook inspect` says what a file is",
        )
    by_path = {relative(part.source.main, part.source.root): part for part in parts}
    text = "\n".join(
        [
            *head(_slug(root.name), groups),
            *runs(groups),
            *counters(found_counters, by_path, dict(refused)),
            *ports(pa.concat_tables([part.tables.samples for part in parts])),
        ]
    )
    text += "\n"
    parse_manifest(text.encode(), target)  # never write what could not be read back
    _write(target, text)
    n_runs = sum(len(group.runs) for group in groups.values())
    return (
        f"Wrote {target}: {_count(n_runs, 'run')} in {_count(len(groups), 'entry')}, "
        f"{_count(len(found_counters), 'counter file')}.\n"
        f"Fill in the {text.count(MARK)} lines marked FILL IN where you know the answer "
        f"(null means not stated), then: servebook build {shlex.quote(str(directory))}"
    )


def _groups(rows: Iterable[Mapping[str, Any]]) -> dict[str, Group]:
    """Runs by pattern: paths that differ in their concurrency alone share one."""
    groups: dict[str, Group] = {}
    runs = sorted(rows, key=lambda row: str(row["run_id"]))
    files = Counter(_file(row) for row in runs)
    for row in runs:
        path = _file(row)
        # Runs of one file share a name, which can state the concurrency of none of them.
        pattern = _pattern(path, row["concurrency"]) if files[path] == 1 else literal(path)
        groups.setdefault(pattern, Group()).runs.append(row)
    return dict(sorted(groups.items()))


def _file(row: Mapping[str, Any]) -> str:
    return re.sub(r"#[0-9]+$", "", str(row["run_id"]))


def _pattern(path: str, concurrency: int | None) -> str:
    hits = [hit for hit in _CONCURRENCY.finditer(path) if concurrency in (None, int(hit[2]))]
    hit = hits[-1] if hits and int(hits[-1][2]) else None
    if hit is None:
        return literal(path)
    before, after = path[: hit.start(2)], path[hit.end(2) :]
    return f"{literal(before)}{{concurrency}}{literal(after)}"


def _count(n: int, noun: str) -> str:
    many = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{n} {noun if n == 1 else many}"


def _slug(name: str) -> str:
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:64]
    return slug or "campaign"


def _write(target: Path, text: str) -> None:
    try:
        handle, work = tempfile.mkstemp(prefix=".campaign-", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        Path(work).chmod(0o644)
        Path(work).replace(target)
    except OSError as error:
        raise ServebookError(
            f"{target}: cannot be written ({error.strerror}); make the folder writable or work "
            "on a copy"
        ) from None
