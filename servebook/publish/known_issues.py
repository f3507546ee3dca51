"""Known issues: notes of the manifest, listed at the head of the page and shown beside figures.

A note on a figure stands in full beside it. A note on a run, a configuration or a condition marks
each figure that rests on one of its runs, by a line that leads to the list.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from servebook.publish.text import say

if TYPE_CHECKING:  # the driver attaches what was found, and needs none of them
    import pandas as pd

    from servebook.publish.collect import Content
    from servebook.read.campaign import Campaign
    from servebook.read.manifest import Note

__all__ = ["attach", "known_issues"]


def known_issues(campaign: Campaign) -> tuple[dict[str, Any], ...]:
    """The notes in file order: n (1, 2, ...), text, about (words), figure (id or ""), runs."""
    runs = campaign.tables.runs.select(
        ["run_id", "path", "configuration", "workload", "concurrency"]
    ).to_pandas()
    labels = {c.name: c.label for c in campaign.manifest.configurations}
    return tuple(
        {
            "n": n,
            "text": " ".join(note.text.split()),
            "about": _about(note, labels),
            "figure": note.figure or "",
            "runs": [] if note.figure else _touched(note, runs),
        }
        for n, note in enumerate(campaign.manifest.notes, 1)
    )


def _about(note: Note, labels: dict[str, str]) -> str:
    if note.figure:
        return say("known_issues.about.figure", figure=note.figure)
    parts = [say("known_issues.about.runs", run=note.run)] if note.run else []
    parts += [labels.get(note.configuration, note.configuration)] if note.configuration else []
    parts += [say("known_issues.about.load", workload=note.workload)] if note.workload else []
    if note.concurrency:
        parts.append(say("shared.in_flight", concurrency=note.concurrency))
    return ", ".join(parts)


def _touched(note: Note, runs: pd.DataFrame) -> list[str]:
    """The runs that a note is about; ``run`` may be a path or a pattern of one."""
    kept = runs
    for name in ("configuration", "workload", "concurrency"):
        wanted = getattr(note, name)
        if wanted is not None:
            kept = kept[kept[name].eq(wanted).fillna(False).astype(bool)]
    if note.run is not None:
        pattern = note.run.rstrip("/")
        kept = kept[
            [
                any(
                    fnmatch.fnmatchcase(str(at), pattern) or str(at).startswith(f"{pattern}/")
                    for at in (run, path)
                )
                for run, path in zip(kept["run_id"], kept["path"], strict=True)
            ]
        ]
    return sorted(map(str, kept["run_id"]))


def attach(content: Content, issues: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each figure the issues that touch it, as its field ``issues``; the list for the head.

    The list's entries have n, text, about and ``lacks``: words where a note reaches nothing, so
    that a slip in the manifest is seen.
    """
    ids = {figure.id for figure in content.figures}
    for figure in content.figures:
        runs = set(figure.fields.get("runs") or ())
        figure.fields["issues"] = [
            {"n": one["n"], "about": one["about"], "text": one["text"] if one["figure"] else ""}
            for one in issues
            if one["figure"] == figure.id or runs.intersection(one["runs"])
        ]
    listed = []
    for one in issues:
        lacks = ""
        if one["figure"] and one["figure"] not in ids:
            lacks = say("known_issues.lacks.figure")
        elif not one["figure"] and not one["runs"]:
            lacks = say("known_issues.lacks.run")
        listed.append({**one, "lacks": lacks})
    return listed
