"""What the page says of the campaign itself: title, provenance, inputs, versions, the command."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from servebook.publish.places import spelled
from servebook.publish.text import say
from servebook.publish.words import plural

__all__ = ["About", "about", "restored"]

PACKAGES = ("servebook", "altair", "vl-convert-python", "nbconvert", "numpy", "pandas", "pyarrow")


@dataclass(frozen=True)
class About:
    """The campaign and the programme that built its page."""

    name: str
    title: str
    provenance: str  # "measured", "reconstructed" or "not stated"
    note: str
    inputs: tuple[dict[str, Any], ...]  # path, sha256, bytes, format
    findings: tuple[str, ...]
    versions: dict[str, str]
    command: str
    issues: tuple[dict[str, Any], ...] = ()  # as ``known_issues`` tells them
    configurations: tuple[dict[str, str], ...] = ()  # name and label, as the manifest states them
    masked: str = ""  # what the page calls by other names, in words

    @property
    def reconstructed(self) -> bool:
        """Whether the dumps were made by a model instead of a measurement."""
        return self.provenance == "reconstructed"


def restored(fields: dict[str, Any]) -> About:
    """What ``dataclasses.asdict`` and JSON made of an ``About``, as one again."""
    lists = {
        name: tuple(fields[name]) for name in ("inputs", "findings", "issues", "configurations")
    }
    return About(**{**fields, **lists})


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def _load(root: Path) -> Any:
    from servebook.read.campaign import load
    from servebook.read.privacy import masked

    return masked(load(root))


def _issues(campaign: Any) -> tuple[dict[str, Any], ...]:
    from servebook.publish.known_issues import known_issues

    return known_issues(campaign) if getattr(campaign.manifest, "notes", ()) else ()


_MANY = {"switch": "switches"}


def _masked(campaign: Any) -> str:
    """What stands under an alias: "2 switches, 4 nodes"; what it is where nothing does."""
    counts = getattr(campaign, "masked", None)
    if counts is None:
        return say("about.masked.shown")
    if not counts:
        return say("about.masked.nothing")
    parts = [f"{n} {plural(n, kind, _MANY.get(kind))}" for kind, n in counts.items()]
    return say("about.masked.names", names=", ".join(parts))


def about(root: Path, home: Path, load: Callable[[Path], Any] | None = None) -> About:
    """Read the campaign for what stands around the chapters.

    Raises:
        ManifestError, DumpError: as ``servebook.read.campaign.load`` does.

    """
    campaign = (load or _load)(root)
    manifest = campaign.manifest
    rows = campaign.inputs.sort_by([("path", "ascending")]).to_pylist()
    return About(
        name=str(campaign.name),
        title=str(manifest.title or campaign.name),
        provenance=manifest.provenance.removeprefix("provenance "),
        note=str(manifest.provenance_note or ""),
        inputs=tuple(rows),
        findings=tuple(campaign.findings),
        versions=_versions(),
        command=f"servebook build {spelled(root, home)}",
        issues=_issues(campaign),
        configurations=tuple(
            {"name": one.name, "label": one.label}
            for one in getattr(manifest, "configurations", ())
        ),
        masked=_masked(campaign),
    )
