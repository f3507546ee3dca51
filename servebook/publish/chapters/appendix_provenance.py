"""The appendix, where each number comes from: inputs, settings, findings, notes, versions.

Nothing here names a machine, a user, an absolute path or the day of the build.
"""

from __future__ import annotations

import dataclasses
import platform
from importlib.metadata import version

import pandas as pd

from servebook.publish import words
from servebook.publish.about import PACKAGES
from servebook.publish.output import Figure, Section
from servebook.publish.text import say
from servebook.read.campaign import Campaign
from servebook.read.manifest import Configuration

__all__ = ["command", "findings", "inputs", "notes", "settings", "versions"]


def inputs(campaign: Campaign) -> Figure:
    """Every file that the page rests on, with its hash."""
    frame = campaign.inputs.sort_by([("path", "ascending")]).to_pandas()
    size = words.bytes_size(float(frame["bytes"].sum()))
    return Figure(
        id="appendix-inputs",
        title=say("appendix.inputs.title", files=words.count(len(frame), "file"), size=size),
        subtitle=say("appendix.inputs.subtitle"),
        table=pd.DataFrame(
            {
                "File": frame["path"],
                "Format": frame["format"],
                "Bytes": frame["bytes"],
                "SHA-256": frame["sha256"],
            }
        ),
        source=say("appendix.inputs.source"),
    )


def settings(campaign: Campaign) -> Figure:
    """What the manifest states about each configuration, and what it leaves open."""
    chosen = campaign.manifest.configurations
    name = "appendix-settings"
    if not chosen:
        return Figure(
            id=name,
            title=say("appendix.settings.title_manifest_describes_configuration"),
            missing=say("appendix.settings.missing"),
        )
    labels = [c.label for c in chosen]  # distinct: the manifest is checked for it
    rows: list[list[str | None]] = []
    unstated = []
    for one in dataclasses.fields(Configuration):
        if one.name in ("name", "line", "label"):
            continue
        stated = [getattr(c, one.name) for c in chosen]
        if all(value is None for value in stated):
            unstated.append(one.name)
            continue
        rows.append([one.name, *(_said(value) for value in stated)])
    model = campaign.manifest.model
    said = [say("appendix.settings.model", model=model.name or words.unknown())]
    if model.parameters is not None:
        said.append(
            say(
                "appendix.settings.billion_parameters",
                parameters=words.number(model.parameters / 1e9),
            )
        )
    lacks = say("appendix.settings.lacks", unstated=", ".join(unstated)) if unstated else ""
    return Figure(
        id=name,
        title=say(
            "appendix.settings.title_manifest_states",
            configurations=words.count(len(chosen), "configuration"),
        ),
        subtitle=", ".join(said) + ".",
        table=pd.DataFrame(rows, columns=["Setting", *labels]),
        source=say("shared.manifest"),
        notes=tuple(filter(None, (model.note, lacks))),
        open_table=True,
    )


def _said(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "on" if value else "off"
    return words.number(value) if isinstance(value, int | float) else str(value)


def findings(campaign: Campaign) -> Section:
    """Where manifest and dumps disagree, and what was left out."""
    if not campaign.findings:
        return Section("appendix-findings", (say("appendix.findings.manifest_dumps_agree"),))
    intro = say("appendix.findings.intro", remarks=words.count(len(campaign.findings), "remark"))
    return Section(
        "appendix-findings",
        (
            words.capital(intro),
            *(f"{words.capital(words.told(text))}." for text in campaign.findings),
        ),
    )


def notes(campaign: Campaign) -> Figure:
    """What readers noticed in single dumps, and what the manifest says of runs and figures."""
    manifest = campaign.manifest
    stated: list[tuple[str, str | None]] = [(e.match, e.note) for e in manifest.runs]
    stated += [(e.match, e.note) for e in manifest.counters]
    stated += [(f"{p.device} {p.interface}", p.speed_note) for p in manifest.ports]
    stated += [(n.figure or n.run or n.configuration or "all", n.text) for n in manifest.notes]
    ours = {text for _, text in stated}
    runs = campaign.tables.runs
    told = [
        (run_id, text)
        for run_id, said in zip(runs["run_id"].to_pylist(), runs["notes"].to_pylist(), strict=True)
        for text in said or ()
        if text not in ours  # the campaign hands the manifest's notes on to the runs
    ]
    about: dict[tuple[str, str], list[str]] = {}
    for who, pairs in (
        (say("appendix.notes.dump"), told),
        (say("appendix.notes.manifest"), stated),
    ):
        for subject, text in pairs:
            if text:
                about.setdefault((who, text), []).append(subject)
    rows = [
        {"Note": text, "About": ", ".join(subjects), "Said by": who}
        for (who, text), subjects in about.items()
    ]
    name = "appendix-notes"
    if not rows:
        return Figure(
            id=name,
            title=say("appendix.notes.title_notes"),
            missing=say("appendix.notes.missing"),
        )
    return Figure(
        id=name,
        title=say(
            "appendix.notes.title_single_runs_links",
            notes=words.capital(words.count(len(rows), "note")),
        ),
        table=pd.DataFrame(rows),
        source=say("appendix.notes.source"),
    )


def versions(campaign: Campaign) -> Figure:
    """The programme and the libraries that computed the page."""
    del campaign
    rows = [{"Part": "Python", "Version": platform.python_version()}]
    rows += [{"Part": name, "Version": version(name)} for name in PACKAGES]
    return Figure(
        id="appendix-versions",
        title=say("appendix.versions.title", version=version("servebook")),
        subtitle=say("appendix.versions.subtitle"),
        table=pd.DataFrame(rows),
        source=say("appendix.versions.source"),
    )


def command(campaign: Campaign) -> Section:
    """How to build this page again."""
    folder = campaign.root.name
    inside = campaign.root.parent.name == "data"
    build = f"servebook build {f'data/{folder}' if inside else folder}"
    if inside:
        build += say("appendix.command.build", folder=folder)
    return Section(
        "appendix-command",
        (
            say("appendix.command.page_built", build=build),
            say("appendix.command.files_versions_command"),
        ),
    )
