"""Entries of a manifest whose ``match`` is a URL: dumps that lie elsewhere than the manifest.

What stands before the first wildcard is mirrored, and the entry then matches paths in the mirror,
which begin with the last name of what was mirrored: ``s3://bucket/runs/c{concurrency}`` becomes
``runs/c{concurrency}``. So nothing after this knows of URLs, and no table holds one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from servebook.errors import ManifestError, ServebookError
from servebook.read.manifest import (
    CounterEntry,
    Manifest,
    RunEntry,
    load_manifest,
)
from servebook.read.urls import is_url, last_name, shown

__all__ = ["mirrored", "mirrors_of"]

_WILD = re.compile(r"[*?{]")

Entry = TypeVar("Entry", RunEntry, CounterEntry)


def mirrored(manifest: Manifest) -> tuple[Manifest, list[Path]]:
    """The manifest with paths in place of URLs, and the folders to look for dumps in besides.

    Raises ManifestError for a URL that names nothing and for two that would have one name, and
    what ``remote.mirror`` raises.
    """
    lines: dict[str, int] = {}
    entries: list[RunEntry | CounterEntry] = [*manifest.runs, *manifest.counters]
    for entry in entries:
        if is_url(entry.match):
            base, _ = _split(entry.match)
            if not is_url(base):
                raise ManifestError(
                    manifest.path,
                    "a URL that names at least a bucket or a host",
                    shown(entry.match),
                    "put wildcards behind it",
                    line=entry.line,
                )
            lines.setdefault(base, entry.line)
    if not lines:
        return manifest, []
    names: dict[str, str] = {}
    for url, line in lines.items():
        if (other := names.setdefault(last_name(url), url)) != url:
            raise ManifestError(
                manifest.path,
                "URLs that end in names of their own",
                f"{shown(other)} and {shown(url)}",
                "rename one of the two, or name the folder above both",
                line=line,
            )
    from servebook.read.remote import mirror

    roots = [mirror(url).parent for url in lines]
    changed = replace(manifest, runs=_changed(manifest.runs), counters=_changed(manifest.counters))
    return changed, roots


def mirrors_of(campaign: Path) -> list[Path]:
    """The folders that the manifest's URLs are mirrored in, brought up to date.

    Empty where the manifest has none or cannot be read, which whoever loads it tells.
    """
    try:
        return mirrored(load_manifest(campaign))[1]
    except (OSError, ServebookError):
        return []


def _split(match: str) -> tuple[str, str]:
    """What can be fetched, and the pattern below it."""
    # A query has a "?" that is no wildcard, and whoever writes one names one file.
    wild = None if re.search(r"\?[^/*{]*=", match) else _WILD.search(match)
    if wild is None:
        return match.rstrip("/"), ""
    base, _, first = match[: wild.start()].rpartition("/")
    return base.rstrip("/"), first + match[wild.start() :]


def _changed(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    def changed(entry: Entry) -> Entry:
        if not is_url(entry.match):
            return entry
        base, rest = _split(entry.match)
        return replace(entry, match="/".join(filter(None, (last_name(base), rest))))

    return tuple(map(changed, entries))
